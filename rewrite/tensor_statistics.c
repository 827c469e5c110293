// SPDX-License-Identifier: Apache-2.0
/* Counting through a window, and a hash table of what was counted, by tensor and target. */
#include "tensor_statistics.h"

#include <limits.h>

#include "workers.h"

enum {
    WINDOW = 1 << 15,    /* floats that a task reads and counts: they stay in a core's own cache */
    REMEMBERED = 1 << 12 /* elements from which on a tensor is remembered */
};

typedef struct Entry {
    const Tensor *tensor; /* NULL: free */
    Dtype target;
    ValueStatistics statistics;
} Entry;

/* What a thread counts with. */
typedef struct Lane {
    float *window; /* [WINDOW] */
    ValueStatistics statistics;
    Err err;
} Lane;

struct StatisticsMemo {
    Arena *arena;
    Workers *workers; /* NULL until something is counted */
    Lane *lanes;      /* [workers_lanes] */
    Entry *entries;   /* open addressing, a power of two, at most half full */
    size_t capacity, count;
};

StatisticsMemo *statistics_memo_new(Arena *arena) {
    StatisticsMemo *memo = ARENA_NEW(arena, StatisticsMemo);
    memo->arena = arena;
    return memo;
}

static Entry *entry_of(const StatisticsMemo *memo, const Tensor *tensor, Dtype target) {
    uint64_t hash = ((uint64_t)(uintptr_t)tensor + (uint64_t)target) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t i = hash >> 32;; i++) {
        Entry *entry = &memo->entries[i & (memo->capacity - 1)];
        if (!entry->tensor || (entry->tensor == tensor && entry->target == target)) return entry;
    }
}

static void memo_grow(StatisticsMemo *memo) {
    StatisticsMemo old = *memo;
    memo->capacity = old.capacity ? old.capacity * 2 : 64;
    memo->entries = ARENA_ARRAY(memo->arena, Entry, memo->capacity);
    for (size_t i = 0; i < old.capacity; i++) {
        const Entry *entry = &old.entries[i];
        if (entry->tensor) *entry_of(memo, entry->tensor, entry->target) = *entry;
    }
    arena_release(memo->arena, old.entries, old.capacity * sizeof *old.entries);
}

/* A tensor's count in windows, each by the thread that comes to it: what is counted adds up to the
 * same in any order. */
typedef struct Count {
    const Tensor *tensor;
    Dtype target;
    Lane *lanes;
} Count;

static void count_window(void *data, unsigned window, unsigned lane_number) {
    const Count *c = data;
    Lane *lane = &c->lanes[lane_number];
    uint64_t first = (uint64_t)window * WINDOW, left = tensor_count(c->tensor) - first;
    uint64_t now = left < WINDOW ? left : WINDOW;
    if (lane->err.code != ERR_NONE) return;
    if (tensor_read_floats(c->tensor, first, now, lane->window, &lane->err))
        statistics_floats(&lane->statistics, lane->window, now, c->target);
}

static void statistics_add(ValueStatistics *to, const ValueStatistics *from) {
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

static void make_lanes(StatisticsMemo *memo) {
    memo->workers = workers_new_streaming(memo->arena);
    const unsigned lanes = workers_lanes(memo->workers);
    memo->lanes = ARENA_ARRAY(memo->arena, Lane, lanes);
    for (unsigned i = 0; i < lanes; i++)
        memo->lanes[i].window = ARENA_ARRAY(memo->arena, float, WINDOW);
}

static bool count(StatisticsMemo *memo, const Tensor *tensor, Dtype target,
                  ValueStatistics *statistics, Err *err) {
    if (!memo->workers) make_lanes(memo);
    const unsigned lanes = workers_lanes(memo->workers);
    const uint64_t windows = (tensor_count(tensor) + WINDOW - 1) / WINDOW;
    if (windows > UINT_MAX) return err_set(err, ERR_MODEL, "a tensor of more than 2^47 elements");
    Count c = {.tensor = tensor, .target = target, .lanes = memo->lanes};
    for (unsigned i = 0; i < lanes; i++) {
        c.lanes[i].statistics = (ValueStatistics){0};
        if (c.lanes[i].err.code != ERR_NONE) c.lanes[i].err = (Err){0};
    }
    workers_run(memo->workers, (unsigned)windows, count_window, &c);
    *statistics = (ValueStatistics){0};
    for (unsigned i = 0; i < lanes; i++) {
        const Lane *lane = &c.lanes[i];
        if (lane->err.code != ERR_NONE) {
            if (err && err->code == ERR_NONE) *err = lane->err;
            return false;
        }
        statistics_add(statistics, &lane->statistics);
    }
    return true;
}

bool tensor_statistics(StatisticsMemo *memo, const Tensor *tensor, Dtype target,
                       ValueStatistics *statistics, Err *err) {
    if (tensor_count(tensor) < REMEMBERED) return count(memo, tensor, target, statistics, err);
    if (memo->count * 2 >= memo->capacity) memo_grow(memo);
    Entry *entry = entry_of(memo, tensor, target);
    if (!entry->tensor) {
        if (!count(memo, tensor, target, statistics, err)) return false;
        *entry = (Entry){.tensor = tensor, .target = target, .statistics = *statistics};
        memo->count++;
    }
    *statistics = entry->statistics;
    return true;
}
