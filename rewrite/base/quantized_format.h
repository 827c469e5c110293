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
    Dtype scales;   /* what scales are stored in; UNDEFINED: the type of what is quantized */
    bool two_level; /* scales are quantized by one float32 for all */
} QuantizedFormat;

/* The number of a row, from 0 on, and how many there are. */
enum {
    QUANTIZED_FORMATS = 0
#define QUANTIZED(...) +1
#include "formats.def"
};
size_t quantized_format_number(const QuantizedFormat *format);

/* The first one of that type; NULL where nothing is quantized to it. By the word of an option, or the name of a type,
 * of weights or of values. */
const QuantizedFormat *quantized_format(Dtype dtype);
const QuantizedFormat *quantized_format_named(const char *word, bool weights);
/* The same without zero points: that of signed integers of as many bits; itself where there is none. */
const QuantizedFormat *quantized_format_without_zeros(const QuantizedFormat *format);

/* Whether weights of that type have zero points, and whether they must have scales by blocks whatever the format. */
bool quantized_has_zeros(Dtype dtype);
bool quantized_needs_blocks(Dtype dtype);

/* Words of options, "none" before them, and types of values, DTYPE_UNDEFINED before them. */
extern const char *const quantized_weight_words[];
extern const Dtype quantized_value_types[];
extern const uint32_t quantized_value_type_count; /* with UNDEFINED */

/* Writes those words to a buffer, with '|' between them; no more than it holds. */
void quantized_format_list(bool weights, char *to, size_t size);

#endif
