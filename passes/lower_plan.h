// SPDX-License-Identifier: Apache-2.0
/* What the runtime makes of constants, for passes that store it in the model: lower-plan writes all
 * of a model as a plan, this some of its nodes, and has them executed. */
#ifndef DEMI_LOWER_PLAN_H
#define DEMI_LOWER_PLAN_H

#include "pass.h"

/* True where the runtime has the node's operator. */
bool lower_plan_has(const Node *node);

typedef struct LoweredNodes {
    Node *const *nodes; /* [count]: operators that the runtime has, without graphs; each reads
                           constants and what others before it give */
    size_t count;
    Value *const *wanted; /* [wanted_count]: of what they give */
    size_t wanted_count;
} LoweredNodes;

/* Executes the nodes and gives what came out, in the model's arena: results[value->id] of each value
 * that is wanted, NULL where a node fails, gives what is no tensor of whole bytes, or has results
 * that are out of proportion (runtime/plan_fold.c). `results` is [model->value_count], all NULL.
 * False with *err set where a constant can't be read. */
bool lower_plan_execute(PassCtx *ctx, const LoweredNodes *lowered, const Tensor **results,
                        Err *err);

#endif
