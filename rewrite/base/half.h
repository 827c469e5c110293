// SPDX-License-Identifier: Apache-2.0
/* float16 (IEEE 754 binary16) and bfloat16 (the upper half of binary32) to and from float and
 * double.
 *
 * Both are handled as their bits in a uint16_t. Narrowing rounds to nearest, ties to even, once,
 * from the exact source value; results below the normal range become subnormals or zero (never
 * flushed), what rounds past the largest finite value becomes Inf of its sign; zeros keep their
 * sign. Widening is exact. A NaN becomes the quiet NaN with the same sign and the upper bits of its
 * payload, in either direction: never Inf, and a quiet NaN widened and narrowed again is itself.
 *
 * All instruction sets give the same bits. The floating-point environment is the default one
 * (round to nearest); flush-to-zero modes have no influence.
 */
#ifndef DEMI_BASE_HALF_H
#define DEMI_BASE_HALF_H

#include <stddef.h>
#include <stdint.h>

#include "dtype.h"

uint16_t half_from_float(float value);
float half_to_float(uint16_t half);
uint16_t bfloat_from_float(float value);
float bfloat_to_float(uint16_t bfloat);

/* One rounding, not two: the double is not rounded to float first. */
uint16_t half_from_double(double value);
double half_to_double(uint16_t half);
uint16_t bfloat_from_double(double value);
double bfloat_to_double(uint16_t bfloat);

/* The same for `count` elements, with the best instructions of this processor. Source and target
 * do not overlap; count may be 0. */
void half_convert_from_float(uint16_t *to, const float *from, size_t count);
void half_convert_to_float(float *to, const uint16_t *from, size_t count);
void bfloat_convert_from_float(uint16_t *to, const float *from, size_t count);
void bfloat_convert_to_float(float *to, const uint16_t *from, size_t count);

/* The same of the reduced type (dtype_is_reduced) that is given. */
void reduced_convert_from_float(Dtype type, uint16_t *to, const float *from, size_t count);
void reduced_convert_to_float(Dtype type, float *to, const uint16_t *from, size_t count);

#endif
