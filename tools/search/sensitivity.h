// SPDX-License-Identifier: Apache-2.0
/* What groups do to the outputs where they alone have another precision: each on its own, or bundles of
 * several together. */
#ifndef DEMI_SENSITIVITY_H
#define DEMI_SENSITIVITY_H

#include "candidate.h"
#include "measured_model.h"
#include "metric.h"
#include "trial.h"
#include "group_ranges.h"

/* What is asked, and of what: [groups][candidates] tables are by group first. */
typedef struct Sensitivity {
    Trials *trials; /* of the measured model; every value is kept */
    const MeasuredModel *model;
    const Candidate *const *candidates; /* [candidate_count] */
    size_t candidate_count;
    const bool *wanted;     /* [groups][candidates]; others stay as they are here */
    const uint32_t *bundle; /* [groups]: the first group of those that are changed together, which
                               is its own, and has the answer */
    const GroupRanges *ranges;  /* of activations; NULL where no candidate needs it */
    const MetricLabels *labels; /* NULL: none */
    size_t sets;                /* how many of the sets at most, spread over all of them */
    bool fewer;                 /* as many of them as an answer takes to be known well */
    uint64_t cache_bytes;       /* of values kept from a run */
    size_t part, parts;         /* every parts-th bundle alone */
} Sensitivity;

/* The number of a bundle's own candidate in the tables, where this process is asked for it, and it is
 * wanted of a group of the bundle. */
bool sensitivity_asked(const Sensitivity *asked, uint32_t bundle, size_t candidate);

/* What was found. */
typedef struct Sensitivities {
    MetricSums *sums; /* [groups][candidates]: of bundles' first groups, those that were asked */
    double *replays;  /* the same: how many sets it took, */
    double *steps;    /* and steps these ran, by those of as many whole runs */
} Sensitivities;

/* False with the error set: of runs, or cancelled. In `arena`. */
bool sensitivities_measure(const Sensitivity *asked, Sensitivities *found, Arena *arena, Err *err);

#endif
