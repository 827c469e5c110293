// SPDX-License-Identifier: Apache-2.0
/* Weights as they are measured: rounded by channel, and with sums that are kept where biases make up for
 * what rounding adds to them. */
#include <math.h>

#include "rounding.h"
#include "unit_test.h"

enum { OUTER = 3, AXIS = 5, INNER = 7, COUNT = OUTER * AXIS * INNER };

static double channel_sum(const float *items, int a) {
    double sum = 0;
    for (int o = 0; o < OUTER; o++)
        for (int i = 0; i < INNER; i++) sum += (double)items[(o * AXIS + a) * INNER + i];
    return sum;
}

static void check(bool even) {
    float from[COUNT], to[COUNT], scales[AXIS];
    double off = 0;
    for (int i = 0; i < COUNT; i++) from[i] = (float)(i * i % 101) / 37 - 1;
    Rounding rounding = {.type = DTYPE_INT8,
                         .outer = OUTER,
                         .axis = AXIS,
                         .inner = INNER,
                         .even = even,
                         .scales = scales};
    rounding_apply(&rounding, to, from, COUNT);
    for (int a = 0; a < AXIS; a++)
        off = fmax(off, fabs(channel_sum(to, a) - channel_sum(from, a)) / (double)scales[a]);
    if (even)
        assert_true(off < 1e-3);
    else
        assert_true(off > 0.1);
    for (int i = 0; i < COUNT; i++)
        assert_true(fabsf(to[i] - from[i]) <= scales[i / INNER % AXIS] * 1.01f);
}

TEST(test_sums) {
    check(false);
    check(true);
}

/* The least number is used, too. */
TEST(test_block) {
    float from[16], to[16], scale;
    Rounding rounding = {
        .type = DTYPE_INT4, .outer = 1, .axis = 16, .inner = 1, .block = 16, .scales = &scale};
    for (int i = 0; i < 16; i++) from[i] = (float)(i - 8);
    rounding_apply(&rounding, to, from, 16);
    assert_memory_equal(to, from, sizeof from);
}
