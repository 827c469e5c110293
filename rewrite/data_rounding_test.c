// SPDX-License-Identifier: Apache-2.0
/* What is kept of rounded weights is found by its name and its key, both, and is a copy. */
#include "data_rounding.h"

#include "unit_test.h"

static void keep(DataRounding *rounding, const char *name, uint64_t key, unsigned char byte) {
    const float scale = 2;
    const RoundedWeights weights = {
        .name = name, .key = key, .bytes = &byte, .scales = &scale, .size = 1, .scale_count = 1};
    data_rounding_keep(rounding, &weights);
}

TEST(test_found_by_name_and_key) {
    DataRounding rounding = {.arena = &test_arena};
    keep(&rounding, "a", 1, 10);
    keep(&rounding, "b", 1, 20);
    keep(&rounding, "a", 2, 30);
    assert_int_equal(data_rounding_find(&rounding, "a", 1)->bytes[0], 10);
    assert_int_equal(data_rounding_find(&rounding, "b", 1)->bytes[0], 20);
    assert_int_equal(data_rounding_find(&rounding, "a", 2)->bytes[0], 30);
    assert_true(data_rounding_find(&rounding, "a", 2)->scales[0] == 2);
    assert_null(data_rounding_find(&rounding, "b", 2));
    assert_null(data_rounding_find(&rounding, "c", 1));
}
