// SPDX-License-Identifier: Apache-2.0
/* Operators of com.microsoft whose weights are quantized constants, made such that have float ones. */
#ifndef DEMI_WIDE_WEIGHTS_H
#define DEMI_WIDE_WEIGHTS_H

#include "pass.h"

typedef struct WideWeights WideWeights; /* constants that were made, which nodes share */

/* For values with ids below `value_count`; in the scratch arena. */
WideWeights *wide_weights_new(PassCtx *ctx, uint32_t value_count);

/* True where the node is such an operator. */
bool wide_weights_are_of(const Node *node);

/* True of one that is a product. */
bool wide_weights_are_of_product(const Node *node);

/* Puts into the place of such a node, which is gone then, one with float weights: of MatMulNBits a MatMul, and an Add
 * where there is a bias; of GatherBlockQuantized a Gather; of QMoE a MoE. Where it stays, returns why, a static text;
 * else NULL. */
const char *wide_weights_put(WideWeights *made, Node *node);

#endif
