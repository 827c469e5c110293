// SPDX-License-Identifier: Apache-2.0
/* Which sets of inputs are used for what.
 *
 * A score is too good on the sets that ranges were made for, and that the best of many assignments was chosen
 * by. So there are three uses: calibration (ranges), selection (the scores that a search compares), and
 * acceptance, by sets that are held out until then. Where the caller does not give sets for each, those of the
 * data are divided in the order of their names:
 *
 *     8 sets or more   a third is held out, and at least 4: of 24 each third one, beginning with the third
 *     fewer            none is held out, since an interval of so few would say nothing
 *     what remains     from 32 sets on, every other one is for calibration; fewer serve both
 *
 * Few sets of many rows are cut into rows first, where the model leaves the first axis open (Trials.parts). */
#ifndef DEMI_SEARCH_SETS_H
#define DEMI_SEARCH_SETS_H

#include "search_model.h"

/* Sets that few are cut into (Trials.parts). */
enum { SEARCH_PARTS = 48 };

/* Divides the sets of `trials`, opens what has sets of its own, and runs the float model on all of them: sets
 * `calibration`, `holdout`, labels, and samples, and leaves `trials` the rest. The model was opened, and none
 * of its trials was run. ERR_USAGE where a share is none, leaves too few sets, or labels do not fit; ERR_MODEL
 * where the float model computes no finite number from a set. */
bool search_sets_divide(SearchModel *model, Err *err);

#endif
