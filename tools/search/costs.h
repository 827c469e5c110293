// SPDX-License-Identifier: Apache-2.0
/* What a model's groups cost: multiplications and elements as a run has them, from which the cost of
 * any assignment of precisions follows.
 *
 *     BitOps            sum over products: multiplications times the bits of both factors, a float's
 *                       times sqrt(1.5) (candidate_bits), as AIMET counts them, and of all products:
 *                       of attention, batches, and transposed convolutions, too
 *     activation bytes  sum over groups: elements of its values times the bits they are stored in
 *     weight bytes      the same of weights */
#ifndef DEMI_COSTS_H
#define DEMI_COSTS_H

#include "candidate.h"
#include "measured_model.h"
#include "trial.h"

typedef struct Costs {
    const MeasuredModel *model;
    const Groups *groups;    /* of it */
    double *multiplications; /* [works] */
    double *elements;        /* [groups]: of values */
    double *weight_elements; /* [groups] */
} Costs;

typedef struct Cost {
    double bitops, activation_bytes, weight_bytes;
} Cost;

/* From a run of the first set of inputs; the trials' reference has the groups' values. In `arena`. */
bool costs_measure(Costs *costs, const MeasuredModel *model, Trials *trials, Arena *arena,
                   Err *err);

/* Bytes of a group's weights. */
double costs_weight_bytes(const Costs *costs, uint32_t group, const Candidate *candidate);

/* Of an assignment: a candidate's number for each group. */
Cost costs_of(const Costs *costs, const Candidate *const *candidates, const uint8_t *assignment);

/* What a group's values have by the candidate. */
Dtype costs_activations(const Costs *costs, uint32_t group, const Candidate *candidate);

/* Of one product whose factors have these candidates. */
double costs_of_work(const Costs *costs, size_t work, const Candidate *left,
                     const Candidate *right);

#endif
