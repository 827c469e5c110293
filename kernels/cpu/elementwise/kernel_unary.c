// SPDX-License-Identifier: Apache-2.0
/* Unary mathematics: of floats, and of integers where an operator takes them.
 *
 * Integers wrap (the smallest one's negation is itself). Round goes to nearest, ties to even. Erf
 * of integers, which version 9 allows, truncates.
 */
#include <math.h>

#include "kernel_functions.h"
#include "kernel_math.h"
#include "kernel_rows.h"
#include "kernel_types.h"
#include "quick_rows.h"

/* One operator on floats: an expression for float and one for double. */
#define FLOAT_KERNEL(name, single, wide) FLOAT_KERNEL_FOR(, name, single, wide)
#define FLOAT_KERNEL_FOR(attributes, name, single, wide)                                           \
    FLOAT_KERNEL_QUICK(attributes, name, single, wide, NULL)
#define FLOAT_KERNEL_QUICK(attributes, name, single, wide, quick)                                  \
    UNARY_ROWS_FOR(attributes, name##_f32, float, float, float, single)                            \
    UNARY_ROWS_FOR(attributes, name##_f64, double, double, double, wide)                           \
    bool kernel_##name(KernelCall *call) {                                                         \
        static const UnaryFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(name)};               \
        return kernel_unary_quick(call, functions, NULL, quick);                                   \
    }

FLOAT_KERNEL(acos, acosf(x), acos(x))
FLOAT_KERNEL(acosh, acoshf(x), acosh(x))
FLOAT_KERNEL(asin, asinf(x), asin(x))
FLOAT_KERNEL(asinh, asinhf(x), asinh(x))
FLOAT_KERNEL(atan, atanf(x), atan(x))
FLOAT_KERNEL(atanh, atanhf(x), atanh(x))
FLOAT_KERNEL(cos, cosf(x), cos(x))
FLOAT_KERNEL(cosh, coshf(x), cosh(x))
FLOAT_KERNEL_QUICK(ROW_CLONES, exp, math_exp(x), exp(x), quick_exp)
FLOAT_KERNEL_FOR(ROW_CLONES, log, math_log(x), log(x))
FLOAT_KERNEL_FOR(ROW_CLONES, reciprocal, 1.0f / x, 1.0 / x)
FLOAT_KERNEL_QUICK(ROW_CLONES, sigmoid, math_sigmoid(x), 1.0 / (1.0 + exp(-x)), quick_sigmoid)
FLOAT_KERNEL(sin, sinf(x), sin(x))
FLOAT_KERNEL(sinh, sinhf(x), sinh(x))
FLOAT_KERNEL_FOR(ROW_CLONES, sqrt, sqrtf(x), sqrt(x))
FLOAT_KERNEL(tan, tanf(x), tan(x))
FLOAT_KERNEL_QUICK(ROW_CLONES, tanh, math_tanh(x), tanh(x), quick_tanh)
FLOAT_KERNEL_FOR(ROW_CLONES, ceil, ceilf(x), ceil(x))
FLOAT_KERNEL_FOR(ROW_CLONES, floor, floorf(x), floor(x))
/* nearbyint rounds to even: nothing here ever leaves the default rounding mode */
FLOAT_KERNEL_FOR(ROW_CLONES, round, nearbyintf(x), nearbyint(x))

/* ---- integers too ---------------------------------------------------------------------------- */

#define FLOAT_SIGNS(D, T, s)                                                                       \
    UNARY_ROWS(neg_##s, T, T, T, -x)                                                               \
    UNARY_ROWS(sign_##s, T, T, T, x != x ? x : (T)((x > 0) - (x < 0)))
KERNEL_FLOAT_LIST(FLOAT_SIGNS)
UNARY_ROWS_FOR(ROW_CLONES, abs_f32, float, float, float, fabsf(x))
UNARY_ROWS(abs_f64, double, double, double, fabs(x))

#define SIGNED_SIGNS(D, T, s)                                                                      \
    UNARY_ROWS(abs_##s, T, T, double, x < 0 ? 0u - (uint64_t)x : (uint64_t)x)                      \
    UNARY_ROWS(neg_##s, T, T, double, 0u - (uint64_t)x)                                            \
    UNARY_ROWS(sign_##s, T, T, double, (x > 0) - (x < 0))
KERNEL_SIGNED_LIST(SIGNED_SIGNS)

#define UNSIGNED_SIGNS(D, T, s)                                                                    \
    UNARY_ROWS(abs_##s, T, T, double, x)                                                           \
    UNARY_ROWS(sign_##s, T, T, double, x > 0)
KERNEL_UNSIGNED_LIST(UNSIGNED_SIGNS)

UNARY_ROWS_FOR(ROW_CLONES, erf_f32, float, float, float, math_erf(x))
UNARY_ROWS(erf_f64, double, double, double, erf(x))
#define INT_ERF(D, T, s) UNARY_ROWS(erf_##s, T, T, double, erf((double)x))
KERNEL_INT_LIST(INT_ERF)

#define NUMBER_KERNEL(name)                                                                        \
    bool kernel_##name(KernelCall *call) {                                                         \
        static const UnaryFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(name),                \
                                                             KERNEL_BY_INT(name)};                 \
        return kernel_unary(call, functions, NULL);                                                \
    }
NUMBER_KERNEL(abs)
NUMBER_KERNEL(sign)

bool kernel_erf(KernelCall *call) {
    static const UnaryFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(erf), KERNEL_BY_INT(erf)};
    return kernel_unary_quick(call, functions, NULL, quick_erf);
}

bool kernel_neg(KernelCall *call) {
    static const UnaryFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(neg),
                                                         KERNEL_BY_SIGNED(neg)};
    return kernel_unary(call, functions, NULL);
}

/* ---- which elements are ... ------------------------------------------------------------------ */

/* p and q: the infinities looked for. */
#define FINDERS(D, T, s)                                                                           \
    UNARY_ROWS(is_inf_##s, uint8_t, T, T, (x == p) | (x == q))                                     \
    UNARY_ROWS(is_nan_##s, uint8_t, T, T, x != x)
KERNEL_FLOAT_LIST(FINDERS)

bool kernel_is_inf(KernelCall *call) {
    static const UnaryFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(is_inf)};
    const InfAttrs *attrs = call->attrs;
    UnaryNumbers numbers = {attrs->negative ? -HUGE_VAL : (double)NAN,
                            attrs->positive ? HUGE_VAL : (double)NAN}; /* NaN: equal to nothing */
    return kernel_unary(call, functions, &numbers);
}

bool kernel_is_nan(KernelCall *call) {
    static const UnaryFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(is_nan)};
    return kernel_unary(call, functions, NULL);
}
