// SPDX-License-Identifier: Apache-2.0
/* Lists of shared memory, one for each value, under one lock, which is held while an entry is made: contexts that
 * start together want the same entries, so that waiting costs them nothing. A context asks for each constant
 * of its plan, in the order of its steps, so small ones lie one behind the other. */
#include "plan_share.h"
#include "value_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct ShareEntry {
    struct ShareEntry *next;
    ShareKey key;
    uint32_t number;
    void *bytes;
} ShareEntry;

/* Memory for small entries, which go when all do. */
typedef struct Slab {
    struct Slab *next;
} Slab;

struct PlanShare {
    pthread_mutex_t lock;
    Device *device; /* NULL: the host */
    DeviceQueue *queue;
    ShareEntry **lists; /* [values]: the entries of each; NULL before the first */
    uint32_t values, count;
    Slab *slabs; /* newest first */
    char *free;  /* of the newest one */
    size_t left;
};

enum {
    SLAB = 1 << 18,
    SMALL = 1 << 12,
    LINE = 64
}; /* bytes; SMALL: the most that lies in a slab */

PlanShare *plan_share_new(Device *device, uint32_t values) {
    PlanShare *share = calloc(1, sizeof *share);
    if (share && pthread_mutex_init(&share->lock, NULL) != 0) {
        free(share);
        return NULL;
    }
    if (share) share->device = device;
    if (share) share->values = values;
    return share;
}

/* Weights are read again and again: in large pages, where they are large. */
static const Allocator library = {NULL, NULL, NULL};

/* What the host's memory for an entry takes. */
static size_t room_of(const ShareKey *key) {
    return (size_t)(key->size + LINE) / LINE * LINE;
}

static bool is_small(const PlanShare *share, const ShareKey *key) {
    return !share->device && key->size < SMALL;
}

/* Zeroed memory for as long as there are entries, aligned to a line; NULL out of memory. */
static void *take_small(PlanShare *share, size_t size) {
    size = (size + LINE - 1) / LINE * LINE;
    if (share->left < size) {
        Slab *slab = allocator_take(&library, SLAB, LINE);
        if (!slab) return NULL;
        slab->next = share->slabs;
        share->slabs = slab;
        share->free = (char *)slab + LINE;
        share->left = SLAB - LINE;
    }
    void *taken = memset(share->free, 0, size);
    share->free += size;
    share->left -= size;
    return taken;
}

static void release(PlanShare *share, const ShareEntry *entry) {
    if (share->device)
        share->device->kind->release(share->device, entry->bytes);
    else if (!is_small(share, &entry->key))
        allocator_give(&library, entry->bytes, room_of(&entry->key));
}

void plan_share_free(PlanShare *share) {
    if (!share) return;
    for (uint32_t i = 0; share->lists && i < share->values; i++)
        for (const ShareEntry *entry = share->lists[i]; entry; entry = entry->next)
            release(share, entry);
    for (Slab *slab = share->slabs, *next; slab; slab = next) {
        next = slab->next;
        allocator_give(&library, slab, SLAB);
    }
    free(share->lists);
    if (share->queue) share->device->kind->queue_free(share->queue);
    pthread_mutex_destroy(&share->lock);
    free(share);
}

static bool same(const ShareKey *a, const ShareKey *b) {
    return a->value == b->value && a->dtype == b->dtype && a->pack == b->pack &&
           a->variant == b->variant && a->size == b->size &&
           weight_layout_equals(&a->layout, &b->layout);
}

/* Bytes that were made in the host's memory, in the device's. */
static void *send(PlanShare *share, void *bytes, uint64_t size, Err *err) {
    Device *device = share->device;
    void *there = device->kind->allocate(device, size, err);
    if (there && !share->queue)
        share->queue = device->kind->queue_new(device, &(QueueConfig){0}, err);
    if (there && share->queue && device->kind->upload(share->queue, there, bytes, size, err) &&
        device->kind->wait(share->queue, err))
        return there;
    device->kind->release(device, there);
    return NULL;
}

/* Memory of the host's for the entry's bytes. */
static void *take_bytes(PlanShare *share, const ShareKey *key) {
    if (is_small(share, key)) return take_small(share, room_of(key));
    return key->size <= SIZE_MAX - LINE ? allocator_take(&library, room_of(key), LINE) : NULL;
}

static void give_bytes(PlanShare *share, const ShareKey *key, void *bytes) {
    if (!is_small(share, key)) allocator_give(&library, bytes, room_of(key));
}

/* The entry's bytes; NULL where they can't be made. */
static void *make(PlanShare *share, const ShareKey *key, const ShareFill *fill) {
    void *bytes = take_bytes(share, key);
    if (bytes && fill->function(fill->data, bytes)) {
        if (!share->device) return bytes;
        void *there = send(share, bytes, key->size, fill->err);
        give_bytes(share, key, bytes);
        return there;
    }
    give_bytes(share, key, bytes);
    return NULL;
}

/* ---- the lists ------------------------------------------------------------------------------- */

static ShareEntry *find(const PlanShare *share, const ShareKey *key) {
    ShareEntry *entry =
        share->lists && key->value < share->values ? share->lists[key->value] : NULL;
    while (entry && !same(&entry->key, key)) entry = entry->next;
    return entry;
}

static ShareEntry *add(PlanShare *share, const ShareKey *key, const ShareFill *fill) {
    if (!share->lists) share->lists = calloc(share->values, sizeof *share->lists);
    const bool has = share->lists && key->value < share->values;
    ShareEntry *entry = has ? take_small(share, sizeof *entry) : NULL;
    void *bytes = entry ? make(share, key, fill) : NULL;
    if (!bytes) return NULL;
    *entry = (ShareEntry){share->lists[key->value], *key, share->count++, bytes};
    share->lists[key->value] = entry;
    return entry;
}

const void *plan_share_get(PlanShare *share, const ShareKey *key, const ShareFill *fill,
                           uint32_t *number) {
    pthread_mutex_lock(&share->lock);
    ShareEntry *entry = find(share, key);
    if (!entry && fill) entry = add(share, key, fill);
    pthread_mutex_unlock(&share->lock);
    if (entry) *number = entry->number;
    return entry ? entry->bytes : NULL;
}
