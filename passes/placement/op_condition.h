// SPDX-License-Identifier: Apache-2.0
/* Conditions of a policy: nodes that stay in fp32 because of an attribute. As text,
 *
 *     [DOMAIN.]OPERATOR.ATTRIBUTE=VALUE        such as Softmax.axis=1, Resize.mode=cubic
 *
 * Numbers are compared as numbers, a list of numbers as "1,2,3". An attribute that a node lacks has
 * its definition's default at the model's opset; without a default the condition does not hold.
 */
#ifndef DEMI_OP_CONDITION_H
#define DEMI_OP_CONDITION_H

#include "op_class.h"

typedef struct OpConditions OpConditions;

/* Reads lists->fp32_when, in `arena`. NULL with ERR_USAGE where one is malformed or names an
 * operator or attribute that does not exist; lists->declared are known, with any attribute. */
const OpConditions *op_conditions_new(const OpClassLists *lists, Arena *arena, Err *err);

/* Why a condition makes this node stay, as a phrase of the conditions' arena; NULL where none does.
 */
const char *op_conditions_hold(const OpConditions *conditions, const Node *node);

#endif
