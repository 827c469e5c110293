// SPDX-License-Identifier: Apache-2.0
/* Rounding to float8 and float4 kinds by arithmetic of floats without branches, so that vectors can do it. What it gives
 * is what dtype_from_double does. */
#ifndef DEMI_BASE_SMALL_FLOAT_H
#define DEMI_BASE_SMALL_FLOAT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "dtype.h"

/* A float8 or float4 kind with a sign and no infinities: m bits of mantissa, normal numbers from `least` on. */
typedef struct SmallFloat {
    float most, least;
    float magic;               /* 2^(23 - m): added to a number, 2^23 of its own last places */
    float units;               /* 2^m / least: of subnormal numbers in a number */
    int32_t shift, less, sign; /* from a float's bits to a code's; the sign of a code */
} SmallFloat;

static inline int32_t float_code(float number) {
    int32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static inline SmallFloat small_float_of(Dtype dtype) {
    const int mantissa = -ilogb(dtype_roundoff(dtype)) - 1;
    const float least = (float)dtype_least_normal(dtype);
    SmallFloat small = {.most = (float)dtype_largest(dtype),
                        .least = least,
                        .magic = ldexpf(1, 23 - mantissa),
                        .units = ldexpf(1 / least, mantissa),
                        .shift = 23 - mantissa,
                        .sign = INT32_C(1) << (dtype_bits(dtype) - 1)};
    small.less = (float_code(least) >> small.shift) - (INT32_C(1) << mantissa);
    return small;
}

/* The nearest magnitude of the kind, ties to even, saturated; of what is no NaN. */
static inline float round_small_size(const SmallFloat *small, float number) {
    const float size = fabsf(number) < small->most ? fabsf(number) : small->most;
    const int32_t exponent = float_code(size) & INT32_C(0x7f800000);
    float place;
    memcpy(&place, &exponent, sizeof place);
    place = (place > small->least ? place : small->least) * small->magic;
    return (size + place) - place;
}

static inline float round_small(const SmallFloat *small, float number) {
    return copysignf(round_small_size(small, number), number);
}

/* The code of the number that round_small makes of this one. */
static inline int32_t small_code(const SmallFloat *small, float number) {
    const float size = round_small_size(small, number);
    const int32_t normal = (float_code(size) >> small->shift) - small->less;
    const int32_t subnormal = (int32_t)(size * small->units);
    return (size < small->least ? subnormal : normal) | (float_code(number) < 0 ? small->sign : 0);
}

#endif
