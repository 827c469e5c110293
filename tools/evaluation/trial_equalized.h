// SPDX-License-Identifier: Apache-2.0
/* Cross-layer equalization (passes/equalize.c) on the trials' sets, and the equalized model in the model's place, to
 * be calibrated: its outputs are the same, but what its values reach is what the conversion quantizes. */
#ifndef DEMI_TRIAL_EQUALIZED_H
#define DEMI_TRIAL_EQUALIZED_H

#include "trial.h"

typedef struct Equalized {
    Trials *trials;
    DemiConvertOptions convert; /* the conversion, with the scales that were chosen */
    DemiRunOptions run;
    Words scales; /* those: DemiConvertOptions.channel_scales */
} Equalized;

/* Chooses scales, unless the conversion has some, does without, or estimates them. Where they change the model,
 * `trials` have the equalized one run until equalized_end, and nothing is kept of sets. `e` must stay where it is;
 * `within`, in which it has all, outlives it. */
bool equalized_begin(Equalized *e, Trials *trials, const DemiConvertOptions *convert, Arena *within,
                     Err *err);
void equalized_end(Trials *trials);

#endif
