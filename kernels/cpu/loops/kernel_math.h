// SPDX-License-Identifier: Apache-2.0
/* Float functions without branches, tables or calls, so that loops of them vectorise.
 *
 * Errors, measured over all floats of the ranges that matter (kernel_math_test.c), are a few units
 * in the last place. NaN gives NaN. The series are Taylor's (convergence radius given where
 * limited); erfc's polynomial is a Chebyshev fit of log(erfc(z) / t) + z^2 in t = 1 / (1 + z / 2),
 * the form in which Numerical Recipes has it, for 0 <= z <= 10.5 with error 8.2e-9.
 */
#ifndef DEMI_KERNEL_MATH_H
#define DEMI_KERNEL_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float math_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t math_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* e^x = 2^n e^r with |r| <= log(2) / 2; n is split in two so that neither power leaves the range of
 * normal numbers, and the result may be subnormal. */
static inline float math_exp(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float shifted = x * 1.44269504f + magic;
    uint32_t n = math_bits(shifted) - math_bits(magic);
    float whole = shifted - magic;
    float r = x - whole * 0.693359375f; /* log 2 in two parts, the first exact in 9 bits */
    r = r - whole * -2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    uint32_t biased = n + 256u; /* n >= -150: an unsigned shift halves it as a signed one would */
    uint32_t half = (biased >> 1) - 128u;
    return p * math_from_bits((half + 127u) << 23) * math_from_bits((n - half + 127u) << 23);
}

/* The same in double, within 2 units in the last place; what is below e^-708 becomes 0. */
static inline double math_exp_double(double x) {
    const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
    double bounded = x > 710.0 ? 710.0 : x;
    bounded = bounded < -709.0 ? -709.0 : bounded;
    double shifted = bounded * 1.4426950408889634 + magic, whole = shifted - magic;
    double r = bounded - whole * 0.693147180369123816490; /* log 2 in two parts, as above */
    r = r - whole * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r * r + r + 1.0;
    uint64_t bits, base;
    double power;
    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&base, &magic, sizeof base);
    bits = (bits - base + 1022) << 52; /* 2^(n - 1): 2^1024 is none */
    memcpy(&power, &bits, sizeof power);
    return x < -708.0 ? 0.0 : p * power * 2.0;
}

static inline float math_expm1(float x) {
    float small = 1.0f / 40320;
    small = small * x + 1.0f / 5040;
    small = small * x + 1.0f / 720;
    small = small * x + 1.0f / 120;
    small = small * x + 1.0f / 24;
    small = small * x + 1.0f / 6;
    small = small * x + 0.5f;
    small = small * x * x + x;
    float large = math_exp(x) - 1.0f;
    return copysignf(fabsf(x) < 0.5f ? small : large, x); /* -0 too */
}

static inline float math_tanh(float x) {
    float s = x * x; /* the series' radius is pi / 2 */
    float p = -929569.0f / 638512875.0f;
    p = p * s + 21844.0f / 6081075;
    p = p * s - 1382.0f / 155925;
    p = p * s + 62.0f / 2835;
    p = p * s - 17.0f / 315;
    p = p * s + 2.0f / 15;
    p = p * s - 1.0f / 3;
    float small = x + x * s * p;
    float t = math_exp(-2.0f * fabsf(x));
    float large = (1.0f - t) / (1.0f + t);
    return copysignf(fabsf(x) < 0.5f ? small : large, x);
}

static inline float math_sigmoid(float x) {
    return 1.0f / (1.0f + math_exp(-x));
}

/* x = 2^n m with sqrt(1/2) <= m < sqrt(2), log m = 2 atanh((m - 1) / (m + 1)). Subnormal numbers
 * are made normal first. */
static inline float math_log(float x) {
    const uint32_t middle = 0x3f3504f3u; /* sqrt(1/2) */
    float tiny = x < 0x1p-126f ? 0x1p23f : 1.0f;
    uint32_t bits = math_bits(x * tiny) - middle;
    float n = (float)((int32_t)bits >> 23) - (tiny > 1.0f ? 23.0f : 0.0f);
    float m = math_from_bits((bits & 0x7fffffu) + middle);
    float s = (m - 1.0f) / (m + 1.0f), q = s * s;
    float p = 1.0f / 11;
    p = p * q + 1.0f / 9;
    p = p * q + 1.0f / 7;
    p = p * q + 1.0f / 5;
    p = p * q + 1.0f / 3;
    /* log 2 in two parts, as in math_exp: n times the first is exact */
    float y = n * 0.693359375f + (2.0f * s + (2.0f * s * q * p + n * -2.12194440e-4f));
    y = x > 0.0f ? y : x == 0.0f ? -HUGE_VALF : NAN;
    return x < HUGE_VALF ? y : x; /* Inf and NaN */
}

/* log(1 + t) for 0 <= t <= 1, as 2 atanh(t / (2 + t)). */
static inline float math_log1p(float t) {
    float s = t / (2.0f + t), q = s * s;
    float p = 1.0f / 15;
    p = p * q + 1.0f / 13;
    p = p * q + 1.0f / 11;
    p = p * q + 1.0f / 9;
    p = p * q + 1.0f / 7;
    p = p * q + 1.0f / 5;
    p = p * q + 1.0f / 3;
    return 2.0f * s + 2.0f * s * q * p;
}

/* erfc(z) for z >= 0; 0 where it is below the subnormals. */
static inline float math_erfc(float z) {
    z = z > 10.5f ? 10.5f : z;
    float t = 1.0f / (1.0f + 0.5f * z);
    float u = t - 0.5625f; /* about the middle: smaller terms cancel less */
    float p = -1.406173329e-01f;
    p = p * u + 1.733991886e-01f;
    p = p * u + 1.114823168e-01f;
    p = p * u - 2.659101976e-01f;
    p = p * u - 1.520556076e-02f;
    p = p * u + 2.994425942e-01f;
    p = p * u - 6.571212998e-02f;
    p = p * u - 4.032156937e-01f;
    p = p * u + 1.160369647e-01f;
    p = p * u + 1.364429274e+00f;
    p = p * u - 5.870676704e-01f;
    return t * math_exp(p - z * z);
}

static inline float math_erf(float x) {
    float s = x * x;
    float p = 1.0f / 76204800.0f; /* 1 / (10! 21) */
    p = p * s - 1.0f / 6894720;
    p = p * s + 1.0f / 685440;
    p = p * s - 1.0f / 75600;
    p = p * s + 1.0f / 9360;
    p = p * s - 1.0f / 1320;
    p = p * s + 1.0f / 216;
    p = p * s - 1.0f / 42;
    p = p * s + 1.0f / 10;
    p = p * s - 1.0f / 3;
    float small = 1.12837917f * (x + x * s * p);
    float large = 1.0f - math_erfc(fabsf(x));
    return copysignf(fabsf(x) < 1.0f ? small : large, x);
}

/* Phi(x) of the normal distribution, by erfc: no cancellation where x is negative. */
static inline float math_normal(float x) {
    float tail = 0.5f * math_erfc(fabsf(x) * 0.707106781f);
    return x < 0.0f ? tail : 1.0f - tail;
}

/* The same where products and sums are contracted: the exponential waits for nothing, and terms of the
 * polynomial are added in pairs, as what a processor has under way is bounded (a third of the time). The
 * polynomial is a fit of Phi(-x) e^(x^2 / 2) / t in t = 1 / (1 + x / 4) for 0 <= x <= 14.85, with relative
 * error 1.7e-8. */
static inline float math_quick_normal(float x) {
    float z = fabsf(x);
    z = z > 14.85f ? 14.85f : z;
    float t = 1.0f / (1.0f + 0.25f * z);
    float u = t - 0.609375f, v = u * u, w = v * v; /* about the middle */
    float a = 4.033244269e-01f * u + 2.272204295e-01f;
    float b = 4.842453868e-01f * u + 5.275366393e-01f;
    float c = 1.185221314e-02f * u + 2.623008673e-01f;
    float d = -3.298377242e-02f * u - 8.895856077e-02f;
    float e = 1.709454750e-02f * u + 2.809210426e-02f;
    float p = (b * v + a) + w * ((d * v + c) + w * e);
    float tail = t * p * math_exp(-0.5f * z * z);
    return x < 0.0f ? tail : 1.0f - tail;
}

static inline float math_softplus(float x) {
    return (x > 0.0f ? x : 0.0f) + math_log1p(math_exp(-fabsf(x)));
}

#endif
