// SPDX-License-Identifier: Apache-2.0
/* The loops of tap_loops.h: every instruction set the machine has against plain C. */
#include <math.h>
#include <string.h>

#include "tap_loops.h"
#include "unit_test.h"

static uint32_t state = 1;
static float random_float(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1;
}

/* One loop's results in plain C and with an instruction set. */
typedef struct Both {
    float from[8192], want[4096], got[4096], x[4096];
} Both;

static void compare(const Both *b) {
    for (int i = 0; i < 4096; i++) assert_true(fabsf(b->want[i] - b->got[i]) <= 1e-4f);
}

/* Windows that reach beyond a plane, against a padded copy of it. */
static void try_edges(Both *b, const TapLoops *loops, uint64_t n, uint64_t stride) {
    static float padded[8192];
    if (!loops->edges || stride > 2) return;
    const uint64_t top = n % 4, left = n % 3, lines = 5 + n % 5;
    const TapEdges edges = {.in_height = 7, .in_width = n, .top = top, .left = left};
    Taps taps = {.from = padded, .weights = b->x, .rows = 3, .taps = 3, .step = 1, .bias = 2};
    taps.stride = stride;
    taps.count = (n + left) / stride + 1;
    taps.lines = lines;
    taps.add = n % 2;
    taps.row = taps.count * stride + 3;
    taps.line = taps.row * stride;
    const TapPlane plane = {.from = b->from + n,
                            .in_height = 7,
                            .in_width = n,
                            .top = top,
                            .left = left,
                            .height = lines * stride + 3,
                            .width = taps.row};
    tap_loops(0)->pad(padded, &plane);
    memcpy(b->got, b->want, sizeof b->got);
    tap_loops(0)->taps(b->want, &taps);
    taps.from = plane.from;
    loops->edges(b->got, &taps, &edges);
    compare(b);
}

static void try_windows(Both *b, const TapLoops *loops, uint64_t n, uint64_t stride) {
    const TapLoops *plain = tap_loops(0);
    Taps taps = {.from = b->from, .row = 60, .weights = b->x, .rows = 3, .taps = 3};
    taps.stride = stride;
    taps.step = 2;
    taps.add = n % 2;
    taps.bias = 3;
    taps.lines = 5 + n % 5; /* a whole number of the lines done at once, and each rest */
    taps.line = n % 6 ? 60 * stride : 11;
    taps.count = n;
    plain->taps(b->want, &taps);
    loops->taps(b->got, &taps);
    compare(b);
    plain->largest(b->want, &taps);
    loops->largest(b->got, &taps);
    compare(b);
    try_edges(b, loops, n, stride);
    TapPlane plane = {.from = b->from, .in_height = 9, .in_width = n, .top = stride, .value = 5};
    plane.left = n % 20;
    plane.height = 12;
    plane.width = n + 9;
    plain->pad(b->want, &plane);
    loops->pad(b->got, &plane);
    compare(b);
}

static void try_rows(Both *b, const TapLoops *loops, int64_t n, int64_t stride) {
    TapRow row = {.length = n, .first = n % 3, .last = n % 3 + (n + 1) / 2, .stride = stride};
    if (row.last > row.length) return;
    row.offset = -row.first * stride;
    row.copies = 3;
    row.to_step = 100;
    row.from_step = 70;
    tap_loops(0)->row(b->want, b->from, &row);
    loops->row(b->got, b->from, &row);
    compare(b);
}

TEST(test_loops) {
    static Both b;
    for (int i = 0; i < 8192; i++) b.from[i] = random_float();
    for (int i = 0; i < 4096; i++) b.x[i] = random_float();
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        const TapLoops *loops = isa_runs(isa, isa_here()) ? tap_loops(isa_needs(isa)) : NULL;
        for (uint64_t n = 1; loops && n < 70; n++)
            for (uint64_t stride = 1; stride < 4; stride++) {
                try_windows(&b, loops, n, stride);
                try_rows(&b, loops, (int64_t)n, (int64_t)stride);
            }
    }
}
