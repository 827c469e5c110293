// SPDX-License-Identifier: Apache-2.0
/* Plans with choices, besides demi_context_tune. */
#ifndef DEMI_TUNE_H
#define DEMI_TUNE_H

#include "demi_runtime.h"

/* Writes `plan` with the choices of `tuned`, which was made of the same model in the same way: what
 * demi_context_tune wrote where it found these. Errors are its. */
DemiStatus demi_plan_write_chosen(const DemiPlan *plan, const DemiPlan *tuned,
                                  DemiPlanWriteFn write, void *user, DemiError *error);

#endif
