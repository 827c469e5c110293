// SPDX-License-Identifier: Apache-2.0
/* Turning tiles, channels or filters side by side in vectors; see tile_forms.h. */
#include "tile_forms.h"

#include <stddef.h>

#include "kernel_clones.h"
#include "kernel_rows.h"
#include "weight_layout.h"

enum { SIDE = 4, STEP = 2 }; /* of squares: pixels and results along an axis */
enum { LARGE = 6, LEAP = 4 };
enum { LINE = 6 }; /* pixels of lines */

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

/* ---- large squares --------------------------------------------------------------------------- */

enum {
    CHUNK = 64
}; /* channels or filters, of which what is turned along one axis stays in a cache */

#define A   ((float)WEIGHT_TILE_A)
#define B   ((float)WEIGHT_TILE_B)
#define A_2 (A * A)
#define B_2 (B * B)

/* B' along one axis: products of (x - point) over the others than a row's own. */
KERNEL_INLINE void turn_six(const float *const d[LARGE], uint64_t count, float *to, uint64_t step) {
    const float *d0 = d[0], *d1 = d[1], *d2 = d[2], *d3 = d[3], *d4 = d[4], *d5 = d[5];
    float *t0 = to, *t1 = t0 + step, *t2 = t1 + step, *t3 = t2 + step, *t4 = t3 + step;
    float *t5 = t4 + step;
    ROW_LOOP
    for (uint64_t i = 0; i < count; i++) {
        const float a = d4[i] - B_2 * d2[i], b = A * (d3[i] - B_2 * d1[i]);
        const float c = d4[i] - A_2 * d2[i], e = B * (d3[i] - A_2 * d1[i]);
        t0[i] = A_2 * B_2 * d0[i] - (A_2 + B_2) * d2[i] + d4[i];
        t1[i] = a + b;
        t2[i] = a - b;
        t3[i] = c + e;
        t4[i] = c - e;
        t5[i] = A_2 * B_2 * d1[i] - (A_2 + B_2) * d3[i] + d5[i];
    }
}

ROW_CLONES
static void turn_large(const float *const *d, uint64_t channels, float *to, uint64_t step) {
    float columns[LARGE * LARGE * CHUNK]; /* [y][x][channel] */
    for (uint64_t first = 0; first < channels; first += CHUNK) {
        const uint64_t count = channels - first < CHUNK ? channels - first : CHUNK;
        for (uint32_t x = 0; x < LARGE; x++) {
            const float *column[LARGE];
            for (uint32_t y = 0; y < LARGE; y++) column[y] = d[y * LARGE + x] + first;
            turn_six(column, count, columns + x * CHUNK, LARGE * CHUNK);
        }
        for (uint32_t y = 0; y < LARGE; y++) {
            const float *row[LARGE];
            for (uint32_t x = 0; x < LARGE; x++) row[x] = columns + (y * LARGE + x) * CHUNK;
            turn_six(row, count, to + y * LARGE * step + first, step);
        }
    }
}

/* A' along one axis: result j is the sum of the points' jth powers times m, to which infinity's comes
 * at the last. */
KERNEL_INLINE void sum_six(const float *const m[LARGE], uint64_t i, float sums[LEAP]) {
    const float even = m[1][i] + m[2][i], odd = m[1][i] - m[2][i];
    const float even2 = m[3][i] + m[4][i], odd2 = m[3][i] - m[4][i];
    sums[0] = m[0][i] + even + even2;
    sums[1] = A * odd + B * odd2;
    sums[2] = A_2 * even + B_2 * even2;
    sums[3] = A * A_2 * odd + B * B_2 * odd2 + m[5][i];
}

/* Results of one row of a tile. */
KERNEL_INLINE void end_row(const float *const m[LARGE], uint64_t first, uint64_t count,
                           const TileResults *to, uint32_t at, uint32_t *most) {
    const float *bias = to->bias + first;
    const float *z0 = to->z[at] + first, *z1 = to->z[at + 1] + first;
    const float *z2 = to->z[at + 2] + first, *z3 = to->z[at + 3] + first;
    float *y0 = to->y[at] + first, *y1 = to->y[at + 1] + first;
    float *y2 = to->y[at + 2] + first, *y3 = to->y[at + 3] + first;
    const float low = to->low, high = to->high;
    uint32_t most0 = most[at], most1 = most[at + 1], most2 = most[at + 2], most3 = most[at + 3];
    ROW_LOOP
    for (uint64_t i = 0; i < count; i++) {
        float sums[LEAP];
        sum_six(m, i, sums);
        most0 = larger(most0, sums[0]);
        most1 = larger(most1, sums[1]);
        most2 = larger(most2, sums[2]);
        most3 = larger(most3, sums[3]);
        y0[i] = bounded(sums[0] + bias[i] + z0[i], low, high);
        y1[i] = bounded(sums[1] + bias[i] + z1[i], low, high);
        y2[i] = bounded(sums[2] + bias[i] + z2[i], low, high);
        y3[i] = bounded(sums[3] + bias[i] + z3[i], low, high);
    }
    most[at] = most0;
    most[at + 1] = most1;
    most[at + 2] = most2;
    most[at + 3] = most3;
}

ROW_CLONES
static void turn_large_back(const float *m, uint64_t step, uint64_t filters, const TileResults *to,
                            uint32_t *most) {
    float columns[LEAP * LARGE * CHUNK]; /* [y][x][filter] */
    for (uint32_t r = 0; r < LEAP * LEAP; r++) most[r] = 0;
    for (uint64_t first = 0; first < filters; first += CHUNK) {
        const uint64_t count = filters - first < CHUNK ? filters - first : CHUNK;
        for (uint32_t x = 0; x < LARGE; x++) {
            const float *column[LARGE];
            float *t0 = columns + x * CHUNK, *t1 = t0 + LARGE * CHUNK, *t2 = t1 + LARGE * CHUNK;
            float *t3 = t2 + LARGE * CHUNK;
            for (uint32_t y = 0; y < LARGE; y++) column[y] = m + (y * LARGE + x) * step + first;
            ROW_LOOP
            for (uint64_t i = 0; i < count; i++) {
                float sums[LEAP];
                sum_six(column, i, sums);
                t0[i] = sums[0];
                t1[i] = sums[1];
                t2[i] = sums[2];
                t3[i] = sums[3];
            }
        }
        for (uint32_t y = 0; y < LEAP; y++) {
            const float *row[LARGE];
            for (uint32_t x = 0; x < LARGE; x++) row[x] = columns + (y * LARGE + x) * CHUNK;
            end_row(row, first, count, to, y * LEAP, most);
        }
    }
}

const TileForm *tile_form_large_square(void) {
    static const TileForm form = {.taps = 9,
                                  .points = LARGE * LARGE,
                                  .results = LEAP * LEAP,
                                  .along = LARGE,
                                  .results_along = LEAP,
                                  .least_share = 0x1p-8F,
                                  .turn = turn_large,
                                  .turn_back = turn_large_back};
    return &form;
}

#undef A
#undef B
#undef A_2
#undef B_2

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
