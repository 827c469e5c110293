// SPDX-License-Identifier: Apache-2.0
/* Counting through a window, and a hash table of what was counted, by tensor and target. */
#include "tensor_census.h"

enum {
    WINDOW = 1 << 14,    /* floats read at a time, on the stack */
    REMEMBERED = 1 << 12 /* elements from which on a tensor is remembered */
};

typedef struct Entry {
    const Tensor *tensor; /* NULL: free */
    Dtype target;
    ValueCensus census;
} Entry;

struct CensusMemo {
    Arena *arena;
    Entry *entries; /* open addressing, a power of two, at most half full */
    size_t capacity, count;
};

CensusMemo *census_memo_new(Arena *arena) {
    CensusMemo *memo = ARENA_NEW(arena, CensusMemo);
    memo->arena = arena;
    return memo;
}

static Entry *entry_of(const CensusMemo *memo, const Tensor *tensor, Dtype target) {
    uint64_t hash = ((uint64_t)(uintptr_t)tensor + (uint64_t)target) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t i = hash >> 32;; i++) {
        Entry *entry = &memo->entries[i & (memo->capacity - 1)];
        if (!entry->tensor || (entry->tensor == tensor && entry->target == target)) return entry;
    }
}

static void memo_grow(CensusMemo *memo) {
    CensusMemo old = *memo;
    memo->capacity = old.capacity ? old.capacity * 2 : 64;
    memo->entries = ARENA_ARRAY(memo->arena, Entry, memo->capacity);
    for (size_t i = 0; i < old.capacity; i++) {
        const Entry *entry = &old.entries[i];
        if (entry->tensor) *entry_of(memo, entry->tensor, entry->target) = *entry;
    }
    arena_release(memo->arena, old.entries, old.capacity * sizeof *old.entries);
}

static bool count(const Tensor *tensor, Dtype target, ValueCensus *census, Err *err) {
    float window[WINDOW];
    uint64_t all = tensor_count(tensor);
    *census = (ValueCensus){0};
    for (uint64_t first = 0; first < all;) {
        uint64_t now = all - first < WINDOW ? all - first : WINDOW;
        if (!tensor_read_floats(tensor, first, now, window, err)) return false;
        census_floats(census, window, now, target);
        first += now;
    }
    return true;
}

bool tensor_census(CensusMemo *memo, const Tensor *tensor, Dtype target, ValueCensus *census,
                   Err *err) {
    if (!memo || tensor_count(tensor) < REMEMBERED) return count(tensor, target, census, err);
    if (memo->count * 2 >= memo->capacity) memo_grow(memo);
    Entry *entry = entry_of(memo, tensor, target);
    if (!entry->tensor) {
        if (!count(tensor, target, census, err)) return false;
        *entry = (Entry){.tensor = tensor, .target = target, .census = *census};
        memo->count++;
    }
    *census = entry->census;
    return true;
}
