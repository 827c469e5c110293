// SPDX-License-Identifier: Apache-2.0
/* Shape inference for what asks whether a model is valid. */
#ifndef DEMI_INFER_SHAPES_H
#define DEMI_INFER_SHAPES_H

#include "infer_dtypes.h"
#include "pass.h"
#include "shape_args.h"

/* What the pass infer-shapes{strict=true} does, and the bodies of functions with what each call
 * knows of its operands. */
bool infer_shapes_strict(PassCtx *ctx, Err *err);

/* What the pass infer-shapes does, and what it found out of each value, contents too: [value_count]
 * by id, in ctx->scratch; NULL where nothing was asked of a value. NULL with *err set on failure. Sizes
 * that are not known are symbols, too, which say where the same size is. */
const ShapeOperand *const *infer_shapes_known(PassCtx *ctx, Err *err);

/* What the pass infer-shapes does, with the bodies of functions walked for each call: what calls give is
 * known, too. */
bool infer_shapes_through_calls(PassCtx *ctx, Err *err);

/* What is needed to infer shapes call after call. */
typedef struct ShapeCalls ShapeCalls;
ShapeCalls *shape_calls_new(PassCtx *ctx);

/* Gives the values of the function that `call` calls the shapes that they have in this call, where
 * infer_dtypes_call has just given them their dtypes. Types of the caller's values must be those of its own
 * call. `outer` is the call that `call` stands in, or NULL. */
bool infer_shapes_call(ShapeCalls *calls, const CallFrame *outer, const Node *call, Err *err);

/* What infer-dtypes and infer-shapes do, of what a pass has made: its rewrites stay as counted. */
bool infer_again(PassCtx *ctx, Err *err);

#endif
