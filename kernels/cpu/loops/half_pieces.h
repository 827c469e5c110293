// SPDX-License-Identifier: Apache-2.0
/* 16-bit floats in pieces: how loops on floats serve them without a copy of whole tensors. A piece is
 * widened into the first-level cache, worked on there, and rounded once as it leaves. */
#ifndef DEMI_HALF_PIECES_H
#define DEMI_HALF_PIECES_H

#include <string.h>

#include "kernel.h"

enum { HALF_PIECE = 1024 }; /* elements: a few operands' pieces fit the first-level cache */

static inline bool half_is(Dtype dtype) {
    return dtype_is_reduced(dtype);
}

/* Rows of 16-bit floats, each contiguous, `step` elements apart; with one row it has no meaning. */
typedef struct HalfRows {
    void *data;
    uint64_t rows, columns, step;
} HalfRows;

/* To floats one behind the other, and from there; neither array overlaps the other. Widening is exact,
 * narrowing rounds to nearest, ties to even. */
void half_widen(float *to, Dtype dtype, HalfRows from);
void half_narrow(HalfRows to, Dtype dtype, const float *from);

/* One bfloat16, where a loop does so little else that pieces would take longer: as half.h has them. */
static inline float bfloat_wide(uint16_t bfloat) {
    const uint32_t bits = (uint32_t)bfloat << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline uint16_t bfloat_near(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t near = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
    return (uint16_t)(value != value ? nan : near);
}

#endif
