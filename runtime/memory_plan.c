// SPDX-License-Identifier: Apache-2.0
/* Placement of blocks of memory; see memory_plan.h. The greedy one compares each block with those that
 * live when it does, which one sweep over the steps lists. */
#include "memory_plan.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "memory_pieces.h"

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

/* ---- greedy by size --------------------------------------------------------------------------- */

/* For each block those that live at the same time, all in one list: block i's are
 * list[start[i]] to list[start[i + 1] - 1]. */
typedef struct Neighbors {
    uint64_t *start; /* [count + 1] */
    uint32_t *list;
} Neighbors;

/* Blocks in the order in which their lives begin. */
typedef struct Sweep {
    MemoryBlock *blocks;
    size_t count;
    uint32_t *begin; /* [count]: numbers, by `first` */
} Sweep;

static uint32_t step_count(const MemoryBlock *blocks, size_t count) {
    uint32_t steps = 0;
    for (size_t i = 0; i < count; i++)
        if (blocks[i].last >= steps) steps = blocks[i].last + 1;
    return steps;
}

static Sweep sweep_of(MemoryBlock *blocks, size_t count, Arena *scratch) {
    const uint32_t steps = step_count(blocks, count);
    uint64_t *at = ARENA_ARRAY(scratch, uint64_t, (size_t)steps + 1);
    Sweep sweep = {blocks, count, ARENA_ARRAY(scratch, uint32_t, count)};
    for (size_t i = 0; i < count; i++) at[blocks[i].first + 1]++;
    for (uint32_t s = 0; s < steps; s++) at[s + 1] += at[s];
    for (size_t i = 0; i < count; i++) sweep.begin[at[blocks[i].first]++] = (uint32_t)i;
    return sweep;
}

/* Leaves those of `live` that are still alive at `step`. */
static size_t drop_dead(const MemoryBlock *blocks, uint32_t *live, size_t count, uint32_t step) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (blocks[live[i]].last >= step) live[kept++] = live[i];
    return kept;
}

/* Pairs of blocks that live together; false where there are more than `most`. Without `to` it counts
 * each block's; with it, to->start[i] being where block i's begin, it writes them, and leaves there
 * where they end. */
static bool each_pair(const Sweep *sweep, uint64_t most, uint64_t *degree, Neighbors *to,
                      Arena *scratch) {
    uint32_t *live = ARENA_ARRAY(scratch, uint32_t, sweep->count);
    size_t alive = 0;
    uint64_t pairs = 0;
    for (size_t i = 0; i < sweep->count; i++) {
        const uint32_t block = sweep->begin[i];
        alive = drop_dead(sweep->blocks, live, alive, sweep->blocks[block].first);
        if ((pairs += alive) > most) return false;
        for (size_t k = 0; k < alive; k++) {
            if (to) {
                to->list[to->start[block]++] = live[k];
                to->list[to->start[live[k]]++] = block;
            } else {
                degree[block]++;
                degree[live[k]]++;
            }
        }
        live[alive++] = block;
    }
    return true;
}

/* False where that would be too many to look at. */
static bool find_neighbors(const Sweep *sweep, uint64_t most, Neighbors *to, Arena *scratch) {
    uint64_t *degree = ARENA_ARRAY(scratch, uint64_t, sweep->count + 1), sum = 0;
    if (!each_pair(sweep, most, degree, NULL, scratch)) return false;
    to->start = ARENA_ARRAY(scratch, uint64_t, sweep->count + 1);
    for (size_t i = 0; i < sweep->count; i++) {
        to->start[i] = sum;
        sum += degree[i];
    }
    to->list = ARENA_ARRAY(scratch, uint32_t, sum + 1);
    each_pair(sweep, most, NULL, to, scratch);
    for (size_t i = 0; i < sweep->count; i++) to->start[i] -= degree[i];
    to->start[sweep->count] = sum;
    return true;
}

static int compare_offsets(const void *a, const void *b) {
    const MemoryBlock *x = *(MemoryBlock *const *)a, *y = *(MemoryBlock *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The start of the smallest gap of `size` bytes between `placed` blocks, by offset; behind them all
 * where there is none. */
static uint64_t find_gap(MemoryBlock *const *placed, size_t count, uint64_t size) {
    uint64_t end = 0, best = UINT64_MAX, best_room = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const MemoryBlock *other = placed[i];
        uint64_t bytes;
        if (other->offset > end && other->offset - end >= size && other->offset - end < best_room) {
            best = end;
            best_room = other->offset - end;
        }
        round_size(other->size, &bytes);
        if (other->offset + bytes > end) end = other->offset + bytes;
    }
    return best == UINT64_MAX ? end : best;
}

static uint64_t place_by_size(const Sweep *sweep, const Neighbors *all, Arena *scratch) {
    MemoryBlock **order = ARENA_ARRAY(scratch, MemoryBlock *, sweep->count);
    MemoryBlock **placed = ARENA_ARRAY(scratch, MemoryBlock *, sweep->count);
    bool *done = ARENA_ARRAY(scratch, bool, sweep->count);
    uint64_t total = 0;
    for (size_t i = 0; i < sweep->count; i++) order[i] = &sweep->blocks[i];
    if (sweep->count) qsort(order, sweep->count, sizeof *order, compare);
    for (size_t i = 0; i < sweep->count; i++) {
        const size_t block = (size_t)(order[i] - sweep->blocks);
        uint64_t size, end;
        size_t count = 0;
        for (uint64_t k = all->start[block]; k < all->start[block + 1]; k++)
            if (done[all->list[k]]) placed[count++] = &sweep->blocks[all->list[k]];
        if (count) qsort(placed, count, sizeof *placed, compare_offsets);
        if (!round_size(order[i]->size, &size)) return UINT64_MAX;
        order[i]->offset = find_gap(placed, count, size);
        if (!checked_add(order[i]->offset, size, &end)) return UINT64_MAX;
        done[block] = true;
        if (end > total) total = end;
    }
    return total;
}

/* ---- in the order of lives ------------------------------------------------------------------- */

/* Blocks by the step that they end with: a list for each step, by number. */
typedef struct Ends {
    uint32_t *heads; /* [steps] */
    uint32_t *next;  /* [count] */
} Ends;

static uint64_t place_by_life(const Sweep *sweep, Arena *scratch) {
    const uint32_t steps = step_count(sweep->blocks, sweep->count);
    MemoryPieces *p = ARENA_NEW(scratch, MemoryPieces);
    memory_pieces_init(p, sweep->count, scratch);
    uint32_t *piece_of = ARENA_ARRAY(scratch, uint32_t, sweep->count);
    Ends ends = {ARENA_ARRAY(scratch, uint32_t, steps),
                 ARENA_ARRAY(scratch, uint32_t, sweep->count)};
    memset(ends.heads, 0xff, steps * sizeof *ends.heads);
    uint64_t total = 0;
    for (size_t i = 0, step = 0; i < sweep->count; i++) {
        const uint32_t number = sweep->begin[i];
        MemoryBlock *block = &sweep->blocks[number];
        for (; step < block->first; step++)
            for (uint32_t k = ends.heads[step]; k != NO_PIECE; k = ends.next[k])
                memory_give(p, piece_of[k]);
        uint64_t size, end;
        if (!round_size(block->size, &size)) return UINT64_MAX;
        piece_of[number] = memory_take(p, size);
        block->offset = p->items[piece_of[number]].offset;
        if (!checked_add(block->offset, size, &end)) return UINT64_MAX;
        if (end > total) total = end;
        ends.next[number] = ends.heads[block->last];
        ends.heads[block->last] = number;
    }
    return total;
}

uint64_t memory_plan(MemoryBlock *blocks, size_t count, Arena *scratch) {
    enum { PAIRS = 1 << 18, PAIRS_EACH = 16 }; /* what is looked at takes a few milliseconds */
    const Sweep sweep = sweep_of(blocks, count, scratch);
    Neighbors neighbors;
    if (find_neighbors(&sweep, PAIRS + (uint64_t)PAIRS_EACH * count, &neighbors, scratch))
        return place_by_size(&sweep, &neighbors, scratch);
    return place_by_life(&sweep, scratch);
}

uint64_t memory_plan_bound(const MemoryBlock *blocks, size_t count, Arena *scratch) {
    const uint32_t steps = step_count(blocks, count);
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
