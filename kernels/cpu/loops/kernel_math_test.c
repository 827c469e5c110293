// SPDX-License-Identifier: Apache-2.0
/* kernel_math.h against the C library's double functions, over floats of all magnitudes: errors in
 * units in the last place of the true result, of which fewer count below the normal range. */
#include <float.h>

#include "kernel_math.h"
#include "unit_test.h"

typedef struct Function {
    const char *name;
    float (*approximate)(float);
    double (*exact)(double);
    float low, high;
    double limit;
} Function;

static double exact_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double exact_normal(double x) {
    return 0.5 * erfc(-x * 0.70710678118654752440);
}
static double exact_softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double last_place(double value) {
    int exponent;
    frexp(value, &exponent);
    return ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static void check(const Function *f) {
    double worst = 0;
    float at = 0;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 1009) {
        float x = math_from_bits((uint32_t)bits);
        if (!(x >= f->low && x <= f->high)) continue;
        double want = f->exact((double)x), got = (double)f->approximate(x);
        if (fabs(want) > 3.4028234e38) continue;
        double error = fabs(got - want) / last_place(want);
        if (error > worst) worst = error, at = x;
    }
    if (!(worst <= f->limit)) fail_msg("%s: %.2f units at %a", f->name, worst, (double)at);
}

TEST(test_errors) {
    const Function functions[] = {
        {"exp", math_exp, exp, -110, 88.8f, 1.5},
        {"expm1", math_expm1, expm1, -110, 80, 3},
        {"tanh", math_tanh, tanh, -30, 30, 3},
        {"sigmoid", math_sigmoid, exact_sigmoid, -87, 30, 3},
        {"log", math_log, log, 0x1p-149f, 3e38f, 2.5},
        {"log1p", math_log1p, log1p, 0, 1, 2.5},
        {"erfc", math_erfc, erfc, 0, 1, 6},
        {"erf", math_erf, erf, -10, 10, 3.5},
        {"normal", math_normal, exact_normal, -1, 10, 6},
        {"softplus", math_softplus, exact_softplus, -87, 100, 3},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) check(&functions[i]);
}

/* Far in the tail the exponent -z^2 itself is rounded: errors grow with z^2. */
TEST(test_tail) {
    for (float z = 1; z < 9; z += 0.001f) {
        double want = erfc((double)z), bound = want * 6e-8 * (4 + 3 * (double)(z * z));
        assert_true(fabs((double)math_erfc(z) - want) <= bound + 1e-45);
    }
}

TEST(test_specials) {
    const float inf = HUGE_VALF;
    assert_true(math_exp(inf) == inf && math_exp(-inf) == 0 && isnan(math_exp(NAN)));
    assert_true(math_expm1(inf) == inf && math_expm1(-inf) == -1 && isnan(math_expm1(NAN)));
    assert_true(math_log(inf) == inf && math_log(0) == -inf && math_log(-0.0f) == -inf);
    assert_true(isnan(math_log(NAN)) && isnan(math_log(-1)) && isnan(math_log(-inf)));
    assert_true(math_tanh(inf) == 1 && math_tanh(-inf) == -1 && isnan(math_tanh(NAN)));
    assert_true(math_sigmoid(inf) == 1 && math_sigmoid(-inf) == 0 && isnan(math_sigmoid(NAN)));
    assert_true(math_erf(inf) == 1 && math_erf(-inf) == -1 && isnan(math_erf(NAN)));
    assert_true(math_normal(inf) == 1 && math_normal(-inf) == 0 && isnan(math_normal(NAN)));
    assert_true(math_softplus(inf) == inf && math_softplus(-inf) == 0 && isnan(math_softplus(NAN)));
    assert_true(signbit(math_tanh(-0.0f)) && signbit(math_erf(-0.0f)) &&
                signbit(math_expm1(-0.0f)));
}

TEST(test_double) {
    const double inf = (double)INFINITY;
    for (double x = -708; x < 709; x += 0.00917) {
        double exact = exp(x), error = fabs(math_exp_double(x) - exact);
        assert_true(error <= 2 * DBL_EPSILON * exact);
    }
    assert_true(math_exp_double(0) == 1 && math_exp_double(inf) == inf);
    assert_true(math_exp_double(710) == inf && math_exp_double(1e300) == inf);
    assert_true(math_exp_double(-inf) == 0 && math_exp_double(-709) == 0);
    assert_true(isnan(math_exp_double((double)NAN)));
}
