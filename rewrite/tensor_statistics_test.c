// SPDX-License-Identifier: Apache-2.0
/* What is counted of a tensor, and that a memo keeps targets and tensors apart. */
#include "tensor_statistics.h"
#include "unit_test.h"

/* `count` ones, but for a last element of its own. */
static Tensor *ones_and(float last, int64_t count) {
    float *values = ARENA_ARRAY(&test_arena, float, (size_t)count);
    for (int64_t i = 0; i < count; i++) values[i] = i == count - 1 ? last : 1.0f;
    return tensor_new_raw(&test_arena, DTYPE_FLOAT, &count, 1, values, (uint64_t)count * 4);
}

TEST(test_counts_across_windows) {
    enum { COUNT = 1000001 };
    ValueStatistics statistics;
    StatisticsMemo *memo = statistics_memo_new(&test_arena);
    assert_true(tensor_statistics(memo, ones_and(1e5f, COUNT), DTYPE_FLOAT16, &statistics, NULL));
    assert_true(statistics.count == COUNT && statistics.overflow == 1 &&
                statistics.max_abs == 1e5f);
    assert_true(tensor_statistics(memo, ones_and(0, 0), DTYPE_FLOAT16, &statistics, NULL));
    assert_true(statistics.count == 0);
}

TEST(test_memo_tells_tensors_and_targets_apart) {
    enum { TENSORS = 200, COUNT = 5000 };
    const Tensor *tensors[TENSORS];
    for (int i = 0; i < TENSORS; i++) tensors[i] = ones_and(1e5f + (float)i, COUNT);
    StatisticsMemo *memo = statistics_memo_new(&test_arena);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < TENSORS; i++) {
            ValueStatistics half, bfloat;
            assert_true(tensor_statistics(memo, tensors[i], DTYPE_FLOAT16, &half, NULL));
            assert_true(tensor_statistics(memo, tensors[i], DTYPE_BFLOAT16, &bfloat, NULL));
            assert_true(half.count == COUNT && half.max_abs == 1e5f + (float)i);
            assert_true(half.overflow == 1 && bfloat.overflow == 0);
        }
}

/* The second answer needs no data: the file may be gone. */
TEST(test_memo_reads_once) {
    const int64_t count = 1 << 16;
    void *zeros = arena_alloc(&test_arena, (size_t)count * 4);
    const Source *full = source_from_memory(&test_arena, zeros, (uint64_t)count * 4, "data");
    const Source *empty = source_from_memory(&test_arena, zeros, 0, "data");
    Tensor *tensor =
        tensor_new_raw(&test_arena, DTYPE_FLOAT, &count, 1, zeros, (uint64_t)count * 4);
    tensor->bytes = NULL;
    tensor->source = full;
    StatisticsMemo *memo = statistics_memo_new(&test_arena);
    ValueStatistics statistics;
    Err err = {0};
    assert_true(tensor_statistics(memo, tensor, DTYPE_FLOAT16, &statistics, &err));
    tensor->source = empty;
    assert_true(tensor_statistics(memo, tensor, DTYPE_FLOAT16, &statistics, &err));
    assert_true(statistics.zero == (uint64_t)count);
    assert_false(tensor_statistics(memo, tensor, DTYPE_BFLOAT16, &statistics, &err));
    assert_int_equal(err.code, ERR_MODEL);
}
