// SPDX-License-Identifier: Apache-2.0
/* AIMET's third phase: fewer conversions between precisions, for some of the cost that was saved.
 *
 * Where two groups that follow on each other have different candidates, what passes between them is
 * converted, which costs the edge's weight. For every alpha from 1 to 0 the cheapest assignment is
 * looked for whose conversions cost no more than a limit that falls with alpha; groups may only go back
 * to the best candidate. As AIMET has it, the limit is a sum of the smallest weights of all edges: of as
 * many, times alpha, as sum up to what phase 2's conversions cost; and 0 for alpha 0. Unlike AIMET's,
 * each result is scored, and one that does not reach the target is not chosen.
 *
 * The integer program is solved by branching, with bounds from minimum cuts in which conversions have a
 * price. */
#ifndef DEMI_AIMET_CONVERSIONS_H
#define DEMI_AIMET_CONVERSIONS_H

#include "solve_trace.h"

typedef struct AimetEdge {
    uint32_t a, b;
    double weight; /* not negative */
} AimetEdge;

typedef struct AimetConversions {
    const AimetEdge *edges;
    size_t edge_count;
    const double *alphas; /* from 1 to 0 each */
    size_t alpha_count;
    double price;  /* of a weight of 1, by cost: what is chosen is least of both */
    double target; /* score to reach */
    size_t point;  /* of the trace: phase 2's result */
    uint8_t best;  /* candidate that groups go back to */
} AimetConversions;

typedef struct AimetReduced {
    double alpha, limit;
    double conversions; /* what they cost; more than the limit where nothing keeps to it */
    double cost;
    size_t point;
    bool exact; /* no other assignment within the limit is cheaper; otherwise none was found, within
                       as many steps as are taken */
} AimetReduced;

/* Fills reduced[alpha_count] and sets *chosen to the point with the least of cost and priced conversions
 * among these and phase 2's that reach the target; phase 2's where none does. False where an evaluation
 * failed or none was left: trace->failed, trace->spent; what was not scored has SOLVE_NONE, and *chosen
 * is of what was. */
bool aimet_reduce_conversions(SolveTrace *trace, const AimetConversions *conversions,
                              AimetReduced *reduced, size_t *chosen);

/* What an assignment's conversions cost. */
double aimet_conversion_cost(const AimetConversions *conversions, const uint8_t *assignment);

#endif
