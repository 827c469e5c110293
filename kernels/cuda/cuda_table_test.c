// SPDX-License-Identifier: Apache-2.0
/* The table of CUDA's kernels, without a GPU: sorted as it is looked up, of operators that processors
 * have too, with the same attributes; and what placement takes for granted of an operator's rows. */
#include <string.h>

#include "device.h"
#include "unit_test.h"

typedef struct Version {
    int since;
} Version;

#define CUDA(since, ...)          ROW(since)
#define CUDA_PREPARED(since, ...) ROW(since)
#define OP_TABLE_TYPE             Version
#define OP_TABLE                  versions
#include "op_table.inc"

/* Placement reads `host` of the first row of an operator. */
static void check_rows(OpId op, int since) {
    const char *domain = op_domain(op), *name = op_name(op);
    size_t count = 0, others = 0;
    const KernelRow *rows = cuda_kind.find(domain, name, since, &count);
    const KernelRow *cpu = kernel_find(domain, name, since, &others);
    assert_non_null(rows);
    assert_int_equal(rows->since, since);
    if (!cpu) fail_msg("%s since %d has no kernel of a processor", name, since);
    for (size_t k = 0; k < count; k++) {
        if (rows[k].host != rows->host)
            fail_msg("rows of %s since %d differ in what the host reads", name, since);
        if (rows[k].layout != cpu->layout)
            fail_msg("%s since %d has other attributes on a processor", name, since);
        if (rows[k].flags & KERNEL_SIZES)
            fail_msg("%s since %d finds its sizes itself", name, since);
    }
}

TEST(test_rows) {
    for (int op = OP_NONE; op < OP_ID_COUNT; op++) {
        const Version *rows = &versions[versions_of[op].first];
        for (size_t i = 0; i < versions_of[op].count; i++) {
            if (i && rows[i - 1].since > rows[i].since)
                fail_msg("%s of %d stands before %d", op_name((OpId)op), rows[i - 1].since,
                         rows[i].since);
            check_rows((OpId)op, rows[i].since);
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
