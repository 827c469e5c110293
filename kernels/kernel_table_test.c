// SPDX-License-Identifier: Apache-2.0
/* The kernel table: sorted as kernel_find needs, of versions that exist, rows of one operator
 * alike. And what is checked before a kernel runs. */
#include <string.h>

#include "kernel_case_test.h"
#include "unit_test.h"

static void check_rows(OpId op) {
    const char *domain = op_domain(op), *name = op_name(op);
    size_t all, count = 0;
    const KernelRow *rows = kernel_rows(op, &all);
    for (size_t i = 0; i < all; i++) {
        const KernelRow *row = &rows[i], *found = kernel_find(domain, name, row->since, &count);
        if (i && row[-1].since > row->since)
            fail_msg("%s of %d stands before %d", name, row[-1].since, row->since);
        assert_true(found <= row && row < found + count);
        if (!kernel_signature_find(domain, name, row->since))
            fail_msg("%s since %d is not an operator", name, row->since);
        if (found->layout != row->layout)
            fail_msg("rows of %s since %d differ in their attributes", name, row->since);
        for (size_t k = 0; k < count; k++)
            if (found + k != row && !memcmp(found + k, row, sizeof *row))
                fail_msg("%s since %d stands there twice", name, row->since);
    }
}

TEST(test_rows) {
    for (int op = OP_NONE; op < OP_ID_COUNT; op++) check_rows((OpId)op);
    size_t count;
    assert_null(kernel_find("", "NoSuchOperator", 21, &count));
    assert_null(kernel_find("other", "Reshape", 21, &count));
    assert_null(kernel_find("", "Reshape", 0, &count));
}

/* Operands by a letter each: f float, d double, i int32, l int64, h float16, - omitted. */
static bool runs(const char *op, const char *inputs, const char *outputs) {
    static const int64_t dims[] = {1};
    static const Dtype dtypes[128] = {['f'] = DTYPE_FLOAT,
                                      ['d'] = DTYPE_DOUBLE,
                                      ['i'] = DTYPE_INT32,
                                      ['l'] = DTYPE_INT64,
                                      ['h'] = DTYPE_FLOAT16};
    uint64_t data[8] = {0};
    KernelCase test;
    case_begin(&test, op, 21);
    if (attr_layout_find(test.call.row->layout, "axis", 4)) case_int(&test, "axis", 0);
    for (uint32_t i = 0; inputs[i]; i++) {
        KernelTensor t = case_borrow(dtypes[(int)inputs[i]], 1, dims, &data[i]);
        t.present = inputs[i] != '-';
        case_set_in(&test, i, t);
    }
    for (uint32_t i = 0; outputs[i]; i++) {
        KernelTensor t = case_borrow(dtypes[(int)outputs[i]], 1, dims, &data[4 + i]);
        t.present = outputs[i] != '-';
        case_set_out(&test, i, t);
    }
    const bool ok = case_run(&test);
    assert_true(ok || test.err.what[0]);
    case_end(&test);
    return ok;
}

/* Nothing that the definition does not allow comes to a kernel, whoever calls it. */
TEST(test_checked) {
    static const struct {
        const char *op, *inputs, *outputs;
        bool ok;
    } cases[] = {
        {"Add", "ff", "f", true},     {"Add", "f", "f", false},     {"Add", "f-", "f", false},
        {"Add", "fff", "f", false},   {"Add", "fd", "f", false},    {"Add", "ff", "d", false},
        {"Add", "ff", "-", false},    {"Add", "ff", "", false},     {"Add", "ff", "ff", false},
        {"Add", "hh", "h", true},     {"Pow", "hh", "h", false}, /* no row takes it unconverted */
        {"Concat", "f", "f", true},   {"Concat", "-", "f", false},  {"Concat", "", "f", false},
        {"Concat", "d", "f", false},  {"Split", "f", "f", true},    {"Split", "f", "-", true},
        {"Split", "fl", "f", false},  {"Split", "f", "", false},    {"Clip", "f--", "f", true},
        {"Clip", "f---", "f", false}, {"Clip", "-ff", "f", false},  {"Clip", "fd", "f", false},
        {"Shape", "f", "l", true},    {"Shape", "f", "i", false},   {"Gather", "fl", "f", true},
        {"Gather", "fi", "f", true},  {"Gather", "fl", "i", false}, {"Where", "fff", "f", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (runs(cases[i].op, cases[i].inputs, cases[i].outputs) != cases[i].ok)
            fail_msg("%s of %s to %s", cases[i].op, cases[i].inputs, cases[i].outputs);
}
