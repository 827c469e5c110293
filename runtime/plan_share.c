// SPDX-License-Identifier: Apache-2.0
/* A hash table of shared memory under one lock, which is held while an entry is made: contexts that start
 * together want the same entries, so that waiting costs them nothing. A context asks for each constant
 * of its plan. */
#include "plan_share.h"
#include "value_store.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct ShareEntry {
    struct ShareEntry *next;
    ShareKey key;
    uint32_t number;
    void *bytes;
} ShareEntry;

struct PlanShare {
    pthread_mutex_t lock;
    Device *device; /* NULL: the host */
    DeviceQueue *queue;
    ShareEntry **buckets; /* [1 << bits]: entries by hash; NULL before the first */
    uint32_t bits, count;
};

enum { FIRST_BITS = 6, MOST_BITS = 28 };

PlanShare *plan_share_new(Device *device) {
    PlanShare *share = calloc(1, sizeof *share);
    if (share && pthread_mutex_init(&share->lock, NULL) != 0) {
        free(share);
        return NULL;
    }
    if (share) share->device = device;
    return share;
}

/* Weights are read again and again: in large pages, where they are large. */
static const Allocator library = {NULL, NULL, NULL};

/* What the host's memory for an entry takes. */
static size_t room_of(const ShareKey *key) {
    return (size_t)(key->size + 64) / 64 * 64;
}

static void release(PlanShare *share, const ShareEntry *entry) {
    if (share->device)
        share->device->kind->release(share->device, entry->bytes);
    else
        allocator_give(&library, entry->bytes, room_of(&entry->key));
}

void plan_share_free(PlanShare *share) {
    if (!share) return;
    for (uint64_t i = 0; share->buckets && i < UINT64_C(1) << share->bits; i++)
        for (ShareEntry *entry = share->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            release(share, entry);
            free(entry);
        }
    free(share->buckets);
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
        share->queue = device->kind->queue_new(device, &(DeviceWish){0}, err);
    if (there && share->queue && device->kind->upload(share->queue, there, bytes, size, err) &&
        device->kind->wait(share->queue, err))
        return there;
    device->kind->release(device, there);
    return NULL;
}

static ShareEntry *make(PlanShare *share, const ShareKey *key, const ShareFill *fill) {
    ShareEntry *entry = calloc(1, sizeof *entry);
    if (!entry) return NULL;
    entry->key = *key;
    if (key->size <= SIZE_MAX - 64) entry->bytes = allocator_take(&library, room_of(key), 64);
    if (entry->bytes && fill->function(fill->data, entry->bytes)) {
        if (!share->device) return entry;
        void *there = send(share, entry->bytes, key->size, fill->err);
        allocator_give(&library, entry->bytes, room_of(key));
        entry->bytes = there;
        if (there) return entry;
    }
    allocator_give(&library, entry->bytes, room_of(key));
    free(entry);
    return NULL;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Most values have one entry: what else tells entries apart is left to `same`. */
static ShareEntry **bucket_of(const PlanShare *share, const ShareKey *key) {
    const uint64_t mixed = ((uint64_t)key->value + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return &share->buckets[mixed >> (64 - share->bits)];
}

static ShareEntry *find(const PlanShare *share, const ShareKey *key) {
    ShareEntry *entry = share->buckets ? *bucket_of(share, key) : NULL;
    while (entry && !same(&entry->key, key)) entry = entry->next;
    return entry;
}

/* Room for one more, about one to a bucket; without memory for that the buckets stay as they are. */
static bool grow(PlanShare *share) {
    if (share->buckets && (share->count >> share->bits == 0 || share->bits == MOST_BITS))
        return true;
    PlanShare larger = *share;
    larger.bits = share->buckets ? share->bits + 1 : FIRST_BITS;
    larger.buckets = calloc((size_t)1 << larger.bits, sizeof(ShareEntry *));
    if (!larger.buckets) return share->buckets;
    for (uint64_t i = 0; share->buckets && i < UINT64_C(1) << share->bits; i++)
        for (ShareEntry *entry = share->buckets[i], *next; entry; entry = next) {
            ShareEntry **at = bucket_of(&larger, &entry->key);
            next = entry->next;
            entry->next = *at;
            *at = entry;
        }
    free(share->buckets);
    share->buckets = larger.buckets;
    share->bits = larger.bits;
    return true;
}

static ShareEntry *add(PlanShare *share, const ShareKey *key, const ShareFill *fill) {
    ShareEntry *entry = grow(share) ? make(share, key, fill) : NULL;
    if (!entry) return NULL;
    ShareEntry **at = bucket_of(share, key);
    entry->number = share->count++;
    entry->next = *at;
    *at = entry;
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
