// SPDX-License-Identifier: Apache-2.0
/* How far two values are apart: what `run --data` and `compare` report. */
#ifndef DEMI_VALUE_COMPARE_H
#define DEMI_VALUE_COMPARE_H

#include "arena.h"
#include "demi_trials.h"
#include "workers.h"

typedef struct Tolerance {
    double relative, absolute; /* |got - want| <= absolute + relative * |want| */
    bool exact_integers;       /* integers and bools must be equal all the same */
    bool any_float;            /* different floating-point types are comparable */
    int32_t ulp_of;   /* a narrower type than both, whose last place counts; 0: the narrower's */
    Workers *workers; /* threads to compare with; NULL: the caller's alone */
} Tolerance;

/* NaN equals NaN, and Inf the Inf of its sign. Sequences are compared item by item, as one. */
void value_compare(Arena *arena, const DemiData *got, const DemiData *want,
                   const Tolerance *tolerance, DemiDistance *diff);

/* What `run` prints of an output. */
typedef struct ValueStats {
    double min, max, mean; /* of finite elements; NaN where there is none */
    uint64_t count, nan, inf;
} ValueStats;
void value_stats(const DemiData *tensor, ValueStats *stats);

/* The largest magnitude, which may be Inf; -1 where there is no number. */
double value_largest(const DemiData *tensor, Workers *workers);

#endif
