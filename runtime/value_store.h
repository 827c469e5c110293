// SPDX-License-Identifier: Apache-2.0
/* Values while a plan runs, and the memory they lie in.
 *
 * A value is nothing, a tensor or a sequence. Tensors and sequences are counted references, so that
 * putting a tensor into a sequence, giving it another shape or handing it out of a body copies
 * nothing; a tensor that several hold is never written. Buffers come from a pool that belongs to
 * one context: it keeps what was freed for the next step and never exceeds its budget. A context
 * that uses a device has a second one, of the device's memory; buffers know theirs.
 */
#ifndef DEMI_VALUE_STORE_H
#define DEMI_VALUE_STORE_H

#include "device.h"
#include "err.h"
#include "kernel.h"

enum { POOL_CLASSES = 160 }; /* size classes: four to a power of two, from 64 bytes */

typedef struct Pool Pool;

/* Where a pool's memory of the host comes from: functions of the caller's or, without them, the C
 * library. What is taken of one is given back to it. */
typedef struct Allocator {
    void *(*allocate)(void *user, size_t size, size_t align);
    void (*release)(void *user, void *memory, size_t size);
    void *user;
} Allocator;

/* `size` a multiple of `align`, a power of two up to 2 MiB; NULL: there is none. */
void *allocator_take(const Allocator *from, size_t size, size_t align);
void allocator_give(const Allocator *to, void *memory, size_t size); /* NULL is fine */

typedef struct Buffer {
    struct Buffer *next, *prev; /* in the pool's lists */
    Pool *pool;
    struct Buffer *sibling;    /* the holder's: buffers that end together */
    uint32_t refs, size_class; /* BUFFER_PLACED: it lies in the context's planned memory */
    uint64_t size;
    union {
        uint64_t offset; /* of a placed one, in the planned memory */
        void *device;    /* of others in a device's memory: their data */
    };
    uint32_t owner; /* the value that it was made for, PLAN_NONE for others */
    /* data follows, 64-byte aligned, of those in the host's memory that are not placed */
} Buffer;
enum { BUFFER_PLACED = POOL_CLASSES, PLACE_UNIT = 64 };

struct Pool {
    Device *device; /* whose memory it is; NULL: the host's */
    Allocator allocator;
    Buffer *free[POOL_CLASSES];
    Buffer *live;
    struct {
        uint64_t *taken; /* a bit for each PLACE_UNIT bytes of the planned memory that are in use */
        uint64_t count;  /* buffers that lie there */
    } placed;
    uint64_t used, kept, peak,
        budget;         /* bytes: handed out, in free lists, most ever, most allowed */
    DeviceQueue *queue; /* whose work may still use what is free; NULL: none does */
    uint64_t trims; /* how often something was given back: what was noted of free memory is void */
};

typedef struct PoolFrom {
    uint64_t budget;
    Allocator allocator;
} PoolFrom;

/* Of a device's memory, or (NULL) the host's. */
void pool_init(Pool *pool, Device *device, const PoolFrom *from);
/* Gives everything back that is not in use; and everything, whoever still refers to it. */
void pool_trim(Pool *pool);
/* Until no work of the pool's queue uses what is to be given back. */
void pool_wait(const Pool *pool);
void pool_free(Pool *pool);

/* Counts memory that is not the pool's own as used; false past the budget. */
bool pool_charge(Pool *pool, uint64_t size);
void pool_discharge(Pool *pool, uint64_t size);

/* `size` bytes with one reference; NULL with ERR_ENV set past the budget or out of memory. */
Buffer *buffer_new(Pool *pool, uint64_t size, Err *err);
void *buffer_data(Buffer *buffer);
void buffer_unref(Buffer *buffer); /* NULL is fine */
/* Does it hold just these data, which nobody else refers to, in memory of the host that is no part
 * of another piece? */
bool buffer_is_apart(const Buffer *buffer, const void *data);
/* Gives such a buffer away: what comes back is the pool's no longer, and is to be given to its
 * allocator, *size bytes. */
void *buffer_release(Buffer *buffer, size_t *size);
/* Ends a list by sibling. */
void buffer_unref_all(Buffer *first);
/* Begins the life of a placed buffer that has none, its size and offset being set; false where another
 * one's memory is not free yet. */
bool buffer_place(Pool *pool, Buffer *buffer);
/* Bytes of pool->placed.taken for planned memory of `size` bytes. */
uint64_t buffer_taken_size(uint64_t size);

/* A counted tensor; `buffer` holds its data, or is NULL where that is borrowed. */
typedef struct RtTensor {
    Buffer *self; /* where this struct lies */
    uint32_t refs;
    Buffer *buffer;
    KernelTensor tensor; /* tensor.dims points behind this struct */
} RtTensor;

typedef struct RtList RtList;

typedef enum RtState { RT_UNSET, RT_NONE, RT_TENSOR, RT_LIST } RtState;

/* RT_UNSET: not computed. RT_NONE: an empty optional. */
typedef struct RtValue {
    RtState state;
    union {
        RtTensor *tensor;
        RtList *list;
    };
} RtValue;

struct RtList {
    Buffer *self;
    uint32_t refs, count;
    RtValue items[];
};

/* A tensor with memory for its elements, one reference. Sizes that overflow are past any budget. */
RtTensor *rt_tensor_new(Pool *pool, Dtype dtype, uint32_t rank, const int64_t *dims, Err *err);
/* The same in a buffer that is large enough, whose reference it takes over, and at that place. */
RtTensor *rt_tensor_in(Pool *pool, const KernelTensor *tensor, Buffer *buffer, Err *err);
/* A tensor on borrowed data. */
RtTensor *rt_tensor_borrow(Pool *pool, const KernelTensor *tensor, Err *err);
/* The same of those of tensors[count] that are present, side by side in one buffer, as values[count] of one
 * reference each. False with the error set. */
bool rt_tensors_borrow(Pool *pool, const KernelTensor *tensors, uint32_t count, RtValue *values,
                       Err *err);
/* The same elements under another shape (of as many) and the same dtype. */
RtTensor *rt_tensor_view(Pool *pool, RtTensor *of, uint32_t rank, const int64_t *dims, Err *err);
RtList *rt_list_new(Pool *pool, uint32_t count, Err *err);

/* The value with one reference more; and one less, after which it is unset. */
RtValue rt_value_ref(RtValue value);
void rt_value_clear(RtValue *value);
/* Replaces what *to holds; takes over the reference in `value`. */
void rt_value_set(RtValue *to, RtValue value);

#endif
