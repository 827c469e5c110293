// SPDX-License-Identifier: Apache-2.0
/* The vectorising exponential and tanh: against the C library's in double. */
#include "kernel_clones.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { COUNT = 4096 };

KERNEL_CLONES
static void run_expf(float *y, const float *x) {
    for (int i = 0; i < COUNT; i++) y[i] = kernel_expf(x[i]);
}

KERNEL_CLONES
static void run_tanhf(float *y, const float *x) {
    for (int i = 0; i < COUNT; i++) y[i] = kernel_tanhf(x[i]);
}

static double ulps(float got, double want) {
    float size = (float)fabs(want);
    return fabs((double)got - want) / (double)(nextafterf(size, INFINITY) - size);
}

static void test_values(void **state) {
    (void)state;
    static float x[COUNT], y[COUNT];
    for (int part = 0; part < 64; part++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = -86.5F + 174.5F * (float)(part * COUNT + i) / (64.0F * COUNT);
        run_expf(y, x);
        for (int i = 0; i < COUNT; i++) assert_true(ulps(y[i], exp((double)x[i])) < 2);
        for (int i = 0; i < COUNT; i++) x[i] /= 10;
        run_tanhf(y, x);
        for (int i = 0; i < COUNT; i++) assert_true(ulps(y[i], tanh((double)x[i])) < 3);
    }
}

static void test_ends(void **state) {
    (void)state;
    assert_true(kernel_expf(-INFINITY) == 0);
    assert_true(kernel_expf(-1e30F) == 0);
    assert_true(kernel_expf(-104.5F) == 0);
    assert_true(kernel_expf(-100) > 0 && kernel_expf(-100) < 1e-43F);
    assert_true(kernel_expf(0) == 1);
    assert_true(isinf(kernel_expf(89)) && isinf(kernel_expf(1e30F)));
    assert_true(isinf(kernel_expf(INFINITY)));
    assert_true(isnan(kernel_expf(NAN)) && isnan(kernel_tanhf(NAN)));
    assert_true(kernel_tanhf(INFINITY) == 1 && kernel_tanhf(-INFINITY) == -1);
    assert_true(kernel_tanhf(1e-30F) == 1e-30F);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
