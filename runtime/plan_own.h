// SPDX-License-Identifier: Apache-2.0
/* Plans that hold their own bytes: what is compiled and run within one program. */
#ifndef DEMI_PLAN_OWN_H
#define DEMI_PLAN_OWN_H

#include "demi_runtime.h"
#include "plan_file.h"

/* demi_plan_from_memory of what was written, and of the files that it refers to: all is the plan's then,
 * and gone after an error. */
DemiStatus demi_plan_own(PlanRoom *room, DemiPlan **plan, DemiError *error);

#endif
