// SPDX-License-Identifier: Apache-2.0
/* quick_rows.h against the C library's double functions: errors in units in the last place of the
 * true result, of which fewer count below the normal range. The bounds are kernel_math_test.c's. */
#include <math.h>

#include "kernel_math.h"
#include "quick_rows.h"
#include "unit_test.h"

enum { BATCH = 1 << 12 };

typedef struct Function {
    const char *name;
    UnaryFunction rows;
    double (*exact)(double);
    float low, high;
    double limit;
} Function;

static double exact_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double exact_gelu(double x) {
    return x * 0.5 * erfc(-x * 0.70710678118654752440);
}
static double exact_gelu_tanh(double x) {
    return x * exact_sigmoid(1.59576912160573071176 * (x + 0.044715 * x * x * x));
}
static double exact_swish(double x) {
    return x * exact_sigmoid(0.75 * x);
}

static double last_place(double value) {
    int exponent;
    frexp(value, &exponent);
    return ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static void check(const Function *f) {
    static float x[BATCH], y[BATCH];
    const UnaryNumbers numbers = {0.75, 0};
    uint64_t bits = 0;
    while (bits < UINT64_C(1) << 32) {
        uint64_t n = 0;
        for (; n < BATCH && bits < UINT64_C(1) << 32; bits += 1009) {
            x[n] = math_from_bits((uint32_t)bits);
            n += x[n] >= f->low && x[n] <= f->high;
        }
        f->rows(y, x, n, &numbers);
        for (uint64_t i = 0; i < n; i++) {
            const double want = f->exact((double)x[i]);
            if (fabs(want) > 3.4028234e38) continue;
            const double error = fabs(want - (double)y[i]) / last_place(want);
            if (!(error <= f->limit))
                fail_msg("%s: %.2f units at %a", f->name, error, (double)x[i]);
        }
    }
}

TEST(test_errors) {
    const Function functions[] = {
        {"exp", quick_exp, exp, -110, 88.8f, 1.5},
        {"sigmoid", quick_sigmoid, exact_sigmoid, -87, 30, 3},
        {"tanh", quick_tanh, tanh, -30, 30, 3},
        {"erf", quick_erf, erf, -10, 10, 3.5},
        {"gelu", quick_gelu, exact_gelu, -1, 10, 7},
        {"gelu by tanh", quick_gelu_tanh, exact_gelu_tanh, -1, 10, 7},
        {"swish", quick_swish, exact_swish, -8, 30, 8},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) check(&functions[i]);
}

TEST(test_specials) {
    const float inf = HUGE_VALF, x[] = {inf, -inf, NAN, -0.0f};
    float y[4];
    quick_exp(y, x, 4, NULL);
    assert_true(y[0] == inf && y[1] == 0 && isnan(y[2]) && y[3] == 1);
    quick_tanh(y, x, 4, NULL);
    assert_true(y[0] == 1 && y[1] == -1 && isnan(y[2]) && y[3] == 0 && signbit(y[3]));
    quick_erf(y, x, 4, NULL);
    assert_true(y[0] == 1 && y[1] == -1 && isnan(y[2]) && y[3] == 0 && signbit(y[3]));
    quick_sigmoid(y, x, 4, NULL);
    assert_true(y[0] == 1 && y[1] == 0 && isnan(y[2]) && y[3] == 0.5f);
    quick_gelu(y, x, 4, NULL);
    assert_true(y[0] == inf && isnan(y[2]) && y[3] == 0);
}

/* Rows of all lengths around the lanes, with what no softmax has a value for. */
TEST(test_softmax) {
    float x[200], y[200];
    for (uint64_t n = 1; n <= 200; n++) {
        double sum = 0, top = -HUGE_VAL;
        for (uint64_t i = 0; i < n; i++) x[i] = (float)((i * 7919 + n) % 1000) / 100 - 5;
        for (uint64_t i = 0; i < n; i++) top = (double)x[i] > top ? (double)x[i] : top;
        for (uint64_t i = 0; i < n; i++) sum += exp((double)x[i] - top);
        quick_softmax(y, x, n);
        for (uint64_t i = 0; i < n; i++) {
            const double want = exp((double)x[i] - top) / sum;
            assert_true(fabs((double)y[i] - want) <= 1e-6 * want);
        }
        const float odd[] = {NAN, HUGE_VALF};
        for (int k = 0; k < 2; k++) {
            x[n / 2] = odd[k];
            quick_softmax(y, x, n);
            assert_true(isnan(y[n / 2]) && (k || isnan(y[0])));
        }
        for (uint64_t i = 0; i < n; i++) x[i] = -HUGE_VALF;
        quick_softmax(y, x, n);
        assert_true(isnan(y[0]) && isnan(y[n - 1]));
        x[n - 1] = 3;
        quick_softmax(x, x, n);
        assert_true(x[n - 1] == 1 && (n == 1 || x[0] == 0));
    }
}
