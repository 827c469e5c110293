// SPDX-License-Identifier: Apache-2.0
/* Plans of models that run in this process: compiled into its memory, with weights left in their files
 * where kernels can read them there. */
#ifndef DEMI_MODEL_PLAN_H
#define DEMI_MODEL_PLAN_H

#include "demi_trials.h"

/* demi_compile to a plan in *plan; NULL on error. The model is used up and freed, before there is more than
 * the plan's bytes: *model is NULL afterwards. Large files of the model are
 * mapped, so that what demi_plan_load says of changes to a plan's file holds for them. Errors:
 * demi_compile's, and DEMI_ERR_ENV where a file can't be mapped. */
DemiStatus model_plan(DemiModel **model, const DemiCompileOptions *options, DemiPlan **plan,
                      DemiError *error);

#endif
