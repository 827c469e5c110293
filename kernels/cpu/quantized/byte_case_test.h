// SPDX-License-Identifier: Apache-2.0
/* For tests of what computes with quantized bytes: operands, and results beside those in double. */
#ifndef DEMI_BYTE_CASE_TEST_H
#define DEMI_BYTE_CASE_TEST_H

#include <math.h>

#include "kernel_case_test.h"

/* The same numbers in each run of a test. */
static inline int64_t random_below(int64_t end) {
    static uint32_t state = 5;
    state = state * 1664525u + 1013904223u;
    return (int64_t)(((uint64_t)state * (uint64_t)end) >> 32);
}

static inline int64_t byte_of(const KernelTensor *t, uint64_t i) {
    return t->dtype == DTYPE_INT8 ? ((const int8_t *)t->data)[i] : ((const uint8_t *)t->data)[i];
}

static inline void random_bytes(KernelTensor *t) {
    for (uint64_t i = 0; i < t->count; i++) ((uint8_t *)t->data)[i] = (uint8_t)random_below(256);
}

/* A zero point of that type, or none of float; its value. */
static inline int64_t given_zero(KernelCase *c, Dtype dtype) {
    const uint8_t byte = (uint8_t)random_below(256);
    if (dtype == DTYPE_FLOAT) {
        case_omit(c);
        return 0;
    }
    case_in(c, dtype, 0, NULL, &byte);
    return dtype == DTYPE_INT8 ? (int8_t)byte : byte;
}

/* Element i is v quants behind zero: a byte is the nearest, either where two are as near within
 * rounding; a float is within `relative` and `absolute`. */
typedef struct Bound {
    double relative, absolute, tie;
} Bound;

static inline void check_near(const KernelTensor *y, uint64_t i, double v, int64_t zero,
                              const Bound *bound) {
    if (y->dtype == DTYPE_FLOAT) {
        const double got = ((const float *)y->data)[i];
        if (!(fabs(got - v) <= bound->relative * fabs(v) + bound->absolute))
            fail_msg("%g, expected %g", got, v);
        return;
    }
    const double least = y->dtype == DTYPE_INT8 ? -128 : 0, got = (double)byte_of(y, i);
    const double want = fmin(fmax(v + (double)zero, least), least + 255);
    if (!(fabs(got - want) <= 0.5 + bound->tie)) fail_msg("%g, expected %g", got, want);
}

#endif
