// SPDX-License-Identifier: Apache-2.0
/* Options about nodes and operators, resolved against one model; see node_choice.h. */
#include "node_choice.h"

#include "node_exclude.h"

static Policy policy_of(const NodeChoice *choice, Dtype target) {
    if (choice->policy > 0) return (Policy)(choice->policy - 1);
    return target == DTYPE_FLOAT16 ? POLICY_FLOAT16 : POLICY_BFLOAT16;
}

bool node_choice_resolve(const NodeChoice *choice, Model *model, Dtype target, Arena *scratch,
                         ChosenNodes *chosen, Err *err) {
    NodePatterns patterns = {.keep = choice->keep,
                             .keep_ops = choice->keep_ops,
                             .only = choice->only,
                             .allow_unmatched = choice->allow_unmatched};
    OpClassLists lists = choice->lists;
    lists.declared = model->declared_ops;
    lists.declared_count = model->declared_op_count;
    chosen->policy = policy_of(choice, target);
    chosen->classes = op_classes_new(chosen->policy, &lists, &model->arena, err);
    if (!chosen->classes) return false;
    const char **excluded = node_exclusions(model, &patterns, scratch, err);
    if (!excluded) return false;
    chosen->excluded = excluded;
    chosen->products = integer_products_count(model, scratch);
    chosen->is_integer = integer_products_are_most(chosen->products) && !choice->only.count &&
                         !choice->lists.low.count;
    integer_products_exclude_rows(model, excluded, scratch);
    if (chosen->is_integer) integer_products_exclude(model, excluded, scratch);
    return true;
}
