// SPDX-License-Identifier: Apache-2.0
/* Epilogues against the formulas in double, on blocks within a larger result, and whole results
 * against blocks. */
#include <math.h>
#include <string.h>

#include "epilogue.h"
#include "unit_test.h"

enum { ROWS = 37, COLUMNS = 301, ROW = 310 };

static double bounded(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

static double activate(const Epilogue *e, double x) {
    const double p = (double)e->p, q = (double)e->q;
    switch (e->activation) {
    case ACTIVATION_NONE: return x;
    case ACTIVATION_RELU: return x < 0 ? 0 : x;
    case ACTIVATION_CLIP: return bounded(x, p, q);
    case ACTIVATION_LEAKY_RELU: return x < 0 ? p * x : x;
    case ACTIVATION_SIGMOID: return 1 / (1 + exp(-x));
    case ACTIVATION_TANH: return tanh(x);
    case ACTIVATION_HARD_SIGMOID: return bounded(p * x + q, 0, 1);
    case ACTIVATION_HARD_SWISH: return x * bounded(x / 6 + 0.5, 0, 1);
    case ACTIVATION_SILU: return x / (1 + exp(-x));
    case ACTIVATION_GELU: return x * 0.5 * erfc(-x / sqrt(2));
    case ACTIVATION_GELU_TANH:
        return x * 0.5 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case ACTIVATION_COUNT: break;
    }
    return NAN;
}

typedef struct Data {
    float y[ROWS * ROW], residual[ROWS * ROW], bias[ROW], before[ROWS * ROW];
} Data;

static void fill(Data *d) {
    uint32_t state = 7;
    float *all = (float *)d;
    for (size_t i = 0; i < sizeof *d / sizeof *all; i++) {
        state = state * 1664525u + 1013904223u;
        all[i] = (float)(int32_t)state * 0x1p-29f; /* within 4 */
    }
    memcpy(d->before, d->y, sizeof d->y);
}

/* What element (r, c) of the matrix is to be. */
static void check_at(const Data *d, const Epilogue *e, uint64_t r, uint64_t c) {
    float sum = d->before[r * ROW + c];
    if (e->bias) sum += e->bias[e->bias_of_rows ? r : c];
    if (e->residual) sum += e->residual[r * e->residual_row + c];
    double want = activate(e, (double)sum), got = (double)d->y[r * ROW + c];
    if (!(fabs(want - got) <= 2e-6 * (1 + fabs(want))))
        fail_msg("%s at (%d, %d): %g, not %g", activation_names[e->activation], (int)r, (int)c, got,
                 want);
}

static bool inside(const EpilogueBlock *block, uint64_t r, uint64_t c) {
    return r >= block->row && r < block->row + block->rows && c >= block->column &&
           c < block->column + block->columns;
}

static void check(const Data *d, const Epilogue *e, const EpilogueBlock *block) {
    for (uint64_t r = 0; r < ROWS; r++)
        for (uint64_t c = 0; c < COLUMNS; c++) {
            if (inside(block, r, c))
                check_at(d, e, r, c);
            else
                assert_true(d->y[r * ROW + c] == d->before[r * ROW + c]);
        }
}

TEST(test_blocks) {
    static Data d;
    for (int variant = 0; variant < 12; variant++)
        for (Activation a = ACTIVATION_NONE; a < ACTIVATION_COUNT; a++) {
            fill(&d);
            Epilogue e = {.bias = variant % 3 ? d.bias : NULL,
                          .bias_of_rows = variant % 3 == 1,
                          .residual = variant % 6 >= 3 ? d.residual : NULL,
                          .residual_row = ROW,
                          .activation = a,
                          .quick = variant >= 6};
            assert_true(epilogue_params(&e, NULL, 0));
            const EpilogueBlock block = {d.y + 5 * ROW + 3, ROW, 5, 3, 11, 250};
            epilogue_apply(&e, &block);
            check(&d, &e, &block);
        }
}

TEST(test_whole) {
    static Data d;
    fill(&d);
    const Epilogue e = {
        .bias = d.bias, .residual = d.residual, .residual_row = ROW, .activation = ACTIVATION_SILU};
    const EpilogueBlock whole = {d.y, ROW, 0, 0, ROWS, COLUMNS};
    for (unsigned threads = 1; threads < 4; threads++) {
        fill(&d);
        const KernelCall call = {.workers = workers_new(&test_arena, threads)};
        epilogue_run(&call, &e, &whole);
        check(&d, &e, &whole);
        arena_free(&test_arena);
    }
}

TEST(test_params) {
    const float given[] = {-1, 6, 3};
    Epilogue e = {.activation = ACTIVATION_CLIP};
    assert_true(epilogue_params(&e, given, 2));
    assert_true(e.p == -1 && e.q == 6);
    assert_true(epilogue_params(&e, given, 1));
    assert_true(e.p == -1 && e.q == HUGE_VALF);
    assert_false(epilogue_params(&e, given, 3));
    e.activation = ACTIVATION_RELU;
    assert_false(epilogue_params(&e, given, 1));
    for (int a = 0; a < ACTIVATION_COUNT; a++) assert_non_null(activation_names[a]);
    assert_null(activation_names[ACTIVATION_COUNT]);
}

/* NaN stays NaN, as in the operators. */
TEST(test_nan) {
    for (int i = 0; i < 2 * ACTIVATION_COUNT; i++) {
        const Activation a = (Activation)(i / 2);
        float y[9];
        for (int k = 0; k < 9; k++) y[k] = NAN;
        Epilogue e = {.activation = a, .quick = i % 2};
        assert_true(epilogue_params(&e, NULL, 0));
        epilogue_apply(&e, &(EpilogueBlock){y, 9, 0, 0, 1, 9});
        for (int k = 0; k < 9; k++)
            if (!isnan(y[k])) fail_msg("%s of NaN is %g", activation_names[a], (double)y[k]);
    }
}
