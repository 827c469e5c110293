// SPDX-License-Identifier: Apache-2.0
/* How close a conversion by measured ranges is to the model on the trials' own sets. */
#ifndef DEMI_TRIAL_FIT_H
#define DEMI_TRIAL_FIT_H

#include "trial.h"

/* The name, "=", and the largest magnitude or, with `ends`, both: as DemiConvertOptions.ranges has it. */
const char *range_text(Arena *arena, const DemiRange *range, bool ends);

/* Converts with these ranges, too, for what becomes of nodes and values alone (demi_front.h). */
bool trials_sketch(const Trials *trials, const DemiConvertOptions *options, const RangeList *ranges,
                   DemiModel *model, Err *err);

/* Converts with these ranges, too, and runs: *noise is the sum over outputs of the squared difference by
 * the squared values, infinite where one is not finite that the model has as a number. */
bool trials_fit(Trials *trials, const DemiConvertOptions *options, const RangeList *ranges,
                double *noise, Err *err);

#endif
