// SPDX-License-Identifier: Apache-2.0
/* Planned memory; see exec_memory.h. Tables have an item for each value of the plan. */
#include "exec_memory.h"

#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "memory_plan.h"
#include "value_key.h"

typedef struct Place {
    uint64_t offset, size; /* size 0: none */
} Place;

/* Inputs of certain shapes. */
struct ShapeSet {
    ShapeSet *next;
    Buffer *self;
    bool noted, planned;
    uint64_t total; /* bytes that places need */
    Place *places;  /* [value_count] */
    uint32_t *last; /* [value_count]: the step with which a value's memory ends */
    uint64_t *key;  /* of the inputs, see value_key.h */
};

/* ---- finding --------------------------------------------------------------------------------- */

static const uint32_t *inputs_of(const Exec *exec, uint32_t *count) {
    const Plan *plan = &exec->loaded->plan;
    *count = plan->graphs[0].inputs.count;
    return plan->operands + plan->graphs[0].inputs.first;
}

static bool matches(const ShapeSet *set, const Exec *exec) {
    uint32_t count;
    const uint32_t *inputs = inputs_of(exec, &count);
    const uint64_t *key = set->key;
    for (uint32_t i = 0; key && i < count; i++)
        key = value_key_match(&exec->values[inputs[i]], key);
    return key;
}

static ShapeSet *set_new(Exec *exec) {
    uint32_t count, values = exec->loaded->plan.value_count;
    const uint32_t *inputs = inputs_of(exec, &count);
    uint64_t keys = 0;
    for (uint32_t i = 0; i < count; i++) keys += value_key_size(&exec->values[inputs[i]]);
    uint64_t size = sizeof(ShapeSet) + keys * sizeof(uint64_t) +
                    (uint64_t)values * (sizeof(Place) + sizeof(uint32_t));
    Err ignored = {0};
    Buffer *self = buffer_new(&exec->pool, size, &ignored);
    if (!self) return NULL;
    ShapeSet *set = buffer_data(self);
    memset(set, 0, size);
    set->self = self;
    set->places = (Place *)(set + 1);
    set->key = (uint64_t *)(set->places + values);
    uint64_t *to = set->key;
    for (uint32_t i = 0; i < count; i++) to = value_key_write(&exec->values[inputs[i]], to);
    set->last = (uint32_t *)to;
    return set;
}

/* The set of the present inputs, in front of the list; NULL without memory for it. */
static ShapeSet *find_set(Exec *exec) {
    ShapeSet **at = &exec->memory.sets, *set = *at;
    unsigned count = 0;
    for (; set && !matches(set, exec); set = *at, count++) {
        if (count + 1 == SHAPE_SET_LIMIT && !set->next) {
            *at = NULL;
            buffer_unref(&exec->pool, set->self);
        } else {
            at = &set->next;
        }
    }
    if (set)
        *at = set->next;
    else
        set = set_new(exec);
    if (!set) return NULL;
    set->next = exec->memory.sets;
    exec->memory.sets = set;
    return set;
}

/* ---- planning -------------------------------------------------------------------------------- */

static void plan_places(Exec *exec, ShapeSet *set) {
    const PlanSpan steps = exec->loaded->plan.graphs[0].steps;
    MemoryBlock *blocks = ARENA_ARRAY(&exec->scratch, MemoryBlock, exec->loaded->plan.value_count);
    uint32_t *values = ARENA_ARRAY(&exec->scratch, uint32_t, exec->loaded->plan.value_count);
    uint32_t count = 0;
    for (uint32_t s = steps.first; s < steps.first + steps.count; s++) {
        const LoadedStep *step = &exec->loaded->steps[s];
        for (uint32_t i = 0; i < step->plan->outputs.count; i++) {
            uint32_t value = step->outputs[i];
            if (value == PLAN_NONE || !set->places[value].size) continue;
            uint32_t last = set->last[value] < s ? s : set->last[value];
            blocks[count] = (MemoryBlock){set->places[value].size, s, last, 0};
            values[count++] = value;
        }
    }
    set->total = memory_plan(blocks, count, &exec->scratch);
    for (uint32_t i = 0; i < count; i++) set->places[values[i]].offset = blocks[i].offset;
    set->planned = true;
}

static void free_piece(Exec *exec) {
    free(exec->memory.piece);
    pool_discharge(&exec->pool, exec->memory.piece_size);
    exec->memory.piece = NULL;
    exec->memory.piece_size = 0;
}

/* One piece of memory that is large enough, and not much larger; false where the budget has no
 * room. */
static bool get_piece(Exec *exec, uint64_t size) {
    if (exec->memory.piece_size >= size && exec->memory.piece_size / 4 <= size) return true;
    free_piece(exec);
    if (size > SIZE_MAX - 64) return false;
    pool_trim(&exec->pool); /* what the first run needed instead */
    if (!pool_charge(&exec->pool, size)) return false;
    exec->memory.piece = aligned_alloc(64, (size_t)(size + 63) / 64 * 64);
    exec->memory.piece_size = size;
    if (!exec->memory.piece) free_piece(exec);
    return exec->memory.piece;
}

void exec_memory_begin(Exec *exec) {
    ShapeSet *set = find_set(exec);
    exec->memory.set = set;
    exec->memory.is_planned = false;
    if (!set) return;
    if (!set->noted) {
        memset(set->places, 0, exec->loaded->plan.value_count * sizeof *set->places);
        memcpy(set->last, exec->loaded->last, exec->loaded->plan.value_count * sizeof *set->last);
        return;
    }
    if (!set->planned) plan_places(exec, set);
    exec->memory.is_planned = set->total && !exec->pool.placed && get_piece(exec, set->total);
}

void exec_memory_forget(Exec *exec) {
    for (ShapeSet *set = exec->memory.sets; set; set = set->next) set->noted = set->planned = false;
}

void exec_memory_free(Exec *exec) {
    free(exec->memory.piece);
    exec->memory.piece = NULL;
}

/* ---- noting ---------------------------------------------------------------------------------- */

static void note_tensor(ShapeSet *set, const RtTensor *tensor, uint32_t last) {
    uint32_t owner = tensor->buffer ? tensor->buffer->owner : PLAN_NONE;
    if (owner != PLAN_NONE && set->last[owner] < last) set->last[owner] = last;
}

void exec_memory_note(Exec *exec, const LoadedStep *step) {
    ShapeSet *set = exec->memory.set;
    if (!set || set->noted) return;
    for (uint32_t i = 0; i < step->plan->outputs.count; i++) {
        if (step->outputs[i] == PLAN_NONE) continue;
        const RtValue *value = &exec->values[step->outputs[i]];
        uint32_t last = exec->loaded->last[step->outputs[i]];
        if (value->state == RT_TENSOR) note_tensor(set, value->tensor, last);
        for (uint32_t k = 0; value->state == RT_LIST && k < value->list->count; k++)
            if (value->list->items[k].state == RT_TENSOR)
                note_tensor(set, value->list->items[k].tensor, last);
    }
}

void exec_memory_end(Exec *exec, bool ok) {
    if (exec->memory.set && ok) exec->memory.set->noted = true;
    exec->memory.set = NULL;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* True where the place lies free. Few values live at a time. */
static bool is_free(const Exec *exec, const Place *place) {
    for (const Buffer *b = exec->pool.placed; b; b = b->next)
        if (place->offset < b->offset + b->size && b->offset < place->offset + place->size)
            return false;
    return true;
}

RtTensor *exec_new_tensor(Exec *exec, uint32_t value, const KernelTensor *like) {
    KernelTensor tensor = *like;
    uint64_t bytes;
    if (!checked_count(tensor.dims, tensor.rank, &tensor.count) ||
        !checked_mul(tensor.count, kernel_element_size(tensor.dtype), &bytes) ||
        bytes > INT64_MAX) {
        err_set(exec->err, ERR_ENV, "a tensor is larger than memory can be");
        return NULL;
    }
    const bool lasts = exec->carry.lasting && exec->carry.lasting[value];
    const Place *place =
        exec->memory.is_planned && !lasts ? &exec->memory.set->places[value] : NULL;
    Buffer *buffer = &exec->memory.placed[value];
    if (place && bytes && bytes <= place->size && !buffer->refs && is_free(exec, place)) {
        buffer->offset = place->offset;
        buffer->size = place->size;
        buffer->owner = value;
        buffer_place(&exec->pool, buffer);
        tensor.data = exec->memory.piece + place->offset;
    } else {
        buffer = buffer_new(&exec->pool, bytes, exec->err);
        if (!buffer) return NULL;
        buffer->owner = value;
        tensor.data = buffer_data(buffer);
    }
    if (exec->memory.set && !exec->memory.set->noted && exec->progress.depth == 1 && !lasts)
        exec->memory.set->places[value].size = bytes;
    return rt_tensor_in(&exec->pool, &tensor, buffer, exec->err);
}
