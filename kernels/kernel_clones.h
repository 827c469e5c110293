// SPDX-License-Identifier: Apache-2.0
/* KERNEL_CLONES before a function: compiled for the baseline and for AVX2, chosen when the program
 * starts. Both give the same bits: nothing is contracted to fused operations, and sums are in lanes
 * whose number the code says. For loops that hold their whole work; callees must be inline. Not under
 * sanitizers, whose start-up the choice would precede. */
#ifndef DEMI_KERNEL_CLONES_H
#define DEMI_KERNEL_CLONES_H

#include <stdint.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define KERNEL_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KERNEL_SANITIZED 1
#endif

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(KERNEL_SANITIZED)
#define KERNEL_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define KERNEL_CLONES
#endif

/* What KERNEL_CLONES functions call: part of each of their clones. */
#define KERNEL_INLINE static inline __attribute__((always_inline))

/* Hints for float arrays' exponentials: a loop over it vectorises, unlike one over expf. Within 2 ulp
 * of exp; Inf, NaN and results that underflow as they should. */
KERNEL_INLINE float kernel_expf(float x) {
    /* e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2; ln 2 in two parts, the first exact times n;
     * e^r by its Taylor series to the 7th power; 2^n in two factors, as n may pass the exponent range */
    const float magic = 12582912.0F; /* 1.5 * 2^23: adding it rounds to an integer */
    x = x < -104.0F ? -104.0F : x;
    x = x > 89.0F ? 89.0F : x;
    float t = x * 1.44269504088896341F + magic, n = t - magic, low, high;
    float r = x - n * 0.693359375F + n * 2.12194440054690583e-4F;
    float p = 1.0F / 5040;
    p = p * r + 1.0F / 720;
    p = p * r + 1.0F / 120;
    p = p * r + 1.0F / 24;
    p = p * r + 1.0F / 6;
    p = p * r + 0.5F;
    p = p * r * r + r + 1;
    uint32_t k, half;
    memcpy(&k, &t, sizeof k);
    k -= 0x4B400000U - 254U; /* n + 254, not negative */
    half = k >> 1;
    k = (k - half) << 23; /* as bits of floats: 2^(k - 127) */
    half = half << 23;
    memcpy(&low, &half, sizeof low);
    memcpy(&high, &k, sizeof high);
    return p * low * high;
}

/* The same for tanh, within 3 ulp: near 0 x + x^3 P(x^2), P fitted at Chebyshev nodes of [0, 0.65^2];
 * elsewhere by e^2x. */
KERNEL_INLINE float kernel_tanhf(float x) {
    float a = x < 0 ? -x : x, u = x * x, p = -5.932971267e-03F;
    p = p * u + 2.088131032e-02F;
    p = p * u + -5.382584568e-02F;
    p = p * u + 1.333260152e-01F;
    p = p * u + -3.333332726e-01F;
    float e = 1 - 2 / (kernel_expf(2 * a) + 1), large = x < 0 ? -e : e;
    return a < 0.65F ? x + x * u * p : large;
}

#endif
