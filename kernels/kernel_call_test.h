// SPDX-License-Identifier: Apache-2.0
/* Calls of kernels from tests, without a plan: operands are given as arrays, attributes by name. */
#ifndef DEMI_KERNEL_CALL_TEST_H
#define DEMI_KERNEL_CALL_TEST_H

#include <string.h>

#include "kernel.h"
#include "unit_test.h"

enum { CALL_MOST = 8 };

typedef struct TestCall {
    Arena arena;
    Err err;
    KernelTensor inputs[CALL_MOST], outputs[CALL_MOST];
    KernelCall call;
    void *attrs;
} TestCall;

/* The operator's first row at that version, with every attribute absent. test_call_end afterwards.
 */
static inline void test_call_begin(TestCall *test, const char *op, int64_t opset) {
    size_t count;
    memset(test, 0, sizeof *test);
    arena_init(&test->arena, &test_trap);
    const KernelRow *row = kernel_find("", op, opset, &count);
    assert_non_null(row);
    test->attrs = attr_layout_new(row->layout, &test->arena);
    test->call = (KernelCall){.row = row,
                              .attrs = test->attrs,
                              .inputs = test->inputs,
                              .outputs = test->outputs,
                              .opset = opset,
                              .scratch = &test->arena,
                              .err = &test->err};
}

static inline void test_call_end(TestCall *test) {
    arena_free(&test->arena);
}

static inline void test_call_int(TestCall *test, const char *name, int64_t value) {
    const AttrField *field = attr_layout_find(test->call.row->layout, name, strlen(name));
    PlainAttr attr = {.kind = PLAIN_INT, .v = {.i = value}};
    assert_non_null(field);
    attr_layout_fill(test->attrs, field, &attr, &test->arena);
}

static inline KernelTensor test_tensor(Dtype dtype, uint32_t rank, const int64_t *dims,
                                       void *data) {
    KernelTensor t = {
        .present = true, .dtype = dtype, .rank = rank, .dims = dims, .count = 1, .data = data};
    for (uint32_t i = 0; i < rank; i++) t.count *= (uint64_t)dims[i];
    return t;
}

static inline void test_call_input(TestCall *test, uint32_t i, KernelTensor tensor) {
    test->inputs[i] = tensor;
    if (i >= test->call.input_count) test->call.input_count = i + 1;
}

static inline void test_call_output(TestCall *test, uint32_t i, KernelTensor tensor) {
    test->outputs[i] = tensor;
    if (i >= test->call.output_count) test->call.output_count = i + 1;
}

static inline bool test_call_run(TestCall *test) {
    return kernel_run_once(&test->call);
}

#endif
