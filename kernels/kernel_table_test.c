// SPDX-License-Identifier: Apache-2.0
/* The kernel table: sorted as kernel_find needs, of operators that exist, rows of one operator
 * alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernel.h"

static int compare(const KernelRow *a, const KernelRow *b) {
    int order = strcmp(a->domain, b->domain);
    if (order == 0) order = strcmp(a->op, b->op);
    return order ? order : (a->since > b->since) - (a->since < b->since);
}

static void test_sorted(void **state) {
    (void)state;
    for (size_t i = 1; i < kernel_row_count(); i++)
        if (compare(kernel_row(i - 1), kernel_row(i)) > 0)
            fail_msg("%s of %d stands before %s", kernel_row(i - 1)->op, kernel_row(i - 1)->since,
                     kernel_row(i)->op);
}

static void test_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < kernel_row_count(); i++) {
        const KernelRow *row = kernel_row(i);
        size_t count = 0;
        const KernelRow *found = kernel_find(row->domain, row->op, row->since, &count);
        assert_true(found <= row && row < found + count);
        if (!kernel_signature_find(row->domain, row->op, row->since))
            fail_msg("%s since %d is not an operator", row->op, row->since);
        if (found->layout != row->layout)
            fail_msg("rows of %s since %d differ in their attributes", row->op, row->since);
        for (size_t k = 0; k < count; k++)
            if (found + k != row && !memcmp(found + k, row, sizeof *row))
                fail_msg("%s since %d stands there twice", row->op, row->since);
    }
    size_t count;
    assert_null(kernel_find("", "NoSuchOperator", 21, &count));
    assert_null(kernel_find("other", "Reshape", 21, &count));
    assert_null(kernel_find("", "Reshape", 0, &count));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorted),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
