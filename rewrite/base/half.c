// SPDX-License-Identifier: Apache-2.0
/* Scalar conversions and their plain C loops.
 *
 * The float16 and bfloat16 functions work on bits and have no data-dependent branch, so that
 * compilers turn the loops into vector code even without F16C. Layouts: float 1+8+23 bits, float16
 * 1+5+10, bfloat16 1+8+7 (IEEE 754-2019, 3.4).
 */
#include "half.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "half_kernels.h"

#define FLOAT_INF     0x7f800000u /* also the largest magnitude that is no NaN */
#define HALF_NORMAL   0x38800000u /* 2^-14, the smallest normal float16, as a float */
#define HALF_OVERFLOW 0x47800000u /* 2^16: from here on only Inf */
#define HALF_REBIAS   0x38000000u /* 127 - 15 exponents, in the float's position */

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* `yes` or `no` by masks: with ?: compilers put the floating-point arithmetic into a branch. */
static inline uint32_t choose(bool condition, uint32_t yes, uint32_t no) {
    return no ^ ((no ^ yes) & (0 - (uint32_t)condition));
}

static inline uint16_t narrow_half(uint32_t bits) {
    uint32_t sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    /* Rounding adds just under half a unit of the last kept place, and the rest of it where that
     * place is odd; a carry runs into the exponent, up to Inf, as it should. */
    uint32_t normal = (size - HALF_REBIAS + 0xfffu + (size >> 13 & 1u)) >> 13;
    /* 0.5f's last place is 2^-24, the unit of float16's subnormals: the addition rounds to it. */
    uint32_t subnormal = float_bits(bits_float(size) + 0.5f) - 0x3f000000u;
    uint32_t nan = 0x7e00u | (size >> 13 & 0x3ffu);
    uint32_t result = choose(size < HALF_NORMAL, subnormal, normal);
    result = choose(size >= HALF_OVERFLOW, 0x7c00u, result);
    result = choose(size > FLOAT_INF, nan, result);
    return (uint16_t)(sign | result);
}

static inline uint32_t widen_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, size = half & 0x7fffu;
    uint32_t normal = (size << 13) + HALF_REBIAS;
    uint32_t subnormal = float_bits((float)(int32_t)size * 0x1p-24f);
    uint32_t special = FLOAT_INF | size << 13 | (size > 0x7c00u ? 0x400000u : 0);
    uint32_t result = choose(size < 0x400u, subnormal, normal);
    result = choose(size >= 0x7c00u, special, result);
    return sign | result;
}

static inline uint16_t narrow_bfloat(uint32_t bits) {
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    uint32_t nan = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > FLOAT_INF ? nan : rounded);
}

static inline uint32_t widen_bfloat(uint16_t bfloat) {
    uint32_t bits = (uint32_t)bfloat << 16;
    return bits | ((bits & 0x7fffffffu) > FLOAT_INF ? 0x400000u : 0);
}

uint16_t half_from_float(float value) {
    return narrow_half(float_bits(value));
}
float half_to_float(uint16_t half) {
    return bits_float(widen_half(half));
}
uint16_t bfloat_from_float(float value) {
    return narrow_bfloat(float_bits(value));
}
float bfloat_to_float(uint16_t bfloat) {
    return bits_float(widen_bfloat(bfloat));
}

/* The double as a float rounded to odd: towards zero, with the last bit set where anything was
 * lost. Rounding that again to nearest, to at least two bits fewer, equals one rounding (Boldo and
 * Melquiond, "When double rounding is odd", 2005). Finite values never become Inf. */
static uint32_t round_to_odd(double value) {
    float nearest = (float)value;
    uint32_t bits = float_bits(nearest);
    if (isnan(value) || (double)nearest == value) return bits;
    if (fabs((double)nearest) > fabs(value)) bits--;
    return bits | 1u;
}

uint16_t half_from_double(double value) {
    return narrow_half(round_to_odd(value));
}
double half_to_double(uint16_t half) {
    return (double)half_to_float(half);
}
uint16_t bfloat_from_double(double value) {
    return narrow_bfloat(round_to_odd(value));
}
double bfloat_to_double(uint16_t bfloat) {
    return (double)bfloat_to_float(bfloat);
}

static void portable_half_from_float(uint16_t *restrict to, const float *restrict from,
                                     size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = narrow_half(float_bits(from[i]));
}

static void portable_half_to_float(float *restrict to, const uint16_t *restrict from,
                                   size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = bits_float(widen_half(from[i]));
}

static void portable_bfloat_from_float(uint16_t *restrict to, const float *restrict from,
                                       size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = narrow_bfloat(float_bits(from[i]));
}

static void portable_bfloat_to_float(float *restrict to, const uint16_t *restrict from,
                                     size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = bits_float(widen_bfloat(from[i]));
}

const HalfKernels *half_kernels_portable(void) {
    static const HalfKernels portable = {portable_half_from_float, portable_half_to_float,
                                         portable_bfloat_from_float, portable_bfloat_to_float};
    return &portable;
}
