// SPDX-License-Identifier: Apache-2.0
/* Building plans; see plan.h. Sections are in order, each 64-byte aligned; plan_stream.c writes them. */
#include <string.h>

#include "plan.h"

enum { FIRST_TEXTS = 256 };

void plan_builder_init(PlanBuilder *b, Arena *arena) {
    *b = (PlanBuilder){.arena = arena};
    VEC_BEGIN(arena, &b->attrs);
    VEC_BEGIN(arena, &b->operands);
    VEC_BEGIN(arena, &b->numbers);
    VEC_BEGIN(arena, &b->floats);
    VEC_BEGIN(arena, &b->chars);
    b->text_capacity = FIRST_TEXTS;
    b->text_slots = ARENA_ARRAY(arena, uint32_t, b->text_capacity);
    plan_add_text(b, "", 0);
}

static size_t text_place(const PlanBuilder *b, const char *text, size_t size) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    size_t place = (size_t)(hash ^ hash >> 32) & (b->text_capacity - 1);
    for (; b->text_slots[place]; place = (place + 1) & (b->text_capacity - 1)) {
        const PlanSpan *span = &b->texts.items[b->text_slots[place] - 1];
        if (span->count == size && (!size || !memcmp(b->chars.items + span->first, text, size)))
            break; /* no bytes may lie nowhere */
    }
    return place;
}

static void grow_texts(PlanBuilder *b) {
    size_t old = b->text_capacity;
    uint32_t *slots = b->text_slots;
    b->text_capacity *= 2;
    b->text_slots = ARENA_ARRAY(b->arena, uint32_t, b->text_capacity);
    for (size_t i = 0; i < old; i++) {
        if (!slots[i]) continue;
        const PlanSpan *span = &b->texts.items[slots[i] - 1];
        b->text_slots[text_place(b, b->chars.items + span->first, span->count)] = slots[i];
    }
    arena_release(b->arena, slots, old * sizeof *slots);
}

uint32_t plan_add_text(PlanBuilder *b, const char *text, size_t size) {
    if (2 * b->texts.count >= b->text_capacity) grow_texts(b);
    size_t place = text_place(b, text, size);
    if (b->text_slots[place]) return b->text_slots[place] - 1;
    PlanSpan span = {(uint32_t)b->chars.count, (uint32_t)size};
    for (size_t i = 0; i < size; i++) VEC_PUSH(b->arena, &b->chars, text[i]);
    VEC_PUSH(b->arena, &b->texts, span);
    b->text_slots[place] = (uint32_t)b->texts.count;
    return (uint32_t)b->texts.count - 1;
}

uint32_t plan_add_op(PlanBuilder *b, const char *domain, const char *name, int64_t opset) {
    PlanOp op = {plan_add_text(b, domain, strlen(domain)), plan_add_text(b, name, strlen(name)),
                 opset};
    for (size_t i = 0; i < b->ops.count; i++)
        if (memcmp(&b->ops.items[i], &op, sizeof op) == 0) return (uint32_t)i;
    VEC_PUSH(b->arena, &b->ops, op);
    return (uint32_t)b->ops.count - 1;
}

PlanSpan plan_add_operands(PlanBuilder *b, const uint32_t *items, size_t count) {
    PlanSpan span = {(uint32_t)b->operands.count, (uint32_t)count};
    for (size_t i = 0; i < count; i++) VEC_PUSH(b->arena, &b->operands, items[i]);
    return span;
}

uint32_t plan_add_numbers(PlanBuilder *b, const int64_t *items, size_t count) {
    uint32_t first = (uint32_t)b->numbers.count;
    for (size_t i = 0; i < count; i++) VEC_PUSH(b->arena, &b->numbers, items[i]);
    return first;
}

uint32_t plan_add_floats(PlanBuilder *b, const float *items, size_t count) {
    uint32_t first = (uint32_t)b->floats.count;
    for (size_t i = 0; i < count; i++) VEC_PUSH(b->arena, &b->floats, items[i]);
    return first;
}

static uint64_t aligned(uint64_t size) {
    return (size + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

static uint64_t add_data(PlanBuilder *b, uint64_t size, PlanDataFn read, void *data) {
    PlanConstant constant = {
        .offset = b->data_size, .size = size, .plain = size, .read = read, .data = data};
    b->data_size = aligned(b->data_size + size);
    VEC_PUSH(b->arena, &b->constants, constant);
    return constant.offset;
}

void plan_set_data(PlanBuilder *b, uint32_t value, uint64_t size, PlanDataFn read, void *data) {
    b->values.items[value].data = add_data(b, size, read, data);
    b->values.items[value].size = size;
}

const PlanConstant *plan_constant_of(const PlanBuilder *b, const PlanValue *value) {
    size_t low = 0, high = b->constants.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->constants.items[middle].offset < value->data)
            low = middle + 1;
        else
            high = middle;
    }
    while (b->constants.items[low].size != value->size) low++; /* empty ones lie where others do */
    return &b->constants.items[low];
}

void plan_note_file(PlanBuilder *b, const Source *file, uint64_t at) {
    PlanConstant *last = &b->constants.items[b->constants.count - 1];
    last->file = file;
    last->at = at;
}

void plan_note_whole(PlanBuilder *b) {
    b->constants.items[b->constants.count - 1].whole = true;
}

void plan_set_constant(PlanBuilder *b, uint32_t value, const PlanConstant *constant) {
    plan_set_data(b, value, constant->size, constant->read, constant->data);
    plan_note_file(b, constant->file, constant->at);
    if (constant->whole) plan_note_whole(b);
}

uint64_t plan_add_packed(PlanBuilder *b, const PlanConstant *plain, const WeightLayout *layout) {
    const uint64_t at = add_data(b, weight_layout_size(layout), plain->read, plain->data);
    PlanConstant *last = &b->constants.items[b->constants.count - 1];
    last->layout = arena_copy(b->arena, layout, sizeof *layout);
    last->plain = plain->size;
    last->whole = plain->whole;
    return at;
}

void plan_share_data(PlanBuilder *b, uint32_t value, uint32_t other) {
    b->values.items[value].data = b->values.items[other].data;
    b->values.items[value].size = b->values.items[other].size;
}

Plan plan_of_builder(const PlanBuilder *b) {
    return (Plan){.ops = b->ops.items,
                  .values = b->values.items,
                  .graphs = b->graphs.items,
                  .steps = b->steps.items,
                  .attrs = b->attrs.items,
                  .operands = b->operands.items,
                  .numbers = b->numbers.items,
                  .floats = b->floats.items,
                  .texts = b->texts.items,
                  .chars = b->chars.items,
                  .choices = b->choices.items,
                  .op_count = (uint32_t)b->ops.count,
                  .value_count = (uint32_t)b->values.count,
                  .graph_count = (uint32_t)b->graphs.count,
                  .step_count = (uint32_t)b->steps.count,
                  .text_count = (uint32_t)b->texts.count,
                  .choice_count = (uint32_t)b->choices.count};
}

PlanSections plan_sections(const PlanBuilder *b) {
    PlanSections s = {
        .of = {
            [PLAN_OPS] = {b->ops.items, b->ops.count, sizeof(PlanOp)},
            [PLAN_VALUES] = {b->values.items, b->values.count, sizeof(PlanValue)},
            [PLAN_GRAPHS] = {b->graphs.items, b->graphs.count, sizeof(PlanGraph)},
            [PLAN_STEPS] = {b->steps.items, b->steps.count, sizeof(PlanStep)},
            [PLAN_ATTRS] = {b->attrs.items, b->attrs.count, sizeof(PlanAttr)},
            [PLAN_OPERANDS] = {b->operands.items, b->operands.count, sizeof(uint32_t)},
            [PLAN_NUMBERS] = {b->numbers.items, b->numbers.count, sizeof(int64_t)},
            [PLAN_FLOATS] = {b->floats.items, b->floats.count, sizeof(float)},
            [PLAN_TEXTS] = {b->texts.items, b->texts.count, sizeof(PlanSpan)},
            [PLAN_CHARS] = {b->chars.items, b->chars.count, 1},
            [PLAN_PACKS] = {b->packs.items, b->packs.count, sizeof(PlanPack)},
            [PLAN_CHOICES] = {b->choices.items, b->choices.count, sizeof(PlanChoice)},
            [PLAN_DATA] = {NULL, b->data_size, 1}, /* constants, one by one */
        }};
    uint64_t offset = aligned(sizeof(PlanHeader));
    for (int i = 0; i < PLAN_SECTION_COUNT; i++) {
        s.places[i] = (PlanSection){offset, s.of[i].count};
        offset = aligned(offset + s.of[i].count * s.of[i].size);
    }
    s.file_size = offset + sizeof(PlanSum);
    return s;
}

uint64_t plan_set_files(PlanBuilder *b) {
    const PlanSections sections = plan_sections(b);
    const uint64_t first = plan_end(sections.file_size);
    for (size_t i = 0; i < b->files.count; i++) b->files.items[i].at += first;
    for (size_t i = 0; i < b->values.count; i++) {
        PlanValue *value = &b->values.items[i];
        if (value->data != PLAN_NO_DATA && value->data >= PLAN_FILES)
            value->data += first - sections.places[PLAN_DATA].offset - PLAN_FILES;
    }
    return sections.file_size;
}
