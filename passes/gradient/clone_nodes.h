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

/* What stands for a value. NULL for NULL, and for what was mapped to NULL: it is omitted. */
Value *clone_value(const CloneNodes *clone, Value *value);
void clone_map(CloneNodes *clone, const Value *value, Value *to);

/* A graph within `parent` that has copies of all in `graph` but its outputs; nothing owns it yet. */
Graph *clone_inside(CloneNodes *clone, const Graph *graph, Graph *parent);

/* Copies of its constants and nodes alone, in `made`. Its inputs are mapped. */
void clone_into(CloneNodes *clone, const Graph *graph, Graph *made);

/* Copies of what the function does that `call` calls, before `before`; outputs[i] of the call's
 * output_count is what gives its output i. False where the body is of other versions of operators
 * than the graph of `before`. */
bool clone_call(CloneNodes *clone, const Node *call, Node *before, Value **outputs);

/* A copy before `before`, or last of `graph` where that is NULL. Its results are new and mapped; so is
 * all in its subgraphs. */
Node *clone_node(CloneNodes *clone, const Node *node, Graph *graph, Node *before);

#endif
