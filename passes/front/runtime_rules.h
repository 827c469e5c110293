// SPDX-License-Identifier: Apache-2.0
/* What a runtime takes of quantized models: its row of runtimes.def. */
#ifndef DEMI_RUNTIME_RULES_H
#define DEMI_RUNTIME_RULES_H

#include "policy.h"

typedef struct RuntimeRules {
    const char *activations; /* words of types of quantized values, the default first */
    const char *weights;     /* the same of weights; "": all */
    bool symmetric;
    const char *passes; /* options of insert-qdq */
    const char *casts;  /* options of insert-casts */
} RuntimeRules;

/* Of the policy's runtime, which is settled. */
const RuntimeRules *runtime_rules(const ConvertPolicy *policy);

/* The runtime's word. */
const char *runtime_word(const ConvertPolicy *policy);

/* What the runtime's rules say where nobody said anything. `values`: some are quantized, as `activations` says or,
 * where not `whole`, as they are named. */
void runtime_rules_settle(ConvertPolicy *policy, bool values, bool whole);

/* ERR_USAGE where something is quantized to a type that the runtime does not take; of all values where `whole`, and
 * of what the policy names. `weights`: of all weights; UNDEFINED: none but named ones. */
bool runtime_rules_check(const ConvertPolicy *policy, bool whole, Dtype weights, Err *err);

#endif
