// SPDX-License-Identifier: Apache-2.0
/* Choosing how steps are computed, by measuring it: which of an operator's rows, which of a row's
 * choices (kernel.h), and whether one thread alone is faster than several.
 *
 * Steps that compute the same (operator, attributes, and operands' dtypes, dims and which of them
 * are constant) are of one kind. First a run by the rules finds the kinds and asks all rows which
 * ways they can go. Then whole runs are timed step by step: in turn of turns, each kind goes its
 * next way, so that caches, threads and neighbors are as they will be, and all kinds are measured
 * at once. tune_rule.h says when a way is faster. Last, runs with all that won and runs by the rules
 * are timed by turns: by the same rule the whole run has to be faster, else everything is dropped, and
 * of single kinds what is not faster again.
 */
#ifndef DEMI_PLAN_TUNE_H
#define DEMI_PLAN_TUNE_H

#include "exec.h"

/* What is tuned: runs of the executor's plan, on the same inputs each time. */
typedef struct TuneJob {
    Exec *exec;
    bool (*run)(void *data, Err *err);
    void *data;
    double seconds; /* most that it may take; begun runs are finished */
} TuneJob;

typedef struct Tuning {
    VEC(PlanChoice) choices; /* as a plan has them */
    uint32_t kinds,
        changed;          /* of steps that have several ways; those that go another than before */
    uint32_t runs;        /* that were timed */
    double before, after; /* seconds of a run, by the rules and as chosen; equal without choices */
    bool ended_early;     /* there was not enough time to measure anything */
} Tuning;

/* Tables go to `arena`, whose trap the runs do not use. The executor is then as it was before. False
 * with the error set where a run fails. */
bool plan_tune(const TuneJob *job, Arena *arena, Tuning *result, Err *err);

#endif
