// SPDX-License-Identifier: Apache-2.0
/* Valid plans made hostile: what an exporter wrote, but for an attribute, a size or an operand. */
#ifndef DEMI_HOSTILE_MUTATE_H
#define DEMI_HOSTILE_MUTATE_H

#include "hostile_values.h"

/* Changes the plan in `bytes` (64-byte aligned, valid) in one to three places, in ways that leave
 * it a plan: numbers of attributes, their names and kinds, which operands there are, constants,
 * declared dims. False where it is not a plan. */
bool hostile_mutate(Arena *scratch, Rng *rng, void *bytes, uint64_t size);

#endif
