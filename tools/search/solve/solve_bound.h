// SPDX-License-Identifier: Apache-2.0
/* The least cost for a bound on noise, if noises add up: what the problem's numbers say, without a
 * question.
 *
 * Costs of groups are a knapsack of one choice a group: states of noise and cost that no other stands
 * before, group by group, at most 4096 of them and all of them as long as they are fewer. Costs of
 * pairs count there as if other groups were as they were found before. Where there are any, minimum
 * cuts are made beside it, in which noise has a price: of two candidates a group these are exact for
 * their noise; of more, each in turn is offered to all groups. The cheaper of both is the result, after
 * single groups were lowered as long as the bound holds. */
#ifndef DEMI_SOLVE_BOUND_H
#define DEMI_SOLVE_BOUND_H

#include "solve_problem.h"

/* What both costs come to: the first, and the second times a weight. */
typedef struct SolveJoint {
    const SolveProblem *problem;
    double weight;
    const SolvePair **pairs; /* of group g: first[g] up to first[g + 1] */
    size_t *first;           /* [groups + 1] */
} SolveJoint;

SolveJoint solve_joint(const SolveProblem *problem, double weight, Arena *arena);

/* Of an assignment. */
double solve_joint_cost(const SolveJoint *joint, const uint8_t *assignment);

/* What depends on one group's candidate, the others as they are. */
double solve_joint_of(const SolveJoint *joint, uint32_t group, uint8_t candidate,
                      const uint8_t *assignment);

/* Into assignment[groups] usable candidates of least cost whose noises sum up to at most `bound`, which
 * may be infinite; the first ones where none do. */
void solve_bound(const SolveJoint *joint, double bound, Arena *arena, uint8_t *assignment);

#endif
