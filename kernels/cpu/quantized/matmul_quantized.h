// SPDX-License-Identifier: Apache-2.0
/* MatMulInteger and QLinearMatMul with the product itself as a parameter: what they check, read and
 * store is the same whatever computes the sums, and so are the results, since sums are exact. */
#ifndef DEMI_MATMUL_QUANTIZED_H
#define DEMI_MATMUL_QUANTIZED_H

#include "matmul_batches.h"

/* Numbers per row or column ("line") of a matrix: [batches, lines], or one for all. */
typedef struct Lines {
    bool one;
    double *items;
    uint64_t lines;
} Lines;

/* Two matrices of int8 or uint8, each in its own way, and their zero points. */
typedef struct ByteFactors {
    const KernelTensor *a, *b;
    MatmulBatches s;
    Lines a_zero, b_zero;
} ByteFactors;

/* sums[batches, m, n] = (a - a_zero) * (b - b_zero), modulo 2^32. False with the error set. */
typedef bool ByteSums(KernelCall *call, const ByteFactors *factors, int32_t *sums);

bool matmul_integer_by(KernelCall *call, ByteSums *sums);
/* `sums` is called for products of 8-bit integers only. */
bool qlinear_matmul_by(KernelCall *call, ByteSums *sums);

#endif
