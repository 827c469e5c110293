// SPDX-License-Identifier: Apache-2.0
/* A node of a function's body as it is in one call: with what the call gives in place of the
 * function's parameters. */
#ifndef DEMI_CALL_NODE_H
#define DEMI_CALL_NODE_H

#include "infer_dtypes.h"

/* The node itself where none of its attributes stands for a parameter, or `frame` is NULL: in no
 * call. Otherwise a copy in `arena`, for reading alone, whose attributes are what the call gives;
 * those that it does not give, and graphs
 * that it gives, are absent. NULL with *err set where the node can't do without one of
 * them, or is given one of another kind. */
const Node *call_node(const CallFrame *frame, const Node *node, Arena *arena, Err *err);

#endif
