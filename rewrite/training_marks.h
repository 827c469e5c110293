// SPDX-License-Identifier: Apache-2.0
/* Metadata of a model that is being trained. */
#ifndef DEMI_TRAINING_MARKS_H
#define DEMI_TRAINING_MARKS_H

#define TRAINING_STEPS_KEY   "demi.training.steps" /* how many it has behind it */
#define TRAINING_RUN_KEY     "demi.training.run"   /* on which samples, and in which order */
#define TRAINING_FROM_KEY    "demi.training.from" /* the file that training began with, as a hash */
#define TRAINING_FROM_FORMAT "%016llx%016llx"

#endif
