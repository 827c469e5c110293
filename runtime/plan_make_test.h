// SPDX-License-Identifier: Apache-2.0
/* For tests: plans made by hand, in memory. */
#ifndef DEMI_PLAN_MAKE_TEST_H
#define DEMI_PLAN_MAKE_TEST_H

#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "unit_test.h"

typedef struct Image {
    unsigned char *data; /* 64-byte aligned */
    size_t size, room;
} Image;

static inline bool append(void *data, const void *bytes, size_t size, Err *err) {
    Image *to = data;
    (void)err;
    assert_true(to->size + size <= to->room);
    memcpy(to->data + to->size, bytes, size);
    to->size += size;
    return true;
}

static inline bool read_memory(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    (void)err;
    memcpy(buffer, (const char *)data + offset, size);
    return true;
}

static inline uint32_t add_value(PlanBuilder *b, const char *name, Dtype dtype, const int64_t *dims,
                                 uint32_t rank) {
    PlanValue value = {.name = plan_add_text(b, name, strlen(name)),
                       .dtype = (uint8_t)dtype,
                       .rank = rank,
                       .dims = plan_add_numbers(b, dims, rank),
                       .data = PLAN_NO_DATA};
    VEC_PUSH(b->arena, &b->values, value);
    return (uint32_t)b->values.count - 1;
}

static inline void add_step(PlanBuilder *b, const char *op, PlanSpan inputs, PlanSpan outputs,
                            PlanSpan attrs) {
    PlanStep step = {.op = plan_add_op(b, "", op, 21),
                     .name = plan_add_text(b, op, strlen(op)),
                     .inputs = inputs,
                     .outputs = outputs,
                     .attrs = attrs};
    VEC_PUSH(b->arena, &b->steps, step);
}

static inline PlanSpan one(PlanBuilder *b, uint32_t value) {
    return plan_add_operands(b, &value, 1);
}

/* The plan that `build` describes, of at most `room` bytes; free(data). */
static inline Image make_image_in(size_t room, void (*build)(PlanBuilder *builder, void *data),
                                  void *data) {
    Image image = {.data = aligned_alloc(64, room), .room = room};
    Arena arena;
    PlanBuilder builder;
    Err err = {0};
    assert_non_null(image.data);
    arena_init(&arena, &test_trap);
    plan_builder_init(&builder, &arena);
    build(&builder, data);
    assert_true(plan_write(&builder, append, &image, &err));
    arena_free(&arena);
    return image;
}

static inline Image make_image(void (*build)(PlanBuilder *builder, void *data), void *data) {
    return make_image_in(1 << 18, build, data);
}

#endif
