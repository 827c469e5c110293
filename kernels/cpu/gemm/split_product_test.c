// SPDX-License-Identifier: Apache-2.0
/* Split products against sums in double, as near to them as float is; by any number of threads with the
 * same bits; numbers of all sizes; and what is said of infinite weights. */
#include "kernel_case_test.h"

#include <float.h>
#include <math.h>

#include "half.h"
#include "split_product.h"

/* Of the largest depth a panel goes in pieces. */
enum { ROWS = 35, COLUMNS = 150, MOST_DEPTH = 3500 };
static int depth = 70;

static float x[ROWS * MOST_DEPTH], w[COLUMNS * MOST_DEPTH], bias[COLUMNS], y[2][ROWS * COLUMNS];
static uint16_t narrow[COLUMNS * MOST_DEPTH];

static float next(float size) {
    static uint32_t state = 1;
    state = state * 1664525U + 1013904223U;
    return ((float)(state >> 8) / (float)(1 << 23) - 1) * size;
}

static void fill(void) {
    for (int i = 0; i < ROWS * depth; i++) x[i] = ldexpf(next(1), i % 40 - 20);
    for (int i = 0; i < COLUMNS * depth; i++) w[i] = next(1);
    for (int i = 0; i < COLUMNS; i++) bias[i] = next(1);
    bfloat_convert_from_float(narrow, w, (size_t)(COLUMNS * depth));
    bfloat_convert_to_float(w, narrow, (size_t)(COLUMNS * depth));
}

/* Whether it is sound. */
static bool run(unsigned threads, float *to) {
    KernelCase test;
    bool sound = false;
    case_begin(&test, "MatMul", 13);
    test.call.workers = workers_new(&test.arena, threads);
    const IsaSet cpu = isa_here();
    const IgemmWeights weights = split_product_weights((uint64_t)depth, COLUMNS);
    const WeightLayout layout = igemm_layout(&weights, cpu);
    void *packed = kernel_workspace(&test.call, weight_layout_size(&layout));
    weight_layout_pack(&layout, narrow, packed);
    const SplitProduct product = {x, ROWS, (uint64_t)depth, COLUMNS, packed, bias, to};
    assert_true(split_product_run(&test.call, &product, cpu, &sound));
    case_end(&test);
    return sound;
}

static void check(void) {
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            double sum = (double)bias[c], size = fabs(sum);
            for (int k = 0; k < depth; k++) {
                const double product = (double)x[r * depth + k] * (double)w[c * depth + k];
                sum += product;
                size += fabs(product);
            }
            const double off = fabs((double)y[0][r * COLUMNS + c] - sum);
            if (!(off <= size * (depth + 8) * FLT_EPSILON / 8))
                fail_msg("%d, %d: off by %g", r, c, off);
        }
}

TEST(test_numbers) {
    if (!igemm_has_bfloats(isa_here())) skip();
    for (int i = 0; i < 3; i++) {
        depth = (const int[]){2, 70, MOST_DEPTH}[i];
        fill();
        assert_true(run(1, y[0]));
        check();
        for (unsigned threads = 2; threads < 5; threads++) {
            assert_true(run(threads, y[1]));
            assert_memory_equal(y[0], y[1], sizeof y[0]);
        }
    }
    depth = 70;
}

/* The largest are split without an overflow, and what is too small to be split is 0. */
TEST(test_extremes) {
    if (!igemm_has_bfloats(isa_here())) skip();
    fill();
    for (int i = 0; i < ROWS * depth; i++) x[i] = 0;
    x[0] = FLT_MAX;
    x[depth + 1] = -FLT_MAX;
    x[2 * depth + 2] = FLT_MIN / 8;
    for (int c = 0; c < COLUMNS; c++) bias[c] = 0;
    for (int i = 0; i < COLUMNS * depth; i++) narrow[i] = 0x3f00; /* 0.5 */
    assert_true(run(1, y[0]));
    for (int c = 0; c < COLUMNS; c++) {
        assert_true(y[0][c] == FLT_MAX / 2);
        assert_true(y[0][COLUMNS + c] == -FLT_MAX / 2);
        assert_true(fabsf(y[0][2 * COLUMNS + c]) <= FLT_MIN / 16);
    }
}

TEST(test_unsound) {
    if (!igemm_has_bfloats(isa_here())) skip();
    fill();
    x[5] = INFINITY; /* of which there is one part alone */
    assert_true(run(1, y[0]));
    for (int c = 0; c < COLUMNS; c++) assert_true(isinf(y[0][c]));
    fill();
    x[5] = NAN;
    assert_false(run(1, y[0]));
    fill();
    narrow[depth + 5] = 0x7f80; /* infinite */
    x[5] = 1;
    assert_false(run(2, y[0]));
}
