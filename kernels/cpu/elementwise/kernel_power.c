// SPDX-License-Identifier: Apache-2.0
/* Pow: the base's type is the result's, the exponent may be of any other number type.
 *
 * Integers to integers wrap; a negative exponent gives the truncated reciprocal, saturated where
 * the base is 0. With a float exponent an integer base goes through double and is truncated.
 * Squares, cubes and square roots by one exponent for all elements, as normalizations have them, do
 * not call the library.
 */
#include <math.h>

#include "kernel_functions.h"
#include "kernel_rows.h"
#include "kernel_saturate.h"
#include "kernel_types.h"

static inline uint64_t whole_power(uint64_t base, uint64_t exponent) {
    uint64_t result = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}

/* `most` stands for 1 / 0. */
#define INT_POWER(T, s, most)                                                                      \
    static inline T power_##s(T base, int64_t exponent) {                                          \
        if (exponent >= 0) return (T)whole_power((uint64_t)base, (uint64_t)exponent);              \
        if (base == 0) return (most);                                                              \
        if (base == -1) return exponent % 2 ? -1 : 1;                                              \
        return base == 1;                                                                          \
    }                                                                                              \
    BINARY_ROWS_SLOW(pow_##s##_whole, T, T, int64_t, power_##s(x, y))                              \
    BINARY_ROWS_SLOW(pow_##s##_real, T, T, double, saturate_##s(pow((double)x, y)))
INT_POWER(int32_t, i32, INT32_MAX)
INT_POWER(int64_t, i64, INT64_MAX)

BINARY_ROWS_SLOW(pow_f32, float, float, float, powf(x, y))
BINARY_ROWS_SLOW(pow_f32_real, float, float, double, pow((double)x, y))
BINARY_ROWS_SLOW(pow_f64_real, double, double, double, pow(x, y))

/* Of -Inf the square root is NaN and pow gives Inf; of -0 pow gives 0. */
#define FAST_POWERS(D, T, s)                                                                       \
    UNARY_ROWS_FOR(ROW_CLONES, square_##s, T, T, T, x *x)                                          \
    UNARY_ROWS_FOR(ROW_CLONES, cube_##s, T, T, T, x *x *x)                                         \
    UNARY_ROWS_FOR(ROW_CLONES, root_##s, T, T, T, x == -p ? p : (T)sqrt##s(x + 0))
#define sqrtf32 sqrtf
#define sqrtf64 sqrt
#define FAST_TABLE(name)                                                                           \
    { KERNEL_BY_FLOAT(name) }
KERNEL_FLOAT_LIST(FAST_POWERS)

static const UnaryFunction square[DTYPE_COUNT] = FAST_TABLE(square);
static const UnaryFunction cube[DTYPE_COUNT] = FAST_TABLE(cube);
static const UnaryFunction root[DTYPE_COUNT] = FAST_TABLE(root);

static const UnaryFunction *fast_power(const KernelTensor *exponent) {
    if (exponent->count != 1) return NULL;
    double value = kernel_real(exponent, 0);
    return value == 2 ? square : value == 3 ? cube : value == 0.5 ? root : NULL;
}

/* The exponents as doubles, or as int64_t where `whole`. */
static KernelTensor convert_exponents(KernelCall *call, const KernelTensor *from, bool whole) {
    KernelTensor to = *from;
    to.dtype = whole ? DTYPE_INT64 : DTYPE_DOUBLE;
    if (to.dtype == from->dtype) return to;
    if (whole) {
        to.data = (void *)(uintptr_t)kernel_ints(call, from);
        return to;
    }
    double *items = ARENA_ARRAY(call->scratch, double, from->count + 1);
    for (uint64_t i = 0; i < from->count; i++) items[i] = kernel_real(from, i);
    to.data = items;
    return to;
}

static BroadcastFunction choose(Dtype base, Dtype exponent, bool whole) {
    switch ((int)base) {
    case DTYPE_FLOAT: return exponent == DTYPE_FLOAT ? pow_f32 : pow_f32_real;
    case DTYPE_DOUBLE: return pow_f64_real;
    case DTYPE_INT32: return whole ? pow_i32_whole : pow_i32_real;
    case DTYPE_INT64: return whole ? pow_i64_whole : pow_i64_real;
    }
    return NULL;
}

bool kernel_pow(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *y = &call->inputs[1];
    const KernelTensor *out = &call->outputs[0];
    bool real = KERNEL_FLOATS >> x->dtype & 1, whole = !real && KERNEL_INTS >> y->dtype & 1;
    BroadcastFunction function = choose(x->dtype, y->dtype, whole);
    if (!function || !(KERNEL_NUMBERS >> y->dtype & 1))
        return kernel_fail(call, "it is not defined from %s to the power of %s",
                           dtype_name(x->dtype), dtype_name(y->dtype));
    const UnaryFunction *fast = real && out->count == x->count ? fast_power(y) : NULL;
    if (fast) {
        UnaryNumbers numbers = {HUGE_VAL, 0};
        return kernel_unary(call, fast, &numbers);
    }
    KernelTensor exponents = *y;
    if (function != pow_f32) exponents = convert_exponents(call, y, whole);
    uint32_t trailing;
    if (!kernel_broadcast_trailing(call, &trailing)) return false;
    BroadcastOperand operands[] = {{out, 0}, {x, 0}, {&exponents, trailing}};
    Broadcast plan;
    if (!kernel_broadcast_plan(call, operands, 3, &plan)) return false;
    kernel_broadcast_run(&plan, function, NULL);
    return true;
}
