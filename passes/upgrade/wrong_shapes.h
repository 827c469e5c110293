// SPDX-License-Identifier: Apache-2.0
/* Declared shapes that contradict what operators give. A model may have such and be valid all the same,
 * since ONNX can't infer everything of it; what makes more of it known makes it invalid. What operators
 * give is declared instead then. */
#ifndef DEMI_WRONG_SHAPES_H
#define DEMI_WRONG_SHAPES_H

#include "pass.h"

typedef struct WrongShape {
    const Value *value;
    ValueDecl *decl;
} WrongShape;
typedef VEC(WrongShape) WrongShapes;

/* Adds those of all graphs, but bodies of functions, whose types are some call's; shapes have been
 * inferred. */
void wrong_shapes_find(PassCtx *ctx, const GraphList *graphs, WrongShapes *found);

/* Declares what the values have, and remarks on it: behind `when`, as "raising the opset". */
void wrong_shapes_correct(PassCtx *ctx, const WrongShapes *found, const char *when);

#endif
