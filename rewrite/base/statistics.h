// SPDX-License-Identifier: Apache-2.0
/* Value statistics: what narrowing an array of floats would change, counted before it is done.
 *
 * The counts are about the result of half.h's conversion (round to nearest even), so "overflow" is
 * a finite value that the conversion turns into Inf, not merely one above the largest finite value.
 */
#ifndef DEMI_BASE_STATISTICS_H
#define DEMI_BASE_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"

typedef struct ValueStatistics {
    uint64_t count;     /* all values */
    uint64_t zero;      /* of them, +0 and -0 */
    uint64_t overflow;  /* finite, ±Inf in the target */
    uint64_t underflow; /* not 0, ±0 in the target */
    uint64_t subnormal; /* not 0 in the target, but subnormal there: precision is lost */
    uint64_t nan, inf;  /* in the source; they stay what they are */
    float max_abs;      /* largest finite magnitude; 0 where there is none */
    float min_abs;      /* smallest finite magnitude that is not 0; 0 where there is none */
} ValueStatistics;

/* True where the conversion changes a value by more than rounding. */
static inline bool statistics_loses(const ValueStatistics *statistics) {
    return statistics->overflow || statistics->underflow || statistics->subnormal;
}

/* Adds `count` values to the statistics, which starts as {0}; an array may be given in pieces. False,
 * with nothing added, where the target is none of float16, bfloat16 and float (of which the last
 * can overflow and underflow nothing). */
bool statistics_floats(ValueStatistics *statistics, const float *values, size_t count,
                       Dtype target);

#endif
