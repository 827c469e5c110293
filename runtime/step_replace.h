// SPDX-License-Identifier: Apache-2.0
/* Watching a run and taking part in it: what a step computed is replaced before others read it. So
 * a run can be given what another one chose. */
#ifndef DEMI_STEP_REPLACE_H
#define DEMI_STEP_REPLACE_H

#include "demi_runtime.h"
#include "err.h"

/* Within a DemiStepFn of this context: a copy of `value` takes the place of that output of the step
 * (one that was omitted is none). What the callback was given of it is no longer valid then. False
 * past the memory budget. */
bool step_replace(DemiContext *context, uint32_t output, const DemiData *value, Err *err);

#endif
