// SPDX-License-Identifier: Apache-2.0
/* Products of bfloat16 for attention in blocks, where the processor multiplies them: by the micro-kernels
 * of igemm.h for IGEMM_BFLOATS, whose words are of two elements and whose sums are float. */
#ifndef DEMI_ATTEND_BFLOAT_H
#define DEMI_ATTEND_BFLOAT_H

#include <stdbool.h>
#include <stdint.h>

#include "gemm.h"

/* Element (k, lane) is data[k * step + lane * lane_step]. */
typedef struct BfloatMatrix {
    const uint16_t *data;
    uint64_t step, lane_step;
    uint64_t depth, lanes;
} BfloatMatrix;

/* Words that so many elements of a row are. */
static inline uint64_t bfloat_words(uint64_t depth) {
    return (depth + 1) / 2;
}

/* Panels of lanes for bfloat_multiply: bfloat_words(depth) words for each lane, of which there are as many
 * as whole vectors of 16 have. */
void bfloat_pack(const BfloatMatrix *matrix, const GemmLoops *loops, uint32_t *to);

/* y[r][c] (+)= sum over words of rows[r] and column c of the panels. */
typedef struct BfloatProduct {
    const uint16_t *rows;
    uint64_t row; /* elements from one to the next */
    uint64_t count, words, columns;
    const uint32_t *panels;
    float *y;
    uint64_t y_row;
    bool add;
} BfloatProduct;

/* Where igemm_has_bfloats says so of AVX-512. */
void bfloat_multiply(const BfloatProduct *product);

#endif
