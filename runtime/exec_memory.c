// SPDX-License-Identifier: Apache-2.0
/* Planned memory; see exec_memory.h. Tables have an item for each value of the plan. */
#include "exec_memory.h"

#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "exec_device.h"
#include "memory_plan.h"
#include "value_key.h"

typedef struct Place {
    uint64_t offset, size; /* size 0: none */
} Place;

struct PlaceMap {
    Buffer *self;
    uint64_t totals[2]; /* bytes that places need, in the host's memory and in the device's */
    Place places[];     /* [value_count] */
};

/* Inputs of certain shapes. */
struct ShapeSet {
    ShapeSet *next;
    Buffer *self;
    bool noted;
    PlaceMap *map;        /* NULL: not planned yet */
    DeviceRecord *record; /* of a plan with a device */
    uint64_t *sizes;      /* [value_count]: bytes, 0: it has no memory of its own */
    uint32_t *last;       /* [value_count]: the step with which a value's memory ends */
    uint64_t *key;        /* of the inputs, see value_key.h */
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
                    (uint64_t)values * (sizeof(uint64_t) + sizeof(uint32_t));
    Err ignored = {0};
    Buffer *self = buffer_new(&exec->pool, size, &ignored);
    if (!self) return NULL;
    ShapeSet *set = buffer_data(self);
    memset(set, 0, size);
    set->self = self;
    set->sizes = (uint64_t *)(set + 1);
    set->key = set->sizes + values;
    uint64_t *to = set->key;
    for (uint32_t i = 0; i < count; i++) to = value_key_write(&exec->values[inputs[i]], to);
    set->last = (uint32_t *)to;
    return set;
}

static void set_free(Exec *exec, ShapeSet *set) {
    exec_device_record_free(exec, set->record);
    if (set->map) buffer_unref(set->map->self);
    buffer_unref(set->self);
}

/* The set of the present inputs, in front of the list; NULL without memory for it. */
static ShapeSet *find_set(Exec *exec) {
    ShapeSet **at = &exec->memory.sets, *set = *at;
    unsigned count = 0;
    for (; set && !matches(set, exec); set = *at, count++) {
        if (count + 1 == SHAPE_SET_LIMIT && !set->next) {
            *at = NULL;
            set_free(exec, set);
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

/* What is known of values' memory: bytes, and the step that it ends with. */
typedef struct Lives {
    const uint64_t *sizes;
    const uint32_t *last;
} Lives;

/* Bytes of a block, so that the next one begins where the device's memory may. */
static uint64_t block_size(uint64_t size, bool remote) {
    uint64_t rounded;
    return remote && checked_align(size, DEVICE_ALIGN, &rounded) ? rounded : size;
}

/* Places values of the main graph in the host's memory, or in the device's. */
static void plan_places(Exec *exec, const Lives *lives, bool remote, PlaceMap *map) {
    const PlanSpan steps = exec->loaded->plan.graphs[0].steps;
    const uint32_t values = exec->loaded->plan.value_count;
    MemoryBlock *blocks = ARENA_ARRAY(&exec->scratch, MemoryBlock, values);
    uint32_t *numbers = ARENA_ARRAY(&exec->scratch, uint32_t, values), count = 0;
    for (uint32_t s = steps.first; s < steps.first + steps.count; s++) {
        const LoadedStep *step = &exec->loaded->steps[s];
        for (uint32_t i = 0; i < step->plan->outputs.count; i++) {
            const uint32_t value = step->outputs[i];
            if (value == PLAN_NONE || !lives->sizes[value] || exec_is_remote(exec, value) != remote)
                continue;
            const uint32_t last = lives->last[value] < s ? s : lives->last[value];
            blocks[count] = (MemoryBlock){block_size(lives->sizes[value], remote), s, last, 0};
            numbers[count++] = value;
        }
    }
    map->totals[remote] = memory_plan(blocks, count, &exec->scratch);
    for (uint32_t i = 0; i < count; i++)
        map->places[numbers[i]] = (Place){blocks[i].offset, lives->sizes[numbers[i]]};
}

/* Where the values of the main graph lie; NULL without memory for the table. */
static PlaceMap *map_new(Exec *exec, const Lives *lives) {
    const uint64_t size =
        sizeof(PlaceMap) + (uint64_t)exec->loaded->plan.value_count * sizeof(Place);
    Err ignored = {0};
    Buffer *self = buffer_new(&exec->pool, size, &ignored);
    if (!self) return NULL;
    PlaceMap *map = memset(buffer_data(self), 0, size);
    map->self = self;
    plan_places(exec, lives, false, map);
    if (exec->loaded->device) plan_places(exec, lives, true, map);
    return map;
}

/* ---- guessing -------------------------------------------------------------------------------- */

/* Bytes of a tensor whose sizes the plan tells; else 0. */
static uint64_t declared_size(const Plan *plan, uint32_t number) {
    const PlanValue *value = &plan->values[number];
    uint64_t count, size;
    if (value->kind != PLAN_TENSOR || value->rank == PLAN_NONE) return 0;
    const int64_t *dims = plan->numbers + value->dims;
    for (uint32_t i = 0; i < value->rank; i++)
        if (dims[i] <= 0) return 0;
    return checked_count(dims, value->rank, &count) &&
                   checked_mul(count, kernel_element_size((Dtype)value->dtype), &size) &&
                   size <= INT64_MAX
               ? size
               : 0;
}

/* The operand in whose memory the step's first output will lie, as far as the plan tells. */
static uint32_t shared_with(const Exec *exec, const LoadedStep *step) {
    const Plan *plan = &exec->loaded->plan;
    const uint32_t flags = step->rows->flags;
    if (!step->plan->outputs.count || step->outputs[0] == PLAN_NONE) return PLAN_NONE;
    for (uint32_t i = 0; i < step->plan->inputs.count; i++) {
        const uint32_t value = step->inputs[i];
        if (value == PLAN_NONE || step->constant[i] ||
            plan->values[value].dtype != plan->values[step->outputs[0]].dtype)
            continue;
        if (flags & KERNEL_VIEW) return i ? PLAN_NONE : value;
        if (flags & KERNEL_INPLACE && step->ends[i] &&
            declared_size(plan, value) == declared_size(plan, step->outputs[0]))
            return value;
    }
    return PLAN_NONE;
}

/* Before anything ran: from the sizes that the plan declares. What is wrong costs memory and time
 * and nothing else, as a place is only taken while it is free and large enough. */
static PlaceMap *guess(Exec *exec) {
    const Plan *plan = &exec->loaded->plan;
    const PlanSpan steps = plan->graphs[0].steps;
    uint64_t *sizes = ARENA_ARRAY(&exec->scratch, uint64_t, plan->value_count);
    uint32_t *last =
        arena_copy(&exec->scratch, exec->loaded->last, plan->value_count * sizeof *last);
    for (uint32_t s = steps.first + steps.count; s-- > steps.first;) {
        const LoadedStep *step = &exec->loaded->steps[s];
        if (step->exec || !step->row_count) continue;
        const uint32_t shared = shared_with(exec, step);
        for (uint32_t i = shared == PLAN_NONE ? 0 : 1; i < step->plan->outputs.count; i++)
            if (step->outputs[i] != PLAN_NONE)
                sizes[step->outputs[i]] = declared_size(plan, step->outputs[i]);
        if (shared != PLAN_NONE && last[shared] < last[step->outputs[0]])
            last[shared] = last[step->outputs[0]];
    }
    return map_new(exec, &(Lives){sizes, last});
}

/* ---- memory ---------------------------------------------------------------------------------- */

static Pool *pool_of(Exec *exec, bool remote) {
    return remote ? &exec->device.pool : &exec->pool;
}

static size_t piece_size(uint64_t size) {
    return (size_t)((size + 63) / 64 * 64);
}

static void end_piece(Exec *exec, bool remote) {
    Device *device = exec->device.pool.device;
    if (remote && exec->memory.pieces[1].at) {
        pool_wait(&exec->device.pool);
        device->kind->release(device, exec->memory.pieces[1].at);
    } else if (!remote)
        allocator_give(&exec->pool.allocator, exec->memory.pieces[0].at,
                       piece_size(exec->memory.pieces[0].size));
    exec->memory.pieces[remote].at = NULL;
    buffer_unref(exec->memory.pieces[remote].taken);
    exec->memory.pieces[remote].taken = NULL;
    pool_of(exec, remote)->placed.taken = NULL;
}

static void free_piece(Exec *exec, bool remote) {
    if (remote) exec_device_forget(exec); /* recorded work knows the piece that there was */
    end_piece(exec, remote);
    pool_discharge(pool_of(exec, remote), exec->memory.pieces[remote].size);
    exec->memory.pieces[remote].size = 0;
}

/* Nothing lies in the piece yet; false without memory for saying what does. */
static bool begin_taken(Exec *exec, uint64_t size, bool remote) {
    const uint64_t bytes = buffer_taken_size(size);
    Err ignored = {0};
    Buffer *taken = exec->memory.pieces[remote].taken = buffer_new(&exec->pool, bytes, &ignored);
    if (taken) pool_of(exec, remote)->placed.taken = memset(buffer_data(taken), 0, bytes);
    return taken;
}

/* One piece of memory that is large enough, and not much larger; false where the budget has no
 * room. */
static bool get_piece(Exec *exec, uint64_t size, bool remote) {
    Pool *pool = pool_of(exec, remote);
    const uint64_t has = exec->memory.pieces[remote].size;
    if (!size || (has >= size && has / 4 <= size)) return true;
    free_piece(exec, remote);
    if (size > SIZE_MAX / 2) return false;
    pool_trim(pool); /* what the first run needed instead */
    if (!pool_charge(pool, size)) return false;
    Err ignored = {0};
    exec->memory.pieces[remote].size = size;
    exec->memory.pieces[remote].at =
        remote ? pool->device->kind->allocate(pool->device, size, &ignored)
               : allocator_take(&exec->pool.allocator, piece_size(size), 64);
    if (!exec->memory.pieces[remote].at || !begin_taken(exec, size, remote))
        free_piece(exec, remote);
    return exec->memory.pieces[remote].at;
}

/* The buffers of values that have places; false without memory for them. */
static bool has_placed(Exec *exec) {
    const uint64_t size = (uint64_t)exec->loaded->plan.value_count * sizeof(Buffer);
    Err ignored = {0};
    if (exec->memory.placed) return true;
    Buffer *self = buffer_new(&exec->pool, size, &ignored);
    if (self) exec->memory.placed = memset(buffer_data(self), 0, size);
    return self;
}

static bool get_pieces(Exec *exec, const PlaceMap *map) {
    return map->totals[0] + map->totals[1] && !exec->pool.placed.count &&
           !exec->device.pool.placed.count && has_placed(exec) &&
           get_piece(exec, map->totals[0], false) && get_piece(exec, map->totals[1], true);
}

void exec_memory_begin(Exec *exec) {
    ExecMemory *memory = &exec->memory;
    const uint32_t values = exec->loaded->plan.value_count;
    ShapeSet *set = memory->set = find_set(exec);
    memory->map = NULL;
    if (!set) return;
    if (!set->noted) {
        memset(set->sizes, 0, values * sizeof *set->sizes);
        memcpy(set->last, exec->loaded->last, values * sizeof *set->last);
        if (!memory->guess) memory->guess = guess(exec);
    } else if (!set->map) {
        set->map = map_new(exec, &(Lives){set->sizes, set->last});
    }
    PlaceMap *map = set->noted ? set->map : memory->guess;
    if (map && get_pieces(exec, map)) memory->map = map;
}

void exec_memory_forget(Exec *exec) {
    for (ShapeSet *set = exec->memory.sets; set; set = set->next) {
        if (set->map) buffer_unref(set->map->self);
        set->map = NULL;
        set->noted = false;
    }
    if (exec->device.queue) exec_device_forget(exec); /* what was recorded knows the places */
}

void exec_memory_trim(Exec *exec) {
    for (unsigned remote = 0; remote < 2; remote++) {
        if (!exec->memory.pieces[remote].at || pool_of(exec, remote)->placed.count) continue;
        free_piece(exec, remote);
    }
}

DeviceRecord **exec_memory_record(Exec *exec) {
    ShapeSet *set = exec->memory.set;
    return set && set->noted && exec->memory.map ? &set->record : NULL;
}

void exec_device_forget(Exec *exec) {
    for (ShapeSet *set = exec->memory.sets; set; set = set->next) {
        exec_device_record_free(exec, set->record);
        set->record = NULL;
    }
}

void exec_memory_free(Exec *exec) {
    exec_device_forget(exec);
    end_piece(exec, false);
    end_piece(exec, true);
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
    exec->memory.map = NULL;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The value's buffer in the planned memory; NULL where it has no place, or that is not free. */
static Buffer *take_place(Exec *exec, Pool *pool, uint32_t value, uint64_t bytes) {
    const Place *place = &exec->memory.map->places[value];
    Buffer *buffer = &exec->memory.placed[value];
    if (!bytes || bytes > place->size || buffer->refs) return NULL;
    buffer->offset = place->offset;
    buffer->size = place->size;
    buffer->owner = value;
    return buffer_place(pool, buffer) ? buffer : NULL;
}

/* The caller's, which the value's elements may be written to at once; NULL: there is none. What comes
 * from a device is copied to the host's behind a run. */
static const struct OwnMemory *own_memory(const Exec *exec, uint32_t value) {
    const struct OwnMemory *all = exec_is_remote(exec, value) ? exec->owned.there
                                  : exec->device.queue        ? NULL
                                                              : exec->owned.bound;
    return all ? &all[value] : NULL;
}

RtTensor *exec_new_tensor(Exec *exec, uint32_t value, const KernelTensor *like) {
    KernelTensor tensor = *like;
    uint64_t bytes;
    if (!checked_count(tensor.dims, tensor.rank, &tensor.count) ||
        !checked_mul(tensor.count, kernel_element_size(tensor.dtype), &bytes) ||
        bytes > INT64_MAX) {
        err_set(exec->err, ERR_ENV, "a tensor is larger than the address space");
        return NULL;
    }
    const bool lasts = exec->owned.lasting && exec->owned.lasting[value];
    const struct OwnMemory *own = lasts ? NULL : own_memory(exec, value);
    if (own && bytes && bytes <= own->size) {
        tensor.data = own->data;
        return rt_tensor_borrow(&exec->pool, &tensor, exec->err);
    }
    Pool *pool = exec_pool(exec, value);
    Buffer *buffer = exec->memory.map && !lasts ? take_place(exec, pool, value, bytes) : NULL;
    if (buffer) {
        tensor.data = exec->memory.pieces[pool != &exec->pool].at + buffer->offset;
    } else {
        buffer = buffer_new(pool, bytes, exec->err);
        if (!buffer) return NULL;
        buffer->owner = value;
        tensor.data = buffer_data(buffer);
    }
    if (exec->memory.set && !exec->memory.set->noted && exec->progress.depth == 1 && !lasts)
        exec->memory.set->sizes[value] = bytes;
    return rt_tensor_in(&exec->pool, &tensor, buffer, exec->err);
}
