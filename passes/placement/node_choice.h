// SPDX-License-Identifier: Apache-2.0
/* What a conversion is told about nodes and operators: classes and exclusions, as options of every
 * pass that has to know which nodes are to run low. Their options are the same rows, OF_NODES of
 * policy.def, so that the pass that raises the opset for the sake of some nodes and the one that
 * converts them mean the same nodes. */
#ifndef DEMI_NODE_CHOICE_H
#define DEMI_NODE_CHOICE_H

#include "integer_products.h"
#include "op_class.h"
#include "pass.h"

/* Zeroed: the target's own policy, nothing excluded. */
typedef struct NodeChoice {
    int policy; /* 1 + a Policy; 0: that of the target */
    PassStrings keep, keep_ops, only;
    OpClassLists lists;
    bool allow_unmatched;
} NodeChoice;

typedef struct ChosenNodes {
    Policy policy;
    const OpClasses *classes;
    const char *const *excluded; /* [node_count]: why a node stays in fp32, or NULL */
    IntegerProducts products;
    bool
        is_integer; /* nearly all of them are of integers, and the user names nothing to lower: all but
                        tables of rows is excluded */
} ChosenNodes;

/* Resolves patterns and lists against the model; classes and reasons live in the model's arena, the
 * table in `scratch`. ERR_USAGE as op_classes_new and node_exclusions. */
bool node_choice_resolve(const NodeChoice *choice, Model *model, Dtype target, Arena *scratch,
                         ChosenNodes *chosen, Err *err);

#endif
