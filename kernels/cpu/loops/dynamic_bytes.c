// SPDX-License-Identifier: Apache-2.0
/* Floats quantized by their own range; see dynamic_bytes.h.
 *
 * A division takes most of the time there would be, so quotients are first made as products with
 * the scale's inverse. Those differ from quotients by less than MARGIN, which changes what they are
 * rounded to only where one is that near to the middle between two whole numbers: a block that has
 * such a one is divided. So results have the bits of the definition.
 */
#include "dynamic_bytes.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernel_clones.h"
#include "kernel_rows.h"

enum { BLOCK = 128, LANES = 64, BYTE_MOST = 255, MAGIC_BITS = 0x4b400000 };

/* Quotients are at most 256: three roundings by 2^-24 of that are less than half of it. */
#define MARGIN 1e-4f

/* ---- range ----------------------------------------------------------------------------------- */

ROW_CLONES DynamicRange dynamic_range(const float *v, uint64_t n) {
    float low[LANES] = {0}, high[LANES] = {0};
    DynamicRange range = {0, 0};
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            low[k] = v[i + (uint64_t)k] < low[k] ? v[i + (uint64_t)k] : low[k];
            high[k] = v[i + (uint64_t)k] > high[k] ? v[i + (uint64_t)k] : high[k];
        }
    for (; i < n; i++) {
        low[0] = v[i] < low[0] ? v[i] : low[0];
        high[0] = v[i] > high[0] ? v[i] : high[0];
    }
    for (int k = 0; k < LANES; k++) {
        if (low[k] < range.low) range.low = low[k];
        if (high[k] > range.high) range.high = high[k];
    }
    return range;
}

DynamicScale dynamic_scale(DynamicRange range) {
    const float low = range.low, high = range.high;
    const float scale = (high == low ? 1.0f : high - low) / (float)BYTE_MOST;
    const float zero = nearbyintf(fminf(fmaxf(0.0f - low / scale, 0.0f), (float)BYTE_MOST));
    return (DynamicScale){scale, (uint8_t)zero, 0};
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Adding it rounds a small float to a whole number, which is in the sum's low bits then. */
#define MAGIC 12582912.0f /* 1.5 * 2^23 */

/* Quotients are bounded first, so that they are small; NaN becomes the lower limit. */
KERNEL_INLINE void divide(uint8_t *restrict to, const float *restrict x, uint64_t n,
                          DynamicScale by) {
    const float scale = by.scale, zero = by.zero, low = by.low, bound = 600;
    for (uint64_t i = 0; i < n; i++) {
        float v = (x[i] - low) / scale;
        v = v > -bound ? v : -bound;
        v = ((v < bound ? v : bound) + MAGIC) - MAGIC + zero;
        v = v > 0 ? v : 0;
        to[i] = (uint8_t)(int32_t)(v < (float)BYTE_MOST ? v : (float)BYTE_MOST);
    }
}

/* A whole block by the scale's inverse; false where a quotient's rounding may differ, or is NaN. All
 * others are small. */
KERNEL_INLINE bool multiply(uint8_t *restrict to, const float *restrict x, float inverse,
                            DynamicScale by) {
    int32_t bits[BLOCK], near = 0;
    const float magic = MAGIC + (float)by.zero, low = by.low;
    for (int i = 0; i < BLOCK; i++) {
        const float quotient = (x[i] - low) * inverse, sum = quotient + magic;
        near |= !(fabsf(quotient - (sum - magic)) < 0.5f - MARGIN);
        memcpy(&bits[i], &sum, sizeof sum);
    }
    for (int i = 0; i < BLOCK; i++) {
        const int32_t whole = bits[i] - MAGIC_BITS;
        to[i] = (uint8_t)(whole < 0 ? 0 : whole > BYTE_MOST ? BYTE_MOST : whole);
    }
    return !near;
}

ROW_CLONES void dynamic_bytes(uint8_t *to, const float *x, uint64_t n, DynamicScale by) {
    const float inverse = 1 / by.scale;
    uint64_t i = 0;
    for (; inverse > 0x1p-100f && inverse < 0x1p100f && i + BLOCK <= n; i += BLOCK)
        if (!multiply(to + i, x + i, inverse, by)) divide(to + i, x + i, BLOCK, by);
    divide(to + i, x + i, n - i, by);
}
