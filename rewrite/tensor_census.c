// SPDX-License-Identifier: Apache-2.0
/* Counting through a window, and a hash table of what was counted, by tensor and target. */
#include "tensor_census.h"

#include "parallel.h"

enum {
    WINDOW = 1 << 14,    /* floats read at a time, on the stack */
    SPLIT = 1 << 18,     /* elements from which on a tensor is counted by several threads */
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

static bool count_range(const Tensor *tensor, Dtype target, uint64_t first, uint64_t end,
                        ValueCensus *census, Err *err) {
    float window[WINDOW];
    *census = (ValueCensus){0};
    while (first < end) {
        uint64_t now = end - first < WINDOW ? end - first : WINDOW;
        if (!tensor_read_floats(tensor, first, now, window, err)) return false;
        census_floats(census, window, now, target);
        first += now;
    }
    return true;
}

/* A large tensor's count in parts, which add up to the same whatever their number. */
typedef struct Parts {
    const Tensor *tensor;
    Dtype target;
    unsigned parts;
    ValueCensus census[PARALLEL_MOST];
    Err errs[PARALLEL_MOST];
} Parts;

static void count_part(void *data, unsigned part) {
    Parts *p = data;
    uint64_t share = (tensor_count(p->tensor) / p->parts + WINDOW - 1) / WINDOW * WINDOW;
    uint64_t all = tensor_count(p->tensor), first = share * part, end = first + share;
    if (first > all) first = all;
    if (end > all || part + 1 == p->parts) end = all;
    count_range(p->tensor, p->target, first, end, &p->census[part], &p->errs[part]);
}

static void census_add(ValueCensus *to, const ValueCensus *from) {
    to->count += from->count;
    to->zero += from->zero;
    to->overflow += from->overflow;
    to->underflow += from->underflow;
    to->subnormal += from->subnormal;
    to->nan += from->nan;
    to->inf += from->inf;
    if (from->max_abs > to->max_abs) to->max_abs = from->max_abs;
    bool less = from->min_abs > 0 && (to->min_abs <= 0 || from->min_abs < to->min_abs);
    if (less) to->min_abs = from->min_abs;
}

static bool count(const Tensor *tensor, Dtype target, ValueCensus *census, Err *err) {
    uint64_t all = tensor_count(tensor);
    if (all < SPLIT) return count_range(tensor, target, 0, all, census, err);
    Parts p = {.tensor = tensor, .target = target, .parts = parallel_parts()};
    parallel_run(count_part, &p, p.parts);
    *census = (ValueCensus){0};
    for (unsigned i = 0; i < p.parts; i++) {
        if (p.errs[i].code != ERR_NONE) {
            if (err && err->code == ERR_NONE) *err = p.errs[i];
            return false;
        }
        census_add(census, &p.census[i]);
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
