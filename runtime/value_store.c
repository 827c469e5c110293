// SPDX-License-Identifier: Apache-2.0
/* Counted values and their pool; see value_store.h. */
#define _DEFAULT_SOURCE /* madvise, sysconf */
#include "value_store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checked.h"

enum { HEADER = 64, SMALLEST = 64 };
_Static_assert(sizeof(Buffer) <= HEADER, "data follows the header");

enum { LARGE_PAGE = 1 << 21, SMALL = 1 << 14 };

static size_t page_round(size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

/* From the system and back to it: what malloc is given back of this size it keeps, and takes more for what
 * does not fit, so that contexts by turns came to several times what they held. Of large pages where there are
 * any: touching small ones takes a tenth of the time of a process that runs once. */
static void *take_large(size_t size) {
    if (size > SIZE_MAX / 2) return NULL;
    const size_t most = page_round(size) + LARGE_PAGE;
    char *all = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return NULL;
    const size_t before = (LARGE_PAGE - (uintptr_t)all % LARGE_PAGE) % LARGE_PAGE;
    if (before) munmap(all, before);
    munmap(all + before + page_round(size), LARGE_PAGE - before);
#ifdef MADV_HUGEPAGE
    madvise(all + before, size / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
#endif
    return all + before;
}

/* Memory of malloc's, and before it where that began. glibc's aligned_alloc leaves a free piece before
 * and behind each of these and looks at them all again: thousands of values took time by the square. */
static void *take_small(size_t size, size_t align) {
    char *from = malloc(size + align);
    if (!from) return NULL;
    char *memory = from + align - (uintptr_t)from % align;
    memcpy(memory - sizeof from, &from, sizeof from);
    return memory;
}

static bool is_small(size_t size) {
    return size <= SMALL;
}

void *allocator_take(const Allocator *from, size_t size, size_t align) {
    if (from->allocate) return from->allocate(from->user, size, align);
    if (is_small(size)) return take_small(size, align);
    return size < LARGE_PAGE ? aligned_alloc(align, size) : take_large(size);
}

void allocator_give(const Allocator *to, void *memory, size_t size) {
    if (!memory) return;
    if (to->allocate)
        to->release(to->user, memory, size);
    else if (size >= LARGE_PAGE)
        munmap(memory, page_round(size));
    else {
        if (is_small(size)) memcpy(&memory, (char *)memory - sizeof memory, sizeof memory);
        free(memory);
    }
}

void pool_init(Pool *pool, Device *device, const PoolFrom *from) {
    *pool = (Pool){.device = device, .budget = from->budget, .allocator = from->allocator};
}

/* Bytes of a buffer with its data, where these are the host's. */
static size_t whole_size(const Pool *pool, uint64_t size) {
    return pool->device ? HEADER : (size_t)((size + HEADER + 63) / 64 * 64);
}

static void end_buffer(Buffer *buffer) {
    const Pool *pool = buffer->pool;
    if (pool->device) pool->device->kind->release(pool->device, buffer->device);
    allocator_give(&pool->allocator, buffer, whole_size(pool, buffer->size));
}

static Buffer *begin_buffer(Pool *pool, uint64_t size, Err *err) {
    Device *device = pool->device;
    Buffer *buffer = allocator_take(&pool->allocator, whole_size(pool, size), 64);
    if (!buffer) {
        err_out_of_memory(err);
        return NULL;
    }
    *buffer = (Buffer){.pool = pool, .size = size};
    if (!device) return buffer;
    buffer->device = device->kind->allocate(device, size, err);
    if (buffer->device) return buffer;
    allocator_give(&pool->allocator, buffer, HEADER);
    return NULL;
}

/* False where there is nothing to give back. */
static bool has_free(const Pool *pool) {
    for (int i = 0; i < POOL_CLASSES; i++)
        if (pool->free[i]) return true;
    return false;
}

void pool_wait(const Pool *pool) {
    Err ignored = {0};
    if (pool->queue) pool->device->kind->wait(pool->queue, &ignored);
}

void pool_trim(Pool *pool) {
    if (!has_free(pool)) return;
    pool_wait(pool);
    pool->trims++;
    for (int i = 0; i < POOL_CLASSES; i++)
        for (Buffer *buffer = pool->free[i], *next; buffer; buffer = next) {
            next = buffer->next;
            pool->kept -= buffer->size;
            end_buffer(buffer);
        }
    memset(pool->free, 0, sizeof pool->free);
}

void pool_free(Pool *pool) {
    pool_trim(pool);
    for (Buffer *buffer = pool->live, *next; buffer; buffer = next) {
        next = buffer->next;
        end_buffer(buffer);
    }
    pool->live = NULL;
    pool->used = 0;
}

bool pool_charge(Pool *pool, uint64_t size) {
    if (pool->used > pool->budget || size > pool->budget - pool->used) return false;
    if (pool->used + pool->kept > pool->budget - size) pool_trim(pool);
    pool->used += size;
    if (pool->used > pool->peak) pool->peak = pool->used;
    return true;
}

void pool_discharge(Pool *pool, uint64_t size) {
    pool->used -= size;
}

/* Four classes to a power of two, so that at most a fifth of a buffer is waste: class 4 n + k holds
 * SMALLEST * 2^n * (1 + k / 4) bytes. */
static uint32_t class_of(uint64_t size, uint64_t *rounded) {
    *rounded = SMALLEST;
    if (size <= SMALLEST) return 0;
    if (size > UINT64_C(1) << 44) return POOL_CLASSES;
    unsigned top = 63 - (unsigned)__builtin_clzll(size - 1); /* size - 1 in [2^top, 2^(top + 1)) */
    uint64_t quarter = (UINT64_C(1) << top) / 4;
    uint32_t k = (uint32_t)((size - 1 - (UINT64_C(1) << top)) / quarter) + 1; /* 1 .. 4 */
    *rounded = (UINT64_C(1) << top) + k * quarter;
    return 4 * (top - 6) + k;
}

static void link_buffer(Buffer **list, Buffer *buffer) {
    buffer->refs = 1;
    buffer->prev = NULL;
    buffer->next = *list;
    if (*list) (*list)->prev = buffer;
    *list = buffer;
}

static void unlink_buffer(Buffer **list, Buffer *buffer) {
    if (buffer->next) buffer->next->prev = buffer->prev;
    if (buffer->prev)
        buffer->prev->next = buffer->next;
    else
        *list = buffer->next;
}

Buffer *buffer_new(Pool *pool, uint64_t size, Err *err) {
    uint64_t rounded;
    uint32_t number = class_of(size, &rounded);
    Buffer *buffer = number < POOL_CLASSES ? pool->free[number] : NULL;
    if (buffer) {
        pool->free[number] = buffer->next;
        pool->kept -= buffer->size;
    } else {
        if (number == POOL_CLASSES || rounded > pool->budget ||
            pool->used > pool->budget - rounded) {
            err_set(err, ERR_ENV,
                    pool->device ? "the run needs more device memory than the limit of %llu bytes"
                                 : "the run needs more memory than the limit of %llu bytes",
                    (unsigned long long)pool->budget);
            return NULL;
        }
        if (pool->used + pool->kept > pool->budget - rounded) pool_trim(pool);
        buffer = begin_buffer(pool, rounded, err);
        if (!buffer) return NULL;
        buffer->size_class = number;
    }
    link_buffer(&pool->live, buffer);
    buffer->owner = UINT32_MAX;
    pool->used += buffer->size;
    if (pool->used > pool->peak) pool->peak = pool->used;
    return buffer;
}

void *buffer_data(Buffer *buffer) {
    return buffer->pool->device ? buffer->device : (char *)buffer + HEADER;
}

/* ---- planned memory -------------------------------------------------------------------------- */

/* Units of the planned memory that a buffer lies in, of those that one word tells. */
typedef struct Units {
    uint64_t word, mask;
} Units;

enum { WORD_BITS = 64 };

/* From *at on, which moves to the next word; false behind the last. */
static bool next_units(const Buffer *buffer, uint64_t *at, Units *units) {
    const uint64_t end = (buffer->offset + buffer->size + PLACE_UNIT - 1) / PLACE_UNIT;
    if (*at >= end) return false;
    const unsigned from = *at % WORD_BITS;
    const uint64_t left = end - *at, most = WORD_BITS - from, count = left < most ? left : most;
    *units = (Units){*at / WORD_BITS, (UINT64_MAX >> (WORD_BITS - count)) << from};
    *at += count;
    return true;
}

static bool is_free(const uint64_t *taken, const Buffer *buffer) {
    Units units;
    for (uint64_t at = buffer->offset / PLACE_UNIT; next_units(buffer, &at, &units);)
        if (taken[units.word] & units.mask) return false;
    return true;
}

static void mark(uint64_t *taken, const Buffer *buffer, bool as) {
    Units units;
    for (uint64_t at = buffer->offset / PLACE_UNIT; next_units(buffer, &at, &units);)
        if (as)
            taken[units.word] |= units.mask;
        else
            taken[units.word] &= ~units.mask;
}

uint64_t buffer_taken_size(uint64_t size) {
    return (size / PLACE_UNIT / WORD_BITS + 1) * sizeof(uint64_t);
}

void buffer_unref(Buffer *buffer) {
    if (!buffer || --buffer->refs) return;
    Pool *pool = buffer->pool;
    if (buffer->size_class == BUFFER_PLACED) {
        mark(pool->placed.taken, buffer, false);
        pool->placed.count--;
        return;
    }
    unlink_buffer(&pool->live, buffer);
    pool->used -= buffer->size;
    pool->kept += buffer->size;
    buffer->next = pool->free[buffer->size_class];
    pool->free[buffer->size_class] = buffer;
}

bool buffer_is_apart(const Buffer *buffer, const void *data) {
    return buffer->refs == 1 && buffer->size_class != BUFFER_PLACED && !buffer->pool->device &&
           data == (const char *)buffer + HEADER;
}

void *buffer_release(Buffer *buffer, size_t *size) {
    *size = whole_size(buffer->pool, buffer->size);
    unlink_buffer(&buffer->pool->live, buffer);
    buffer->pool->used -= buffer->size;
    return buffer;
}

void buffer_unref_all(Buffer *first) {
    for (Buffer *buffer = first, *next; buffer; buffer = next) {
        next = buffer->sibling;
        buffer_unref(buffer);
    }
}

bool buffer_place(Pool *pool, Buffer *buffer) {
    if (!is_free(pool->placed.taken, buffer)) return false;
    buffer->pool = pool;
    buffer->size_class = BUFFER_PLACED;
    buffer->refs = 1;
    mark(pool->placed.taken, buffer, true);
    pool->placed.count++;
    return true;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static uint64_t shell_size(uint32_t rank) {
    return sizeof(RtTensor) + (uint64_t)rank * sizeof(int64_t);
}

static RtTensor *shell_at(void *at, Buffer *self, Dtype dtype, uint32_t rank, const int64_t *dims) {
    RtTensor *tensor = at;
    int64_t *copy = (int64_t *)(tensor + 1);
    if (rank) memcpy(copy, dims, rank * sizeof *dims);
    *tensor = (RtTensor){.self = self,
                         .refs = 1,
                         .tensor = {.present = true, .dtype = dtype, .rank = rank, .dims = copy}};
    return tensor;
}

static RtTensor *tensor_shell(Pool *pool, Dtype dtype, uint32_t rank, const int64_t *dims,
                              Err *err) {
    Buffer *self = buffer_new(pool, shell_size(rank), err);
    return self ? shell_at(buffer_data(self), self, dtype, rank, dims) : NULL;
}

RtTensor *rt_tensor_new(Pool *pool, Dtype dtype, uint32_t rank, const int64_t *dims, Err *err) {
    uint64_t count, bytes;
    if (!checked_count(dims, rank, &count) ||
        !checked_mul(count, kernel_element_size(dtype), &bytes) || bytes > INT64_MAX) {
        err_set(err, ERR_ENV, "a tensor is larger than the address space");
        return NULL;
    }
    RtTensor *tensor = tensor_shell(pool, dtype, rank, dims, err);
    if (!tensor) return NULL;
    tensor->tensor.count = count;
    tensor->buffer = buffer_new(pool, bytes, err);
    if (!tensor->buffer) {
        buffer_unref(tensor->self);
        return NULL;
    }
    tensor->tensor.data = buffer_data(tensor->buffer);
    return tensor;
}

RtTensor *rt_tensor_in(Pool *pool, const KernelTensor *like, Buffer *buffer, Err *err) {
    RtTensor *tensor = tensor_shell(pool, like->dtype, like->rank, like->dims, err);
    if (!tensor) {
        buffer_unref(buffer);
        return NULL;
    }
    tensor->tensor.count = like->count;
    tensor->tensor.data = like->data;
    tensor->tensor.room = like->room;
    tensor->tensor.grown = like->grown;
    tensor->buffer = buffer;
    return tensor;
}

RtTensor *rt_tensor_borrow(Pool *pool, const KernelTensor *borrowed, Err *err) {
    RtTensor *tensor = tensor_shell(pool, borrowed->dtype, borrowed->rank, borrowed->dims, err);
    if (!tensor) return NULL;
    tensor->tensor.count = borrowed->count;
    tensor->tensor.data = borrowed->data;
    return tensor;
}

bool rt_tensors_borrow(Pool *pool, const KernelTensor *tensors, uint32_t count, RtValue *values,
                       Err *err) {
    uint64_t size = 0;
    for (uint32_t i = 0; i < count; i++)
        if (tensors[i].present) size += shell_size(tensors[i].rank);
    Buffer *self = size ? buffer_new(pool, size, err) : NULL;
    if (!self) return !size;
    char *at = buffer_data(self);
    self->refs = 0; /* a tensor's each */
    for (uint32_t i = 0; i < count; i++) {
        const KernelTensor *from = &tensors[i];
        if (!from->present) continue;
        RtTensor *tensor = shell_at(at, self, from->dtype, from->rank, from->dims);
        tensor->tensor.count = from->count;
        tensor->tensor.data = from->data;
        values[i] = (RtValue){.state = RT_TENSOR, .tensor = tensor};
        self->refs++;
        at += shell_size(from->rank);
    }
    return true;
}

RtTensor *rt_tensor_view(Pool *pool, RtTensor *of, uint32_t rank, const int64_t *dims, Err *err) {
    RtTensor *tensor = tensor_shell(pool, of->tensor.dtype, rank, dims, err);
    if (!tensor) return NULL;
    tensor->tensor.count = of->tensor.count;
    tensor->tensor.data = of->tensor.data;
    tensor->buffer = of->buffer;
    if (tensor->buffer) tensor->buffer->refs++;
    return tensor;
}

RtList *rt_list_new(Pool *pool, uint32_t count, Err *err) {
    Buffer *self = buffer_new(pool, sizeof(RtList) + (uint64_t)count * sizeof(RtValue), err);
    if (!self) return NULL;
    RtList *list = buffer_data(self);
    *list = (RtList){.self = self, .refs = 1, .count = count};
    for (uint32_t i = 0; i < count; i++) list->items[i] = (RtValue){.state = RT_UNSET};
    return list;
}

/* ---- values ---------------------------------------------------------------------------------- */

RtValue rt_value_ref(RtValue value) {
    if (value.state == RT_TENSOR) value.tensor->refs++;
    if (value.state == RT_LIST) value.list->refs++;
    return value;
}

void rt_value_clear(RtValue *value) {
    RtValue old = *value;
    *value = (RtValue){.state = RT_UNSET};
    if (old.state == RT_TENSOR && --old.tensor->refs == 0) {
        buffer_unref(old.tensor->buffer);
        buffer_unref(old.tensor->self);
    }
    if (old.state == RT_LIST && --old.list->refs == 0) {
        /* items are tensors: a sequence of sequences is not a type of ONNX's operators */
        for (uint32_t i = 0; i < old.list->count; i++) rt_value_clear(&old.list->items[i]);
        buffer_unref(old.list->self);
    }
}

void rt_value_set(RtValue *to, RtValue value) {
    rt_value_clear(to);
    *to = value;
}
