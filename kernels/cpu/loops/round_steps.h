// SPDX-License-Identifier: Apache-2.0
/* Floats rounded to whole steps, as QuantizeLinear and DequantizeLinear do it one after the other. */
#ifndef DEMI_ROUND_STEPS_H
#define DEMI_ROUND_STEPS_H

#include <stdint.h>

/* A normal number, and the least and greatest number of steps: whole numbers less than 2^22,
 * which are the ends of an integer type less the zero point. */
typedef struct RoundSteps {
    float step, low, high;
} RoundSteps;

/* to[i] = step * clamp(from[i] / step), rounded to nearest, ties to even; NaN becomes the least. `to` is
 * `from`, or nothing of it. */
void round_steps(float *to, const float *from, uint64_t n, RoundSteps by);

#endif
