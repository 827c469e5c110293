// SPDX-License-Identifier: Apache-2.0
/* Confidence intervals: quantiles of the distributions that they are made of, and the interval of a share.
 *
 * `confidence` is the probability, between 0 and 1, that both ends enclose together. */
#ifndef DEMI_INTERVAL_H
#define DEMI_INTERVAL_H

#include <stdint.h>

typedef struct Interval {
    double low, high; /* NaN: not known */
} Interval;

/* z with P(|Z| <= z) = confidence, of a normal Z with variance 1. */
double interval_normal(double confidence);

/* t with P(|T| <= t) = confidence, of Student's T with so many degrees of freedom, at least 1. Beyond 1000 it
 * is that of 1000, which is larger by less than 0.2 %. */
double interval_student(double confidence, uint64_t freedom);

/* Of the probability of what came true `right` times in `count` independent trials: Wilson's interval. NaN
 * where count is 0. */
Interval interval_of_share(double right, double count, double confidence);

/* Of the difference between two probabilities that were tried on the same `count` cases: how many came true
 * only with the second, and only with the first. */
Interval interval_of_change(double gained, double lost, double count, double confidence);

#endif
