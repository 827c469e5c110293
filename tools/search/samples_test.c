// SPDX-License-Identifier: Apache-2.0
/* Intervals of scores: how often they hold the score of much more data, for skewed noise as quantization makes
 * it; and what samples are. */
#include "samples.h"

#include <math.h>
#include <stdlib.h>

#include "unit_test.h"

enum { WIDTH = 8, FEW = 12, MANY = 4000, TRIALS = 400 };

static float normal(void) {
    float sum = 0;
    for (int i = 0; i < 12; i++) sum += (float)rand() / (float)RAND_MAX;
    return sum - 6;
}

static DemiData tensor(const float *items, int64_t rows, int64_t *dims) {
    dims[0] = rows;
    dims[1] = WIDTH;
    return (DemiData)DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, items);
}

/* Samples whose noise differs by e^+-1. */
static void draw(float *want, float *have, size_t rows) {
    for (size_t i = 0; i < rows; i++) {
        const float noise = 0.02f * expf(0.5f * normal());
        for (size_t k = 0; k < WIDTH; k++) {
            want[i * WIDTH + k] = normal();
            have[i * WIDTH + k] = want[i * WIDTH + k] + noise * normal();
        }
    }
}

typedef struct Seen {
    Samples samples;
    MetricSums sums;
} Seen;

/* As rows of one set, or as sets. */
static void look(Seen *seen, const float *want, const float *have, size_t rows, bool as_rows) {
    metric_begin(&seen->sums, 1, &test_arena);
    samples_begin(&seen->samples, 1, &test_arena);
    const size_t each = as_rows ? rows : 1;
    for (size_t i = 0; i < rows; i += each) {
        int64_t dims[2];
        const DemiData y = tensor(want + i * WIDTH, (int64_t)each, dims);
        const DemiData z = tensor(have + i * WIDTH, (int64_t)each, dims);
        const DemiData *const mine = &y, *const other = &z;
        metric_add_output(&seen->sums, 0, &y, &z);
        metric_add_rows(&seen->sums, &y, &z, NULL, 0);
        samples_add_set(&seen->samples, &mine, &other, as_rows ? each : 0);
        seen->sums.sets++;
    }
}

static Interval interval(const Seen *seen, DemiMetric metric, size_t expected) {
    const IntervalOptions how = {metric, 0.95, expected, false};
    return samples_interval(&seen->samples, &seen->sums, &how);
}

/* How many intervals of few samples hold the score of as many as `other`. */
static int count_holding(DemiMetric metric, size_t other) {
    static float want[MANY * WIDTH], have[MANY * WIDTH];
    int held = 0;
    srand(7);
    draw(want, have, MANY);
    Seen all, few;
    look(&all, want, have, MANY, true);
    for (int i = 0; i < TRIALS; i++) {
        float y[FEW * WIDTH], z[FEW * WIDTH];
        draw(y, z, FEW);
        look(&few, y, z, FEW, true);
        if (other != MANY) { /* others each time */
            draw(want, have, other);
            look(&all, want, have, other, true);
        }
        const Interval found = interval(&few, metric, 0);
        const double score = metric_score(&all.sums, metric);
        assert_true(found.low <= metric_score(&few.sums, metric));
        held += found.low <= score && score <= found.high;
    }
    return held;
}

TEST(test_intervals_hold) {
    assert_true(count_holding(DEMI_METRIC_SQNR, MANY) >= TRIALS * 88 / 100);
    assert_true(count_holding(DEMI_METRIC_COSINE, MANY) >= TRIALS * 88 / 100);
    assert_true(count_holding(DEMI_METRIC_ERROR, FEW) >= TRIALS * 88 / 100);
}

TEST(test_rows_are_samples) {
    float want[FEW * WIDTH], have[FEW * WIDTH];
    Seen rows, sets;
    srand(3);
    draw(want, have, FEW);
    look(&rows, want, have, FEW, true);
    look(&sets, want, have, FEW, false);
    for (int metric = DEMI_METRIC_SQNR; metric <= DEMI_METRIC_ERROR; metric++) {
        const Interval a = interval(&rows, (DemiMetric)metric, 0);
        const Interval b = interval(&sets, (DemiMetric)metric, 0);
        assert_true(a.low == b.low && a.high == b.high && a.low < a.high);
    }
}

/* More samples make a narrower interval, and as many the same. */
TEST(test_expected) {
    float want[FEW * WIDTH], have[FEW * WIDTH];
    Seen seen;
    srand(5);
    draw(want, have, FEW);
    look(&seen, want, have, FEW, false);
    const Interval now = interval(&seen, DEMI_METRIC_SQNR, 0);
    const Interval same = interval(&seen, DEMI_METRIC_SQNR, FEW);
    const Interval more = interval(&seen, DEMI_METRIC_SQNR, 10 * FEW);
    assert_true(now.low == same.low && now.high == same.high);
    assert_true(now.low < more.low && more.high < now.high);
}

/* Where noise is the same in all samples, and signals differ: a ratio's error is that of its mean signal. */
TEST(test_signals_differ) {
    enum { COUNT = 20 };
    float want[COUNT * WIDTH], have[COUNT * WIDTH];
    Seen seen;
    for (int i = 0; i < COUNT * WIDTH; i++) {
        want[i] = i / WIDTH % 2 ? 1 : sqrtf(3);
        have[i] = want[i] + 0.0078125f;
    }
    look(&seen, want, have, COUNT, false);
    const Interval found = interval(&seen, DEMI_METRIC_SQNR, 0);
    const double relative = 1 / sqrt(COUNT - 1) / 2; /* signals are 1 and 3 */
    const double half = 10 / log(10) * interval_student(0.95, COUNT - 1) * relative;
    assert_true(fabs((found.high - found.low) / (2 * half) - 1) < 0.05);
}

/* Of what is the same but for the last bits, however these differ. */
TEST(test_float) {
    float want[FEW * WIDTH], have[FEW * WIDTH];
    Seen seen;
    for (int i = 0; i < FEW * WIDTH; i++) {
        want[i] = 1;
        have[i] = i < WIDTH ? nextafterf(1, 2) : i == WIDTH ? nextafterf(1, 0) : 1;
    }
    look(&seen, want, have, FEW, false);
    assert_true(interval(&seen, DEMI_METRIC_SQNR, 0).low == METRIC_MOST_DECIBELS);
}

TEST(test_unknown) {
    float want[WIDTH] = {1}, have[WIDTH] = {1.5f};
    Seen seen;
    look(&seen, want, have, 1, false);
    assert_true(isnan(interval(&seen, DEMI_METRIC_SQNR, 0).low)); /* one sample says nothing */
    assert_true(isnan(interval(&seen, DEMI_METRIC_SCORE, 0).low));
    const float nothing[2 * WIDTH] = {0}, broken[2 * WIDTH] = {NAN};
    look(&seen, nothing, broken, 2, false);
    assert_true(isnan(interval(&seen, DEMI_METRIC_SQNR, 0).low));
    const float equal[2 * WIDTH] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    look(&seen, equal, equal, 2, false);
    const Interval exact = interval(&seen, DEMI_METRIC_SQNR, 0);
    assert_true(exact.low == METRIC_MOST_DECIBELS && exact.high == METRIC_MOST_DECIBELS);
}

/* Right before, and wrong afterward. */
TEST(test_paired) {
    float want[40 * WIDTH] = {0}, have[40 * WIDTH] = {0};
    int64_t labels[40] = {0};
    Seen seen;
    for (size_t i = 0; i < 40; i++) {
        labels[i] = i < 10 ? 1 : 0; /* the float model is wrong of these, and so is the other */
        want[i * WIDTH] = have[i * WIDTH] = 1;
    }
    have[39 * WIDTH] = -1;
    int64_t dims[2];
    const DemiData y = tensor(want, 40, dims), z = tensor(have, 40, dims);
    const MetricLabels given = {labels, 40, NULL};
    metric_begin(&seen.sums, 1, &test_arena);
    samples_begin(&seen.samples, 1, &test_arena);
    metric_add_rows(&seen.sums, &y, &z, &given, 0);
    const IntervalOptions paired = {DEMI_METRIC_ACCURACY, 0.95, 0, true};
    const IntervalOptions alone = {DEMI_METRIC_ACCURACY, 0.95, 0, false};
    const Interval change = samples_interval(&seen.samples, &seen.sums, &paired);
    const Interval share = samples_interval(&seen.samples, &seen.sums, &alone);
    assert_true(metric_score(&seen.sums, DEMI_METRIC_ACCURACY) == 29.0 / 40);
    assert_true(change.low > share.low + 0.05); /* one row of 40 differs */
    assert_true(change.low < 29.0 / 40 && 29.0 / 40 < change.high);
}
