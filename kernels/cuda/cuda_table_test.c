// SPDX-License-Identifier: Apache-2.0
/* The table of CUDA's kernels, without a GPU: sorted as it is looked up, of operators that processors
 * have too, with the same attributes; and what placement takes for granted of an operator's rows. */
#include <string.h>

#include "device.h"
#include "unit_test.h"

typedef struct Name {
    const char *domain, *op;
    int since;
} Name;

static const Name names[] = {
#define CUDA(domain, op, since, ...)          {domain, op, since},
#define CUDA_PREPARED(domain, op, since, ...) {domain, op, since},
#include "cuda_rows.def"
#undef CUDA
#undef CUDA_PREPARED
};
enum { NAMES = sizeof names / sizeof *names };

static int compare(const Name *a, const Name *b) {
    int order = strcmp(a->domain, b->domain);
    if (order == 0) order = strcmp(a->op, b->op);
    return order ? order : (a->since > b->since) - (a->since < b->since);
}

TEST(test_sorted) {
    for (size_t i = 1; i < NAMES; i++)
        if (compare(&names[i - 1], &names[i]) > 0)
            fail_msg("%s of %d stands before %s", names[i - 1].op, names[i - 1].since, names[i].op);
}

/* Placement reads `host` of the first row of an operator. */
TEST(test_rows) {
    for (size_t i = 0; i < NAMES; i++) {
        const Name *name = &names[i];
        size_t count = 0, others = 0;
        const KernelRow *rows = cuda_kind.find(name->domain, name->op, name->since, &count);
        const KernelRow *cpu = kernel_find(name->domain, name->op, name->since, &others);
        assert_non_null(rows);
        if (!cpu) fail_msg("%s since %d has no kernel of a processor", name->op, name->since);
        for (size_t k = 0; k < count; k++) {
            if (rows[k].host != rows->host)
                fail_msg("rows of %s since %d differ in what the host reads", name->op,
                         name->since);
            if (rows[k].layout != cpu->layout)
                fail_msg("%s since %d has other attributes on a processor", name->op, name->since);
            if (rows[k].flags & KERNEL_SIZES)
                fail_msg("%s since %d finds its sizes itself", name->op, name->since);
        }
    }
}

TEST(test_names) {
    static const char *const wrong[] = {"",        "gpu",       "cuda:", "cuda:x",
                                        "cuda:-1", "cuda:1024", "cuda1"};
    unsigned number = 9;
    Err err = {0};
    assert_ptr_equal(device_kind("cuda", &number, &err), &cuda_kind);
    assert_int_equal(number, 0);
    assert_ptr_equal(device_kind("cuda:3", &number, &err), &cuda_kind);
    assert_int_equal(number, 3);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        err = (Err){0};
        assert_null(device_kind(wrong[i], &number, &err));
        assert_int_equal(err.code, ERR_USAGE);
    }
}
