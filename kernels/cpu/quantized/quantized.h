// SPDX-License-Identifier: Apache-2.0
/* Products of 8-bit matrices: their elements less the zero points are int16, two of which make one
 * of gemm.h's pairs; sums are int32, modulo 2^32. */
#ifndef DEMI_QUANTIZED_H
#define DEMI_QUANTIZED_H

#include "gemm.h"

/* A matrix's zero points: that of (i, j) in batch b is points[b * batch + i * row + j * column]. */
typedef struct ZeroPoints {
    const int64_t *points;
    uint64_t batch, row, column;
} ZeroPoints;

/* (rows, columns) of int8 or uint8 at `from`, less their zero points, as int16 with rows of an even
 * number of elements (the last of an odd number is 0). `zeros` is a batch's. */
typedef struct WideRows {
    const void *from;
    Dtype dtype;
    uint64_t rows, columns;
    ZeroPoints zeros;
} WideRows;

void quantized_widen(int16_t *to, const WideRows *rows, uint64_t width);

/* int16 elements in a row that is padded to pairs. */
static inline uint64_t quantized_width(uint64_t columns) {
    return (columns + 1) / 2 * 2;
}

/* Gemm.pack_b of GEMM_PAIRS: B's rows of int16, interleaved two by two. */
typedef struct PairRows {
    const int16_t *rows;
    const uint64_t *offsets; /* [batches], in elements */
    uint64_t width, count;   /* of a row; how many rows */
} PairRows;
GemmPack quantized_pack_rows;

/* to[i] = sums[i] * scale rounded to nearest, ties to even, plus zero, within int8's or uint8's
 * range. Where scales is not NULL, element i's is scale * scales[i]. */
typedef struct Requantize {
    double scale, zero;
    const double *scales;
    Dtype dtype;
} Requantize;
void quantized_store(const Requantize *how, const int32_t *sums, uint8_t *to, uint64_t count);

#endif
