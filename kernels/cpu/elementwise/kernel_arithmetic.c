// SPDX-License-Identifier: Apache-2.0
/* Add, Sub, Mul, Div, Mod and the variadic Sum, Mean, Max and Min.
 *
 * Integers wrap, divisions truncate (Mod's fmod=0 rounds down); a quotient by zero is 0, as no
 * definition says and numpy has it, and no division traps. Max and Min give NaN where an operand
 * is. Variadic operators fold their inputs from left to right into the output.
 */
#include <math.h>
#include <string.h>

#include "half_pieces.h"
#include "kernel_functions.h"
#include "kernel_rows.h"
#include "kernel_types.h"

/* ---- Add, Sub, Mul --------------------------------------------------------------------------- */

#define FLOAT_BASICS(D, T, s)                                                                      \
    BINARY_ROWS_FOR(ROW_CLONES, add_##s, T, T, x + y)                                              \
    BINARY_ROWS_FOR(ROW_CLONES, sub_##s, T, T, x - y)                                              \
    BINARY_ROWS_FOR(ROW_CLONES, mul_##s, T, T, x *y)                                               \
    BINARY_ROWS_FOR(ROW_CLONES, div_##s, T, T, x / y)
KERNEL_FLOAT_LIST(FLOAT_BASICS)

#define BFLOAT_BASIC(name, op)                                                                     \
    BINARY_ROWS_FOR(ROW_CLONES, name##_bf16, uint16_t, uint16_t,                                   \
                    bfloat_near(bfloat_wide(x) op bfloat_wide(y)))
BFLOAT_BASIC(add, +)
BFLOAT_BASIC(sub, -)
BFLOAT_BASIC(mul, *)

/* 1u *: 16-bit factors would be promoted to int, whose product can overflow. */
#define WRAPPING_BASICS(D, T, s)                                                                   \
    BINARY_ROWS(add_##s, T, T, 1u * x + y)                                                         \
    BINARY_ROWS(sub_##s, T, T, 1u * x - y)                                                         \
    BINARY_ROWS(mul_##s, T, T, 1u * x * y)
KERNEL_UNSIGNED_LIST(WRAPPING_BASICS)

bool kernel_add(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {
        KERNEL_BY_FLOAT(add), KERNEL_BY_WIDTH(add), [DTYPE_BFLOAT16] = add_bf16};
    return kernel_broadcast_binary(call, functions);
}

bool kernel_sub(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {
        KERNEL_BY_FLOAT(sub), KERNEL_BY_WIDTH(sub), [DTYPE_BFLOAT16] = sub_bf16};
    return kernel_broadcast_binary(call, functions);
}

bool kernel_mul(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {
        KERNEL_BY_FLOAT(mul), KERNEL_BY_WIDTH(mul), [DTYPE_BFLOAT16] = mul_bf16};
    return kernel_broadcast_binary(call, functions);
}

/* ---- Div, Mod -------------------------------------------------------------------------------- */

/* The smallest integer by -1 wraps to itself. */
#define SIGNED_DIVISIONS(D, T, s)                                                                  \
    static inline T quotient_##s(T x, T y) {                                                       \
        if (y == 0) return 0;                                                                      \
        if (y == -1) return (T)(0u - (uint64_t)x);                                                 \
        return (T)(x / y);                                                                         \
    }                                                                                              \
    static inline T remainder_##s(T x, T y) {                                                      \
        return (T)(y == 0 || y == -1 ? 0 : x % y);                                                 \
    }                                                                                              \
    static inline T modulo_##s(T x, T y) {                                                         \
        T rest = remainder_##s(x, y);                                                              \
        return (T)(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);                          \
    }
KERNEL_SIGNED_LIST(SIGNED_DIVISIONS)

#define UNSIGNED_DIVISIONS(D, T, s)                                                                \
    static inline T quotient_##s(T x, T y) {                                                       \
        return (T)(y == 0 ? 0 : x / y);                                                            \
    }                                                                                              \
    static inline T remainder_##s(T x, T y) {                                                      \
        return (T)(y == 0 ? 0 : x % y);                                                            \
    }                                                                                              \
    static inline T modulo_##s(T x, T y) {                                                         \
        return remainder_##s(x, y);                                                                \
    }
KERNEL_UNSIGNED_LIST(UNSIGNED_DIVISIONS)

static inline double remainder_f64(double x, double y) {
    return fmod(x, y);
}
static inline float remainder_f32(float x, float y) {
    return fmodf(x, y);
}

static inline double modulo_f64(double x, double y) {
    double rest = fmod(x, y);
    if (rest == 0) return copysign(rest, y);
    return (rest < 0) != (y < 0) && !isnan(rest) ? rest + y : rest;
}

static inline float modulo_f32(float x, float y) {
    float rest = fmodf(x, y);
    if (rest == 0) return copysignf(rest, y);
    return (rest < 0) != (y < 0) && !isnan(rest) ? rest + y : rest;
}

#define INT_DIV(D, T, s) BINARY_ROWS_SLOW(div_##s, T, T, T, quotient_##s(x, y))
#define MODS(D, T, s)                                                                              \
    BINARY_ROWS_SLOW(fmod_##s, T, T, T, remainder_##s(x, y))                                       \
    BINARY_ROWS_SLOW(mod_##s, T, T, T, modulo_##s(x, y))
KERNEL_INT_LIST(INT_DIV)
KERNEL_NUMBER_LIST(MODS)

bool kernel_div(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(div),
                                                             KERNEL_BY_INT(div)};
    return kernel_broadcast_binary(call, functions);
}

bool kernel_mod(KernelCall *call) {
    static const BroadcastFunction down[DTYPE_COUNT] = {KERNEL_BY_FLOAT(mod), KERNEL_BY_INT(mod)};
    static const BroadcastFunction to_zero[DTYPE_COUNT] = {KERNEL_BY_FLOAT(fmod),
                                                           KERNEL_BY_INT(fmod)};
    const ModAttrs *attrs = call->attrs;
    return kernel_broadcast_binary(call, attrs->fmod ? to_zero : down);
}

/* ---- Sum, Mean, Max, Min --------------------------------------------------------------------- */

#define FLOAT_BOUNDS(D, T, s)                                                                      \
    BINARY_ROWS_FOR(ROW_CLONES, max_##s, T, T, x > y || x != x ? x : y)                            \
    BINARY_ROWS_FOR(ROW_CLONES, min_##s, T, T, x < y || x != x ? x : y)
#define INT_BOUNDS(D, T, s)                                                                        \
    BINARY_ROWS(max_##s, T, T, x > y ? x : y)                                                      \
    BINARY_ROWS(min_##s, T, T, x < y ? x : y)
KERNEL_FLOAT_LIST(FLOAT_BOUNDS)
KERNEL_INT_LIST(INT_BOUNDS)

static bool fold(KernelCall *call, const BroadcastFunction functions[DTYPE_COUNT]) {
    const KernelTensor *out = &call->outputs[0], *first = &call->inputs[0];
    if (call->input_count == 1) {
        if (first->count != out->count) return kernel_fail(call, "the number of elements changes");
        if (out->count)
            memcpy(out->data, first->data, out->count * kernel_element_size(out->dtype));
        return true;
    }
    for (uint32_t i = 1; i < call->input_count; i++) {
        BroadcastOperand operands[] = {{out, 0}, {i == 1 ? first : out, 0}, {&call->inputs[i], 0}};
        Broadcast plan;
        if (!kernel_broadcast_plan(call, operands, 3, &plan)) return false;
        kernel_broadcast_run(&plan, functions[out->dtype], NULL);
    }
    return true;
}

bool kernel_sum(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(add)};
    return fold(call, functions);
}

bool kernel_mean(KernelCall *call) {
    if (!kernel_sum(call)) return false;
    const KernelTensor *out = &call->outputs[0];
    const uint64_t n = out->count;
    if (out->dtype == DTYPE_FLOAT) {
        float *items = out->data;
        const float count = (float)call->input_count;
        ROW_EACH(n, items[i] /= count)
    } else {
        double *items = out->data;
        const double count = call->input_count;
        ROW_EACH(n, items[i] /= count)
    }
    return true;
}

bool kernel_max(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(max),
                                                             KERNEL_BY_INT(max)};
    return fold(call, functions);
}

bool kernel_min(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(min),
                                                             KERNEL_BY_INT(min)};
    return fold(call, functions);
}
