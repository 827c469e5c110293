// SPDX-License-Identifier: Apache-2.0
/* Floats as uint8 by a scale and a zero point of their own range, as DynamicQuantizeLinear does it:
 * what products of bytes make of rows that nothing has quantized before. */
#ifndef DEMI_DYNAMIC_BYTES_H
#define DEMI_DYNAMIC_BYTES_H

#include <stdint.h>

/* Of elements and 0. */
typedef struct DynamicRange {
    float low, high;
} DynamicRange;

/* A byte b is low + scale * (b - zero). */
typedef struct DynamicScale {
    float scale;
    uint8_t zero;
    float low; /* 0 of DynamicQuantizeLinear; else zero is 0 */
} DynamicScale;

/* NaN is not a limit. */
DynamicRange dynamic_range(const float *x, uint64_t n);
DynamicScale dynamic_scale(DynamicRange range);
/* to[i] = (x[i] - low) / scale, rounded to nearest, ties to even, plus zero, within 0 to 255; NaN becomes 0.
 * `to` is nothing of x. */
void dynamic_bytes(uint8_t *to, const float *x, uint64_t n, DynamicScale by);

#endif
