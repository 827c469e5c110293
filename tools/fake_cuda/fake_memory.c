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

static PtxRegion **regions; /* by address */
static uint32_t region_count, region_room;
static uint64_t next_address = UINT64_C(1) << 45, used;
static Pinned *pinned;

/* ---- the device's ---------------------------------------------------------------------------- */

/* Addresses are odd multiples of the alignment, so that no one relies on more of it, and behind each
 * piece is nothing. */
uint64_t fake_allocate(uint64_t size) {
    if (size > fake_settings()->memory - used) return 0;
    if (region_count == region_room) {
        region_room = region_room ? 2 * region_room : 64;
        regions = realloc(regions, region_room * sizeof *regions);
        if (!regions) abort();
    }
    PtxRegion *r = malloc(sizeof *r);
    if (!r) abort();
    *r = (PtxRegion){next_address + ALIGNMENT, size, malloc(size), calloc(1, size)};
    if (!r->bytes || !r->known) abort();
    memset(r->bytes, POISON, size);
    next_address = (r->address + size + 4 * ALIGNMENT) & ~(uint64_t)(2 * ALIGNMENT - 1);
    used += size;
    regions[region_count++] = r;
    fake_made("allocations", 1);
    return r->address;
}

/* The number of the last region that begins at or before it, or -1. */
static int64_t number_of(uint64_t address) {
    int64_t low = 0, high = (int64_t)region_count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (regions[middle]->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

const PtxRegion *fake_find(void *owner, uint64_t address) {
    const int64_t n = number_of(address);
    (void)owner;
    return n >= 0 && address - regions[n]->address < regions[n]->size ? regions[n] : NULL;
}

bool fake_free(uint64_t address) {
    const int64_t n = number_of(address);
    if (n < 0 || regions[n]->address != address) return false;
    PtxRegion *r = regions[n];
    used -= r->size;
    free(r->bytes);
    free(r->known);
    free(r);
    memmove(&regions[n], &regions[n + 1], (region_count - (size_t)n - 1) * sizeof *regions);
    region_count--;
    fake_made("allocations", -1);
    return true;
}

uint8_t *fake_memory(uint64_t address, uint64_t size, FakeUse use, const char *what) {
    const PtxRegion *r = fake_find(NULL, address);
    const uint64_t offset = r ? address - r->address : 0;
    if (!r || r->size - offset < size) {
        fake_complain(0, "%s: 0x%llx, %llu bytes, is not in an allocation", what,
                      (unsigned long long)address, (unsigned long long)size);
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
