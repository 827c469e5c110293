// SPDX-License-Identifier: Apache-2.0
/* What elements become that are stored in a candidate's type and widened again: what a search measures
 * instead of converting the model anew for each question. Float types round to nearest even;
 * integers as QuantizeLinear and DequantizeLinear of the scales that insert-qdq gives. */
#ifndef DEMI_ROUNDING_H
#define DEMI_ROUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "dtype.h"

/* What elements become. Weights lie as (outer, axis, inner), with a scale for each place along the axis,
 * or for each `block` of places. */
typedef struct Rounding {
    Dtype type;
    double low, high; /* integers: the range of activations, which a type is spread over */
    uint64_t outer, axis, inner, block; /* axis: 0 where they are no weights */
    bool even;     /* biases make up for what rounding adds to each channel's sum, on average: as if
                      that were taken from all of its weights alike */
    float *scales; /* of weights: room for qdq_scale_count's */
} Rounding;

/* A ReplayChangeFn: user is a Rounding. */
void rounding_apply(void *rounding, void *to, const void *from, uint64_t count);

#endif
