// SPDX-License-Identifier: Apache-2.0
/* Running grids: blocks one after the other, their warps in turn between barriers; blocks of a cluster
 * in turn between its barriers; see ptx_code.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_code.h"

/* ---- faults ---------------------------------------------------------------------------------- */

void ptx_fault(PtxWarp *w, const PtxInstr *i, int lane, const char *format, ...) {
    PtxGrid *grid = w->grid;
    const uint32_t *block = grid->launch->block;
    if (grid->failed) return;
    grid->failed = true;
    const uint32_t thread = w->number * PTX_LANES + (lane == PTX_ALL ? 0 : (uint32_t)lane);
    int length = snprintf(grid->why, PTX_WHY, "kernel %s, block (%u, %u, %u), ", grid->kernel->name,
                          w->block->at[0], w->block->at[1], w->block->at[2]);
    char *at = grid->why + length;
    size_t left = PTX_WHY - (size_t)length;
    if (lane == PTX_ALL)
        length = snprintf(at, left, "warp %u, ", w->number);
    else
        length = snprintf(at, left, "thread (%u, %u, %u), ", thread % block[0],
                          thread / block[0] % block[1], thread / block[0] / block[1]);
    at += length, left -= (size_t)length;
    length = snprintf(at, left, "%.*s: ", (int)strcspn(i->text, ";\n"), i->text);
    if (length < 0 || (size_t)length >= left) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(at + length, left - (size_t)length, format, arguments);
    va_end(arguments);
}

/* ---- one warp -------------------------------------------------------------------------------- */

/* Lanes that go on together: the lowest of those that are ready, until where the next lowest are. */
typedef struct Group {
    uint32_t lanes, pc, limit;
} Group;

static Group choose(const PtxWarp *w, uint32_t ready) {
    Group g = {0, UINT32_MAX, UINT32_MAX};
    for (uint32_t l = 0; l < PTX_LANES; l++)
        if (ready >> l & 1 && w->pc[l] < g.pc) g.pc = w->pc[l];
    for (uint32_t l = 0; l < PTX_LANES; l++) {
        if (!(ready >> l & 1)) continue;
        if (w->pc[l] == g.pc)
            g.lanes |= UINT32_C(1) << l;
        else if (w->pc[l] < g.limit)
            g.limit = w->pc[l];
    }
    return g;
}

static void set_pc(PtxWarp *w, uint32_t lanes, uint32_t pc) {
    PTX_EACH(w->pc[l] = pc;)
}

/* Waits for lanes that have to be there; true when they are. Lanes that waited join the group. */
static bool meet(PtxWarp *w, const PtxInstr *i, Group *g, uint32_t mine, uint32_t members) {
    uint32_t here = mine;
    for (uint32_t l = 0; l < PTX_LANES; l++)
        if (w->waiting >> l & 1 && w->pc[l] == g->pc) here |= UINT32_C(1) << l;
    if (members & ~w->alive) {
        ptx_fault(w, i, PTX_ALL, "lanes 0x%08x take part, but 0x%08x have ended", members,
                  members & ~w->alive);
        return false;
    }
    if (mine & ~members) {
        ptx_fault(w, i, PTX_ALL, "lanes 0x%08x are not among those that take part, 0x%08x",
                  mine & ~members, members);
        return false;
    }
    if (members & ~here) {
        w->waiting |= mine;
        return false;
    }
    w->waiting &= ~here;
    g->lanes |= here;
    return true;
}

static bool run_sync(PtxWarp *w, const PtxInstr *i, Group *g, uint32_t mine) {
    uint32_t members = UINT32_MAX;
    if (i->kind == PTX_SYNC) members = PTX_REG(uint32_t, w, i->at[3])[__builtin_ctz(mine)];
    if (!meet(w, i, g, mine, members)) return false;
    i->run(w, i, members);
    g->pc++;
    return true;
}

/* bar.sync 0, of all warps, or bar.sync number, threads. */
static void enter_barrier(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    w->barrier = w->members = 0;
    if (!i->at[1]) return;
    const int first = __builtin_ctz(lanes);
    const uint32_t *number = PTX_REG(uint32_t, w, i->at[0]);
    const uint32_t threads = PTX_REG(uint32_t, w, i->at[1])[first];
    PTX_EACH(if (number[l] != number[first]) ptx_fault(w, i, l, "barrier %u, lane %d is in %u",
                                                       number[l], first, number[first]);)
    if (number[first] < 1 || number[first] > 15 || !threads || threads % PTX_LANES)
        ptx_fault(w, i, PTX_ALL, "barrier %u of %u threads", number[first], threads);
    w->barrier = number[first];
    w->members = threads / PTX_LANES;
}

/* What is not computed. False: the lanes are to be chosen anew. */
static bool step(PtxWarp *w, const PtxInstr *i, Group *g, uint32_t lanes) {
    switch ((PtxKind)i->kind) {
    case PTX_PLAIN: break;
    case PTX_CALL: {
        const uint32_t back = g->pc + 1;
        uint32_t *to = PTX_REG(uint32_t, w, i->at[0]);
        PTX_EACH(to[l] = back;)
    } /* fall through */
    case PTX_BRANCH:
        set_pc(w, g->lanes, g->pc + 1);
        set_pc(w, lanes, i->target);
        if (lanes != g->lanes || g->limit != UINT32_MAX) return false;
        g->pc = i->target;
        return true;
    case PTX_RETURN: {
        const uint32_t *to = PTX_REG(uint32_t, w, i->at[0]);
        set_pc(w, g->lanes, g->pc + 1);
        PTX_EACH(w->pc[l] = to[l];)
        return false;
    }
    case PTX_EXIT:
        set_pc(w, g->lanes, g->pc + 1);
        w->alive &= ~lanes;
        if (lanes & ~w->begun)
            ptx_fault(w, i, __builtin_ctz(lanes & ~w->begun),
                      "it ends, and did not wait for what is before its launch");
        return false;
    case PTX_SYNC:
    case PTX_ALIGNED:
        set_pc(w, g->lanes, g->pc);
        if (lanes != g->lanes) {
            ptx_fault(w, i, PTX_ALL, "not all of its lanes do it");
            return false;
        }
        return run_sync(w, i, g, lanes);
    case PTX_BARRIER:
        set_pc(w, g->lanes, g->pc);
        w->blocked |= lanes;
        enter_barrier(w, i, lanes);
        if (lanes != g->lanes) ptx_fault(w, i, PTX_ALL, "not all of its lanes do it");
        return false;
    case PTX_WAIT:
        set_pc(w, g->lanes, g->pc + 1);
        set_pc(w, lanes, g->pc);
        w->held |= lanes;
        if (lanes & ~w->arrived)
            ptx_fault(w, i, __builtin_ctz(lanes & ~w->arrived), "it waits, and did not arrive");
        return false;
    }
    return false;
}

/* Until the lanes part, or meet others. */
static void run_group(PtxWarp *w, Group *g) {
    const PtxInstr *code = w->grid->kernel->code;
    while (g->pc < g->limit) {
        const PtxInstr *i = &code[g->pc];
        uint32_t lanes = g->lanes;
        if (i->guard) {
            const uint32_t bits = *PTX_REG(uint32_t, w, i->guard);
            lanes &= i->negated ? ~bits : bits;
            w->grid->kernel->ways[g->pc] |= !lanes              ? PTX_WENT_NONE
                                            : lanes == g->lanes ? PTX_WENT_ALL
                                                                : PTX_WENT_SOME;
        }
        if (!lanes) {
            g->pc++;
        } else if (i->kind == PTX_PLAIN) {
            i->run(w, i, lanes);
            g->pc++;
        } else if (!step(w, i, g, lanes)) {
            return;
        }
        if (w->grid->failed) return;
    }
    set_pc(w, g->lanes, g->pc);
}

void ptx_warp_run(PtxWarp *w) {
    while (!w->grid->failed) {
        const uint32_t ready = w->alive & ~w->waiting & ~w->blocked & ~w->held;
        if (!ready) break;
        Group g = choose(w, ready);
        run_group(w, &g);
    }
    if (w->grid->failed || !w->waiting) return;
    const uint32_t first = (uint32_t)__builtin_ctz(w->waiting);
    ptx_fault(w, &w->grid->kernel->code[w->pc[first]], (int)first,
              "it waits for lanes that do not come (0x%08x wait, 0x%08x are in a barrier)",
              w->waiting, w->blocked | w->held);
}

/* ---- one block ------------------------------------------------------------------------------- */

/* A warp of the block that waits for the cluster; NULL: none. */
static PtxWarp *held(const PtxBlock *block) {
    for (uint32_t k = 0; k < block->grid->warp_count; k++)
        if (block->warps[k].held) return &block->warps[k];
    return NULL;
}

/* The barrier that the warp is blocked in, with all of its lanes. */
static const PtxInstr *barrier_of(PtxWarp *w) {
    const uint32_t first = (uint32_t)__builtin_ctz(w->blocked), at = w->pc[first];
    const PtxInstr *i = &w->grid->kernel->code[at];
    if (w->blocked != UINT32_MAX)
        ptx_fault(w, i, PTX_ALL, "only lanes 0x%08x of the warp are in the barrier", w->blocked);
    for (uint32_t l = first; l < PTX_LANES; l++)
        if (w->pc[l] != at) ptx_fault(w, i, PTX_ALL, "its lanes are in different barriers");
    return i;
}

static void go_on(PtxWarp *w) {
    if (w->blocked)
        for (uint32_t l = 0; l < PTX_LANES; l++) w->pc[l]++;
    w->blocked = 0;
    w->sync++;
}

/* Warps that are in the barrier that `first` is in, a bit each; all have to say how many they are. */
static uint32_t members_of(PtxBlock *block, const PtxWarp *first, const PtxInstr *at) {
    uint32_t warps = 0;
    for (uint32_t k = 0; k < block->grid->warp_count; k++) {
        PtxWarp *w = &block->warps[k];
        if (!w->blocked || w->barrier != first->barrier) continue;
        const PtxInstr *i = barrier_of(w);
        if (i != at) ptx_fault(w, i, PTX_ALL, "another warp is in another barrier");
        if (w->members != first->members)
            ptx_fault(w, i, PTX_ALL, "of %u warps, for another warp of %u", w->members,
                      first->members);
        warps |= UINT32_C(1) << k;
    }
    return warps;
}

/* What one of the warps knows to be behind it, all know, and all of each other. */
static void join(PtxBlock *block, uint32_t warps) {
    uint32_t joined[PTX_LANES] = {0};
    block->tick++;
    for (uint32_t k = 0; k < PTX_LANES; k++)
        for (uint32_t v = 0; v < PTX_LANES; v++)
            if (warps >> k & 1 && joined[v] < block->warps[k].joined[v])
                joined[v] = block->warps[k].joined[v];
    for (uint32_t k = 0; k < PTX_LANES; k++)
        if (warps >> k & 1) joined[k] = block->tick;
    for (uint32_t k = 0; k < PTX_LANES; k++) {
        if (!(warps >> k & 1)) continue;
        memcpy(block->warps[k].joined, joined, sizeof joined);
        go_on(&block->warps[k]);
    }
}

/* A barrier of some warps, all of which are there: true, and they go on. */
static bool release_some(PtxBlock *block) {
    PtxWarp *waits = NULL;
    uint32_t there = 0;
    for (uint32_t k = 0; k < block->grid->warp_count && !block->grid->failed; k++) {
        PtxWarp *w = &block->warps[k];
        if (!w->blocked || !w->barrier) continue;
        const uint32_t warps = members_of(block, w, barrier_of(w));
        there = (uint32_t)__builtin_popcount(warps);
        if (there == w->members && !block->grid->failed) {
            join(block, warps);
            return true;
        }
        waits = w;
    }
    if (waits && !block->grid->failed)
        ptx_fault(waits, barrier_of(waits), PTX_ALL, "%u warps are in the barrier, it is of %u",
                  there, waits->members);
    return false;
}

/* All warps stopped: true where all are in one barrier, and go on, or some are in one of theirs; false where
 * all have ended, or wait for the cluster. */
static bool release(PtxBlock *block) {
    PtxGrid *grid = block->grid;
    const PtxInstr *at = NULL;
    if (release_some(block)) return true;
    for (uint32_t k = 0; k < grid->warp_count && !grid->failed; k++) {
        PtxWarp *w = &block->warps[k];
        if (!w->blocked) continue;
        const PtxInstr *i = barrier_of(w);
        if (at && i != at) ptx_fault(w, i, PTX_ALL, "another warp is in another barrier");
        if (held(block)) ptx_fault(w, i, PTX_ALL, "another warp waits for the cluster");
        at = i;
    }
    if (!at || grid->failed) return false;
    for (uint32_t k = 0; k < grid->warp_count; k++) go_on(&block->warps[k]);
    block->epoch++;
    return true;
}

static uint32_t special_value(const PtxBlock *of, uint32_t which, uint32_t thread) {
    const PtxGrid *grid = of->grid;
    const uint32_t *block = grid->launch->block;
    switch (which) {
    case PTX_TID: return thread % block[0];
    case PTX_TID + 1: return thread / block[0] % block[1];
    case PTX_TID + 2: return thread / block[0] / block[1];
    case PTX_LANE: return thread % PTX_LANES;
    case PTX_CLUSTER_RANK: return of->rank;
    case PTX_CLUSTER_SIZE: return grid->cluster;
    default: break;
    }
    if (which < PTX_CTAID) return block[which - PTX_NTID];
    if (which < PTX_NCTAID) return of->at[which - PTX_CTAID];
    return grid->launch->grid[which - PTX_NCTAID];
}

/* Special registers of a warp; of those from `first` to before `end`. */
static void set_specials(const PtxBlock *block, PtxWarp *w, uint32_t first, uint32_t end) {
    const uint32_t *at = w->grid->kernel->specials;
    for (uint32_t s = first; s < end; s++) {
        if (!at[s]) continue;
        uint32_t *to = PTX_REG(uint32_t, w, at[s]);
        for (uint32_t l = 0; l < PTX_LANES; l++)
            to[l] = special_value(block, s, w->number * PTX_LANES + l);
    }
}

static void begin_block(PtxBlock *block) {
    const PtxGrid *grid = block->grid;
    const PtxKernel *kernel = grid->kernel;
    for (uint32_t k = 0; k < grid->warp_count; k++) {
        PtxWarp *w = &block->warps[k];
        for (uint32_t l = 0; l < PTX_LANES; l++) w->pc[l] = kernel->entry, w->groups[l] = 0;
        w->alive = UINT32_MAX;
        w->waiting = w->blocked = w->arrived = w->held = w->copy_count = w->unfenced = w->released =
            0;
        w->begun = grid->launch->early ? 0 : UINT32_MAX;
        memset(w->joined, 0, sizeof w->joined);
        set_specials(block, w, PTX_CTAID, PTX_NCTAID);
    }
    block->first_epoch = ++block->epoch;
    block->tick = 1;
    block->ended = false;
}

/* Copies that no one waited for end with the block. */
static void end_block(PtxBlock *block) {
    const PtxGrid *grid = block->grid;
    for (uint32_t k = 0; k < grid->warp_count; k++) {
        const PtxWarp *w = &block->warps[k];
        for (uint32_t c = 0; c < w->copy_count; c++)
            for (uint32_t b = 0; b < 16; b++)
                block->marks[(w->copies[c].at + b) >> grid->kernel->shift].pending = 0;
    }
}

/* Until all its threads have ended or wait for the cluster. */
static void run_block(PtxBlock *block) {
    const PtxGrid *grid = block->grid;
    do
        for (uint32_t k = 0; k < grid->warp_count && !grid->failed; k++)
            ptx_warp_run(&block->warps[k]);
    while (!grid->failed && release(block));
    block->ended = !held(block);
    if (grid->failed || !block->ended || block->read_far < grid->waits) return;
    PtxWarp *w = &block->warps[0];
    ptx_fault(w, &grid->kernel->code[w->pc[0] - 1], PTX_ALL,
              "the block ends, and no barrier of the cluster is behind others' reads of its shared "
              "memory");
}

/* ---- one cluster ----------------------------------------------------------------------------- */

/* All blocks stopped: true where all threads wait for each other, and go on; false where all have
 * ended. */
static bool release_cluster(PtxGrid *grid) {
    PtxWarp *first = NULL;
    for (uint32_t b = 0; b < grid->cluster && !first; b++) first = held(&grid->blocks[b]);
    if (!first) return false;
    const PtxInstr *i = &grid->kernel->code[first->pc[__builtin_ctz(first->held)]];
    for (uint32_t b = 0; b < grid->cluster; b++)
        for (uint32_t k = 0; k < grid->warp_count; k++) {
            PtxWarp *w = &grid->blocks[b].warps[k];
            if (w->held != UINT32_MAX)
                ptx_fault(first, i, PTX_ALL,
                          "lanes 0x%08x of warp %u in block %u of the cluster do not come",
                          ~w->held, k, b);
            for (uint32_t l = 0; l < PTX_LANES; l++) w->pc[l]++;
            w->held = w->arrived = 0;
        }
    grid->waits++;
    if (!grid->relaxed) grid->fenced = grid->waits;
    grid->relaxed = false;
    return !grid->failed;
}

/* What clusters before left in the marks of shared memory is behind. */
static void run_cluster(PtxGrid *grid, uint32_t x, uint32_t y, uint32_t z) {
    grid->fenced = ++grid->waits;
    grid->relaxed = false;
    for (uint32_t b = 0; b < grid->cluster; b++) {
        PtxBlock *block = &grid->blocks[b];
        block->at[0] = x, block->at[1] = y, block->at[2] = z + b;
        begin_block(block);
    }
    do
        for (uint32_t b = 0; b < grid->cluster && !grid->failed; b++)
            if (!grid->blocks[b].ended) run_block(&grid->blocks[b]);
    while (!grid->failed && release_cluster(grid));
    for (uint32_t b = 0; b < grid->cluster; b++) end_block(&grid->blocks[b]);
}

/* ---- the grid -------------------------------------------------------------------------------- */

/* What launches have beside the device's memory is kept from one to the next, one launch at a time: to take
 * and clear it anew would take longer than most kernels run. Marks are not cleared at all, as epochs go on. */
static uint8_t *room;
static PtxMark *marks;
static size_t room_size, mark_count;
static uint32_t last_epoch;

static size_t aligned(size_t size) {
    return (size + 63) & ~(size_t)63;
}
static size_t granules_of(const PtxGrid *grid) {
    return (grid->shared_size >> grid->kernel->shift) + 16u;
}
static bool has_shares(const PtxGrid *grid) {
    return grid->cluster > 1 || grid->kernel->joins;
}

/* The next `size` bytes, and how many have been taken. */
static void *take(size_t *taken, size_t size) {
    uint8_t *at = room + *taken;
    *taken += aligned(size);
    return at;
}

static size_t block_size(const PtxGrid *grid) {
    const PtxKernel *kernel = grid->kernel;
    const size_t warp = sizeof(PtxWarp) + aligned(kernel->registers) +
                        aligned((size_t)PTX_LANES * kernel->local + 1);
    return aligned(grid->shared_size + 16u) +
           (has_shares(grid) ? aligned(granules_of(grid) * sizeof(PtxShare)) : 0) +
           aligned(grid->warp_count * warp);
}

static void block_init(PtxBlock *block, size_t *taken) {
    PtxGrid *grid = block->grid;
    const PtxKernel *kernel = grid->kernel;
    const size_t shares = granules_of(grid) * sizeof *block->shares;
    block->epoch = last_epoch;
    block->shared = take(taken, grid->shared_size + 16u);
    block->marks = marks + block->rank * granules_of(grid);
    if (has_shares(grid)) block->shares = memset(take(taken, shares), 0, shares);
    block->warps = take(taken, grid->warp_count * sizeof *block->warps);
    memset(block->warps, 0, grid->warp_count * sizeof *block->warps);
    for (uint32_t k = 0; k < grid->warp_count; k++) {
        PtxWarp *w = &block->warps[k];
        const size_t local = (size_t)PTX_LANES * kernel->local + 1;
        w->grid = grid;
        w->block = block;
        w->number = k;
        w->registers = memcpy(take(taken, kernel->registers), kernel->image, kernel->registers);
        w->local = memset(take(taken, local), 0xa5, local);
        set_specials(block, w, 0, PTX_SPECIALS);
    }
}

/* Has room for the grid's blocks; false without memory. */
static bool grid_init(PtxGrid *grid) {
    const size_t blocks = aligned(grid->cluster * sizeof *grid->blocks),
                 granules = granules_of(grid) * grid->cluster;
    const size_t size =
        blocks + grid->cluster * (block_size(grid) + 64 * (2u * grid->warp_count + 4));
    size_t taken = 0;
    if (room_size < size) {
        free(room);
        room = aligned_alloc(64, aligned(size));
        room_size = room ? size : 0;
    }
    if (mark_count < granules) {
        free(marks);
        marks = calloc(granules, sizeof *marks);
        mark_count = marks ? granules : 0;
    }
    if (!room || !marks) return false;
    grid->blocks = memset(take(&taken, blocks), 0, blocks);
    for (uint32_t b = 0; b < grid->cluster; b++) {
        grid->blocks[b].grid = grid;
        grid->blocks[b].rank = b;
        block_init(&grid->blocks[b], &taken);
    }
    return true;
}

static void grid_end(PtxGrid *grid) {
    for (uint32_t b = 0; grid->blocks && b < grid->cluster; b++) {
        PtxBlock *block = &grid->blocks[b];
        for (uint32_t k = 0; k < grid->warp_count; k++) free(block->warps[k].copies);
        if (last_epoch < block->epoch) last_epoch = block->epoch;
    }
    if (grid->failed) memset(marks, 0, mark_count * sizeof *marks); /* copies may be under way */
}

static bool check(const PtxKernel *kernel, const PtxLaunch *launch, uint64_t threads, char *why) {
    if (threads == 0 || threads > 1024 || threads % PTX_LANES)
        snprintf(why, PTX_WHY, "kernel %s: a block of %llu threads", kernel->name,
                 (unsigned long long)threads);
    else if (kernel->info.most_threads && threads > kernel->info.most_threads)
        snprintf(why, PTX_WHY, "kernel %s: a block of %llu threads, it was built for %u",
                 kernel->name, (unsigned long long)threads, kernel->info.most_threads);
    else if (!launch->grid[0] || !launch->grid[1] || !launch->grid[2])
        snprintf(why, PTX_WHY, "kernel %s: a grid without blocks", kernel->name);
    else if (launch->cluster > PTX_CLUSTER_MOST ||
             (launch->cluster && launch->grid[2] % launch->cluster))
        snprintf(why, PTX_WHY, "kernel %s: clusters of %u of %u blocks along z", kernel->name,
                 launch->cluster, launch->grid[2]);
    else
        return true;
    return false;
}

bool ptx_run(const PtxKernel *kernel, const PtxLaunch *launch, char *why) {
    const uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    if (!check(kernel, launch, threads, why)) return false;
    PtxGrid grid = {.kernel = kernel,
                    .launch = launch,
                    .cluster = launch->cluster ? launch->cluster : 1,
                    .shared_size = ((kernel->info.shared + 15) & ~15u) + launch->shared,
                    .warp_count = (uint32_t)(threads / PTX_LANES),
                    .why = why};
    if (!grid_init(&grid)) {
        grid.failed = true;
        snprintf(why, PTX_WHY, "kernel %s: no memory to run it", kernel->name);
    }
    kernel->ways[kernel->entry] |= PTX_BEGAN;
    for (uint32_t z = 0; z < launch->grid[2] && !grid.failed; z += grid.cluster)
        for (uint32_t y = 0; y < launch->grid[1] && !grid.failed; y++)
            for (uint32_t x = 0; x < launch->grid[0] && !grid.failed; x++)
                run_cluster(&grid, x, y, z);
    grid_end(&grid);
    return !grid.failed;
}
