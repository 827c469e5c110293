// SPDX-License-Identifier: Apache-2.0
/* Scores, and how well few sets tell them: beside the jackknife, which leaves out one set after the
 * other. */
#include <math.h>
#include <stdlib.h>

#include "metric.h"
#include "unit_test.h"

enum { SETS = 40, WIDTH = 6 };

static float normal(void) {
    float sum = 0;
    for (int i = 0; i < 12; i++) sum += (float)rand() / (float)RAND_MAX;
    return sum - 6;
}

typedef struct Set {
    float want[WIDTH], have[WIDTH];
} Set;

static DemiData row(float *items) {
    static const int64_t dims[] = {1, WIDTH};
    return (DemiData){.kind = DEMI_DATA_TENSOR_KIND,
                      .dtype = DEMI_FLOAT,
                      .rank = 2,
                      .dims = dims,
                      .data = items,
                      .size = sizeof(float[WIDTH])};
}

/* Of all sets but one; -1: of all. */
static void sum(MetricSums *sums, Set *sets, size_t count, int without) {
    metric_begin(sums, 1, &test_arena);
    for (size_t i = 0; i < count; i++) {
        if ((int)i == without) continue;
        const DemiData want = row(sets[i].want), have = row(sets[i].have);
        metric_add_output(sums, 0, &want, &have);
        metric_add_rows(sums, &want, &have, NULL, 0);
        sums->sets++;
    }
}

static void make(Set *sets, float noise) {
    srand(3);
    for (size_t i = 0; i < SETS; i++)
        for (int k = 0; k < WIDTH; k++) {
            sets[i].want[k] = normal();
            sets[i].have[k] = sets[i].want[k] + noise * normal();
        }
}

TEST(test_sqnr) {
    Set sets[SETS];
    MetricSums sums;
    make(sets, 0.01f);
    sum(&sums, sets, SETS, -1);
    const double score = metric_score(&sums, DEMI_METRIC_SQNR);
    const double error = metric_score_error(&sums, DEMI_METRIC_SQNR);
    assert_true(fabs(score - 40) < 1.5);
    /* the signal is the same in every runtime: what is left out of it is the noise alone */
    double squares = 0;
    const double all = 10 * log10(sums.outputs[0].noise / SETS);
    for (int i = 0; i < SETS; i++) {
        MetricSums rest;
        sum(&rest, sets, SETS, i);
        const double off = 10 * log10(rest.outputs[0].noise / (SETS - 1)) - all;
        squares += off * off;
    }
    const double jackknife = sqrt(squares * (SETS - 1) / SETS);
    assert_true(fabs(error / jackknife - 1) < 0.05);
    MetricSums one, two; /* a sum of two numbers varies by their difference */
    sum(&one, sets, 1, -1);
    sum(&two, sets, 2, -1);
    const double first = one.outputs[0].noise, both = two.outputs[0].noise;
    assert_true(fabs(metric_score_error(&two, DEMI_METRIC_SQNR) -
                     10 / log(10) * fabs(both - 2 * first) / both) < 1e-9);
}

/* Sets that are added together, or in two parts. */
TEST(test_parts) {
    Set sets[SETS];
    MetricSums whole, first, second;
    make(sets, 0.5f);
    sum(&whole, sets, SETS, -1);
    sum(&first, sets, SETS / 4, -1);
    sum(&second, sets + SETS / 4, SETS - SETS / 4, -1);
    metric_join(&first, &second);
    const double error = metric_score_error(&whole, DEMI_METRIC_SQNR);
    assert_true(fabs(metric_score_error(&first, DEMI_METRIC_SQNR) / error - 1) < 1e-9);
    const double share = metric_score(&first, DEMI_METRIC_TOP1);
    assert_true(share > 0 && share < 1);
    assert_true(fabs(metric_score_error(&first, DEMI_METRIC_TOP1) -
                     sqrt(share * (1 - share) / SETS)) < 1e-12);
    Set equal = {.want = {2, 1}, .have = {2, 2}}; /* the answer is the first of them */
    sum(&whole, &equal, 1, -1);
    assert_true(metric_score(&whole, DEMI_METRIC_TOP1) == 1);
}

TEST(test_unknown) {
    Set sets[SETS];
    MetricSums sums;
    make(sets, 0.01f);
    sum(&sums, sets, 1, -1);
    assert_true(isnan(metric_score_error(&sums, DEMI_METRIC_SQNR)));
    sum(&sums, sets, SETS, -1);
    assert_true(isnan(metric_score_error(&sums, DEMI_METRIC_ERROR)));
    make(sets, 0);
    sum(&sums, sets, SETS, -1);
    assert_true(metric_score_error(&sums, DEMI_METRIC_SQNR) == 0);
}
