// SPDX-License-Identifier: Apache-2.0
/* Taking quantize-rows back, a product at a time. */
#ifndef DEMI_UNDO_ROWS_H
#define DEMI_UNDO_ROWS_H

#include "pass.h"

/* A MatMul of the rows, and a DequantizeLinear of the weights, which products that share them share, take the place of
 * the product whose MatMulInteger `node` is. False where it is none. */
bool undo_rows_of(PassCtx *ctx, Node *node);

#endif
