// SPDX-License-Identifier: Apache-2.0
/* Assignments that were scored: none twice, and no more than allowed.
 *
 * Whatever searches asks solve_trace_score for every assignment it wants to know of, and leaves when
 * that says false; what was scored until then stays. Higher scores are better; NaN and infinity are
 * never good enough, whatever is aimed at. */
#ifndef DEMI_SOLVE_TRACE_H
#define DEMI_SOLVE_TRACE_H

#include "solve_problem.h"
#include "vec.h"

typedef struct SolveOracle {
    /* Sets *score; false with the error set ends the search. */
    bool (*evaluate)(void *user, const uint8_t *assignment, double *score, Err *err);
    bool (*stop)(void *user); /* asked before each evaluation: true ends the search; NULL: never */
    void *user;
    size_t limit; /* evaluations at most; 0: any number */
} SolveOracle;

typedef struct SolvePoint {
    const uint8_t *assignment; /* [groups] */
    double score;              /* NaN where it was not finite */
    double cost, second;
} SolvePoint;

typedef struct SolveTrace {
    const SolveProblem *problem;
    SolveOracle oracle;
    Arena *arena;
    Err *err;
    VEC(SolvePoint) points; /* in the order in which they were scored */
    size_t *slots;          /* hash table of points, by assignment */
    size_t slot_count;      /* a power of two, or 0 */
    bool spent;             /* limit or stop() refused an evaluation */
    bool failed;            /* one ended with *err */
} SolveTrace;

/* An empty trace of a checked problem. Everything given is borrowed. */
void solve_trace_init(SolveTrace *trace, const SolveProblem *problem, const SolveOracle *oracle,
                      Arena *arena, Err *err);

/* Sets *point to the number of the assignment's point, scored now or before. False, once and for all
 * that was not scored before, where no evaluation is left, or one failed. */
bool solve_trace_score(SolveTrace *trace, const uint8_t *assignment, size_t *point);

/* The assignment's point, or SOLVE_NONE where it was not scored. */
size_t solve_trace_find(const SolveTrace *trace, const uint8_t *assignment);

static inline const SolvePoint *solve_point(const SolveTrace *trace, size_t point) {
    return &trace->points.items[point];
}

/* Its score, or minus infinity where that is none. */
double solve_value(const SolveTrace *trace, size_t point);

/* Whether a point is better where both are good enough: cheaper, then cheaper second, then of a higher
 * score, then the first of both by their assignments. Never true of equal assignments. */
bool solve_cheaper(const SolveTrace *trace, size_t a, size_t b);

/* The best in this sense of all points with at least this score, or SOLVE_NONE. */
size_t solve_cheapest(const SolveTrace *trace, double target);

/* The point of the highest score among those that cost no more, the cheapest of equal ones; SOLVE_NONE
 * where none has a score. */
size_t solve_highest(const SolveTrace *trace, double most_cost);

/* Points with a score than which no other is as cheap, as cheap second and as good, and in one of these
 * better; of points alike in all, the first. By cost, then second cost. In `arena`. */
const size_t *solve_front(const SolveTrace *trace, Arena *arena, size_t *count);

#endif
