// SPDX-License-Identifier: Apache-2.0
/* Rounding a model's weights on the sets of trials: a conversion asks for second moments of what weights multiply, and
 * the model itself is run for them, several times where they do not fit into memory together. */
#ifndef DEMI_TRIAL_MOMENTS_H
#define DEMI_TRIAL_MOMENTS_H

#include "data_rounding.h"
#include "trial.h"

/* Converts the model, which is dropped, with `rounding`, whose arena is set, and which has the weights then. */
bool trials_round(Trials *trials, const DemiConvertOptions *options, DemiRoundedWeights *weights,
                  Err *err);

#endif
