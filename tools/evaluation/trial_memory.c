// SPDX-License-Identifier: Apache-2.0
/* See trial_memory.h. */
#include "trial_memory.h"

/* Memory that is given back has to be cleared by the system when it is taken anew: that is worth it only
 * for what would be missing. */
enum { LITTLE = 4 };

static uint64_t less(uint64_t budget, uint64_t taken) {
    return taken < budget ? budget - taken : 1; /* 0 would be the default */
}

/* What is left of `left` beside what the session holds; that is made less where it is not little. */
static uint64_t beside(const Session *waits, uint64_t left, uint64_t little) {
    if (!waits->context) return left;
    if (demi_context_held(waits->context) > little) demi_context_trim(waits->context);
    return less(left, demi_context_held(waits->context));
}

static uint64_t little_of(const Trials *t, uint64_t left) {
    return left / LITTLE / (t->others.count + 1);
}

void trials_turn_one(const Trials *t, Session *next) {
    uint64_t left = less(t->memory, *t->held);
    const uint64_t little = little_of(t, left);
    for (size_t i = 0; i < t->others.count; i++)
        if (t->others.items[i] != next) left = beside(t->others.items[i], left, little);
    if (t->reference != next) left = beside(t->reference, left, little);
    demi_context_set_budget(next->context, less(left, next->reserved));
}

void trials_turn_reference(const Trials *t) {
    trials_turn_one(t, t->reference);
}

void trials_turn_others(const Trials *t) {
    Session *const *others = t->others.items;
    const size_t count = t->others.count;
    uint64_t left = less(t->memory, *t->held);
    if (count && others[0] != t->reference) left = beside(t->reference, left, little_of(t, left));
    for (size_t i = 0; i < count && others[i]->context; i++)
        demi_context_set_budget(others[i]->context, less(left / count, others[i]->reserved));
}
