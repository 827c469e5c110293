// SPDX-License-Identifier: Apache-2.0
/* See policy_rules.h. */
#include "policy_rules.h"

#include <string.h>

#include "convert_target.h"

const RuntimeRules *policy_rules(const ConvertPolicy *policy) {
    return runtime_rules(policy->values[SETTING_RUNTIME]);
}

const char *policy_runtime(const ConvertPolicy *policy) {
    return policy_settings[SETTING_RUNTIME].choices[policy->values[SETTING_RUNTIME]].word;
}

static TargetKind kind_of(const ConvertPolicy *policy) {
    return convert_target(policy->values[SETTING_TO])->kind;
}

/* NULL where nothing is quantized. */
static const QuantizedFormat *format_of(const ConvertPolicy *policy) {
    return convert_target_format(convert_target(policy->values[SETTING_TO]));
}

void policy_settle_rules(ConvertPolicy *policy) {
    const bool values = kind_of(policy) == TARGET_VALUES;
    const bool integers = values && dtype_is_integer(format_of(policy)->dtype);
    if (!policy->values[SETTING_ACTIVATIONS] && values)
        policy->values[SETTING_ACTIVATIONS] =
            runtime_usual_values(policy_rules(policy), format_of(policy));
    if (policy_rules(policy)->symmetric && (integers || policy->lists[SETTING_VALUES].count))
        policy->values[SETTING_SYMMETRIC] = true;
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool refuse_type(const ConvertPolicy *policy, const char *word, bool weights, Err *err) {
    err_set(err, ERR_USAGE, "%s does not take %s %s", policy_runtime(policy), word,
            weights ? "weights" : "activations");
    err_expected(err, "%s",
                 weights ? policy_rules(policy)->weights : policy_rules(policy)->activations);
    return false;
}

static bool check_values(const ConvertPolicy *policy, const char *word, Err *err) {
    return runtime_takes_values(policy_rules(policy), word) ||
           refuse_type(policy, word, false, err);
}

static bool check_weights(const ConvertPolicy *policy, const QuantizedFormat *format, Err *err) {
    return runtime_takes_weights(policy_rules(policy), format) ||
           refuse_type(policy, format->word, true, err);
}

/* "NAME=TYPE", which is that very type; what is none, the pass refuses. */
static bool check_named(const ConvertPolicy *policy, SettingId list, Err *err) {
    const bool weights = list == SETTING_WEIGHTS;
    for (size_t i = 0; i < policy->lists[list].count; i++) {
        const char *split = strrchr(policy->lists[list].items[i], '=');
        const QuantizedFormat *format = split ? quantized_format_named(split + 1, weights) : NULL;
        if (format && !(weights ? runtime_stores(policy_rules(policy), format)
                                : runtime_takes_values(policy_rules(policy), format->word)))
            return refuse_type(policy, format->word, weights, err);
    }
    return true;
}

bool policy_check_rules(const ConvertPolicy *policy, Err *err) {
    const SettingChoice *activations = policy_settings[SETTING_ACTIVATIONS].choices;
    const QuantizedFormat *format = format_of(policy);
    const int64_t chosen = policy->values[SETTING_ACTIVATIONS];
    if (format && !check_weights(policy, format, err)) return false;
    if (kind_of(policy) == TARGET_ROWS && !policy_rules(policy)->rows) {
        err_set(err, ERR_USAGE,
                "%s does not take uint8 activations that are quantized by rows at run time",
                policy_runtime(policy));
        err_hint(err, "--to int8-weights stores the same weights; --to int8 quantizes activations "
                      "by calibration");
        return false;
    }
    if (kind_of(policy) == TARGET_VALUES) {
        if (!runtime_values_fit(chosen, format))
            return err_set(err, ERR_USAGE, "%s activations do not go with %s weights",
                           activations[chosen].word, format->word);
        if (!check_values(policy, activations[chosen].word, err)) return false;
    }
    return check_named(policy, SETTING_VALUES, err) && check_named(policy, SETTING_WEIGHTS, err);
}
