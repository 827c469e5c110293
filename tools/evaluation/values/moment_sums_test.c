// SPDX-License-Identifier: Apache-2.0
/* Sums of products, against sums that are taken one by one; whatever the threads, and in how many parts vectors come. */
#include "moment_sums.h"

#include <math.h>
#include <string.h>

#include "unit_test.h"

static float *made_vectors(uint64_t count) {
    float *items = ARENA_ARRAY(&test_arena, float, count);
    uint32_t state = 4;
    for (uint64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        items[i] = (float)(state >> 8) * 0x1p-24f - 0.3f;
    }
    return items;
}

static MomentSums new_sums(uint64_t groups, uint64_t size) {
    return (MomentSums){.groups = groups,
                        .size = size,
                        .sums = ARENA_ARRAY(&test_arena, float, groups *size *size)};
}

static void check_sums(uint64_t groups, uint64_t size, uint64_t count) {
    const float *vectors = made_vectors(groups * size * count);
    MomentSums one = new_sums(groups, size), other = new_sums(groups, size);
    Workers *workers = workers_new(&test_arena, 3);
    moment_sums_add(&one, vectors, count, workers_new(&test_arena, 1));
    moment_sums_add(&other, vectors, count, workers);
    moment_sums_end(&one);
    moment_sums_end(&other);
    assert_memory_equal(one.sums, other.sums, groups * size * size * sizeof(float));
    assert_int_equal(one.vectors, count);
    for (uint64_t g = 0; g < groups; g++)
        for (uint64_t i = 0; i < size; i++)
            for (uint64_t k = 0; k < size; k++) {
                double sum = 0;
                for (uint64_t v = 0; v < count; v++) {
                    const float *x = vectors + (v * groups + g) * size;
                    sum += (double)x[i] * (double)x[k];
                }
                assert_true(fabs((double)one.sums[(g * size + i) * size + k] - sum) <
                            1e-5 * (double)count);
            }
}

TEST(test_sums) {
    check_sums(1, 1, 1);
    check_sums(1, 64, 128);
    check_sums(1, 130, 300);
    check_sums(5, 9, 77);
    check_sums(2, 70, 3);
}

TEST(test_parts_are_added) {
    const float *vectors = made_vectors(20 * 33);
    MomentSums whole = new_sums(1, 33), parts = new_sums(1, 33);
    Workers *workers = workers_new(&test_arena, 2);
    moment_sums_add(&whole, vectors, 20, workers);
    moment_sums_add(&parts, vectors, 13, workers);
    moment_sums_add(&parts, vectors + 13 * 33, 7, workers);
    for (uint64_t i = 0; i < 33 * 33; i++)
        assert_true(fabsf(whole.sums[i] - parts.sums[i]) < 1e-5f);
    assert_int_equal(parts.vectors, 20);
}
