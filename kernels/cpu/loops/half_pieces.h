// SPDX-License-Identifier: Apache-2.0
/* 16-bit floats in pieces: how loops on floats serve them without a copy of whole tensors. A piece is
 * widened into the first-level cache, worked on there, and rounded once as it leaves. */
#ifndef DEMI_HALF_PIECES_H
#define DEMI_HALF_PIECES_H

#include "kernel.h"

enum { HALF_PIECE = 1024 }; /* elements: a few operands' pieces fit the first-level cache */

static inline bool half_is(Dtype dtype) {
    return dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16;
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

#endif
