// SPDX-License-Identifier: Apache-2.0
/* The fake device's memory, and the host's that is pinned; see fake_cuda.h. */
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

enum { ALIGNMENT = 256, POISON = 0xff };

typedef struct Pinned {
    struct Pinned *next;
    uint64_t size;
    _Alignas(64) uint8_t bytes[];
} Pinned;

typedef struct Region {
    PtxRegion ptx;
    int device;
} Region;

static Region **regions; /* by address */
static uint32_t region_count, region_room;
static uint64_t next_address = UINT64_C(1) << 45, used[FAKE_DEVICES];
static int at_work; /* whose work is done */
static Pinned *pinned;

/* ---- the device's ---------------------------------------------------------------------------- */

/* Addresses are odd multiples of the alignment, so that no one relies on more of it, and behind each
 * piece is nothing. */
uint64_t fake_allocate(uint64_t size) {
    const int device = fake_device();
    if (size > fake_settings()->memory - used[device]) return 0;
    if (region_count == region_room) {
        region_room = region_room ? 2 * region_room : 64;
        regions = realloc(regions, region_room * sizeof *regions);
        if (!regions) abort();
    }
    Region *r = malloc(sizeof *r);
    if (!r) abort();
    *r = (Region){{next_address + ALIGNMENT, size, malloc(size), calloc(1, size)}, device};
    if (!r->ptx.bytes || !r->ptx.known) abort();
    memset(r->ptx.bytes, POISON, size);
    next_address = (r->ptx.address + size + 4 * ALIGNMENT) & ~(uint64_t)(2 * ALIGNMENT - 1);
    used[device] += size;
    regions[region_count++] = r;
    fake_made("allocations", 1);
    return r->ptx.address;
}

/* The number of the last region that begins at or before it, or -1. */
static int64_t number_of(uint64_t address) {
    int64_t low = 0, high = (int64_t)region_count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (regions[middle]->ptx.address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

/* That holds the address, of any device; NULL for none. */
static const Region *find(uint64_t address) {
    const int64_t n = number_of(address);
    return n >= 0 && address - regions[n]->ptx.address < regions[n]->ptx.size ? regions[n] : NULL;
}

int fake_device_of(uint64_t address) {
    const Region *r = find(address);
    return r ? r->device : -1;
}

void fake_work_on(int device) {
    at_work = device;
}

const PtxRegion *fake_find(void *owner, uint64_t address) {
    const Region *r = find(address);
    (void)owner;
    if (!r || r->device == at_work) return r ? &r->ptx : NULL;
    fake_complain(0, "0x%llx is in the memory of device %d, and a kernel of device %d is at it",
                  (unsigned long long)address, r->device, at_work);
    return NULL;
}

bool fake_free(uint64_t address) {
    const int64_t n = number_of(address);
    if (n < 0 || regions[n]->ptx.address != address || regions[n]->device != fake_device())
        return false;
    Region *r = regions[n];
    used[r->device] -= r->ptx.size;
    free(r->ptx.bytes);
    free(r->ptx.known);
    free(r);
    memmove(&regions[n], &regions[n + 1], (region_count - (size_t)n - 1) * sizeof *regions);
    region_count--;
    fake_made("allocations", -1);
    return true;
}

uint8_t *fake_memory(uint64_t address, uint64_t size, FakeUse use, const char *what) {
    const Region *found = find(address);
    const PtxRegion *r = found ? &found->ptx : NULL;
    const uint64_t offset = r ? address - r->address : 0;
    if (!r || r->size - offset < size || found->device != at_work) {
        fake_complain(0, "%s: 0x%llx, %llu bytes, is not in an allocation of device %d", what,
                      (unsigned long long)address, (unsigned long long)size, at_work);
        return NULL;
    }
    if (use != FAKE_READS)
        memset(r->known + offset, use == FAKE_SENDS ? PTX_SENT : PTX_MADE, size);
    else if (memchr(r->known + offset, 0, size)) {
        fake_complain(0, "%s: 0x%llx, %llu bytes, is read before it was written", what,
                      (unsigned long long)address, (unsigned long long)size);
        return NULL;
    }
    return r->bytes + offset;
}

bool fake_copy(uint64_t to, uint64_t from, uint64_t size) {
    const uint8_t *source = fake_memory(from, size, FAKE_READS, "a copy on the device");
    uint8_t *target = source ? fake_memory(to, size, FAKE_MAKES, "a copy on the device") : NULL;
    if (!target) return false;
    if (to < from + size && from < to + size)
        return fake_complain(0, "a copy on the device to itself"), false;
    memcpy(target, source, size);
    return true;
}

/* ---- the host's ------------------------------------------------------------------------------ */

void *fake_pin(uint64_t size) {
    Pinned *p = malloc(sizeof *p + size);
    if (!p) return NULL;
    p->next = pinned;
    p->size = size;
    memset(p->bytes, POISON, size);
    pinned = p;
    fake_made("pieces of pinned memory", 1);
    return p->bytes;
}

bool fake_unpin(void *memory) {
    Pinned **at = &pinned;
    while (*at && (*at)->bytes != memory) at = &(*at)->next;
    Pinned *p = *at;
    if (!p) return false;
    *at = p->next;
    memset(p->bytes, POISON, p->size);
    free(p);
    fake_made("pieces of pinned memory", -1);
    return true;
}

bool fake_is_pinned(const void *memory, uint64_t size) {
    for (const Pinned *p = pinned; p; p = p->next) {
        const uint64_t offset = (uint64_t)((uintptr_t)memory - (uintptr_t)p->bytes);
        if (offset < p->size && p->size - offset >= size) return true;
    }
    return false;
}
