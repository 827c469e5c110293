// SPDX-License-Identifier: Apache-2.0
/* What kernels of product.cu take; C and C++. */
#ifndef DEMI_PRODUCT_ARGS_H
#define DEMI_PRODUCT_ARGS_H

#include <stdint.h>

/* y = act(scale x + bias + z), element by element; y may be x. Element i is of column
 * (i / inner) % columns. */
typedef struct EpilogueArgs {
    const void *x, *bias, *z; /* bias and z may be NULL */
    void *y;
    uint32_t count, inner, columns;
    int32_t bias_type, z_type, bias_step; /* of the bias: 1 an element a column, 0 one for all */
    int32_t op;                           /* a UnaryOp */
    float p, q, scale;
} EpilogueArgs;

enum { FEW_ROWS = 4 };

/* y = act(alpha x w' + bias + z): x (rows, depth), at most FEW_ROWS, w (columns, depth), both of one type
 * and in rows of whole 16 bytes; y (rows, columns), z as it. */
typedef struct FewArgs {
    const void *x, *w, *bias, *z; /* bias and z may be NULL */
    void *y;
    int32_t rows, columns, depth;
    int32_t bias_type, bias_step, z_type, y_type; /* bias_step as in EpilogueArgs */
    int32_t op;
    float p, q, alpha;
} FewArgs;

/* y = alpha a b; matrices by strides in elements, batches by blockIdx.z. */
typedef struct GemmArgs {
    const void *a, *b;
    void *y;
    int64_t m, n, k;
    int64_t a_row, a_column, b_row, b_column;
    int64_t a_batch, b_batch, y_batch;
    float alpha;
} GemmArgs;

#endif
