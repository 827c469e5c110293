// SPDX-License-Identifier: Apache-2.0
/* What quantization stores values and weights as: the QUANTIZED rows of formats.def. */
#ifndef DEMI_QUANTIZED_FORMAT_H
#define DEMI_QUANTIZED_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"

typedef struct QuantizedFormat {
    const char *word; /* in options */
    Dtype dtype;
    bool of_values, of_weights;
    uint32_t block; /* of weights, where nobody says another; 0: they need none */
    bool zeros;     /* weights have zero points */
} QuantizedFormat;

/* NULL where nothing is quantized to that type; by the word of an option, of weights or of values. */
const QuantizedFormat *quantized_format(Dtype dtype);
const QuantizedFormat *quantized_format_named(const char *word, bool weights);

/* Whether weights of that type have zero points, and whether they must have scales by blocks. */
bool quantized_has_zeros(Dtype dtype);
bool quantized_needs_blocks(Dtype dtype);

/* Words of options, "none" before them, and their types, DTYPE_UNDEFINED before them. */
extern const char *const quantized_weight_words[];
extern const Dtype quantized_weight_types[], quantized_value_types[];
extern const uint32_t quantized_value_type_count; /* with UNDEFINED */

/* Writes those words to a buffer, with '|' between them; no more than it holds. */
void quantized_format_list(bool weights, char *to, size_t size);

#endif
