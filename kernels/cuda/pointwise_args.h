// SPDX-License-Identifier: Apache-2.0
/* What kernels of pointwise.cu take; C and C++. */
#ifndef DEMI_POINTWISE_ARGS_H
#define DEMI_POINTWISE_ARGS_H

#include <stdint.h>

#include "unary_args.h"

enum { POINTWISE_RANK = 8, POINTWISE_INPUTS = 3 };

/* What a kernel computes of two values. */
enum BinaryOp {
    BINARY_ADD,
    BINARY_SUB,
    BINARY_MUL,
    BINARY_DIV,
    BINARY_POW,
    BINARY_MIN,
    BINARY_MAX,
    BINARY_PRELU,
    BINARY_MOD,
    BINARY_FMOD,
    BINARY_ADD_SCALED, /* x + scale y */
    BINARY_EQUAL,
    BINARY_LESS,
    BINARY_LESS_EQUAL,
    BINARY_GREATER,
    BINARY_GREATER_EQUAL, /* to bool */
    BINARY_AND,
    BINARY_OR,
    BINARY_XOR
};

/* What is looked for. */
enum FindOp { FIND_NAN, FIND_INFINITY };

typedef struct UnaryArgs {
    const void *x;
    void *y;
    int64_t count;
    int32_t op;
    float p, q;
    int32_t from, to; /* types, for the kernels that know any */
} UnaryArgs;

/* y = op(inputs) over `rank` axes, the last the fastest; y is contiguous. */
typedef struct BroadcastArgs {
    const void *inputs[POINTWISE_INPUTS];
    void *y;
    int64_t count;
    int64_t sizes[POINTWISE_RANK];
    int64_t strides[POINTWISE_INPUTS][POINTWISE_RANK]; /* elements, 0 where an input is repeated */
    int32_t rank, op;
    int32_t types[POINTWISE_INPUTS]; /* of inputs 0 and 1 and y, for binary_any */
    int32_t scale; /* y is that times it: a mean's 1 / n as bits of a float; else those of 1 */
} BroadcastArgs;

#endif
