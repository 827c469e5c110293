// SPDX-License-Identifier: Apache-2.0
/* Means of channels: beside sums of doubles, whatever the order and the lanes. */
#include "channel_means.h"

#include <math.h>

#include "dtype.h"
#include "unit_test.h"

enum { N = 3, C = 37, H = 5, W = 130, ALL = N * C * H * W };

static float items[ALL];

static DemiData tensor_of(uint32_t rank, const int64_t *dims) {
    return (DemiData){
        .dtype = DTYPE_FLOAT, .rank = rank, .dims = (int64_t *)(uintptr_t)dims, .data = items};
}

static void fill(unsigned seed) {
    uint32_t state = seed * 2654435761u + 1;
    for (int i = 0; i < ALL; i++) {
        state = state * 1664525u + 1013904223u;
        items[i] = (float)(state >> 8) / 1e6f - 3 + (float)(i / (H * W) % C);
    }
}

static double mean_by_hand(int64_t axis, const int64_t *dims, int64_t channel) {
    int64_t inner = 1, count = 0;
    double sum = 0;
    for (int64_t i = axis + 1; i < 4; i++) inner *= dims[i];
    for (int64_t i = 0; i < ALL; i++)
        if (i / inner % dims[axis] == channel) {
            sum += (double)items[i];
            count++;
        }
    return sum / (double)count;
}

TEST(means_are_those_of_each_place) {
    static const int64_t dims[4] = {N, C, H, W};
    const DemiData tensor = tensor_of(4, dims);
    fill(1);
    for (int32_t axis = -4; axis < 4; axis++) {
        ChannelMeans means = {.axis = axis};
        channel_means_add(&means, &tensor, NULL, &test_arena);
        const double *found = channel_means_find(&means, &test_arena);
        const int64_t at = axis < 0 ? axis + 4 : axis;
        assert_int_equal(means.count, dims[at]);
        for (int64_t c = 0; c < dims[at]; c++)
            assert_true(fabs(found[c] - mean_by_hand(at, dims, c)) < 1e-4);
    }
}

/* To the bit, whatever comes first, and in whatever lanes. */
TEST(order_does_not_matter) {
    static const int64_t dims[4] = {N, C, H, W};
    const DemiData tensor = tensor_of(4, dims);
    double *found[3];
    for (int round = 0; round < 3; round++) {
        ChannelMeans lanes[2] = {{.axis = 1}, {.axis = 1}}, all = {.axis = 1};
        for (int i = 0; i < 9; i++) {
            fill((unsigned)(round == 1 ? 8 - i : i));
            channel_means_add(round == 2 ? &lanes[i % 2] : &all, &tensor, NULL, &test_arena);
        }
        channel_means_join(&all, &lanes[1], &test_arena);
        channel_means_join(&all, &lanes[0], &test_arena);
        found[round] = channel_means_find(&all, &test_arena);
    }
    assert_memory_equal(found[0], found[1], C * sizeof(double));
    assert_memory_equal(found[0], found[2], C * sizeof(double));
}

/* None of what has none: other channels, numbers that are not finite, and no element at all. */
TEST(no_means) {
    static const int64_t dims[2] = {3, 4}, other[2] = {4, 3}, none[2] = {0, 4};
    const DemiData tensor = tensor_of(2, dims), turned = tensor_of(2, other),
                   empty = tensor_of(2, none);
    fill(1);
    ChannelMeans means = {.axis = 1};
    channel_means_add(&means, &empty, NULL, &test_arena);
    assert_null(channel_means_find(&means, &test_arena));
    channel_means_add(&means, &tensor, NULL, &test_arena);
    assert_non_null(channel_means_find(&means, &test_arena));
    channel_means_add(&means, &turned, NULL, &test_arena);
    assert_null(channel_means_find(&means, &test_arena));
    means = (ChannelMeans){.axis = 2};
    channel_means_add(&means, &tensor, NULL, &test_arena);
    assert_null(channel_means_find(&means, &test_arena));
    means = (ChannelMeans){.axis = 0};
    items[5] = NAN;
    channel_means_add(&means, &tensor, NULL, &test_arena);
    assert_null(channel_means_find(&means, &test_arena));
    means = (ChannelMeans){.axis = 0};
    items[5] = -1e30f;
    channel_means_add(&means, &tensor, NULL, &test_arena);
    assert_null(channel_means_find(&means, &test_arena));
}
