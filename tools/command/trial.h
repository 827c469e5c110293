// SPDX-License-Identifier: Apache-2.0
/* Trials: conversions of a model, each run beside the model itself on the same inputs. They are
 * what convert's --calibrate and --verify measure with, and --max-error searches (keep_search.h).
 *
 * Conversions are compiled faithful: each operator's 16-bit result is rounded once, whatever runs
 * it later. Nothing is written; what a trial needed is gone when it ends. What the model itself
 * made of a set of inputs is kept for the next trial, as far as memory goes.
 */
#ifndef DEMI_TRIAL_H
#define DEMI_TRIAL_H

#include "judge.h"
#include "nonfinite.h"

typedef struct TrialSet {
    const char *path; /* NULL: random */
    Arena *arena;     /* of what follows; NULL: not run yet, or let go */
    DemiData *values; /* of the inputs */
    bool *given;
    DemiData *outputs;
    Picks picks;
    bool counted;     /* in Trials.kept: it stays */
    int64_t *assumed; /* sizes, as the session's input_sizes have them: -1 where not assumed */
} TrialSet;

typedef struct Trials {
    Program *program;
    const Parsed *parsed;
    const char *path; /* of the model: read for each trial */
    TrialSet *sets;   /* [count] */
    size_t count;
    Session reference; /* the model itself */
    bool picks;        /* it picks something (picks.h) */
    size_t done;       /* trials */
    size_t kept;       /* bytes of sets */
    double enough;     /* a trial ends with the first set that is off by more, if not 0 */
    double started;    /* console_seconds, for progress */
} Trials;

/* What a conversion's outputs are off by at worst, over all sets. */
typedef struct TrialResult {
    Judgement judgement;
    Words low; /* nodes that run in the new type; asked for where `nodes` is set */
    bool nodes;
} TrialResult;

/* The inputs of trials. */
typedef struct TrialInputs {
    const char *from; /* what --data takes, or the word "random" */
    size_t sets;      /* of random ones */
} TrialInputs;

/* Opens the model at `path` and finds the inputs. ERR_USAGE where the model is a stream.
 * trials_close also after a failure. */
bool trials_open(Trials *trials, Program *program, const Parsed *parsed, const char *path,
                 const TrialInputs *inputs, Err *err);
void trials_close(Trials *trials);

/* Converts so and runs. */
bool trials_run(Trials *trials, const DemiConvertOptions *options, TrialResult *result, Err *err);

/* Converts so, for what is wrong with the options, and runs nothing. */
bool trials_try(Trials *trials, const DemiConvertOptions *options, Err *err);

/* Where a conversion that breaks an output begins to. */
bool trials_find_broken(Trials *trials, const DemiConvertOptions *options, Nonfinite *found,
                        Err *err);

/* Runs the reference on set i, whose values are the reference's then, and lets go what it kept of
 * it: for who watches it. */
bool trials_watch_set(Trials *trials, size_t i, Err *err);

/* The largest magnitude of each float value over all sets, as options' ranges take them:
 * "NAME=MAX"; of those that reach 64. */
bool trials_ranges(Trials *trials, Words *ranges, Err *err);

/* "seq_len 16, 24, 7, 33; batch 1": the sizes that were assumed; "" where none was. */
const char *trials_assumed(const Trials *trials);

#endif
