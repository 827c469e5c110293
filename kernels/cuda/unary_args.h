// SPDX-License-Identifier: Apache-2.0
/* The functions of unary.cuh, those of unary.def last; C and C++. p and q are what the operators' layouts call so. */
#ifndef DEMI_UNARY_ARGS_H
#define DEMI_UNARY_ARGS_H

enum UnaryOp {
    UNARY_COPY,
    UNARY_ABS,
    UNARY_NEG,
    UNARY_SIGN,
    UNARY_FLOOR,
    UNARY_CEIL,
    UNARY_ROUND,
    UNARY_SQRT,
    UNARY_RECIPROCAL,
    UNARY_EXP,
    UNARY_LOG,
    UNARY_SIN,
    UNARY_COS,
    UNARY_TAN,
    UNARY_ASIN,
    UNARY_ACOS,
    UNARY_ATAN,
    UNARY_SINH,
    UNARY_COSH,
    UNARY_ASINH,
    UNARY_ACOSH,
    UNARY_ATANH,
    UNARY_ERF,
    UNARY_SIGMOID,
    UNARY_TANH,
    UNARY_SOFTPLUS,
    UNARY_RELU,
    UNARY_LEAKY,
    UNARY_ELU,
    UNARY_THRESHOLDED,
    UNARY_HARD_SIGMOID,
    UNARY_HARD_SWISH,
    UNARY_MISH,
    UNARY_SWISH,
    UNARY_GELU,
    UNARY_GELU_TANH,
    UNARY_CLIP,
    UNARY_SHRINK,
    UNARY_AFFINE,      /* of recurrent layers: p x + q */
    UNARY_SCALED_TANH, /* p tanh(q x) */
#define UNARY_FUNCTION(name, number, attributes, formula) UNARY_##number,
#include "unary.def"
};
#endif
