// SPDX-License-Identifier: Apache-2.0
/* Building and writing plans; see plan.h. Sections are written in order, each 64-byte aligned, and
 * constants are read from their source only then, so that no plan is in memory as a whole. */
#include <string.h>

#include "hash64.h"
#include "kernel.h"
#include "plan.h"

enum { FIRST_TEXTS = 256, CHUNK = 1 << 20 };

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

uint64_t plan_add_data(PlanBuilder *b, uint64_t size, PlanDataFn read, void *data) {
    PlanConstant constant = {b->data_size, size, read, data};
    b->data_size = aligned(b->data_size + size);
    VEC_PUSH(b->arena, &b->constants, constant);
    return constant.offset;
}

void plan_set_data(PlanBuilder *b, uint32_t value, uint64_t size, PlanDataFn read, void *data) {
    b->values.items[value].data = plan_add_data(b, size, read, data);
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

/* What is put goes on in blocks of PLAN_BLOCK. */
typedef struct Output {
    PlanWriteFn write;
    void *data;
    uint64_t position;
    Hash64 hash;  /* of what was put */
    char *buffer; /* [PLAN_BLOCK + CHUNK] */
    size_t used;  /* less than PLAN_BLOCK between calls */
    Err *err;
} Output;

/* The next bytes, which are at the end of the buffer; at most CHUNK of them. */
static bool add(Output *out, size_t size) {
    hash64_update(&out->hash, out->buffer + out->used, size);
    out->position += size;
    out->used += size;
    if (out->used < PLAN_BLOCK) return true;
    out->used -= PLAN_BLOCK;
    if (!out->write(out->data, out->buffer, PLAN_BLOCK, out->err)) return false;
    memcpy(out->buffer, out->buffer + PLAN_BLOCK, out->used); /* no more than CHUNK */
    return true;
}

static bool put(Output *out, const void *bytes, uint64_t size) {
    for (uint64_t at = 0; at < size; at += CHUNK) {
        const size_t piece = size - at < CHUNK ? (size_t)(size - at) : CHUNK;
        memcpy(out->buffer + out->used, (const char *)bytes + at, piece);
        if (!add(out, piece)) return false;
    }
    return true;
}

static bool put_rest(Output *out) {
    return !out->used || out->write(out->data, out->buffer, out->used, out->err);
}

static bool pad(Output *out) {
    static const char zeros[PLAN_ALIGN];
    return put(out, zeros, aligned(out->position) - out->position);
}

static bool put_constant(Output *out, const PlanConstant *constant) {
    for (uint64_t at = 0; at < constant->size; at += CHUNK) {
        uint64_t size = constant->size - at < CHUNK ? constant->size - at : CHUNK;
        char *to = out->buffer + out->used;
        if (!constant->read(constant->data, at, to, size, out->err) || !add(out, (size_t)size))
            return false;
    }
    return pad(out);
}

bool plan_write(PlanBuilder *b, PlanWriteFn write, void *data, Err *err) {
    const struct {
        const void *items;
        uint64_t count, size;
    } sections[PLAN_SECTION_COUNT] = {
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
        [PLAN_DATA] = {NULL, b->data_size, 1}, /* constants, below */
    };
    PlanHeader header = {.magic = PLAN_MAGIC,
                         .version = PLAN_VERSION,
                         .numerics = (uint8_t)b->numerics,
                         .small = b->small,
                         .header_size = sizeof header,
                         .kernels = kernel_table_version(),
                         .source = {b->source[0], b->source[1]},
                         .isa = b->isa,
                         .tuned = b->choices.count ? (uint16_t)b->tuned : 0,
                         .threads = b->choices.count ? b->threads : 0};
    uint64_t offset = aligned(sizeof header);
    for (int i = 0; i < PLAN_SECTION_COUNT; i++) {
        header.sections[i] = (PlanSection){offset, sections[i].count};
        offset = aligned(offset + sections[i].count * sections[i].size);
    }
    header.file_size = offset + sizeof(PlanSum);
    const size_t room = PLAN_BLOCK + CHUNK;
    char *buffer = arena_alloc_raw(b->arena, room);
    Output out = {.write = write, .data = data, .buffer = buffer, .err = err};
    hash64_init(&out.hash, 0);
    bool ok = put(&out, &header, sizeof header) && pad(&out);
    for (int i = 0; ok && i < PLAN_DATA; i++)
        ok = put(&out, sections[i].items, sections[i].count * sections[i].size) && pad(&out);
    for (size_t i = 0; ok && i < b->constants.count; i++)
        ok = put_constant(&out, &b->constants.items[i]);
    PlanSum sum = {.magic = PLAN_SUM_MAGIC, .hash = hash64_final(&out.hash)};
    ok = ok && put(&out, &sum, sizeof sum) && put_rest(&out);
    arena_release(b->arena, buffer, room);
    return ok;
}
