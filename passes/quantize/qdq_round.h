// SPDX-License-Identifier: Apache-2.0
/* Rounding that vectors can do, for the numbers of quantization. */
#ifndef DEMI_QDQ_ROUND_H
#define DEMI_QDQ_ROUND_H

#include "small_float.h"

/* Nearest integer, ties to even, of what is within 2^22. */
static inline float round_nearest(float number) {
    const float magic = 12582912.0f;
    return (number + magic) - magic;
}

static inline float round_clamp(float number, float low, float high) {
    number = number > low ? number : low;
    return number < high ? number : high;
}

#endif
