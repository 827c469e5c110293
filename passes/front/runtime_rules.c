// SPDX-License-Identifier: Apache-2.0
/* The table of runtimes; see runtime_rules.h. */
#include "runtime_rules.h"

#include <string.h>

#include "demi.h"
#include "setting_names.h"

static const RuntimeRules rows[] = {
#define RUNTIME(id, activations, weights, symmetric, passes, casts)                                \
    [DEMI_RUNTIME_##id - 1] = {activations, weights, symmetric, passes, casts},
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

static bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
    return false;
}

bool runtime_takes_values(const RuntimeRules *rules, const char *word) {
    return has_word(rules->activations, word);
}

bool runtime_takes_weights(const RuntimeRules *rules, const QuantizedFormat *format) {
    return has_word(rules->weights, format->word) ||
           has_word(rules->weights, quantized_format_without_zeros(format)->word);
}

const char *runtimes_of(const char *values, const QuantizedFormat *weights, Arena *arena) {
    const char *const *names = CHOICE_NAMES(RUNTIME);
    const char *list = "";
    int count = 0;
    for (int i = 1; i < CHOICE_COUNT(RUNTIME); i++) { /* behind any */
        if (!runtime_takes_weights(&rows[i], weights) ||
            (values && !runtime_takes_values(&rows[i], values)))
            continue;
        list = arena_printf(arena, "%s%s%s", list, count++ ? ", " : "", names[i + 1]);
    }
    return count == CHOICE_COUNT(RUNTIME) - 1 ? NULL : list;
}
