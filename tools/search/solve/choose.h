// SPDX-License-Identifier: Apache-2.0
/* The cheapest assignment that is good enough, in few evaluations.
 *
 * Solved: for a bound on the sum of noise, the problem's numbers say what costs least (solve_bound.h).
 * Verified: the largest bound whose solution is good enough is found by halving on real scores.
 * Repaired: from the best so far, groups are lowered, and some raised for others that are lowered, as
 * long as evaluations remain; what was tried in vain counts as more noise afterwards (choose_repair.h).
 * Beside it every candidate is tried for all groups; AIMET's order is walked, and the groups in the
 * order of their noise per cost saved, each only as long as it may come to something cheaper. The result
 * is the cheapest good enough point of all: it costs no more than any of these alone.
 *
 * What has infinite or NaN noise is never tried (solve_usable). */
#ifndef DEMI_CHOOSE_H
#define DEMI_CHOOSE_H

#include "solve_trace.h"

typedef enum ChooseOutcome {
    CHOOSE_FOUND,
    CHOOSE_TRIVIAL, /* the cheapest assignment there is is good enough */
    CHOOSE_NOTHING, /* nothing that was scored is good enough, the most precise neither */
} ChooseOutcome;

/* Evaluations at most for each part. Beside these every candidate is tried everywhere, and orders are
 * walked by halving, as long as they may come to something cheaper. */
typedef struct ChooseEffort {
    size_t halvings; /* of the bound */
    size_t lowering; /* several groups at a time */
    size_t repairs;  /* one or two groups at a time */
    size_t second;   /* for the second cost */
    bool thorough;   /* lowering goes on until each group failed alone */
} ChooseEffort;
#define CHOOSE_EFFORT                                                                              \
    { 12, 8, 32, 10, false }

typedef struct ChooseOptions {
    ChooseEffort effort;
    const double *alone, *bits; /* AimetOptions'; NULL: AIMET's order is not walked */
} ChooseOptions;

/* Scores assignments until it knows, or may no more (trace->spent). What is found is
 * solve_cheapest(trace, target). False where an evaluation failed (trace->err). */
bool choose_search(SolveTrace *trace, double target, const ChooseOptions *options,
                   ChooseOutcome *outcome);

/* Only repairs, from the cheapest good enough point that was scored. */
bool choose_repair(SolveTrace *trace, double target, const ChooseEffort *effort);

/* Scores every candidate everywhere, where groups may have it, and the cheapest assignment there is,
 * whose point is *cheapest; *widest is the most precise one's. SOLVE_NONE where it ended before. */
bool choose_uniform(SolveTrace *trace, size_t *widest, size_t *cheapest);

/* Scores so many solutions from the most precise to the cheapest beside these: the curve of scores by
 * cost. */
bool choose_curve(SolveTrace *trace, size_t points);

/* Scores what has least noise at a cost of at most `most_cost`, every candidate everywhere that costs no
 * more, and at most `points` more. What is found is solve_highest(trace, most_cost), which is SOLVE_NONE
 * where the cheapest costs more: that is scored then. */
bool choose_within(SolveTrace *trace, double most_cost, size_t points);

/* The least cost for a sum of noise of at most `bound`, into assignment[groups]; the most precise where
 * nothing keeps to it. */
void choose_knapsack(const SolveProblem *problem, double bound, Arena *scratch,
                     uint8_t *assignment);

#endif
