// SPDX-License-Identifier: Apache-2.0
/* The loops of reductions: against sums made element by element, over every set of axes. */
#include "kernel_case_test.h"
#include "kernel_reduce.h"

enum { MOST = 128 };

/* Adds each element's number to its result, found from its coordinates. */
static void sum_plainly(const KernelTensor *x, const bool *reduced, uint64_t *sums) {
    for (uint64_t i = 0; i < x->count; i++) {
        uint64_t rest = i, at = 0, step = 1;
        for (uint32_t k = x->rank; k-- > 0;) {
            uint64_t dim = (uint64_t)x->dims[k], place = rest % dim;
            rest /= dim;
            if (reduced[k]) continue;
            at += place * step;
            step *= dim;
        }
        sums[at] += i + 1;
    }
}

static void sum_by_loops(ReduceLoops *loops, uint64_t *sums) {
    uint64_t run = loops->length * loops->width;
    for (uint64_t o = 0; o < loops->outer_count; o++, reduce_next(&loops->outer))
        for (uint64_t r = 0; r < loops->run_count; r++, reduce_next(&loops->runs))
            for (uint64_t k = 0; k < run; k++)
                sums[o * loops->width + (loops->width > 1 ? k : 0)] +=
                    loops->outer.offset + loops->runs.offset + k + 1;
}

static void check_axes(const KernelTensor *x, unsigned set) {
    Arena arena;
    ReduceLoops loops;
    bool reduced[8] = {false};
    uint64_t want[MOST] = {0}, got[MOST] = {0}, results = 1, each = 1;
    arena_init(&arena, &test_trap);
    for (uint32_t k = 0; k < x->rank; k++) {
        reduced[k] = set >> k & 1;
        if (reduced[k])
            each *= (uint64_t)x->dims[k];
        else
            results *= (uint64_t)x->dims[k];
    }
    reduce_loops(&arena, x, reduced, &loops);
    assert_int_equal(loops.results, results);
    assert_int_equal(loops.reduced, each);
    sum_plainly(x, reduced, want);
    for (int pass = 0; pass < 2; pass++) { /* walks are at their start again */
        memset(got, 0, sizeof got);
        sum_by_loops(&loops, got);
        assert_memory_equal(got, want, sizeof want);
    }
    arena_free(&arena);
}

TEST(test_all_axes) {
    static const int64_t shapes[][5] = {{2, 3, 1, 4, 2}, {1, 1, 5, 1, 3}, {3, 1, 1, 1, 1},
                                        {1, 1, 1, 1, 1}, {2, 0, 3, 1, 2}, {4, 2, 2, 2, 0}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (uint32_t rank = 0; rank <= 5; rank++) {
            KernelTensor x = case_borrow(DTYPE_FLOAT, rank, shapes[s], NULL);
            for (unsigned set = 0; set < 1U << rank; set++) check_axes(&x, set);
        }
}

TEST(test_axes_out_of_range) {
    static const int64_t bad[] = {2, -3, INT64_MAX, INT64_MIN, INT64_C(1) << 32}, dims[] = {2, 3};
    float data[6] = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        KernelCase test;
        int64_t one = 1, axis = bad[i];
        case_begin(&test, "ReduceSum", 13);
        case_set_in(&test, 0, case_borrow(DTYPE_FLOAT, 2, dims, data));
        case_set_in(&test, 1, case_borrow(DTYPE_INT64, 1, &one, &axis));
        case_set_out(&test, 0, case_borrow(DTYPE_FLOAT, 2, dims, data));
        assert_false(case_run(&test));
        case_end(&test);
    }
}

/* Integer sums wrap, means truncate toward zero, roots saturate. */
TEST(test_integers) {
    static const struct {
        const char *op;
        int32_t items[2], want;
    } cases[] = {
        {"ReduceSum", {INT32_MAX, 1}, INT32_MIN}, {"ReduceMean", {-3, 0}, -1},
        {"ReduceL1", {INT32_MIN, 0}, INT32_MIN},  {"ReduceL2", {INT32_MIN, 0}, INT32_MAX},
        {"ReduceMax", {INT32_MIN, -1}, -1},       {"ReduceMin", {INT32_MIN, -1}, INT32_MIN},
        {"ReduceLogSum", {0, 0}, INT32_MIN},      {"ReduceProd", {1 << 30, 4}, 0},
        {"ReduceSumSquare", {INT32_MIN, 3}, 9},   {"ReduceLogSumExp", {1000, -7}, 1000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        KernelCase test;
        int64_t two = 2, one = 1;
        int32_t items[2], got = 77;
        memcpy(items, cases[i].items, sizeof items);
        case_begin(&test, cases[i].op, 18);
        case_set_in(&test, 0, case_borrow(DTYPE_INT32, 1, &two, items));
        case_set_out(&test, 0, case_borrow(DTYPE_INT32, 1, &one, &got));
        assert_true(case_run(&test));
        assert_int_equal(got, cases[i].want);
        case_end(&test);
    }
}

/* An empty tensor may have axes of any size beside the empty one: they are not walked. */
TEST(test_nothing_many_times) {
    const int64_t dims[] = {INT64_C(1) << 40, 2, 0}, kept[] = {1, 2, 1}, two = 2;
    int64_t axes[] = {0, 2};
    float got[2] = {7, 7};
    KernelCase test;
    case_begin(&test, "ReduceSum", 13);
    case_set_in(&test, 0, case_borrow(DTYPE_FLOAT, 3, dims, got));
    case_set_in(&test, 1, case_borrow(DTYPE_INT64, 1, &two, axes));
    case_set_out(&test, 0, case_borrow(DTYPE_FLOAT, 3, kept, got));
    assert_true(case_run(&test));
    assert_true(got[0] == 0 && got[1] == 0);
    case_end(&test);
}
