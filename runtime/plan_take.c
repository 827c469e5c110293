// SPDX-License-Identifier: Apache-2.0
/* A plan that is there as one that is being made, so that it can be written anew: with its tables as
 * they are, and its constants in the order of their elements. Written without a change, it has the
 * bytes that it had. */
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "plan.h"

/* A constant's data, which several values may have. */
typedef struct Taken {
    uint64_t data, size; /* of the plan that is there */
    uint32_t value;
    bool packed;
} Taken;

static int by_place(const void *a, const void *b) {
    const Taken *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

static bool read_plain(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    (void)err;
    memcpy(buffer, (const char *)data + offset, size);
    return true;
}

/* A packed constant in the order of its elements: no part of it is made alone. */
typedef struct Unpacked {
    const WeightLayout *layout;
    const void *from;
} Unpacked;

static bool read_unpacked(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    const Unpacked *c = data;
    (void)err, (void)offset, (void)size;
    weight_layout_unpack(c->layout, c->from, buffer);
    return true;
}

static const WeightLayout *layout_of(const Plan *plan, uint32_t value) {
    for (uint32_t i = 0; i < plan->pack_count; i++)
        if (plan->packs[i].value == value && !weight_layout_loses(&plan->packs[i].layout))
            return &plan->packs[i].layout;
    return NULL;
}

static void take_constant(PlanBuilder *b, const LoadedPlan *loaded, const Taken *taken) {
    const Plan *plan = &loaded->plan;
    const unsigned char *from = plan->data + taken->data;
    const WeightLayout *layout = taken->packed ? layout_of(plan, taken->value) : NULL;
    if (!layout) {
        plan_set_data(b, taken->value, taken->size, read_plain, (void *)(uintptr_t)from);
        return;
    }
    const KernelTensor *tensor = &loaded->constants[taken->value];
    const uint64_t size = tensor->count * kernel_element_size(tensor->dtype);
    Unpacked *c = ARENA_NEW(b->arena, Unpacked);
    *c = (Unpacked){layout, from};
    plan_set_data(b, taken->value, size, read_unpacked, c);
    plan_note_whole(b);
    b->values.items[taken->value].packed = 0;
}

static void take_constants(PlanBuilder *b, const LoadedPlan *loaded) {
    const Plan *plan = &loaded->plan;
    VEC(Taken) all = {0};
    for (uint32_t i = 0; i < plan->value_count; i++) {
        const PlanValue *value = &plan->values[i];
        if (value->data == PLAN_NO_DATA) continue;
        const Taken taken = {value->data, value->size, i, value->packed};
        VEC_PUSH(b->arena, &all, taken);
    }
    if (all.count) qsort(all.items, all.count, sizeof *all.items, by_place);
    for (size_t i = 0; i < all.count; i++) {
        const Taken *taken = &all.items[i], *last = taken - 1;
        if (i && last->data == taken->data && last->size == taken->size)
            plan_share_data(b, taken->value, last->value);
        else
            take_constant(b, loaded, taken);
    }
}

#define TAKE(vec, from, number)                                                                    \
    do {                                                                                           \
        (vec).items = arena_copy(b->arena, (from), (size_t)(number) * sizeof *(vec).items);        \
        (vec).count = (vec).capacity = (size_t)(number);                                           \
    } while (0)

void plan_builder_take(PlanBuilder *b, const LoadedPlan *loaded) {
    const Plan *plan = &loaded->plan;
    const PlanHeader *header = plan->header;
    const PlanSection *sections = header->sections;
    b->source[0] = header->source[0];
    b->source[1] = header->source[1];
    b->numerics = (PlanNumerics)header->numerics;
    b->small = header->small;
    b->isa = (PlanIsa)header->isa;
    b->tuned = (PlanIsa)header->tuned;
    b->threads = header->threads;
    TAKE(b->ops, plan->ops, plan->op_count);
    TAKE(b->values, plan->values, plan->value_count);
    TAKE(b->graphs, plan->graphs, plan->graph_count);
    TAKE(b->steps, plan->steps, plan->step_count);
    TAKE(b->attrs, plan->attrs, sections[PLAN_ATTRS].count);
    TAKE(b->operands, plan->operands, sections[PLAN_OPERANDS].count);
    TAKE(b->numbers, plan->numbers, sections[PLAN_NUMBERS].count);
    TAKE(b->floats, plan->floats, sections[PLAN_FLOATS].count);
    TAKE(b->texts, plan->texts, plan->text_count);
    TAKE(b->chars, plan->chars, sections[PLAN_CHARS].count);
    TAKE(b->choices, plan->choices, plan->choice_count);
    take_constants(b, loaded);
}
