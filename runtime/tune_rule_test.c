// SPDX-License-Identifier: Apache-2.0
/* When one way is faster than another: by a gain beyond noise, never by noise. */
#include "tune_rule.h"
#include "unit_test.h"

enum { COUNT = 25 };

static uint32_t state = 1;
static double random_unit(void) {
    state = state * 1664525u + 1013904223u;
    return (double)state / 4294967296.0;
}

/* Around `middle`, by turns up to `spread` more or less; every eighth is disturbed. */
static TuneTimes times_make(double *seconds, double middle, double spread) {
    for (int i = 0; i < COUNT; i++) {
        seconds[i] = middle * (1 + spread * (2 * random_unit() - 1));
        if (i % 8 == 3) seconds[i] *= 5;
    }
    return (TuneTimes){seconds, COUNT};
}

/* How many of 200 trials say that a way which takes `share` of the time is faster. */
static unsigned count_faster(double share, double spread) {
    double base[COUNT], other[COUNT], scratch[COUNT];
    unsigned faster = 0;
    for (int i = 0; i < 200; i++) {
        const TuneTimes before = times_make(base, 1e-3, spread);
        const TuneTimes after = times_make(other, share * 1e-3, spread);
        faster += tune_is_faster(&before, &after, 0.02, scratch);
    }
    return faster;
}

TEST(test_median) {
    const double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    double scratch[4];
    assert_true(tune_median(&(TuneTimes){odd, 3}, scratch) == 2);
    assert_true(tune_median(&(TuneTimes){even, 4}, scratch) == 2.5);
    assert_true(tune_median(&(TuneTimes){odd, 1}, scratch) == 3);
}

TEST(test_noise) {
    assert_true(count_faster(1, 0.2) <= 2); /* the same */
    assert_true(count_faster(1, 0.6) <= 2);
    assert_true(count_faster(1.1, 0.2) == 0);   /* slower */
    assert_true(count_faster(0.97, 0.6) <= 10); /* a gain that noise hides */
    assert_true(count_faster(0.985, 0) == 0);   /* a gain that is not worth it */
}

TEST(test_gain) {
    assert_true(count_faster(0.97, 0.005) == 200);
    assert_true(count_faster(0.7, 0.2) >= 190);
    assert_true(count_faster(0.3, 0.6) >= 190);
}
