// SPDX-License-Identifier: Apache-2.0
/* Tables of formats.def's QUANTIZED rows; see quantized_format.h. */
#include "quantized_format.h"

#include <stdio.h>
#include <string.h>

enum { NO_ZEROS, ZEROS };
enum { VALUES = 1, WEIGHTS = 2, BOTH = VALUES | WEIGHTS };

static const QuantizedFormat formats[] = {
#define QUANTIZED(NAME, word, of, block, zeros, scales, levels)                                    \
    {word,  DTYPE_##NAME,     ((of)&VALUES) != 0, ((of)&WEIGHTS) != 0,                             \
     block, (zeros) == ZEROS, DTYPE_##scales,     (levels) == 2},
#include "formats.def"
};

/* Lists of those that weights may be, and of those that values may be. */
#define WEIGHTS_OF_VALUES(...)
#define WEIGHTS_OF_WEIGHTS(...) __VA_ARGS__
#define WEIGHTS_OF_BOTH(...)    __VA_ARGS__
#define VALUES_OF_VALUES(...)   __VA_ARGS__
#define VALUES_OF_WEIGHTS(...)
#define VALUES_OF_BOTH(...) __VA_ARGS__

const char *const quantized_weight_words[] = {
    "none",
#define QUANTIZED(NAME, word, of, ...) WEIGHTS_OF_##of(word, )
#include "formats.def"
    NULL,
};

const Dtype quantized_value_types[] = {
    DTYPE_UNDEFINED,
#define QUANTIZED(NAME, word, of, ...) VALUES_OF_##of(DTYPE_##NAME, )
#include "formats.def"
};
const uint32_t quantized_value_type_count =
    sizeof quantized_value_types / sizeof *quantized_value_types;

static const char *word_of(const QuantizedFormat *format, bool weights) {
    return (weights ? format->of_weights : format->of_values) ? format->word : NULL;
}

size_t quantized_format_number(const QuantizedFormat *format) {
    return (size_t)(format - formats);
}

const QuantizedFormat *quantized_format(Dtype dtype) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].dtype == dtype) return &formats[i];
    return NULL;
}

const QuantizedFormat *quantized_format_named(const char *word, bool weights) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const char *own = word_of(&formats[i], weights);
        const bool other = own && dtype_from_name(word, strlen(word)) == formats[i].dtype;
        if (own && (other || strcmp(own, word) == 0)) return &formats[i];
    }
    return NULL;
}

const QuantizedFormat *quantized_format_without_zeros(const QuantizedFormat *format) {
    for (size_t i = 0; format->zeros && i < sizeof formats / sizeof *formats; i++)
        if (!formats[i].zeros && formats[i].of_weights && dtype_is_integer(formats[i].dtype) &&
            dtype_bits(formats[i].dtype) == dtype_bits(format->dtype))
            return &formats[i];
    return format;
}

bool quantized_has_zeros(Dtype dtype) {
    const QuantizedFormat *format = quantized_format(dtype);
    return format && format->zeros;
}

bool quantized_needs_blocks(Dtype dtype) {
    const QuantizedFormat *format = quantized_format(dtype);
    return format && format->block;
}

void quantized_format_list(bool weights, char *to, size_t size) {
    size_t length = 0;
    *to = 0;
    for (size_t i = 0; i < sizeof formats / sizeof *formats && length < size; i++) {
        const char *word = word_of(&formats[i], weights);
        if (word)
            length += (size_t)snprintf(to + length, size - length, "%s%s", length ? "|" : "", word);
    }
}
