// SPDX-License-Identifier: Apache-2.0
/* demi.fused's Attention where fuse_test and attend_test do not look: operands that do not fit, and
 * the parts of one tensor. */
#include <math.h>

#include "kernel_case_test.h"

static void begin(KernelCase *c) {
    case_begin_in(c, "demi.fused", "Attention", 1);
}

static void case_ints(KernelCase *c, const char *name, const int64_t *items, uint32_t count) {
    case_attr(c, name, (PlainAttr){.kind = PLAIN_INTS, .count = count, .v.ints = items});
}

/* Queries, keys and values from one tensor (batch, rows, 3, heads, size), in three layouts. */
TEST(test_parts) {
    static const int64_t axes[] = {0, 3, 1, 4}, parts[] = {2, 0, 1};
    const int64_t dims[] = {1, 2, 3, 1, 1}, out[] = {1, 1, 2, 1};
    const float x[] = {1, 10, 0, 2, 20, 0}; /* keys, values, queries of two rows */
    KernelCase c;
    begin(&c);
    for (uint32_t i = 0; i < 3; i++) case_in(&c, DTYPE_FLOAT, 5, dims, x);
    case_out(&c, DTYPE_FLOAT, 4, out);
    case_ints(&c, "q_axes", axes, 4);
    case_ints(&c, "k_axes", axes, 4);
    case_ints(&c, "v_axes", axes, 4);
    case_ints(&c, "parts", parts, 3);
    assert_true(case_run(&c));
    const float *y = c.outputs[0].data;
    assert_true(fabsf(y[0] - 15) < 1e-4F && fabsf(y[1] - 15) < 1e-4F);
    case_end(&c);
}

typedef struct Refusal {
    int64_t q[4], k[4], v[4], keep[4], bias[4], y[4];
} Refusal;

TEST(test_refuses) {
    static const Refusal cases[] = {
        {{1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}, {1, 1, 1, 5}, {1, 1, 3, 5}, {1, 2, 3, 4}},
        {{1, 2, 3, 4}, {1, 2, 5, 3}, {1, 2, 5, 4}, {1, 1, 1, 5}, {1, 1, 3, 5}, {1, 2, 3, 4}},
        {{1, 2, 3, 4}, {1, 2, 4, 4}, {1, 2, 5, 4}, {1, 1, 1, 5}, {1, 1, 3, 5}, {1, 2, 3, 4}},
        {{1, 3, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}, {1, 1, 1, 5}, {1, 1, 3, 5}, {1, 3, 3, 4}},
        {{1, 2, 3, 4}, {2, 2, 5, 4}, {1, 2, 5, 4}, {1, 1, 1, 5}, {1, 1, 3, 5}, {1, 2, 3, 4}},
        {{1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}, {1, 1, 1, 4}, {1, 1, 3, 5}, {1, 2, 3, 4}},
        {{1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}, {1, 1, 1, 5}, {1, 1, 2, 5}, {1, 2, 3, 4}},
        {{1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}, {1, 1, 1, 5}, {1, 1, 3, 5}, {1, 2, 3, 3}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Refusal *r = &cases[i];
        float x[128] = {0};
        KernelCase c;
        begin(&c);
        case_in(&c, DTYPE_FLOAT, 4, r->q, x);
        case_in(&c, DTYPE_FLOAT, 4, r->k, x);
        case_in(&c, DTYPE_FLOAT, 4, r->v, x);
        case_in(&c, DTYPE_BOOL, 4, r->keep, x);
        case_in(&c, DTYPE_FLOAT, 4, r->bias, x);
        case_out(&c, DTYPE_FLOAT, 4, r->y);
        assert_int_equal(case_run(&c), i == 0);
        case_end(&c);
    }
}

/* Keys and values of the past come before those behind them, and have to fit these. */
TEST(test_past) {
    static const struct {
        int64_t k[4], v[4];
        bool alone;
    } pasts[] = {{{1, 1, 2, 1}, {1, 1, 2, 1}, false}, {{1, 1, 0, 1}, {1, 1, 0, 1}, false},
                 {{1, 1, 2, 1}, {1, 1, 1, 1}, false}, {{1, 1, 1, 1}, {1, 1, 2, 1}, false},
                 {{2, 1, 2, 1}, {1, 1, 2, 1}, false}, {{1, 2, 2, 1}, {1, 1, 2, 1}, false},
                 {{1, 1, 2, 2}, {1, 1, 2, 1}, false}, {{1, 1, 2, 1}, {2, 1, 2, 1}, false},
                 {{1, 1, 2, 1}, {1, 2, 2, 1}, false}, {{1, 1, 2, 1}, {1, 1, 2, 2}, false},
                 {{1, 1, 2, 1}, {1, 1, 2, 1}, true}};
    const int64_t q[] = {1, 1, 1, 1}, k[] = {1, 1, 1, 1};
    const float query[] = {1}, keys[] = {0}, values[] = {8}, past_keys[] = {0, 0, 0, 0},
                past_values[] = {1, 3, 5, 7};
    for (size_t i = 0; i < sizeof pasts / sizeof *pasts; i++) {
        KernelCase c;
        begin(&c);
        case_in(&c, DTYPE_FLOAT, 4, q, query);
        case_in(&c, DTYPE_FLOAT, 4, k, keys);
        case_in(&c, DTYPE_FLOAT, 4, k, values);
        case_omit(&c);
        case_omit(&c);
        case_in(&c, DTYPE_FLOAT, 4, pasts[i].k, past_keys);
        if (pasts[i].alone)
            case_omit(&c);
        else
            case_in(&c, DTYPE_FLOAT, 4, pasts[i].v, past_values);
        case_out(&c, DTYPE_FLOAT, 4, q);
        assert_int_equal(case_run(&c), i < 2);
        if (i < 2) assert_true(fabsf(*(const float *)c.outputs[0].data - (i ? 8 : 4)) < 1e-5F);
        case_end(&c);
    }
}

/* Lists of axes that are none, and parts that are not there. */
TEST(test_wrong_axes) {
    static const struct {
        int64_t axes[4], part;
        uint32_t count;
    } cases[] = {{{0, 2, 1, 3}, 1, 4},  {{0, 2, 1, 3}, 2, 4}, {{0, 2, 1, 3}, -1, 4},
                 {{0, 2, 1, 5}, 0, 4},  {{0, 2, 1, 1}, 0, 4}, {{0, 2, 1, -2}, 0, 4},
                 {{0, 2, 1, -1}, 0, 4}, {{0, 2, 1, 3}, 0, 3}};
    const int64_t dims[] = {1, 1, 1, 1, 2}, out[] = {1, 1, 1, 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const float x[] = {1, 2};
        const int64_t parts[] = {cases[i].part, 0, 0}, axes[] = {0, 1, 2, 3};
        KernelCase c;
        begin(&c);
        for (uint32_t k = 0; k < 3; k++) case_in(&c, DTYPE_FLOAT, 5, dims, x);
        case_out(&c, DTYPE_FLOAT, 4, out);
        case_ints(&c, "q_axes", cases[i].axes, cases[i].count);
        case_ints(&c, "k_axes", axes, 4);
        case_ints(&c, "v_axes", axes, 4);
        case_ints(&c, "parts", parts, 3);
        assert_int_equal(case_run(&c), i == 0);
        case_end(&c);
    }
}

/* Rows that see no key, and rows whose scores are no numbers: NaN, or 0 where that is told; with more rows
 * than are computed one by one, too. */
TEST(test_blank) {
    enum { MANY = 9 };
    for (uint32_t blank = 0; blank < 2; blank++)
        for (int64_t rows = 3; rows <= MANY; rows += MANY - 3) {
            const int64_t q[] = {1, 1, rows, 1}, k[] = {1, 1, 2, 1}, mask[] = {1, 1, rows, 2};
            const float keys[] = {1, 1}, values[] = {3, 5};
            float queries[MANY], bias[2 * MANY] = {0};
            for (int64_t i = 0; i < MANY; i++) queries[i] = 1;
            bias[2] = bias[3] = -INFINITY;
            queries[2] = NAN;
            KernelCase c;
            begin(&c);
            case_in(&c, DTYPE_FLOAT, 4, q, queries);
            case_in(&c, DTYPE_FLOAT, 4, k, keys);
            case_in(&c, DTYPE_FLOAT, 4, k, values);
            case_omit(&c);
            case_in(&c, DTYPE_FLOAT, 4, mask, bias);
            case_out(&c, DTYPE_FLOAT, 4, q);
            case_int(&c, "blank", blank);
            assert_true(case_run(&c));
            const float *y = c.outputs[0].data;
            for (int64_t i = 0; i < rows; i++) {
                if (i == 0 || i > 2)
                    assert_true(fabsf(y[i] - 4) < 1e-4F);
                else
                    assert_true(blank ? y[i] == 0 : y[i] != y[i]);
            }
            case_end(&c);
        }
}
