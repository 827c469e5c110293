// SPDX-License-Identifier: Apache-2.0
/* What runtimes take of quantized models: the rows of runtimes.def. */
#ifndef DEMI_RUNTIME_RULES_H
#define DEMI_RUNTIME_RULES_H

#include <stdint.h>

#include "arena.h"
#include "quantized_format.h"

typedef struct RuntimeRules {
    const char *activations; /* types of quantized values, with spaces between: the default first */
    const char *weights;     /* the same: formats of quantized weights */
    bool symmetric;
    bool rows;          /* it takes values that are quantized by rows at run time */
    const char *passes; /* options of insert-qdq */
    const char *casts;  /* options of insert-casts */
} RuntimeRules;

/* By demi.h's constant, from 1 on. */
const RuntimeRules *runtime_rules(int64_t runtime);

/* Values of that word; weights of that format, or of the same without zero points, which its options may ask for. */
bool runtime_takes_values(const RuntimeRules *rules, const char *word);
bool runtime_takes_weights(const RuntimeRules *rules, const QuantizedFormat *format);
/* Weights of that very format. */
bool runtime_stores(const RuntimeRules *rules, const QuantizedFormat *format);

/* The next of words that have spaces between; NULL behind the last. *words moves on. */
const char *runtime_next_word(const char **words, Arena *arena);

/* Whether values of that type, demi.h's constant of ACTIVATIONS, go with weights of the format: integers with integers. */
bool runtime_values_fit(int64_t activations, const QuantizedFormat *weights);
/* The first of those that the runtime takes; of all, where it takes none of them. */
int64_t runtime_usual_values(const RuntimeRules *rules, const QuantizedFormat *weights);

/* The runtimes that take such weights, and values of that word where it is not NULL, or by rows at run time, with
 * commas between; NULL where all do. */
const char *runtimes_of(const char *values, const QuantizedFormat *weights, bool by_rows,
                        Arena *arena);

#endif
