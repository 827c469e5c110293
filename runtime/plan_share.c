// SPDX-License-Identifier: Apache-2.0
/* A list of shared memory under one lock, which is held while an entry is made: contexts that start
 * together want the same entries, so that waiting costs them nothing. */
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
    ShareEntry *entries;
};

PlanShare *plan_share_new(Device *device) {
    PlanShare *share = calloc(1, sizeof *share);
    if (share && pthread_mutex_init(&share->lock, NULL) != 0) {
        free(share);
        return NULL;
    }
    if (share) share->device = device;
    return share;
}

static void release(PlanShare *share, void *bytes) {
    if (share->device)
        share->device->kind->release(share->device, bytes);
    else
        free(bytes);
}

void plan_share_free(PlanShare *share) {
    if (!share) return;
    for (ShareEntry *entry = share->entries, *next; entry; entry = next) {
        next = entry->next;
        release(share, entry->bytes);
        free(entry);
    }
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

/* Weights are read again and again: in large pages, where they are large. */
static const Allocator library = {NULL, NULL, NULL};

static ShareEntry *make(PlanShare *share, const ShareKey *key, const ShareFill *fill) {
    ShareEntry *entry = calloc(1, sizeof *entry);
    if (!entry) return NULL;
    entry->key = *key;
    if (key->size <= SIZE_MAX - 64)
        entry->bytes = allocator_take(&library, (size_t)(key->size + 64) / 64 * 64, 64);
    if (entry->bytes && fill->function(fill->data, entry->bytes)) {
        if (!share->device) return entry;
        void *there = send(share, entry->bytes, key->size, fill->err);
        free(entry->bytes);
        entry->bytes = there;
        if (there) return entry;
    }
    free(entry->bytes);
    free(entry);
    return NULL;
}

const void *plan_share_get(PlanShare *share, const ShareKey *key, const ShareFill *fill,
                           uint32_t *number) {
    pthread_mutex_lock(&share->lock);
    ShareEntry *entry = share->entries;
    while (entry && !same(&entry->key, key)) entry = entry->next;
    if (!entry && fill) {
        entry = make(share, key, fill);
        if (entry) {
            entry->number = share->entries ? share->entries->number + 1 : 0;
            entry->next = share->entries;
            share->entries = entry;
        }
    }
    pthread_mutex_unlock(&share->lock);
    if (entry) *number = entry->number;
    return entry ? entry->bytes : NULL;
}
