// SPDX-License-Identifier: Apache-2.0
/* The factor of moments multiplies out to them, in an order that keeps blocks together. */
#include "moment_factor.h"

#include <math.h>
#include <string.h>

#include "unit_test.h"

static float *made_moments(uint64_t size) {
    float *moments = ARENA_ARRAY(&test_arena, float, size *size),
          *x = ARENA_ARRAY(&test_arena, float, size);
    uint32_t state = 9;
    for (uint64_t v = 0; v < size + 5; v++) {
        for (uint64_t i = 0; i < size; i++) {
            state = state * 1664525u + 1013904223u;
            x[i] = ((float)(state >> 8) * 0x1p-24f - 0.4f) * (float)(1 + i % 7);
        }
        for (uint64_t i = 0; i < size; i++)
            for (uint64_t k = 0; k < size; k++) moments[i * size + k] += x[i] * x[k];
    }
    return moments;
}

static double product_at(const MomentFactor *f, uint64_t a, uint64_t b) {
    double sum = 0;
    for (uint64_t k = 0; k <= a && k <= b; k++) {
        const double left = k == a ? 1 : (double)f->gains[a * f->size + k];
        const double right = k == b ? 1 : (double)f->gains[b * f->size + k];
        sum += left * f->pivots[k] * right;
    }
    return sum;
}

TEST(test_multiplies_out) {
    static const MomentSizes sizes[] = {{1, 0, 6},    {7, 3, 12},    {64, 0, 69},
                                        {65, 32, 70}, {200, 0, 205}, {200, 32, 205}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t size = sizes[i].size;
        const float *moments = made_moments(size);
        MomentFactor f;
        assert_true(
            moment_factor_find(&f, moments, sizes[i], workers_new(&test_arena, 3), &test_arena));
        for (uint64_t a = 0; a < size; a++)
            for (uint64_t b = 0; b <= a; b++) {
                double want = (double)moments[f.places[a] * size + f.places[b]];
                if (a == b) want += f.dampings[a];
                assert_true(fabs(product_at(&f, a, b) - want) <
                            1e-4 * (f.dampings[a] + fabs(want)));
            }
    }
}

TEST(test_keeps_blocks_together) {
    const uint64_t size = 70, block = 32;
    const float *moments = made_moments(size);
    MomentFactor f;
    assert_true(moment_factor_find(&f, moments, (MomentSizes){size, block, size + 5},
                                   workers_new(&test_arena, 1), &test_arena));
    uint64_t count = 0;
    assert_int_equal(f.run_count, 3);
    for (uint64_t r = 0; r < f.run_count; r++) {
        const MomentRun *run = &f.runs[r];
        assert_int_equal(run->first, count);
        for (uint64_t i = 0; i < run->count; i++) {
            const uint64_t place = f.places[run->first + i];
            assert_int_equal(place / block, run->block);
            if (i)
                assert_true(moments[place * (size + 1)] >=
                            moments[f.places[run->first + i - 1] * (size + 1)]);
        }
        count += run->count;
    }
    assert_int_equal(count, size);
}

TEST(test_what_says_nothing) {
    Workers *workers = workers_new(&test_arena, 1);
    float moments[9] = {0};
    MomentFactor f;
    assert_false(moment_factor_find(&f, moments, (MomentSizes){3, 0, 9}, workers, &test_arena));
    moments[4] = INFINITY;
    assert_false(moment_factor_find(&f, moments, (MomentSizes){3, 0, 9}, workers, &test_arena));
    assert_int_equal(f.run_count, 0);
    for (int i = 0; i < 9; i++)
        moments[i] = 1; /* of rank 1: damping makes it one that can be factored */
    assert_true(moment_factor_find(&f, moments, (MomentSizes){3, 0, 9}, workers, &test_arena));
}
