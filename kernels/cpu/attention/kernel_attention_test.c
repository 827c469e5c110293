// SPDX-License-Identifier: Apache-2.0
/* Sequence operators where published test data cannot see: masks that broadcast over queries beside
 * a causal frontier, and index data that is out of range. */
#include "kernel_case_test.h"

#include <math.h>
#include <stdlib.h>

static const int64_t qkv_dims[] = {1, 1, 3, 2}, mask_dims[] = {1, 1, 1, 3};

static void attention(KernelCase *test, float *x, float *y) {
    case_begin(test, "Attention", 25);
    case_int(test, "is_causal", 1);
    for (uint32_t i = 0; i < 3; i++) case_set_in(test, i, case_borrow(DTYPE_FLOAT, 4, qkv_dims, x));
    case_set_out(test, 0, case_borrow(DTYPE_FLOAT, 4, qkv_dims, y));
}

/* A mask of one row stands for all queries, and each keeps its own frontier. */
TEST(test_causal_with_one_mask_row) {
    float x[] = {1, 2, 3, -1, 0.5F, 4}, plain[6], masked[6], first[6];
    uint8_t all[] = {1, 1, 1}, not_first[] = {0, 1, 1};
    KernelCase test;
    attention(&test, x, plain);
    assert_true(case_run(&test));
    case_end(&test);
    attention(&test, x, masked);
    case_set_in(&test, 3, case_borrow(DTYPE_BOOL, 4, mask_dims, all));
    assert_true(case_run(&test));
    case_end(&test);
    assert_memory_equal(plain, masked, sizeof plain);
    assert_true(plain[0] == 1 && plain[1] == 2); /* the first query sees the first key alone */
    attention(&test, x, first);
    case_set_in(&test, 3, case_borrow(DTYPE_BOOL, 4, mask_dims, not_first));
    assert_true(case_run(&test));
    case_end(&test);
    assert_true(first[0] == 0 && first[1] == 0); /* and here none at all */
    assert_true(first[2] == 3 && first[3] == -1);
    attention(&test, x, first);
    case_int(&test, "left_window_size", 0);
    assert_true(case_run(&test));
    case_end(&test);
    assert_memory_equal(first, x, sizeof x); /* each sees its own key alone */
}

/* A query sees so many keys to its left, and itself. */
TEST(test_window) {
    float x[] = {0, 0, 0, 0, 0, 0}, v[] = {1, 1, 3, 3, 8, 8}, y[6];
    KernelCase test;
    attention(&test, x, y);
    case_int(&test, "left_window_size", 1);
    case_set_in(&test, 2, case_borrow(DTYPE_FLOAT, 4, qkv_dims, v));
    assert_true(case_run(&test));
    case_end(&test);
    assert_true(y[0] == 1 && y[2] == 2 && y[4] == 5.5F);
}

/* What a mask excludes has no say, even where it is NaN. */
TEST(test_masked_nan) {
    float x[] = {1, 2, 3, -1, 0.5F, 4}, v[] = {1, 1, 2, 2, NAN, INFINITY}, y[6];
    float mask[] = {0, 0, -INFINITY};
    KernelCase test;
    attention(&test, x, y);
    case_int(&test, "is_causal", 0);
    case_set_in(&test, 2, case_borrow(DTYPE_FLOAT, 4, qkv_dims, v));
    case_set_in(&test, 3, case_borrow(DTYPE_FLOAT, 4, mask_dims, mask));
    assert_true(case_run(&test));
    for (int i = 0; i < 6; i++) assert_true(y[i] >= 1 && y[i] <= 2);
    case_end(&test);
}

/* Keys behind a mask's end are not seen, nor is memory there read: masks of their own size. */
TEST(test_short_mask) {
    static const int64_t short_dims[] = {1, 1, 1, 1};
    float x[] = {1, 2, 3, -1, 0.5F, 4}, y[6];
    for (int bools = 0; bools < 2; bools++) {
        void *mask = malloc(bools ? 1 : sizeof(float));
        assert_non_null(mask);
        if (bools)
            *(uint8_t *)mask = 1;
        else
            *(float *)mask = 0;
        KernelCase test;
        attention(&test, x, y);
        case_int(&test, "is_causal", 0);
        case_set_in(&test, 3, case_borrow(bools ? DTYPE_BOOL : DTYPE_FLOAT, 4, short_dims, mask));
        assert_true(case_run(&test));
        case_end(&test);
        free(mask);
        for (int i = 0; i < 6; i++) assert_true(y[i] == x[i % 2]);
    }
}

TEST(test_padding_out_of_range) {
    static const int64_t bad[] = {-1, 4, INT64_MAX, INT64_MIN}, one = 1;
    float x[6] = {0}, y[6];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        KernelCase test;
        int64_t length = bad[i];
        attention(&test, x, y);
        case_set_in(&test, 6, case_borrow(DTYPE_INT64, 1, &one, &length));
        assert_false(case_run(&test));
        case_end(&test);
    }
}

TEST(test_positions_out_of_range) {
    static const int64_t bad[] = {-1, 2, INT64_MAX, INT64_MIN}, x_dims[] = {1, 1, 1, 2},
                         cache_dims[] = {2, 1}, id_dims[] = {1, 1};
    float x[2] = {1, 2}, cache[2] = {1, 1}, y[2];
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        KernelCase test;
        bool good = i == sizeof bad / sizeof *bad;
        int64_t id = good ? 1 : bad[i];
        case_begin(&test, "RotaryEmbedding", 23);
        case_set_in(&test, 0, case_borrow(DTYPE_FLOAT, 4, x_dims, x));
        case_set_in(&test, 1, case_borrow(DTYPE_FLOAT, 2, cache_dims, cache));
        case_set_in(&test, 2, case_borrow(DTYPE_FLOAT, 2, cache_dims, cache));
        case_set_in(&test, 3, case_borrow(DTYPE_INT64, 2, id_dims, &id));
        case_set_out(&test, 0, case_borrow(DTYPE_FLOAT, 4, x_dims, y));
        assert_int_equal(case_run(&test), good);
        case_end(&test);
    }
}

TEST(test_targets_out_of_range) {
    static const int64_t bad[] = {-1, 3, INT64_MAX, INT64_MIN}, x_dims[] = {1, 3}, one = 1;
    float x[3] = {-1, -2, -3}, y = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int ignored = 0; ignored < 2; ignored++) {
            KernelCase test;
            int64_t target = bad[i];
            if (ignored && target == INT64_MIN) continue; /* stands for an absent attribute */
            case_begin(&test, "NegativeLogLikelihoodLoss", 13);
            if (ignored) case_int(&test, "ignore_index", target);
            case_set_in(&test, 0, case_borrow(DTYPE_FLOAT, 2, x_dims, x));
            case_set_in(&test, 1, case_borrow(DTYPE_INT64, 1, &one, &target));
            case_set_out(&test, 0, case_borrow(DTYPE_FLOAT, 0, NULL, &y));
            assert_int_equal(case_run(&test), ignored);
            if (ignored) assert_true(isnan(y)); /* the mean of nothing */
            case_end(&test);
        }
}

TEST(test_lengths_out_of_range) {
    static const int64_t x_dims[] = {2, 1, 1}, w_dims[] = {1, 1, 1}, y_dims[] = {2, 1, 1, 1},
                         one = 1;
    static const int32_t lengths[] = {-1, 3, INT32_MAX, INT32_MIN, 0, 1, 2};
    float x[2] = {1, 2}, w = 1, y[2];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        KernelCase test;
        int32_t length = lengths[i];
        case_begin(&test, "RNN", 14);
        case_set_in(&test, 0, case_borrow(DTYPE_FLOAT, 3, x_dims, x));
        case_set_in(&test, 1, case_borrow(DTYPE_FLOAT, 3, w_dims, &w));
        case_set_in(&test, 2, case_borrow(DTYPE_FLOAT, 3, w_dims, &w));
        case_set_in(&test, 4, case_borrow(DTYPE_INT32, 1, &one, &length));
        case_set_out(&test, 0, case_borrow(DTYPE_FLOAT, 4, y_dims, y));
        bool good = length >= 0 && length <= 2;
        assert_int_equal(case_run(&test), good);
        if (good)
            for (int t = 0; t < 2; t++) assert_true(t < length ? y[t] > 0 : y[t] == 0);
        case_end(&test);
    }
}

/* Tensors of no elements, but of 2^60 rows, take no time. */
TEST(test_many_empty_rows) {
    static const struct {
        const char *op;
        int64_t opset, dims[3];
    } cases[] = {
        {"LRN", 13, {INT64_C(1) << 60, 2, 0}},
        {"LpNormalization", 22, {INT64_C(1) << 60, 2, 0}},
        {"MeanVarianceNormalization", 13, {INT64_C(1) << 60, 2, 0}},
        {"LayerNormalization", 17, {INT64_C(1) << 60, 2, 0}},
        {"RMSNormalization", 23, {INT64_C(1) << 60, 2, 0}},
        {"Softmax", 13, {INT64_C(1) << 60, 2, 0}},
        {"RotaryEmbedding", 23, {INT64_C(1) << 30, INT64_C(1) << 30, 0}},
    };
    static const int64_t none = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        KernelCase test;
        case_begin(&test, cases[i].op, cases[i].opset);
        KernelTensor x = case_borrow(DTYPE_FLOAT, 3, cases[i].dims, NULL);
        bool rotary = strcmp(cases[i].op, "RotaryEmbedding") == 0;
        bool mean = strcmp(cases[i].op, "MeanVarianceNormalization") == 0;
        if (strcmp(cases[i].op, "LRN") == 0) case_int(&test, "size", 3);
        if (rotary) case_int(&test, "num_heads", 1);
        case_set_in(&test, 0, x);
        KernelTensor other = rotary ? x : case_borrow(DTYPE_FLOAT, 1, &none, NULL);
        bool scaled = strcmp(cases[i].op, "LayerNormalization") == 0 ||
                      strcmp(cases[i].op, "RMSNormalization") == 0;
        if (rotary || scaled) case_set_in(&test, 1, other);
        if (rotary) case_set_in(&test, 2, other);
        case_set_out(&test, 0, x);
        assert_int_equal(case_run(&test), !mean); /* its usual axes are not there */
        case_end(&test);
    }
}
