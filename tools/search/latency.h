// SPDX-License-Identifier: Apache-2.0
/* Seconds that groups take on this machine, by candidate.
 *
 * For each candidate the model is converted to it wherever that can be, and its steps are timed. A
 * step's time belongs to the group of what its node reads, in whose precision it computes, or of what it
 * makes where it reads none. Values that change their precision between groups are converted: what an
 * element of that costs is taken from the conversions that were seen. Sums of these predict an
 * assignment; plans are fused, so that only measuring says what one takes (latency_race). */
#ifndef DEMI_LATENCY_H
#define DEMI_LATENCY_H

#include "costs.h"
#include "search_model.h"
#include "solve_problem.h"

typedef struct Latency {
    double *seconds; /* [groups][candidates] */
    double *rest;    /* [1]: of steps that are no group's, with the first candidate */
    double *in,
        *out;        /* [candidates]: of an element that becomes one of the candidate's, and back */
    double deadline; /* of clock_seconds: behind it, no more runs than are needed */
} Latency;

/* Adds to numbers that are 0. False with the error set. */
bool latency_measure(SearchModel *model, const Latency *found, Err *err);

/* What conversions between groups cost, by both's candidates. In `arena`. */
SolvePair *latency_pairs(const SearchModel *model, const Costs *costs, const Latency *latency,
                         size_t *count, Arena *arena);

/* Whole runs of conversions, by turns: seconds[count], the median of each. An assignment that is NULL
 * is the model as it is. Behind the deadline, of clock_seconds, no more are begun than a median needs. */
bool latency_race(SearchModel *model, const uint8_t *const *assignments, size_t count,
                  double deadline, double *seconds, Err *err);

#endif
