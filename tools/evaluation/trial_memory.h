// SPDX-License-Identifier: Apache-2.0
/* One budget for all that trials have in memory: the reference, what runs beside it, sets that are kept,
 * and what is counted.
 *
 * The reference and the others (Trials.others) run by turns, and each keeps memory for its next run. Whose
 * turn it is may take what the rest does not hold, which lets go of what it keeps where that is not
 * little. */
#ifndef DEMI_TRIAL_MEMORY_H
#define DEMI_TRIAL_MEMORY_H

#include "trial.h"

/* Before the reference runs. */
void trials_turn_reference(const Trials *trials);

/* Before the others run, one by one or side by side: each has an equal share, less what it has reserved. */
void trials_turn_others(const Trials *trials);
/* Before one of them runs while the rest waits as the reference does. */
void trials_turn_one(const Trials *trials, Session *next);

#endif
