// SPDX-License-Identifier: Apache-2.0
/* Exact choices of one of two options for each of many, where what pairs cost is of a kind that a
 * minimum cut can express.
 *
 * A term of a pair draws its two ends together where equal options are cheaper than different ones,
 *
 *     cost[0][0] + cost[1][1] <= cost[0][1] + cost[1][0]
 *
 * and apart otherwise. All terms that draw together can be solved, as conversions do; so can those that
 * draw apart, as products of two values do, where options 0 and 1 of some can be swapped so that no
 * term draws apart any more: where no ring has an odd number of these. */
#ifndef DEMI_SOLVE_CUT_H
#define DEMI_SOLVE_CUT_H

#include "arena.h"

#include <stdbool.h>

typedef struct CutTerm {
    uint32_t a, b; /* not the same; several terms may have the same */
    double cost[2][2];
} CutTerm;

typedef struct CutProblem {
    uint32_t count;
    const double (*unary)[2]; /* [count] */
    const CutTerm *terms;
    size_t term_count;
} CutProblem;

/* Sets choice[count] to options whose costs are least together, within a part in 2^50 of all costs'
 * sum. False where the terms can't be expressed. Costs are finite. `arena` holds the network. */
bool solve_cut(const CutProblem *problem, Arena *arena, uint8_t *choice);

#endif
