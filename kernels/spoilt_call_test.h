// SPDX-License-Identifier: Apache-2.0
/* For tests of com.microsoft's kernels under operands that no exporter writes: calls that are right, and
 * then one thing of them is not: a dim, a rank, an operand that is missing, an attribute, a number. Each
 * must run to its end or fail with a message, within its tensors, whose memory ends where they do (run
 * it with the sanitizers). */
#ifndef DEMI_SPOILT_CALL_TEST_H
#define DEMI_SPOILT_CALL_TEST_H

#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "unit_test.h"

enum { OPERANDS = 16, RESULTS = 4, RANK = 5, ATTRS = 12, ROUNDS = 4000 };

/* A tensor in the making; its data is made last. */
typedef struct Part {
    bool present;
    Dtype dtype;
    uint32_t rank;
    int64_t dims[RANK];
    const int64_t *numbers; /* NULL: floats */
    void *data;
} Part;

typedef struct Attribute {
    const char *name, *text; /* a string where there is a text */
    int64_t value;
} Attribute;

typedef struct SpoiltCall {
    const char *op;
    bool all_required; /* none of its inputs may be left out */
    Part inputs[OPERANDS], outputs[RESULTS];
    Attribute attrs[ATTRS];
    uint32_t attr_count;
    uint64_t state;
} SpoiltCall;

static inline uint64_t draw(SpoiltCall *c, uint64_t below) {
    c->state = c->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (c->state >> 33) % below;
}

static inline void set(Part *part, Dtype dtype, uint32_t rank, const int64_t *dims) {
    *part = (Part){.present = true, .dtype = dtype, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) part->dims[i] = dims[i];
}
#define SET(part, dtype, ...)                                                                      \
    set(part, DTYPE_##dtype, sizeof((int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__})

static inline void attribute(SpoiltCall *c, const char *name, int64_t value) {
    c->attrs[c->attr_count++] = (Attribute){.name = name, .value = value};
}

static const int64_t ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* ---- what is wrong --------------------------------------------------------------------------- */

static const int64_t odd_dims[] = {0, 1, 2, 3, 5, 7, 64, INT64_C(1) << 31, INT64_C(1) << 61};
static const int64_t odd_numbers[] = {-1, 0, 1, 2, 3, 7, 1 << 30, INT32_MAX, INT32_MIN};
static const int64_t odd_attrs[] = {-1, 0, 1, 2, 3, 5, 1 << 30, INT64_MAX, INT64_MIN + 1};
#define PICK(c, list) (list)[draw(c, sizeof(list) / sizeof *(list))]

static inline Part *any_part(SpoiltCall *c) {
    for (;;) {
        const uint64_t i = draw(c, OPERANDS + RESULTS);
        Part *part = i < OPERANDS ? &c->inputs[i] : &c->outputs[i - OPERANDS];
        if (part->present) return part;
    }
}

static inline void spoil(SpoiltCall *c, int64_t *number) {
    Part *part = any_part(c);
    switch (draw(c, 6)) {
    case 0:
    case 1:
        if (part->rank) part->dims[draw(c, part->rank)] = PICK(c, odd_dims);
        break;
    case 2:
        part->rank = (uint32_t)draw(c, RANK + 1);
        for (uint32_t i = 0; i < part->rank; i++)
            if (!part->dims[i]) part->dims[i] = 1;
        break;
    case 3: /* what a definition requires is there, or no kernel is called */
        if (part != &c->inputs[0] && part->numbers == NULL && part->dtype == DTYPE_FLOAT &&
            part < c->outputs && !c->all_required)
            part->present = false;
        break;
    case 4: c->attrs[draw(c, c->attr_count)].value = PICK(c, odd_attrs); break;
    default:
        *number = PICK(c, odd_numbers);
        if (part->numbers) part->numbers = number;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* False where the tensor is too large to be made. */
static inline bool fill(SpoiltCall *c, Part *part, KernelTensor *t) {
    enum { MOST = 1 << 12 };
    const size_t element = kernel_element_size(part->dtype);
    *t = (KernelTensor){
        .present = true, .dtype = part->dtype, .rank = part->rank, .dims = part->dims, .count = 1};
    bool none = false;
    for (uint32_t i = 0; i < part->rank; i++) none = none || part->dims[i] == 0;
    for (uint32_t i = 0; i < part->rank && !none; i++) {
        if (part->dims[i] > MOST || t->count * (uint64_t)part->dims[i] > MOST) return false;
        t->count *= (uint64_t)part->dims[i];
    }
    if (none) t->count = 0;
    t->data = part->data = malloc(t->count * element + !t->count);
    assert_non_null(t->data);
    for (uint64_t i = 0; i < t->count; i++) {
        const int64_t number = part->numbers ? part->numbers[part->numbers == ones ? i % 16 : i % 1]
                                             : (int64_t)draw(c, 5);
        kernel_set_real(t, i, (double)number);
    }
    return true;
}

static inline void fill_attrs(const SpoiltCall *c, const KernelRow *row, void *attrs,
                              Arena *arena) {
    for (uint32_t i = 0; i < c->attr_count; i++) {
        const char *text = c->attrs[i].text;
        PlainAttr attr = {.kind = PLAIN_INT, .v.i = c->attrs[i].value};
        if (text)
            attr = (PlainAttr){.kind = PLAIN_TEXT, .v.text = {true, (uint32_t)strlen(text), text}};
        const AttrField *field =
            attr_layout_find(row->layout, c->attrs[i].name, strlen(c->attrs[i].name));
        assert_non_null(field);
        attr_layout_fill(attrs, field, &attr, arena);
    }
}

/* True where it ran to its end. */
static inline bool run(SpoiltCall *c) {
    Err err = {0};
    MemTrap trap;
    Arena arena;
    size_t count;
    KernelTensor inputs[OPERANDS] = {0}, outputs[RESULTS] = {0};
    volatile bool made = true, good = false;
    arena_init(&arena, &trap);
    arena.budget = 1 << 26;
    const KernelRow *row = kernel_find("com.microsoft", c->op, 1, &count);
    assert_non_null(row);
    for (int i = 0; i < OPERANDS; i++)
        if (c->inputs[i].present && !fill(c, &c->inputs[i], &inputs[i])) made = false;
    for (int i = 0; i < RESULTS; i++)
        if (c->outputs[i].present && !fill(c, &c->outputs[i], &outputs[i])) made = false;
    if (made && setjmp(trap.env) == 0) {
        void *attrs = attr_layout_new(row->layout, &arena);
        fill_attrs(c, row, attrs, &arena);
        KernelCall call = {.row = row,
                           .attrs = attrs,
                           .inputs = inputs,
                           .outputs = outputs,
                           .input_count = OPERANDS,
                           .output_count = RESULTS,
                           .opset = 1,
                           .scratch = &arena,
                           .err = &err};
        good = row->run(&call);
        assert_true(good || err.what[0]);
    }
    for (int i = 0; i < OPERANDS; i++) free(c->inputs[i].data);
    for (int i = 0; i < RESULTS; i++) free(c->outputs[i].data);
    arena_free(&arena);
    return good;
}

static inline void try_all(void (*make)(SpoiltCall *)) {
    unsigned ran = 0;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        SpoiltCall c = {.state = seed * 2 + 1};
        int64_t number = 0;
        draw(&c, 2);
        make(&c);
        if (seed % 8) spoil(&c, &number);
        const bool good = run(&c);
        if (seed % 8 == 0 && !good) fail_msg("seed %d: what is right fails", (int)seed);
        ran += good;
    }
    assert_in_range(ran, ROUNDS / 4, ROUNDS * 3 / 4);
}

#endif
