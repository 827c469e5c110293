// SPDX-License-Identifier: Apache-2.0
/* For tests of kernels: calls one by its operator's name on tensors of the test's own, as a host
 * would, without a plan. Output memory of kernels that make their own is in the case's arena. */
#ifndef DEMI_KERNEL_CASE_TEST_H
#define DEMI_KERNEL_CASE_TEST_H

#include <string.h>

#include "kernel_functions.h"
#include "unit_test.h"

typedef struct KernelCase {
    KernelHost host;
    KernelCall call; /* behind the host, which finds the case by it */
    KernelTensor inputs[14], outputs[4];
    const char *types; /* the operator's signature */
    Arena arena;
    Err err;
} KernelCase;

static inline bool case_output(KernelCall *call, uint32_t i, uint32_t rank, const int64_t *dims) {
    KernelTensor *out = &call->outputs[i];
    out->rank = rank;
    out->dims = arena_copy(call->scratch, dims, rank * sizeof *dims);
    out->count = kernel_span(out, 0, rank);
    if (out->count > 1u << 20) return kernel_fail(call, "beyond the memory limit");
    out->data = arena_array(call->scratch, out->count + 1, kernel_element_size(out->dtype));
    return true;
}

/* Begins a case of the operator's first row in force at `opset`, all attributes absent. */
static inline void case_begin_in(KernelCase *c, const char *domain, const char *op, int64_t opset) {
    size_t count;
    memset(c, 0, sizeof *c);
    arena_init(&c->arena, &test_trap);
    const KernelRow *row = kernel_find(domain, op, opset, &count);
    assert_non_null(row);
    c->types = kernel_signature_find(domain, op, opset);
    c->host.output = case_output;
    c->call = (KernelCall){.row = row,
                           .attrs = attr_layout_new(row->layout, &c->arena),
                           .inputs = c->inputs,
                           .outputs = c->outputs,
                           .opset = opset,
                           .seed = 1,
                           .scratch = &c->arena,
                           .err = &c->err,
                           .host = &c->host};
}
static inline void case_begin(KernelCase *c, const char *op, int64_t opset) {
    case_begin_in(c, "", op, opset);
}

static inline void case_attr(KernelCase *c, const char *name, PlainAttr attr) {
    const AttrField *field = attr_layout_find(c->call.row->layout, name, strlen(name));
    assert_non_null(field);
    attr_layout_fill((void *)(uintptr_t)c->call.attrs, field, &attr, &c->arena);
}
static inline void case_int(KernelCase *c, const char *name, int64_t value) {
    case_attr(c, name, (PlainAttr){.kind = PLAIN_INT, .v.i = value});
}
static inline void case_float(KernelCase *c, const char *name, float value) {
    case_attr(c, name, (PlainAttr){.kind = PLAIN_FLOAT, .v.f = value});
}
static inline void case_text(KernelCase *c, const char *name, const char *value) {
    AttrText text = {true, (uint32_t)strlen(value), value};
    case_attr(c, name, (PlainAttr){.kind = PLAIN_TEXT, .v.text = text});
}

static inline KernelTensor case_tensor(KernelCase *c, Dtype dtype, uint32_t rank,
                                       const int64_t *dims, const void *data) {
    KernelTensor t = {.present = true, .dtype = dtype, .rank = rank, .dims = dims};
    t.count = kernel_span(&t, 0, rank);
    size_t bytes = t.count * kernel_element_size(dtype);
    t.data = arena_alloc(&c->arena, bytes + 64);
    if (data && bytes) memcpy(t.data, data, bytes);
    return t;
}
static inline void case_in(KernelCase *c, Dtype dtype, uint32_t rank, const int64_t *dims,
                           const void *data) {
    c->inputs[c->call.input_count++] = case_tensor(c, dtype, rank, dims, data);
}
static inline void case_omit(KernelCase *c) {
    c->call.input_count++;
}
static inline void case_out(KernelCase *c, Dtype dtype, uint32_t rank, const int64_t *dims) {
    c->outputs[c->call.output_count++] = case_tensor(c, dtype, rank, dims, NULL);
}

/* Operands at any place, of memory and of sizes that the test answers for. */
static inline KernelTensor case_borrow(Dtype dtype, uint32_t rank, const int64_t *dims,
                                       void *data) {
    KernelTensor t = {.present = true, .dtype = dtype, .rank = rank, .dims = dims, .data = data};
    t.count = kernel_span(&t, 0, rank);
    return t;
}
static inline void case_set_in(KernelCase *c, uint32_t i, KernelTensor tensor) {
    c->inputs[i] = tensor;
    if (i >= c->call.input_count) c->call.input_count = i + 1;
}
static inline void case_set_out(KernelCase *c, uint32_t i, KernelTensor tensor) {
    c->outputs[i] = tensor;
    if (i >= c->call.output_count) c->call.output_count = i + 1;
}

/* Has the row go one of the ways that it can be told, or by its rule, as the number says. After the
 * run call.choice is 0 where it went by its rule. */
static inline void case_choose(KernelCase *c, uint64_t number) {
    const KernelPrepare *prepare = c->call.row->prepare;
    c->call.choice = prepare ? (uint32_t)(number % (1 + prepare->choices)) : 0;
}
static inline bool case_run(KernelCase *c) {
    return kernel_run_once(&c->call, c->types);
}
static inline void case_end(KernelCase *c) {
    arena_free(&c->arena);
}

#define CASE_DIMS(...)                                                                             \
    (const int64_t[]) {                                                                            \
        __VA_ARGS__                                                                                \
    }

#endif
