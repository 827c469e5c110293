// SPDX-License-Identifier: Apache-2.0
/* Casts between float types that a device's steps do themselves, as they load and store.
 *
 *     y = f(Cast(x))    ->  y = f(x)       x in 16 bit, all who read the cast's result are such steps
 *     z = Cast(f(x))    ->  z = f(x)       nobody else reads what f gives
 *
 * f's row says that it takes any mixture of float types (KERNEL_MIXES) and computes in float: the first
 * is exact, the second rounds once; or, but in faithful plans, not at all where f gave 16 bit. What rounds
 * an operand is left: it would be rounded no more. */
#ifndef DEMI_STEP_CASTS_H
#define DEMI_STEP_CASTS_H

#include "device.h"
#include "plan.h"

typedef struct StepCasts {
    const Plan *plan;
    const KernelRow *const *rows; /* [step_count]: of steps that run on the device; else NULL */
    const bool *casts;            /* [op_count]: it is Cast */
    bool *gone;                   /* [step_count], false: set for casts that others do */
    Arena *arena;
} StepCasts;

/* The plan as it is then, in which casts that are gone have yet their steps; of what it refers to, what
 * changes lies in the arena. */
void step_casts_drop(const StepCasts *casts, Plan *without);

#endif
