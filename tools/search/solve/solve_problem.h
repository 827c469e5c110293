// SPDX-License-Identifier: Apache-2.0
/* What is decided: one of several candidates for each of many groups.
 *
 * A candidate of a group costs something and disturbs something. Costs add up, over groups and over
 * pairs of groups, so that what two groups cost together (a product of two values that are made, a
 * conversion between neighbors) can depend on both. Noises are thought to add up, which they do but
 * about: what an assignment is worth is only known when it was scored (solve_trace.h).
 *
 * An assignment is a candidate's number for each group. Its cost is always added up in the same
 * order, so that equal assignments have equal costs, and exactly where all terms are integers and
 * their sums stay below 2^53. */
#ifndef DEMI_SOLVE_PROBLEM_H
#define DEMI_SOLVE_PROBLEM_H

#include "arena.h"
#include "err.h"

#include <stdint.h>

enum { SOLVE_CANDIDATES = 16 }; /* at most */

/* No such number, of points and of whatever else is counted here. */
#define SOLVE_NONE SIZE_MAX

typedef struct SolvePair {
    uint32_t a, b;      /* two groups, not the same */
    const double *cost; /* [candidates][candidates]: by a's candidate, then b's */
} SolvePair;

/* Tables are [groups][candidates], and the caller's. */
typedef struct SolveProblem {
    uint32_t groups, candidates; /* candidates: from the most precise on */
    const bool *allowed;         /* NULL: all; each group has at least one */
    const double
        *noise;         /* of the group alone, not negative; infinity and NaN: not to be chosen, but
                                 that the most precise one may be anything, as it is there before */
    const double *cost; /* finite */
    const double *second; /* what is to be least where costs are equal; finite; NULL: nothing */
    const SolvePair *pairs;
    size_t pair_count;
} SolveProblem;

/* False with ERR_USAGE where the above does not hold. */
bool solve_problem_check(const SolveProblem *problem, Err *err);

static inline size_t solve_at(const SolveProblem *problem, uint32_t group, uint8_t candidate) {
    return (size_t)group * problem->candidates + candidate;
}

/* Whether the group may have it. */
bool solve_allowed(const SolveProblem *problem, uint32_t group, uint8_t candidate);

/* The group's first candidate: its most precise one. */
uint8_t solve_first(const SolveProblem *problem, uint32_t group);

/* Whether it may be chosen by its noise, too. Of the first candidate that always holds. */
bool solve_usable(const SolveProblem *problem, uint32_t group, uint8_t candidate);

/* Its noise where that is finite, else 0, which only first candidates can be asked for. */
double solve_noise_of(const SolveProblem *problem, uint32_t group, uint8_t candidate);

/* The candidate for every group that may have it, and their first ones for others. */
void solve_uniform(const SolveProblem *problem, uint8_t candidate, uint8_t *assignment);

/* What an assignment costs. */
double solve_cost(const SolveProblem *problem, const uint8_t *assignment);

/* What it costs second; 0 where there is no such thing. */
double solve_second(const SolveProblem *problem, const uint8_t *assignment);

/* What it disturbs, if noises add up; infinite where a group has what is not to be chosen. */
double solve_noise(const SolveProblem *problem, const uint8_t *assignment);

#endif
