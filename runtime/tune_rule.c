// SPDX-License-Identifier: Apache-2.0
/* Medians and what they are uncertain by; see tune_rule.h. */
#include "tune_rule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double ERRORS = 3;
static const double SIGMA_OF_DISTANCE = 1.4826, ERROR_OF_MEDIAN = 1.2533;

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

double tune_median(const TuneTimes *times, double *scratch) {
    memcpy(scratch, times->seconds, times->count * sizeof *scratch);
    return middle(scratch, times->count);
}

/* The standard error of the median. */
static double error_of(const TuneTimes *times, double median, double *scratch) {
    for (size_t i = 0; i < times->count; i++) scratch[i] = fabs(times->seconds[i] - median);
    const double sigma = SIGMA_OF_DISTANCE * middle(scratch, times->count);
    return ERROR_OF_MEDIAN * sigma / sqrt((double)times->count);
}

bool tune_is_faster(const TuneTimes *base, const TuneTimes *other, double least_gain,
                    double *scratch) {
    const double before = tune_median(base, scratch), after = tune_median(other, scratch);
    const double error = hypot(error_of(base, before, scratch), error_of(other, after, scratch));
    const double gain = before - after;
    return gain > least_gain * before && gain > ERRORS * error;
}
