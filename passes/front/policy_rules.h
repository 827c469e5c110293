// SPDX-License-Identifier: Apache-2.0
/* Policies by the rules of the runtime that they are for (runtimes.def). */
#ifndef DEMI_POLICY_RULES_H
#define DEMI_POLICY_RULES_H

#include "policy.h"
#include "runtime_rules.h"

/* Of the policy's runtime, which is settled. */
const RuntimeRules *policy_rules(const ConvertPolicy *policy);
const char *policy_runtime(const ConvertPolicy *policy);

/* What the rules say where nobody said anything. */
void policy_settle_rules(ConvertPolicy *policy);

/* ERR_USAGE where something is quantized to a type that the runtime does not take. */
bool policy_check_rules(const ConvertPolicy *policy, Err *err);

#endif
