// SPDX-License-Identifier: Apache-2.0
/* Turning tiles, channels or filters side by side in vectors; see tile_forms.h. */
#include "tile_forms.h"

#include <stddef.h>

#include "kernel_clones.h"
#include "kernel_rows.h"

enum { SIDE = 4, STEP = 2 }; /* of squares: pixels and results along an axis */
enum { LINE = 6 };           /* pixels of lines */

KERNEL_INLINE uint32_t larger(uint32_t most, float number) {
    union {
        float number;
        uint32_t bits;
    } word = {number};
    word.bits &= INT32_MAX;
    return most > word.bits ? most : word.bits;
}

KERNEL_INLINE float bounded(float sum, float low, float high) {
    sum = sum < low ? low : sum;
    return sum > high ? high : sum;
}

/* ---- squares --------------------------------------------------------------------------------- */

/* B' d B. */
ROW_CLONES
static void turn_square(const float *const *d, uint64_t channels, float *to, uint64_t step) {
    for (uint32_t x = 0; x < SIDE; x++) {
        const float *p = d[x], *q = d[SIDE + x], *r = d[2 * SIDE + x], *s = d[3 * SIDE + x];
        float *a = to + x * step, *b = a + SIDE * step, *e = b + SIDE * step, *f = e + SIDE * step;
        ROW_LOOP
        for (uint64_t i = 0; i < channels; i++) {
            a[i] = p[i] - r[i];
            b[i] = q[i] + r[i];
            e[i] = r[i] - q[i];
            f[i] = q[i] - s[i];
        }
    }
    for (uint32_t y = 0; y < SIDE; y++) {
        float *a = to + y * SIDE * step, *b = a + step, *e = b + step, *f = e + step;
        ROW_LOOP
        for (uint64_t i = 0; i < channels; i++) {
            const float p = a[i], q = b[i], r = e[i], s = f[i];
            a[i] = p - r;
            b[i] = q + r;
            e[i] = r - q;
            f[i] = q - s;
        }
    }
}

/* A' m A of all filters, and what follows. */
ROW_CLONES
static void turn_square_back(const float *m, uint64_t step, uint64_t filters, const TileResults *to,
                             uint32_t *most) {
    const float *p[SIDE * SIDE], *bias = to->bias;
    const float *z0 = to->z[0], *z1 = to->z[1], *z2 = to->z[2], *z3 = to->z[3];
    float *y0 = to->y[0], *y1 = to->y[1], *y2 = to->y[2], *y3 = to->y[3];
    const float low = to->low, high = to->high;
    uint32_t most0 = 0, most1 = 0, most2 = 0, most3 = 0;
    for (uint32_t k = 0; k < SIDE * SIDE; k++) p[k] = m + k * step;
    ROW_LOOP
    for (uint64_t i = 0; i < filters; i++) {
        float top[SIDE], end[SIDE];
        for (uint32_t x = 0; x < SIDE; x++) {
            const float a = p[x][i], b = p[SIDE + x][i], c = p[2 * SIDE + x][i];
            top[x] = a + b + c;
            end[x] = b - c - p[3 * SIDE + x][i];
        }
        const float a = top[0] + top[1] + top[2], b = top[1] - top[2] - top[3];
        const float c = end[0] + end[1] + end[2], d = end[1] - end[2] - end[3];
        most0 = larger(most0, a);
        most1 = larger(most1, b);
        most2 = larger(most2, c);
        most3 = larger(most3, d);
        y0[i] = bounded(a + bias[i] + z0[i], low, high);
        y1[i] = bounded(b + bias[i] + z1[i], low, high);
        y2[i] = bounded(c + bias[i] + z2[i], low, high);
        y3[i] = bounded(d + bias[i] + z3[i], low, high);
    }
    most[0] = most0;
    most[1] = most1;
    most[2] = most2;
    most[3] = most3;
}

const TileForm *tile_form_square(void) {
    static const TileForm form = {.taps = 9,
                                  .points = SIDE * SIDE,
                                  .results = STEP * STEP,
                                  .along = SIDE,
                                  .results_along = STEP,
                                  .least_share = 0x1p-10F,
                                  .turn = turn_square,
                                  .turn_back = turn_square_back};
    return &form;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* B' d, which does not depend on how many of the points' degrees are taps. */
ROW_CLONES
static void turn_line(const float *const *d, uint64_t channels, float *to, uint64_t step) {
    const float *d0 = d[0], *d1 = d[1], *d2 = d[2], *d3 = d[3], *d4 = d[4], *d5 = d[5];
    float *t0 = to, *t1 = t0 + step, *t2 = t1 + step, *t3 = t2 + step, *t4 = t3 + step;
    float *t5 = t4 + step;
    ROW_LOOP
    for (uint64_t i = 0; i < channels; i++) {
        const float a = d4[i] - 4 * d2[i], b = d3[i] - 4 * d1[i];
        const float c = d4[i] - d2[i], e = 2 * (d3[i] - d1[i]);
        t0[i] = 4 * d0[i] - 5 * d2[i] + d4[i];
        t1[i] = a + b;
        t2[i] = a - b;
        t3[i] = c + e;
        t4[i] = c - e;
        t5[i] = 4 * d1[i] - 5 * d3[i] + d5[i];
    }
}

/* A' m: result j is the sum of the points' jth powers times m, to which infinity's comes at the last. */
ROW_CLONES
static void turn_three_back(const float *m, uint64_t step, uint64_t filters, const TileResults *to,
                            uint32_t *most) {
    const float *p0 = m, *p1 = p0 + step, *p2 = p1 + step, *p3 = p2 + step, *p4 = p3 + step;
    const float *p5 = p4 + step, *bias = to->bias;
    const float *z0 = to->z[0], *z1 = to->z[1], *z2 = to->z[2], *z3 = to->z[3];
    float *y0 = to->y[0], *y1 = to->y[1], *y2 = to->y[2], *y3 = to->y[3];
    const float low = to->low, high = to->high;
    uint32_t most0 = 0, most1 = 0, most2 = 0, most3 = 0;
    ROW_LOOP
    for (uint64_t i = 0; i < filters; i++) {
        const float even = p1[i] + p2[i], odd = p1[i] - p2[i];
        const float even2 = p3[i] + p4[i], odd2 = p3[i] - p4[i];
        const float a = p0[i] + even + even2, b = odd + 2 * odd2;
        const float c = even + 4 * even2, d = odd + 8 * odd2 + p5[i];
        most0 = larger(most0, a);
        most1 = larger(most1, b);
        most2 = larger(most2, c);
        most3 = larger(most3, d);
        y0[i] = bounded(a + bias[i] + z0[i], low, high);
        y1[i] = bounded(b + bias[i] + z1[i], low, high);
        y2[i] = bounded(c + bias[i] + z2[i], low, high);
        y3[i] = bounded(d + bias[i] + z3[i], low, high);
    }
    most[0] = most0;
    most[1] = most1;
    most[2] = most2;
    most[3] = most3;
}

ROW_CLONES
static void turn_five_back(const float *m, uint64_t step, uint64_t filters, const TileResults *to,
                           uint32_t *most) {
    const float *p0 = m, *p1 = p0 + step, *p2 = p1 + step, *p3 = p2 + step, *p4 = p3 + step;
    const float *p5 = p4 + step, *bias = to->bias, *z0 = to->z[0], *z1 = to->z[1];
    float *y0 = to->y[0], *y1 = to->y[1];
    const float low = to->low, high = to->high;
    uint32_t most0 = 0, most1 = 0;
    ROW_LOOP
    for (uint64_t i = 0; i < filters; i++) {
        const float a = p0[i] + (p1[i] + p2[i]) + (p3[i] + p4[i]);
        const float b = (p1[i] - p2[i]) + 2 * (p3[i] - p4[i]) + p5[i];
        most0 = larger(most0, a);
        most1 = larger(most1, b);
        y0[i] = bounded(a + bias[i] + z0[i], low, high);
        y1[i] = bounded(b + bias[i] + z1[i], low, high);
    }
    most[0] = most0;
    most[1] = most1;
}

const TileForm *tile_form_line(int64_t taps) {
    static const TileForm forms[] = {{.taps = 3,
                                      .points = LINE,
                                      .results = 4,
                                      .along = LINE,
                                      .results_along = 4,
                                      .least_share = 0x1p-8F,
                                      .turn = turn_line,
                                      .turn_back = turn_three_back},
                                     {.taps = 5,
                                      .points = LINE,
                                      .results = 2,
                                      .along = LINE,
                                      .results_along = 2,
                                      .least_share = 0x1p-8F,
                                      .turn = turn_line,
                                      .turn_back = turn_five_back}};
    return taps == 3 ? &forms[0] : taps == 5 ? &forms[1] : NULL;
}
