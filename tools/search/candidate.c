// SPDX-License-Identifier: Apache-2.0
/* Reading names of candidates; see candidate.h. */
#include "candidate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const aliases[][2] = {{"int8", "a8w8"}, {"int16", "a16w16"}};

/* Types in floating point that groups may have. */
static const char *const floats[][2] = {
    {"float", "float"},  {"fp32", "float"},   {"float32", "float"},     {"float16", "float16"},
    {"fp16", "float16"}, {"half", "float16"}, {"bfloat16", "bfloat16"}, {"bf16", "bfloat16"}};

static bool unknown(const char *name, Err *err) {
    char values[80], weights[80];
    quantized_format_list(false, values, sizeof values);
    quantized_format_list(true, weights, sizeof weights);
    err_set(err, ERR_USAGE, "unknown precision '%s'", name);
    err_hint(err,
             "use float, float16, bfloat16, aXwY or wY (bits of activations and weights), or "
             "ACTIVATIONS:WEIGHTS of %s and %s",
             values, weights);
    return false;
}

static Dtype float_of(const char *word, size_t length) {
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (strlen(floats[i][0]) == length && memcmp(floats[i][0], word, length) == 0)
            return dtype_from_name(floats[i][1], strlen(floats[i][1]));
    return DTYPE_UNDEFINED;
}

/* ---- by bits --------------------------------------------------------------------------------- */

/* The first integers of as many bits that weights may be. */
static const QuantizedFormat *weights_of_bits(unsigned bits) {
    for (size_t i = 1; quantized_weight_words[i]; i++) {
        const QuantizedFormat *format = quantized_format_named(quantized_weight_words[i], true);
        if (dtype_is_integer(format->dtype) && dtype_bits(format->dtype) == bits) return format;
    }
    return NULL;
}

static const QuantizedFormat *values_of_bits(unsigned bits, const CandidateRules *rules) {
    for (size_t i = 0; i < rules->count; i++)
        if (dtype_is_integer(rules->values[i]) && dtype_bits(rules->values[i]) == bits)
            return quantized_format(rules->values[i]);
    return NULL;
}

static bool any_values_of_bits(unsigned bits) {
    for (uint32_t i = 1; i < quantized_value_type_count; i++)
        if (dtype_is_integer(quantized_value_types[i]) &&
            dtype_bits(quantized_value_types[i]) == bits)
            return true;
    return false;
}

/* A number in decimal, as names have it. */
static const char *read_bits(const char *at, unsigned *bits) {
    *bits = 0;
    if (*at < '1' || *at > '9') return NULL;
    for (; *at >= '0' && *at <= '9' && *bits < 100; at++)
        *bits = *bits * 10 + (unsigned)(*at - '0');
    return at;
}

/* "aXwY" or "wY": *matched. */
static bool read_short(const char *name, const CandidateRules *rules, Candidate *found,
                       bool *matched, Err *err) {
    unsigned values = 0, weights = 0;
    const char *at = *name == 'a' ? read_bits(name + 1, &values) : name;
    at = at && *at == 'w' ? read_bits(at + 1, &weights) : NULL;
    *matched = at && !*at && weights_of_bits(weights) && (!values || any_values_of_bits(values));
    if (!*matched) return true;
    found->weight_format = weights_of_bits(weights);
    found->value_format = values ? values_of_bits(values, rules) : NULL;
    return !values || found->value_format ||
           err_set(err, ERR_USAGE, "candidate '%s': %s does not take %u-bit activations", name,
                   rules->runtime, values);
}

/* ---- by words -------------------------------------------------------------------------------- */

/* A side of a pair; false where it is no type. */
static bool read_side(const char *word, size_t length, bool weights, Dtype *dtype,
                      const QuantizedFormat **format) {
    char text[32];
    *dtype = float_of(word, length);
    if (*dtype) return true;
    if (length >= sizeof text) return false;
    memcpy(text, word, length);
    text[length] = '\0';
    *format = quantized_format_named(text, weights);
    return *format;
}

/* Weights in 16 bits are those of nodes that run so. */
static bool read_pair(const char *name, Candidate *found, Err *err) {
    const char *split = strchr(name, ':');
    const size_t length = split ? (size_t)(split - name) : strlen(name);
    found->activations = float_of(name, length);
    if (!split && found->activations) {
        found->weights = found->activations;
        return true;
    }
    if (!split || !read_side(name, length, false, &found->activations, &found->value_format) ||
        !read_side(split + 1, strlen(split + 1), true, &found->weights, &found->weight_format))
        return unknown(name, err);
    const bool mixed = dtype_is_reduced(found->weights) && found->weights != found->activations;
    const bool kept = found->weights == DTYPE_FLOAT && dtype_is_reduced(found->activations);
    if (!mixed && !kept) return true;
    err_set(err, ERR_USAGE,
            "candidate '%s': 16-bit floating-point weights need activations of the same type",
            name);
    err_hint(err, "use %s", dtype_name(mixed ? found->weights : found->activations));
    return false;
}

/* ---- all ------------------------------------------------------------------------------------- */

static const char *name_of(const Candidate *c, const CandidateRules *rules, Arena *arena) {
    const QuantizedFormat *values = c->value_format, *weights = c->weight_format;
    const uint32_t bits = weights ? dtype_bits(weights->dtype) : 0;
    const char *left = values ? values->word : dtype_name(c->activations);
    const char *right = weights ? weights->word : dtype_name(c->weights);
    if (!values && !weights && c->activations == c->weights) return left;
    const bool usual = weights && weights == weights_of_bits(bits);
    if (usual && c->activations == DTYPE_FLOAT) return arena_printf(arena, "w%u", bits);
    if (usual && values && values == values_of_bits(dtype_bits(values->dtype), rules))
        return arena_printf(arena, "a%uw%u", dtype_bits(values->dtype), bits);
    return arena_printf(arena, "%s:%s", left, right);
}

const Candidate *candidate_read(const char *name, const CandidateRules *rules, Arena *arena,
                                Err *err) {
    Candidate *found = ARENA_NEW(arena, Candidate);
    bool matched;
    *found = (Candidate){.activations = DTYPE_FLOAT, .weights = DTYPE_FLOAT};
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(name, aliases[i][0]) == 0) name = aliases[i][1];
    if (!read_short(name, rules, found, &matched, err)) return NULL;
    if (!matched && !read_pair(name, found, err)) return NULL;
    if (found->value_format) found->activations = found->value_format->dtype;
    if (found->weight_format) found->weights = found->weight_format->dtype;
    if (found->weight_format && found->weight_format->block)
        found->other_weights = rules->other_weights;
    found->name = name_of(found, rules, arena);
    return found;
}

const Candidate *candidate_plain(void) {
    static const Candidate plain = {"float", DTYPE_FLOAT, DTYPE_FLOAT, NULL, NULL, NULL};
    return &plain;
}

double candidate_bits(Dtype dtype) {
    const double bits = dtype_bits(dtype);
    return dtype_is_float(dtype) ? bits * sqrt(1.5) : bits;
}

uint32_t candidate_stored_bits(Dtype dtype) {
    return dtype_bits(dtype);
}
