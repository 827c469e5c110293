// SPDX-License-Identifier: Apache-2.0
/* Loops over floats that convolutions and pools are made of, as each instruction set has them: rows
 * of inputs for products of matrices, planes with their padding, and sums and largest elements of
 * windows over such planes. Every element of a result is computed in the same order whatever the
 * sizes; instruction sets differ in rounding (with and without fused multiply-add). */
#ifndef DEMI_TAP_LOOPS_H
#define DEMI_TAP_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "isa.h"

/* A row of inputs as a row of windows sees it; see TapLoops.row. */
typedef struct TapRow {
    int64_t length, first, last, offset, stride;
    uint64_t copies, to_step, from_step;
} TapRow;

/* Copies a plane of in_height rows of in_width into one of height rows of width at (top, left), and
 * fills the rest with `value`; what does not fit is left out. */
typedef struct TapPlane {
    const float *from;
    uint64_t in_height, in_width, top, left, height, width;
    float value;
} TapPlane;

/* Windows over a padded plane: the inner loops of direct convolutions and pools. Line l of outputs,
 * of `count`, is at to + l * count; from[l][r] at from + l * line + r * row. */
typedef struct Taps {
    const float *from;
    uint64_t lines, line, count, row;
    const float *weights; /* [rows, taps] */
    uint32_t rows, taps;
    uint64_t stride, step;
    bool add; /* to += ; otherwise to = bias + */
    float bias;
} Taps;

/* The plane that taps.from is the first element of, and the padding before it: tap t of output i is
 * at i * stride + t - left. taps.row is its width. */
typedef struct TapEdges {
    uint64_t in_height, in_width, top, left;
} TapEdges;

typedef struct TapLoops {
    /* to[c * to_step + i] = from[c * from_step + offset + i * stride] for first <= i < last, 0 for
     * other i < length; c < copies */
    void (*row)(float *to, const float *from, const TapRow *row);
    /* A plane with its padding; see TapPlane. */
    void (*pad)(float *to, const TapPlane *plane);
    /* to[l][i] (+)= sum over r < rows, t < taps of w[r * taps + t] * from[l][r][i * stride + t *
     * step] */
    void (*taps)(float *to, const Taps *taps);
    /* The same on a plane without its padding, whose elements are 0; see TapEdges. Of 3 x 3 taps
     * side by side, steps of 1 or 2. NULL: there is none. */
    void (*edges)(float *to, const Taps *taps, const TapEdges *edges);
    /* to[l][i] = the largest of those elements; NaN where one is */
    void (*largest)(float *to, const Taps *taps);
} TapLoops;

/* The best for a processor that has these features. */
const TapLoops *tap_loops(IsaSet cpu);

#endif
