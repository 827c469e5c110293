// SPDX-License-Identifier: Apache-2.0
/* How far two values are apart: what `run --data` and `compare` report. */
#ifndef DEMI_VALUE_COMPARE_H
#define DEMI_VALUE_COMPARE_H

#include "arena.h"
#include "demi_runtime.h"
#include "workers.h"

typedef struct Tolerance {
    double relative, absolute; /* |got - want| <= absolute + relative * |want| */
    bool exact_integers;       /* integers and bools must be equal all the same */
    bool any_float;            /* different floating-point types are comparable */
    int32_t ulp_of;   /* a narrower type than both, whose last place counts; 0: the narrower's */
    Workers *workers; /* threads to compare with; NULL: the caller's alone */
} Tolerance;

typedef struct ValueDiff {
    const char *mismatch; /* why they can't be compared: type, shape, kind; else NULL */
    uint64_t count;       /* elements */
    uint64_t beyond;      /* elements beyond the tolerance */
    uint64_t worst;       /* index of the element that is furthest beyond it, within its tensor */
    double worst_got, worst_want;
    uint64_t special;         /* NaN or Inf on one side alone, or of other sign */
    uint64_t broken;          /* of these, where the expected one is a number */
    double max_abs, mean_abs; /* of finite elements; max_abs is Inf where `special` is not 0 */
    double scale;             /* the largest finite |want| */
    double error;             /* max_abs / scale: 0 where both are 0, Inf where only scale is */
    double ulp;               /* largest distance in units in the last place */
    int32_t ulp_of;           /* of this type */
    double sqnr;              /* dB: 10 log10(sum want^2 / sum (got - want)^2), Inf where equal */
    double cosine;            /* of the angle between them as vectors; NaN where one is 0 */
} ValueDiff;

/* NaN equals NaN, and Inf the Inf of its sign. Sequences are compared item by item, as one. */
void value_compare(Arena *arena, const DemiData *got, const DemiData *want,
                   const Tolerance *tolerance, ValueDiff *diff);

/* What `run` prints of an output. */
typedef struct ValueStats {
    double min, max, mean; /* of finite elements; NaN where there is none */
    uint64_t count, nan, inf;
} ValueStats;
void value_stats(const DemiData *tensor, ValueStats *stats);

/* The largest magnitude, which may be Inf; -1 where there is no number. */
double value_largest(const DemiData *tensor, Workers *workers);

#endif
