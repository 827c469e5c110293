// SPDX-License-Identifier: Apache-2.0
/* Which way a step goes: what the plan chose for operands of such dtypes and dims, where it was
 * measured on a machine like this one, or what a chooser says (exec.h). A way is a proposal: a row
 * that can't go it declines, and the step goes by the rules of its rows. */
#ifndef DEMI_STEP_CHOICE_H
#define DEMI_STEP_CHOICE_H

#include "exec.h"

/* A hash of which operands there are and of their dtypes and dims; of outputs, as far as they are
 * known before the step runs. */
uint64_t step_choice_shapes(const KernelCall *call);

/* The way for a call with all operands, whose row is not looked at. */
StepWay step_choice_way(const Exec *exec, const LoadedStep *step, const KernelCall *call);

/* True where plan_choice says what the operator's rows can be told. */
bool step_choice_fits(const LoadedStep *step, const PlanChoice *choice);

#endif
