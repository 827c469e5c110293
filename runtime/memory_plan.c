// SPDX-License-Identifier: Apache-2.0
/* Greedy placement of blocks of memory by size; see memory_plan.h. */
#include "memory_plan.h"

#include <stdbool.h>
#include <stdlib.h>

#include "checked.h"

static bool round_size(uint64_t size, uint64_t *rounded) {
    return checked_align(size ? size : 1, MEMORY_ALIGN, rounded);
}

/* Larger ones first; of one size, those that live longer, then in the order given. */
static int compare(const void *a, const void *b) {
    const MemoryBlock *x = *(MemoryBlock *const *)a, *y = *(MemoryBlock *const *)b;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    uint32_t long_x = x->last - x->first, long_y = y->last - y->first;
    if (long_x != long_y) return long_x < long_y ? 1 : -1;
    return (x > y) - (x < y);
}

/* The start of the smallest gap of `size` bytes between placed blocks, by offset, that live when
 * `block` does; behind them all where there is none. */
static uint64_t find_gap(MemoryBlock *const *placed, size_t count, const MemoryBlock *block,
                         uint64_t size) {
    uint64_t end = 0, best = UINT64_MAX, best_room = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const MemoryBlock *other = placed[i];
        uint64_t bytes;
        if (other->last < block->first || other->first > block->last) continue;
        if (other->offset > end && other->offset - end >= size && other->offset - end < best_room) {
            best = end;
            best_room = other->offset - end;
        }
        round_size(other->size, &bytes);
        if (other->offset + bytes > end) end = other->offset + bytes;
    }
    return best == UINT64_MAX ? end : best;
}

static void insert(MemoryBlock **placed, size_t count, MemoryBlock *block) {
    size_t at = count;
    for (; at > 0 && placed[at - 1]->offset > block->offset; at--) placed[at] = placed[at - 1];
    placed[at] = block;
}

uint64_t memory_plan(MemoryBlock *blocks, size_t count, Arena *scratch) {
    MemoryBlock **order = ARENA_ARRAY(scratch, MemoryBlock *, count);
    MemoryBlock **placed = ARENA_ARRAY(scratch, MemoryBlock *, count);
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) order[i] = &blocks[i];
    qsort(order, count, sizeof *order, compare);
    for (size_t i = 0; i < count; i++) {
        uint64_t size, end;
        if (!round_size(order[i]->size, &size)) return UINT64_MAX;
        order[i]->offset = find_gap(placed, i, order[i], size);
        if (!checked_add(order[i]->offset, size, &end)) return UINT64_MAX;
        insert(placed, i, order[i]);
        if (end > total) total = end;
    }
    return total;
}

uint64_t memory_plan_bound(const MemoryBlock *blocks, size_t count, Arena *scratch) {
    uint32_t steps = 0;
    for (size_t i = 0; i < count; i++)
        if (blocks[i].last >= steps) steps = blocks[i].last + 1;
    uint64_t *begins = ARENA_ARRAY(scratch, uint64_t, (size_t)steps + 1);
    uint64_t *ends = ARENA_ARRAY(scratch, uint64_t, (size_t)steps + 1);
    for (size_t i = 0; i < count; i++) {
        uint64_t size = 0;
        round_size(blocks[i].size, &size);
        begins[blocks[i].first] += size;
        ends[blocks[i].last + 1] += size;
    }
    uint64_t live = 0, most = 0;
    for (uint32_t i = 0; i < steps; i++) {
        live += begins[i] - ends[i];
        if (live > most) most = live;
    }
    return most;
}
