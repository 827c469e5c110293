// SPDX-License-Identifier: Apache-2.0
/* Keeping the rules of runtimes.def; see runtime_rules.h. */
#include "runtime_rules.h"

#include <string.h>

#include "quantized_format.h"
#include "setting_names.h"

static const RuntimeRules rules[] = {
#define RUNTIME(id, activations, weights, symmetric, passes, casts)                                \
    [DEMI_RUNTIME_##id - 1] = {activations, weights, symmetric, passes, casts},
#include "runtimes.def"
};
_Static_assert(sizeof rules / sizeof *rules == CHOICE_COUNT(RUNTIME), "rules of each");

const RuntimeRules *runtime_rules(const ConvertPolicy *policy) {
    return &rules[policy->values[SETTING_RUNTIME] - 1];
}

const char *runtime_word(const ConvertPolicy *policy) {
    return policy_settings[SETTING_RUNTIME].choices[policy->values[SETTING_RUNTIME]].word;
}

void runtime_rules_settle(ConvertPolicy *policy, bool values, bool whole) {
    const char *first = runtime_rules(policy)->activations;
    if (values && whole && !policy->values[SETTING_ACTIVATIONS])
        policy->values[SETTING_ACTIVATIONS] = setting_choice(
            &policy_settings[SETTING_ACTIVATIONS],
            arena_printf(policy->arena, "%.*s", (int)strcspn(first, " "), first), false);
    if (values && runtime_rules(policy)->symmetric) policy->values[SETTING_SYMMETRIC] = true;
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
    return false;
}

static bool check_type(const ConvertPolicy *policy, const char *word, bool weights, Err *err) {
    const char *taken =
        weights ? runtime_rules(policy)->weights : runtime_rules(policy)->activations;
    if ((weights && !*taken) || has_word(taken, word)) return true;
    err_set(err, ERR_USAGE, "%s does not take %s %s", runtime_word(policy), word,
            weights ? "weights" : "activations");
    err_expected(err, "%s", taken);
    return false;
}

/* "NAME=TYPE"; what is no type, who reads them says. */
static bool check_named(const ConvertPolicy *policy, SettingId list, bool weights, Err *err) {
    for (size_t i = 0; i < policy->lists[list].count; i++) {
        const char *split = strrchr(policy->lists[list].items[i], '=');
        const QuantizedFormat *format = split ? quantized_format_named(split + 1, weights) : NULL;
        if (format && !check_type(policy, format->word, weights, err)) return false;
    }
    return true;
}

bool runtime_rules_check(const ConvertPolicy *policy, bool whole, Dtype weights, Err *err) {
    const Setting *activations = &policy_settings[SETTING_ACTIVATIONS];
    const QuantizedFormat *format = quantized_format(weights);
    if (whole && !check_type(policy, activations->choices[policy->values[SETTING_ACTIVATIONS]].word,
                             false, err))
        return false;
    return (!format || check_type(policy, format->word, true, err)) &&
           check_named(policy, SETTING_VALUES, false, err) &&
           check_named(policy, SETTING_WEIGHTS, true, err);
}
