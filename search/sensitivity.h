// SPDX-License-Identifier: Apache-2.0
/* What each group does to the outputs where it alone has another precision. */
#ifndef DEMI_SENSITIVITY_H
#define DEMI_SENSITIVITY_H

#include "candidate.h"
#include "measured_model.h"
#include "metric.h"
#include "trial.h"
#include "value_ends.h"

/* What is asked, and of what: [groups][candidates] tables are by group first. */
typedef struct Sensitivity {
    Trials *trials; /* of the measured model; every value is kept */
    const MeasuredModel *model;
    const Candidate *const *candidates; /* [candidate_count] */
    size_t candidate_count;
    const bool *wanted;    /* [groups][candidates]; others stay as they are here */
    const ValueEnds *ends; /* [value_count]: of activations; NULL where no candidate needs it */
    const MetricLabels *labels; /* NULL: none */
    size_t sets;                /* how many of the sets, spread over all of them */
    uint64_t cache_bytes;       /* of values kept from a run */
    size_t part, parts;         /* groups g with g % parts == part alone */
} Sensitivity;

/* What was found. */
typedef struct Sensitivities {
    MetricSums *sums; /* [groups][candidates]; those that were wanted */
    size_t replays;
    uint64_t steps, all_steps; /* that these ran, and that as many whole runs would have run */
} Sensitivities;

/* False with the error set: of runs, or cancelled. In `arena`. */
bool sensitivities_measure(const Sensitivity *asked, Sensitivities *found, Arena *arena, Err *err);

#endif
