// SPDX-License-Identifier: Apache-2.0
/* What elements become that are stored in a candidate's type and widened again: what a search measures
 * instead of converting the model anew for each question. Float types of 16 bits round to nearest even;
 * others as QuantizeLinear and DequantizeLinear of the scales that insert-qdq gives. */
#ifndef DEMI_ROUNDING_H
#define DEMI_ROUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "dtype.h"
#include "quantized_format.h"

/* What elements become. Weights lie as (outer, axis, inner), with a scale for each place along the axis,
 * or for each `block` of places. */
typedef struct Rounding {
    Dtype type;
    const QuantizedFormat *format; /* of weights; NULL: they stay in floating point */
    double low, high; /* the range of activations, which a quantized type is spread over */
    uint64_t outer, axis, inner, block; /* axis: 0 where they are no weights */
    bool even; /* biases make up for what rounding adds to each channel's sum, on average: as if
                      that were taken from all of its weights alike */
    bool symmetric;       /* zero points of activations are 0, or the middle */
    float *scales;        /* of weights: room for qdq_scale_count's */
    uint8_t *zeros;       /* the same, for zero points */
    unsigned char *bytes; /* room for a byte of each weight */
} Rounding;

/* Weights of that type are rounded by way of how they are stored, which takes `zeros` and `bytes`. */
static inline bool rounding_is_stored(Dtype type) {
    return !dtype_is_integer(type) || quantized_has_zeros(type);
}

/* A ReplayChangeFn: user is a Rounding. */
void rounding_apply(void *rounding, void *to, const void *from, uint64_t count);

#endif
