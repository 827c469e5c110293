// SPDX-License-Identifier: Apache-2.0
/* What a conversion is told about nodes and operators: classes and exclusions, as options of every
 * pass that has to know which nodes are to run low. One table of options, so that the pass that
 * raises the opset for the sake of some nodes and the one that converts them mean the same
 * nodes. */
#ifndef DEMI_NODE_CHOICE_H
#define DEMI_NODE_CHOICE_H

#include <stddef.h>

#include "op_class.h"
#include "pass.h"

/* Zeroed: the target's own policy, nothing excluded. */
typedef struct NodeChoice {
    int policy; /* index into node_choice_policies; 0: that of the target */
    PassStrings keep, keep_ops, only;
    OpClassLists lists;
    bool allow_unmatched;
} NodeChoice;

typedef struct ChosenNodes {
    Policy policy;
    const OpClasses *classes;
    const char *const *excluded; /* [node_count]: why a node stays in fp32, or NULL */
} ChosenNodes;

/* Resolves patterns and lists against the model; classes and reasons live in the model's arena, the
 * table in `scratch`. ERR_USAGE as op_classes_new and node_exclusions. */
bool node_choice_resolve(const NodeChoice *choice, Model *model, Dtype target, Arena *scratch,
                         ChosenNodes *chosen, Err *err);

extern const char *const node_choice_policies[];

/* Rows of a pass's options table, for an options struct with a NodeChoice of that member name. */
#define NODE_CHOICE_ROW(Options, member, name, field, help)                                        \
    {name, OPTION_STRINGS, offsetof(Options, member.field), NULL, NULL, help}
#define NODE_CHOICE_ROWS(Options, member)                                                          \
    {"policy", OPTION_CHOICE, offsetof(Options, member.policy), node_choice_policies, NULL,        \
     "operator classes; auto: those of the target type"},                                          \
    NODE_CHOICE_ROW(Options, member, "only", only,                                                 \
                    "convert these nodes and no others, by PATTERN"),                              \
    NODE_CHOICE_ROW(Options, member, "keep", keep, "nodes to keep in fp32, by PATTERN"),           \
    NODE_CHOICE_ROW(Options, member, "keep-ops", keep_ops, "operators to keep in fp32"),           \
    NODE_CHOICE_ROW(Options, member, "low-ops", lists.low,                                         \
                    "operators that run low: NAMEs replace the policy's list, +NAME moves one "    \
                    "there"),                                                                      \
    NODE_CHOICE_ROW(Options, member, "fp32-ops", lists.fp32, "operators that stay in fp32"),       \
    NODE_CHOICE_ROW(Options, member, "follow-ops", lists.follow,                                   \
                    "operators that are low where an input is"),                                   \
    NODE_CHOICE_ROW(Options, member, "widest-ops", lists.widest,                                   \
                    "operators that are low where all inputs are"),                                \
    NODE_CHOICE_ROW(Options, member, "fp32-when", lists.fp32_when,                                 \
                    "OPERATOR.ATTRIBUTE=VALUE: nodes that stay in fp32 because of an attribute"),  \
    {"allow-unmatched", OPTION_BOOL, offsetof(Options, member.allow_unmatched), NULL, NULL,        \
     "let patterns match nothing"}

#endif
