// SPDX-License-Identifier: Apache-2.0
/* The statistics against the conversion itself, value by value, and every instruction set against plain C. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "statistics.h"
#include "statistics_kernels.h"
#include "half.h"
#include "unit_test.h"

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What becomes of one value, found by converting it. */
static void count_one(ValueStatistics *statistics, float value, Dtype target) {
    double result = target == DTYPE_FLOAT16    ? half_to_double(half_from_float(value))
                    : target == DTYPE_BFLOAT16 ? bfloat_to_double(bfloat_from_float(value))
                                               : (double)value;
    double smallest_normal = target == DTYPE_FLOAT16 ? 0x1p-14 : 0x1p-126;
    float size = fabsf(value);
    statistics->count++;
    statistics->nan += isnan(value) != 0;
    statistics->inf += isinf(value) != 0;
    if (!isfinite(value)) return;
    statistics->zero += value == 0;
    statistics->overflow += isinf(result) != 0;
    statistics->underflow += value != 0 && result == 0;
    statistics->subnormal += result != 0 && fabs(result) < smallest_normal;
    if (size > statistics->max_abs) statistics->max_abs = size;
    if (size > 0 && (statistics->min_abs == 0 || size < statistics->min_abs))
        statistics->min_abs = size;
}

static void check_equal(const ValueStatistics *a, const ValueStatistics *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->zero, b->zero);
    assert_int_equal(a->overflow, b->overflow);
    assert_int_equal(a->underflow, b->underflow);
    assert_int_equal(a->subnormal, b->subnormal);
    assert_int_equal(a->nan, b->nan);
    assert_int_equal(a->inf, b->inf);
    assert_true(a->max_abs == b->max_abs && a->min_abs == b->min_abs);
}

/* Each value alone (plain C) and all of them together, in pieces that end anywhere. */
static void check_statistics(const float *values, size_t count, Dtype target) {
    ValueStatistics expected = {0}, whole = {0}, pieces = {0};
    for (size_t i = 0; i < count; i++) {
        ValueStatistics one = {0}, its = {0};
        count_one(&expected, values[i], target);
        count_one(&one, values[i], target);
        assert_true(statistics_floats(&its, &values[i], 1, target));
        check_equal(&its, &one);
    }
    assert_true(statistics_floats(&whole, values, count, target));
    check_equal(&whole, &expected);
    for (size_t at = 0, size = 0; at < count; at += size) {
        size = (size + 37) % 211 + 1;
        if (size > count - at) size = count - at;
        assert_true(statistics_floats(&pieces, values + at, size, target));
    }
    check_equal(&pieces, &expected);
}

static const Dtype targets[] = {DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT};

/* All floats within 4 steps of every power of two and of the limits. */
TEST(test_boundaries) {
    const uint32_t limits[] = {0x33000000, 0x387fe000, 0x38800000, 0x477fe000, 0x477ff000,
                               0x00008000, 0x007f8000, 0x7f7f0000, 0x7f7f8000, 0x7f800000};
    enum { LIMITS = sizeof limits / sizeof *limits, COUNT = (256 + LIMITS) * 18 };
    float *values = malloc(COUNT * sizeof *values);
    size_t count = 0;
    for (uint32_t i = 0; i < 256 + LIMITS; i++) {
        uint32_t middle = i < 256 ? i << 23 : limits[i - 256];
        for (uint32_t j = 0; j < 18; j++) {
            uint32_t bits = (middle + j / 2 - 4) & 0x7fffffff;
            values[count++] = float_of(bits | (j & 1) << 31);
        }
    }
    for (size_t i = 0; i < 3; i++) check_statistics(values, count, targets[i]);
    free(values);
}

TEST(test_instruction_sets_agree) {
    const uint32_t edges[] = {1, 0x33000001, 0x387fe000, 0x477ff000, 0x7f7fffff, STATISTICS_INF};
    enum { COUNT = 100003 };
    float *values = malloc(COUNT * sizeof *values);
    uint64_t random = 88172645463325252u;
    for (size_t i = 0; i < COUNT; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint32_t bits = (uint32_t)(random >> 20);
        /* every third one at a limit or one beside it, with either sign */
        if (i % 3 == 0) bits = (bits & 0x80000000) | (edges[bits % 6] + bits / 8 % 3 - 1);
        values[i] = float_of(bits);
    }
    const StatisticsLimits limits = {0x387fe000, 0x33000001, 0x477ff000};
    for (size_t count = 0; count < COUNT; count = count < 70 ? count + 1 : count * 3 + 1) {
        StatisticsBlock expected;
        statistics_block_portable(&expected, values, count, &limits);
        for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
            StatisticsKernel *kernel =
                isa_runs(isa, isa_here()) ? statistics_kernel(isa_needs(isa)) : NULL;
            StatisticsBlock block;
            if (!kernel) continue;
            kernel(&block, values, count, &limits);
            assert_memory_equal(&block, &expected, sizeof block);
        }
    }
    free(values);
}

TEST(test_random_values) {
    enum { COUNT = 1 << 17 };
    float *values = malloc(COUNT * sizeof *values);
    uint64_t random = 1;
    for (size_t i = 0; i < COUNT; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        values[i] = float_of((uint32_t)(random >> 24));
    }
    for (size_t i = 0; i < 3; i++) check_statistics(values, COUNT, targets[i]);
    free(values);
}

/* More than one block of the kernels. */
TEST(test_long_array) {
    size_t count = 2 * (size_t)STATISTICS_BLOCK + 13;
    float *values = calloc(count, sizeof *values);
    values[0] = 1e6f;
    values[STATISTICS_BLOCK] = -1e-30f;
    values[count - 1] = 3e-5f;
    ValueStatistics statistics = {0};
    assert_true(statistics_floats(&statistics, values, count, DTYPE_FLOAT16));
    const ValueStatistics expected = {.count = count,
                                      .zero = count - 3,
                                      .overflow = 1,
                                      .underflow = 1,
                                      .subnormal = 1,
                                      .max_abs = 1e6f,
                                      .min_abs = 1e-30f};
    check_equal(&statistics, &expected);
    free(values);
}

TEST(test_nothing_to_count) {
    const float specials[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f};
    ValueStatistics statistics = {0};
    assert_true(statistics_floats(&statistics, NULL, 0, DTYPE_FLOAT16));
    assert_int_equal(statistics.count, 0);
    assert_false(statistics_floats(&statistics, specials, 5, DTYPE_FLOAT8E5M2));
    assert_false(statistics_floats(&statistics, specials, 5, DTYPE_INT8));
    assert_int_equal(statistics.count, 0);
    assert_true(statistics_floats(&statistics, specials, 5, DTYPE_FLOAT16));
    assert_int_equal(statistics.inf, 2);
    assert_int_equal(statistics.nan, 1);
    assert_int_equal(statistics.zero, 2);
    assert_true(statistics.max_abs == 0 && statistics.min_abs == 0);
}
