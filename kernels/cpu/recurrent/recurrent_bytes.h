// SPDX-License-Identifier: Apache-2.0
/* Products of float rows by weights of bytes, which recurrent layers with quantized weights are made
 * of: rows are quantized in each product by their own range (dynamic_bytes.h), products are summed in
 * integers (igemm.h), and the result is float. */
#ifndef DEMI_RECURRENT_BYTES_H
#define DEMI_RECURRENT_BYTES_H

#include "igemm.h"

/* Weights [directions][depth][columns] of int8 or uint8, and where their scales and zero points are:
 * inputs of the call, [directions] or [directions][columns]. */
typedef struct ByteWeights {
    uint32_t input, scale, zero;
    uint64_t directions, depth, columns;
    Dtype dtype;
    WeightLayout layout; /* of int8: uint8 is moved by 128 */
    const char *packed;  /* NULL: they are no constant */
} ByteWeights;

/* For a row's `make`: how the input is packed, which becomes unread if it is a constant. */
void byte_weights_make(KernelCall *call, ByteWeights *weights, IsaSet cpu);

/* One direction's, ready for products of at most `rows_most` rows; memory is the call's. */
typedef struct ByteMatrix {
    uint64_t depth, columns, padded;
    IsaSet cpu;
    IgemmKind kind;
    const void *weights;       /* packed */
    const int32_t *sums;       /* of columns */
    const float *scales;       /* [columns] */
    const int32_t *zeros;      /* [columns], as the weights are packed; NULL: all are 0 */
    float *factors, *no_shift; /* [columns] */
    int32_t *offsets;          /* [columns] */
    uint8_t *bytes;            /* [rows_most][padded] */
    int16_t *pairs;            /* the same, where kind asks for it */
    float *products;           /* of some rows */
} ByteMatrix;

/* False with the error set: operands do not fit, or past the memory budget. */
bool byte_matrix_begin(KernelCall *call, const ByteWeights *weights, uint64_t direction,
                       uint64_t rows_most, ByteMatrix *matrix);

/* to[r * to_row + n] += x[r] . column n, for all columns; x is [rows][depth]. False with the error
 * set past the memory budget. */
typedef struct RecurrentProduct {
    const float *x;
    uint64_t rows;
    float *to;
    uint64_t to_row;
} RecurrentProduct;
bool byte_matrix_add(KernelCall *call, const ByteMatrix *matrix, const RecurrentProduct *product);

#endif
