// SPDX-License-Identifier: Apache-2.0
/* When one way is faster than another, of times that were measured by turns.
 *
 * Medians are compared. The other way wins where its median is less by more than both a least gain
 * (2 % of a step's time, 1 % of a whole run's) and three times what the medians are uncertain by: the standard error of a median of n normal values, 1.2533
 * sigma / sqrt(n), of both together, where sigma is 1.4826 times the median distance from the median.
 * So what disturbs some runs has no weight, and what disturbs all of them makes no winner. */
#ifndef DEMI_TUNE_RULE_H
#define DEMI_TUNE_RULE_H

#include <stdbool.h>
#include <stddef.h>

/* Seconds of each run; at least one. */
typedef struct TuneTimes {
    const double *seconds;
    size_t count;
} TuneTimes;

/* `scratch` has room for as many as there are. */
double tune_median(const TuneTimes *times, double *scratch);

/* True where `other` takes less time than `base`, by more than that share of it. `scratch` as above,
 * for the longer one. */
bool tune_is_faster(const TuneTimes *base, const TuneTimes *other, double least_gain,
                    double *scratch);

#endif
