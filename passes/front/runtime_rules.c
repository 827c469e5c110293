// SPDX-License-Identifier: Apache-2.0
/* The table of runtimes; see runtime_rules.h. */
#include "runtime_rules.h"

#include <string.h>

#include "demi.h"
#include "setting_names.h"

static const RuntimeRules rows[] = {
#define RUNTIME(id, activations, weights, symmetric, rows, passes, casts)                          \
    [DEMI_RUNTIME_##id - 1] = {activations, weights, symmetric, rows, passes, casts},
#include "runtimes.def"
};
_Static_assert(sizeof rows / sizeof *rows == CHOICE_COUNT(RUNTIME), "rules of each");

const RuntimeRules *runtime_rules(int64_t runtime) {
    return &rows[runtime - 1];
}

const char *runtime_next_word(const char **words, Arena *arena) {
    const char *word = *words + strspn(*words, " ");
    const size_t length = strcspn(word, " ");
    *words = word + length;
    return length ? arena_printf(arena, "%.*s", (int)length, word) : NULL;
}

/* Where a word begins among those of a list; as far off as can be where it does not. */
static size_t place_of(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return (size_t)(at - words);
    return SIZE_MAX;
}

bool runtime_takes_values(const RuntimeRules *rules, const char *word) {
    return place_of(rules->activations, word) != SIZE_MAX;
}

bool runtime_values_fit(int64_t activations, const QuantizedFormat *weights) {
    return dtype_is_integer(quantized_value_types[activations]) == dtype_is_integer(weights->dtype);
}

int64_t runtime_usual_values(const RuntimeRules *rules, const QuantizedFormat *weights) {
    int64_t usual = 0;
    size_t first = SIZE_MAX;
    for (int64_t i = 1; i <= CHOICE_COUNT(ACTIVATIONS); i++) {
        const size_t place = place_of(rules->activations, CHOICE_NAMES(ACTIVATIONS)[i]);
        if (!runtime_values_fit(i, weights) || (usual && place >= first)) continue;
        usual = i;
        first = place;
    }
    return usual;
}

bool runtime_stores(const RuntimeRules *rules, const QuantizedFormat *format) {
    return place_of(rules->weights, format->word) != SIZE_MAX;
}

bool runtime_takes_weights(const RuntimeRules *rules, const QuantizedFormat *format) {
    return runtime_stores(rules, format) ||
           runtime_stores(rules, quantized_format_without_zeros(format));
}

const char *runtimes_of(const char *values, const QuantizedFormat *weights, bool by_rows,
                        Arena *arena) {
    const char *const *names = CHOICE_NAMES(RUNTIME);
    const char *list = "";
    int count = 0;
    for (int i = 1; i < CHOICE_COUNT(RUNTIME); i++) { /* behind any */
        if (!runtime_takes_weights(&rows[i], weights) || (by_rows && !rows[i].rows) ||
            (values && !runtime_takes_values(&rows[i], values)))
            continue;
        list = arena_printf(arena, "%s%s%s", list, count++ ? ", " : "", names[i + 1]);
    }
    return count == CHOICE_COUNT(RUNTIME) - 1 ? NULL : list;
}
