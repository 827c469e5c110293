// SPDX-License-Identifier: Apache-2.0
/* Trials: conversions of a model, each run beside the model itself on the same inputs. They are
 * what convert's --calibrate and --verify measure with, and --max-error searches (keep_search.h).
 *
 * Conversions are compiled faithful: each operator's 16-bit result is rounded once, whatever runs
 * it later. Nothing is written; what a trial needed is gone when it ends.
 */
#ifndef DEMI_TRIAL_H
#define DEMI_TRIAL_H

#include "output_error.h"

typedef struct Trials {
    Program *program;
    const Parsed *parsed;
    const char *path;  /* of the model: read for each trial */
    Words sets;        /* folders of inputs; "": random ones */
    Session reference; /* the model itself */
    size_t ready;      /* 1 + the set that the reference ran on last */
    size_t done;       /* trials */
} Trials;

/* What a conversion's outputs are off by at worst, over all sets. */
typedef struct TrialResult {
    double error; /* the largest of all outputs, by scale; Inf where one can't be compared */
    OutputErrors outputs; /* each one's worst, in order */
    Words low;            /* nodes that run in the new type; asked for where `nodes` is set */
    bool nodes;
} TrialResult;

/* Opens the model at `path` and finds the inputs that `from` means: a folder as --data's, or the
 * word "random". ERR_USAGE where the model is a stream. trials_close also after a failure. */
bool trials_open(Trials *trials, Program *program, const Parsed *parsed, const char *path,
                 const char *from, Err *err);
void trials_close(Trials *trials);

/* Converts so and runs. */
bool trials_run(Trials *trials, const DemiConvertOptions *options, TrialResult *result, Err *err);

/* Converts so, for what is wrong with the options, and runs nothing. */
bool trials_try(Trials *trials, const DemiConvertOptions *options, Err *err);

/* The largest magnitude of each float value over all sets, as options' ranges take them:
 * "NAME=MAX"; of those that reach 64. */
bool trials_ranges(Trials *trials, Words *ranges, Err *err);

#endif
