// SPDX-License-Identifier: Apache-2.0
/* Shape inference for what asks whether a model is valid. */
#ifndef DEMI_INFER_SHAPES_H
#define DEMI_INFER_SHAPES_H

#include "pass.h"
#include "shape_args.h"

/* What the pass infer-shapes{strict=true} does, and the bodies of functions with what each call
 * knows of its operands. */
bool infer_shapes_strict(PassCtx *ctx, Err *err);

/* What the pass infer-shapes does, and what it found out of each value, contents too: [value_count]
 * by id, in ctx->scratch; NULL where nothing was asked of a value. NULL with *err set on failure. Sizes
 * that are not known are symbols, too, which say where the same size is. */
const ShapeOperand *const *infer_shapes_known(PassCtx *ctx, Err *err);

/* What infer-dtypes and infer-shapes do, of what a pass has made: its rewrites stay as counted. */
bool infer_again(PassCtx *ctx, Err *err);

#endif
