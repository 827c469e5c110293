// SPDX-License-Identifier: Apache-2.0
/* AIMET's choose_mixed_precision, as its code decides: the same order, the same ties, the same
 * assignments tried.
 *
 * Phase 1 sorts what each candidate does to each group alone. Phase 2 applies that list, one entry
 * after the other and each on top of all before, and looks for the last place of it at which the score
 * still reaches the target. Phase 3 is in aimet_conversions.h. What differs: NaN and infinity count as
 * the worst score, so that they are never shipped; and what AIMET returns nothing for is told apart
 * (AimetExit). */
#ifndef DEMI_AIMET_H
#define DEMI_AIMET_H

#include "aimet_search.h"
#include "solve_trace.h"

typedef struct AimetOptions {
    const double
        *alone; /* [groups][candidates]: phase 1's scores, of the group alone; more is better,
                                NaN is worst. Its candidates that are not the baseline's are read */
    const double *bits; /* [groups][candidates]: of equal scores that of more bits goes first: the
                                sum of activations' and weights', or activations' where a group has none */
    double float_score; /* the model's own */
    double drop;        /* from there that is allowed; NaN: the whole curve */
    AimetSearch search;
    bool reverse; /* phase 2 begins with the lowest candidates and raises */
} AimetOptions;

/* How it ended. */
typedef enum AimetExit {
    AIMET_FOUND,        /* at a place of the list */
    AIMET_BEST_MISSES,  /* the best candidate everywhere drops too far: it is what is left */
    AIMET_LOWEST_MEETS, /* the cheapest candidate everywhere is good enough */
    AIMET_NO_PLACE, /* no place of the list that was tried is good enough: the best everywhere */
    AIMET_NOTHING_TO_DO, /* the list is empty: no group has another candidate */
    AIMET_CURVE,         /* all places were tried; what the last one has */
    AIMET_ENDED,         /* evaluations were used up, or one failed (SolveTrace) */
} AimetExit;

/* An entry of phase 1's list, and of its accuracy_list.json. */
typedef struct AimetEntry {
    uint32_t group;
    uint8_t candidate;
    double score;     /* of the group alone */
    double reduction; /* of cost, by this alone, from the baseline */
} AimetEntry;

/* A place that phase 2 tried; an entry of pareto_list.json. */
typedef struct AimetPlace {
    double relative; /* cost, by what phase 2 starts at; 1 where that is nothing */
    double score;
    uint32_t group;
    uint8_t candidate;
    size_t place; /* in the list */
} AimetPlace;

/* A list to be applied, and what to. */
typedef struct AimetWalk {
    const SolveProblem *problem;
    const AimetEntry *entries; /* in the order in which they are applied */
    size_t count;
    const uint8_t *start; /* [groups] */
} AimetWalk;

typedef struct AimetResult {
    AimetExit exit;
    uint8_t best, lowest;    /* candidates that are best and cheapest everywhere */
    AimetWalk walk;          /* no entries where it was over before phase 1 */
    const AimetPlace *tried; /* by their place */
    size_t tried_count;
    size_t point; /* of the trace: the assignment to use; SOLVE_NONE where it ended before */
} AimetResult;

/* Runs phases 1 and 2. False where an evaluation failed (trace->err); one that ended for want of
 * evaluations is true, with AIMET_ENDED. Results lie in the trace's arena. */
bool aimet_choose(SolveTrace *trace, const AimetOptions *options, AimetResult *result);

/* Phase 1's list and start of phase 2, best and lowest being the candidates everywhere: `reverse`
 * turns it round and gives each entry the group's next better candidate. In `arena`. */
AimetWalk aimet_walk(const SolveProblem *problem, const AimetOptions *options, uint8_t best,
                     uint8_t lowest, Arena *arena);

/* The assignment at a place: all entries up to it applied. */
void aimet_walk_to(const AimetWalk *walk, size_t place, uint8_t *assignment);

#endif
