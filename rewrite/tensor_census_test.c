// SPDX-License-Identifier: Apache-2.0
/* What is counted of a tensor, and that a memo keeps targets and tensors apart. */
#include "tensor_census.h"
#include "unit_test.h"

static MemTrap trap;
static Arena arena;

static int set_up(void **state) {
    (void)state;
    arena_init(&arena, &trap);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    arena_free(&arena);
    return 0;
}

/* `count` ones, but for a last element of its own. */
static Tensor *ones_and(float last, int64_t count) {
    float *values = ARENA_ARRAY(&arena, float, (size_t)count);
    for (int64_t i = 0; i < count; i++) values[i] = i == count - 1 ? last : 1.0f;
    return tensor_new_raw(&arena, DTYPE_FLOAT, &count, 1, values, (uint64_t)count * 4);
}

static void test_counts_across_windows(void **state) {
    (void)state;
    if (setjmp(trap.env)) fail_msg("out of memory");
    enum { COUNT = 1000001 };
    ValueCensus census;
    CensusMemo *memo = census_memo_new(&arena);
    assert_true(tensor_census(memo, ones_and(1e5f, COUNT), DTYPE_FLOAT16, &census, NULL));
    assert_true(census.count == COUNT && census.overflow == 1 && census.max_abs == 1e5f);
    assert_true(tensor_census(memo, ones_and(0, 0), DTYPE_FLOAT16, &census, NULL));
    assert_true(census.count == 0);
}

static void test_memo_tells_tensors_and_targets_apart(void **state) {
    (void)state;
    if (setjmp(trap.env)) fail_msg("out of memory");
    enum { TENSORS = 200, COUNT = 5000 };
    const Tensor *tensors[TENSORS];
    for (int i = 0; i < TENSORS; i++) tensors[i] = ones_and(1e5f + (float)i, COUNT);
    CensusMemo *memo = census_memo_new(&arena);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < TENSORS; i++) {
            ValueCensus half, bfloat;
            assert_true(tensor_census(memo, tensors[i], DTYPE_FLOAT16, &half, NULL));
            assert_true(tensor_census(memo, tensors[i], DTYPE_BFLOAT16, &bfloat, NULL));
            assert_true(half.count == COUNT && half.max_abs == 1e5f + (float)i);
            assert_true(half.overflow == 1 && bfloat.overflow == 0);
        }
}

/* The second answer needs no data: the file may be gone. */
static void test_memo_reads_once(void **state) {
    (void)state;
    if (setjmp(trap.env)) fail_msg("out of memory");
    const int64_t count = 1 << 16;
    void *zeros = arena_alloc(&arena, (size_t)count * 4);
    const Source *full = source_from_memory(&arena, zeros, (uint64_t)count * 4, "data");
    const Source *empty = source_from_memory(&arena, zeros, 0, "data");
    Tensor *tensor = tensor_new_raw(&arena, DTYPE_FLOAT, &count, 1, zeros, (uint64_t)count * 4);
    tensor->bytes = NULL;
    tensor->source = full;
    CensusMemo *memo = census_memo_new(&arena);
    ValueCensus census;
    Err err = {0};
    assert_true(tensor_census(memo, tensor, DTYPE_FLOAT16, &census, &err));
    tensor->source = empty;
    assert_true(tensor_census(memo, tensor, DTYPE_FLOAT16, &census, &err));
    assert_true(census.zero == (uint64_t)count);
    assert_false(tensor_census(memo, tensor, DTYPE_BFLOAT16, &census, &err));
    assert_int_equal(err.code, ERR_MODEL);
}

UNIT_TESTS(tensor_census_test) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_counts_across_windows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memo_tells_tensors_and_targets_apart, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_memo_reads_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
