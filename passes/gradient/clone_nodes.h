// SPDX-License-Identifier: Apache-2.0
/* Copies of nodes, with other operands and results of their own. */
#ifndef DEMI_CLONE_NODES_H
#define DEMI_CLONE_NODES_H

#include "infer_dtypes.h"

typedef struct CloneNodes {
    Arena *scratch;
    Value **map; /* by id of what is copied: what stands for it in copies; NULL: it itself */
    size_t map_count;
    const CallFrame
        *frame; /* of the call whose body is copied: attributes that are parameters become
                               what it gives; NULL: they stay */
} CloneNodes;

/* Maps values below value_count as it is now; none of them to begin with. */
CloneNodes clone_begin(Model *model, Arena *scratch);

/* What stands for a value. NULL for NULL. */
Value *clone_value(const CloneNodes *clone, Value *value);
void clone_map(CloneNodes *clone, const Value *value, Value *to);

/* A copy before `before`, or last of `graph` where that is NULL. Its results are new and mapped; so is
 * all in its subgraphs. */
Node *clone_node(CloneNodes *clone, const Node *node, Graph *graph, Node *before);

#endif
