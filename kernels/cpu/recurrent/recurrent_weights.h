// SPDX-License-Identifier: Apache-2.0
/* Weights of recurrent layers, packed once for a plan: panels of units, in which a product with a
 * few states or many inputs finds them in order. A step of a layer is so small that packing them
 * anew for it, or summing each unit's products across a vector, would cost more than the product.
 */
#ifndef DEMI_RECURRENT_WEIGHTS_H
#define DEMI_RECURRENT_WEIGHTS_H

#include "gemm.h"

/* Rows [first, first + rows) of a matrix whose rows lie one behind the other: `depth` weights of
 * each unit. */
typedef struct RecurrentRows {
    const float *data;
    uint64_t rows, depth;
} RecurrentRows;

/* Bytes that they take packed. */
uint64_t recurrent_packed_size(const RecurrentRows *rows, IsaLevel level);
/* `to` is 64-byte aligned. */
void recurrent_pack(void *to, const RecurrentRows *rows, IsaLevel level);

/* to[b * to_row + r] = (add: itself +) sum over k of vectors[b * depth + k] * row r[k] */
typedef struct RecurrentProduct {
    const void *packed; /* for the level */
    uint64_t rows, depth;
    const float *vectors; /* [count][depth] */
    uint64_t count;
    float *to;
    uint64_t to_row;
    bool add;
} RecurrentProduct;

/* Runs it with the call's threads, by kernels of that level, which this processor must have. Every
 * sum is of one thread, over k in order. */
void recurrent_multiply(const KernelCall *call, const RecurrentProduct *product, IsaLevel level);

#endif
