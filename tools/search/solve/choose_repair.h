// SPDX-License-Identifier: Apache-2.0
/* From a good point to a better one: groups that are changed one, two or many at a time. */
#ifndef DEMI_CHOOSE_REPAIR_H
#define DEMI_CHOOSE_REPAIR_H

#include "solve_bound.h"
#include "solve_trace.h"

/* Where to go from a point. With a target: to what costs less and reaches it. With `most_cost`: to higher
 * scores at no more cost. */
typedef struct Repair {
    SolveTrace *trace;
    const SolveProblem *problem; /* as the trace's, but that only usable candidates are allowed */
    const SolveJoint *joint;     /* of the first cost alone */
    double target;               /* NaN: none */
    double most_cost;            /* where there is no target */
    double
        *noise;   /* [groups][candidates], as they are known by now: more where they disappointed */
    double slack; /* noise that is thought to be free yet */
    Arena *arena;
} Repair;

Repair repair_init(SolveTrace *trace, const SolveProblem *problem, const SolveJoint *joint,
                   Arena *arena);

/* Lowers groups that save most for their noise, twice as many together while it is good and half as
 * many where it is not, in at most so many evaluations. */
void repair_lower(Repair *repair, size_t evaluations);

/* The same until each group that is left failed alone: what was lowered in vain comes after the others
 * then, as of noises that are hardly known. */
void repair_lower_all(Repair *repair, size_t evaluations);

/* Changes one group, or two of which one pays for the other or that cost something together: first what
 * promises most. */
void repair_change(Repair *repair, size_t evaluations);

/* Lowers groups that change the second cost alone. */
void repair_second(Repair *repair, size_t evaluations);

/* Whether no more can be scored. */
static inline bool repair_ended(const Repair *repair) {
    return repair->trace->failed || repair->trace->spent;
}

#endif
