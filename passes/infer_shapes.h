// SPDX-License-Identifier: Apache-2.0
/* Shape inference for what asks whether a model is valid. */
#ifndef DEMI_INFER_SHAPES_H
#define DEMI_INFER_SHAPES_H

#include "pass.h"

/* What the pass infer-shapes{strict=true} does, and the bodies of functions with what each call
 * knows of its operands. */
bool infer_shapes_strict(PassCtx *ctx, Err *err);

#endif
