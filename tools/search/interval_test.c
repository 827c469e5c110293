// SPDX-License-Identifier: Apache-2.0
/* Quantiles beside published tables, and Wilson's interval beside an example of the literature. */
#include "interval.h"

#include <math.h>

#include "unit_test.h"

static void near(double have, double want) {
    assert_true(fabs(have - want) <= 6e-4 * want);
}

TEST(test_normal) {
    near(interval_normal(0.95), 1.95996);
    near(interval_normal(0.99), 2.57583);
}

/* Abramowitz and Stegun, table 26.10. */
TEST(test_student) {
    near(interval_student(0.95, 1), 12.706);
    near(interval_student(0.95, 2), 4.303);
    near(interval_student(0.95, 3), 3.182);
    near(interval_student(0.95, 4), 2.776);
    near(interval_student(0.95, 9), 2.262);
    near(interval_student(0.99, 10), 3.169);
    near(interval_student(0.99, 30), 2.750);
    near(interval_student(0.95, 120), 1.980);
    assert_true(interval_student(0.95, UINT64_MAX) > interval_normal(0.95));
    near(interval_student(0.95, UINT64_MAX), 1.962);
}

/* R. G. Newcombe, Statistics in Medicine 17 (1998), 857-872, table I: method 3. */
TEST(test_share) {
    static const struct {
        double right, count, low, high;
    } rows[] = {{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {1, 29, 0.0061, 0.1718}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const Interval found = interval_of_share(rows[i].right, rows[i].count, 0.95);
        assert_true(fabs(found.low - rows[i].low) < 1e-4);
        assert_true(fabs(found.high - rows[i].high) < 1e-4);
    }
    const Interval none = interval_of_share(0, 20, 0.95), all = interval_of_share(20, 20, 0.95);
    assert_true(none.low == 0 && fabs(none.high - 0.1611) < 1e-4);
    assert_true(fabs(all.low - 0.8389) < 1e-4 && all.high == 1);
    assert_true(isnan(interval_of_share(0, 0, 0.95).low));
}

/* Where nothing changes, and where everything does. */
TEST(test_change) {
    const Interval same = interval_of_change(0, 0, 98, 0.95);
    assert_true(fabs(same.low + same.high) < 1e-12 && fabs(same.high - 0.0196) < 1e-4);
    const Interval worse = interval_of_change(2, 12, 98, 0.95);
    assert_true(fabs(worse.low + 0.1733) < 1e-4 && fabs(worse.high + 0.0267) < 1e-4);
    assert_true(isnan(interval_of_change(0, 0, 0, 0.95).low));
}
