// SPDX-License-Identifier: Apache-2.0
/* Loads, stores and copies of the emulator, and what they may not do.
 *
 * Of each granule of shared memory it is known who wrote and who read it last, and how many barriers of
 * the block and of the warp were before: two accesses of different threads, one of them a write, with
 * no barrier between that both were in, are a race. In a cluster there are its barriers, too: they order
 * an access before another if the thread of the first arrived behind it, and that of the other waited
 * before it. */
#include <stdlib.h>
#include <string.h>

#include "ptx_code.h"

/* ---- few bytes ------------------------------------------------------------------------------- */

/* Copies of few bytes, by their number: most of the time that loads and stores take. */
static inline void copy_few(void *to, const void *from, uint32_t size) {
    switch (size) {
    case 1: memcpy(to, from, 1); break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    default: memcpy(to, from, size);
    }
}
static inline void copy_some(void *to, const void *from, uint32_t size) {
    if (size == 16)
        memcpy(to, from, 16);
    else
        copy_few(to, from, size);
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* Whether the other thread's access is behind one of its warp's barriers, or of both warps', or is this
 * thread's. */
static bool ordered(const PtxWarp *w, uint32_t thread, uint32_t other, uint32_t sync,
                    uint32_t tick) {
    return other == thread || (other / PTX_LANES == thread / PTX_LANES && sync < w->sync) ||
           tick < w->joined[other / PTX_LANES];
}

/* The same of several warps' reads, the latest of which was at that tick. */
static bool all_ordered(const PtxWarp *w, uint32_t warps, uint32_t tick) {
    for (uint32_t k = 0; k < PTX_LANES; k++)
        if (warps >> k & 1 && tick >= w->joined[k]) return false;
    return true;
}

static bool reads_ordered(const PtxWarp *w, uint32_t thread, const PtxMark *m) {
    if (m->spread == 2) return all_ordered(w, m->readers, m->read_tick);
    if (m->spread == 1 && m->reader / PTX_LANES == w->number) return m->read_sync < w->sync;
    return ordered(w, thread, m->reader, m->read_sync, m->read_tick);
}

static bool race(const PtxAccess *a, const char *what, uint32_t other) {
    ptx_fault(a->warp, a->instr, a->lane,
              "no barrier orders it and %s thread %u of shared address %llu", what, other,
              (unsigned long long)a->at);
    return false;
}

static uint32_t thread_of(const PtxAccess *a) {
    return a->warp->number * PTX_LANES + (uint32_t)a->lane;
}

/* How many barriers of the cluster the thread has arrived at. */
static uint32_t arrivals(const PtxAccess *a) {
    return a->warp->grid->waits + (a->warp->arrived >> a->lane & 1);
}
static PtxShare *share_of(const PtxBlock *b, const PtxMark *m) {
    return b->shares ? &b->shares[m - b->marks] : NULL;
}
static void note(uint32_t *latest, uint32_t arrived) {
    if (*latest < arrived) *latest = arrived;
}

/* Whether something was written to the block's memory, and none is on its way. */
static bool is_there(const PtxAccess *a, const PtxBlock *block, const PtxMark *m) {
    if (!m->pending && m->write_epoch >= block->first_epoch) return true;
    ptx_fault(a->warp, a->instr, a->lane,
              m->pending ? "shared address %llu is still being copied to"
                         : "shared address %llu is read before it was written",
              (unsigned long long)a->at);
    return false;
}

static bool may_read(const PtxAccess *a, PtxMark *m) {
    const PtxWarp *w = a->warp;
    const PtxBlock *block = w->block;
    const uint32_t thread = thread_of(a);
    PtxShare *share = share_of(block, m);
    if (!is_there(a, block, m)) return false;
    if (m->write_epoch == block->epoch &&
        !ordered(w, thread, m->writer, m->write_sync, m->write_tick) &&
        !(share && share->written < w->grid->fenced))
        return race(a, "the write by", m->writer);
    /* reads that a barrier of the cluster is behind are no longer told apart */
    const bool before = m->read_epoch == block->epoch && !(share && share->read < w->grid->waits);
    if (share) note(&share->read, arrivals(a));
    if (before && m->reader / PTX_LANES != w->number)
        m->spread = 2;
    else if (!before || (m->spread < 2 && m->read_sync < w->sync))
        m->spread = 0;
    else if (m->reader != thread && m->spread == 0)
        m->spread = 1;
    m->readers = (before ? m->readers : 0) | UINT32_C(1) << w->number;
    m->read_epoch = block->epoch;
    m->read_tick = block->tick;
    m->reader = (uint16_t)thread;
    m->read_sync = w->sync;
    return true;
}

/* A write where other blocks read. */
static bool may_share(const PtxAccess *a, PtxShare *share) {
    if (share->read_far >= a->warp->grid->waits) {
        ptx_fault(
            a->warp, a->instr, a->lane,
            "no barrier of the cluster orders it and another block's read of shared address %llu",
            (unsigned long long)a->at);
        return false;
    }
    note(&share->written, arrivals(a));
    return true;
}

static bool may_write(const PtxAccess *a, PtxMark *m) {
    const PtxWarp *w = a->warp;
    const PtxBlock *block = w->block;
    const uint32_t thread = thread_of(a);
    PtxShare *share = share_of(block, m);
    if (m->write_epoch == block->epoch &&
        !ordered(w, thread, m->writer, m->write_sync, m->write_tick) &&
        !(share && share->written < w->grid->fenced))
        return race(a, "the write by", m->writer);
    if (m->read_epoch == block->epoch && !reads_ordered(w, thread, m) &&
        !(share && share->read < w->grid->waits))
        return race(a, "the read by", m->reader);
    if (share && !may_share(a, share)) return false;
    m->write_epoch = block->epoch;
    m->writer = (uint16_t)thread;
    m->write_sync = w->sync;
    m->write_tick = block->tick;
    return true;
}

static bool inside_shared(const PtxAccess *a) {
    const uint32_t room = a->warp->grid->shared_size;
    const char *wrong = a->at % a->size != 0                     ? "not aligned"
                        : a->at > room || room - a->at < a->size ? "outside"
                                                                 : NULL;
    if (wrong)
        ptx_fault(a->warp, a->instr, a->lane,
                  "shared address %llu, %u bytes, is %s (the block has %u)",
                  (unsigned long long)a->at, a->size, wrong, room);
    return !wrong;
}

bool ptx_shared_read(const PtxAccess *a, void *to) {
    const PtxBlock *block = a->warp->block;
    const uint32_t shift = block->grid->kernel->shift;
    if (!inside_shared(a)) return false;
    for (uint64_t g = a->at >> shift; g <= (a->at + a->size - 1) >> shift; g++)
        if (!may_read(a, &block->marks[g])) return false;
    copy_some(to, block->shared + a->at, a->size);
    return true;
}

static bool shared_write(const PtxAccess *a, const void *from) {
    const PtxBlock *block = a->warp->block;
    const uint32_t shift = block->grid->kernel->shift;
    if (!inside_shared(a)) return false;
    for (uint64_t g = a->at >> shift; g <= (a->at + a->size - 1) >> shift; g++)
        if (!may_write(a, &block->marks[g])) return false;
    copy_some(block->shared + a->at, from, a->size);
    a->warp->released &= ~(UINT32_C(1) << a->lane);
    return true;
}

/* ---- shared memory of the cluster ------------------------------------------------------------ */

/* Makes the address the owner's, who is returned: the block itself, or another of its cluster; NULL after
 * a fault. */
static PtxBlock *owner_of(PtxAccess *a) {
    const PtxGrid *grid = a->warp->grid;
    const uint32_t address = (uint32_t)a->at, number = address >> PTX_RANK_SHIFT;
    a->at = address & ((UINT32_C(1) << PTX_RANK_SHIFT) - 1);
    if (number <= grid->cluster) return number ? &grid->blocks[number - 1] : a->warp->block;
    ptx_fault(a->warp, a->instr, a->lane, "shared address 0x%x is in no block of the cluster",
              address);
    return NULL;
}

static bool may_read_far(const PtxAccess *a, PtxBlock *owner, const PtxMark *m) {
    PtxShare *share = share_of(owner, m);
    if (!is_there(a, owner, m)) return false;
    if (share->written >= a->warp->grid->fenced) {
        ptx_fault(
            a->warp, a->instr, a->lane,
            "no barrier of the cluster orders it and the write by thread %u of block %u of the "
            "cluster of shared address %llu",
            m->writer, owner->rank, (unsigned long long)a->at);
        return false;
    }
    note(&share->read_far, arrivals(a));
    note(&owner->read_far, arrivals(a));
    return true;
}

static bool cluster_read(PtxAccess a, void *to) {
    PtxBlock *owner = owner_of(&a);
    const uint32_t shift = a.warp->grid->kernel->shift;
    if (!owner) return false;
    if (owner == a.warp->block) return ptx_shared_read(&a, to);
    if (owner->ended) {
        ptx_fault(a.warp, a.instr, a.lane,
                  "block %u of the cluster has ended, its shared memory too", owner->rank);
        return false;
    }
    if (!inside_shared(&a)) return false;
    for (uint64_t g = a.at >> shift; g <= (a.at + a.size - 1) >> shift; g++)
        if (!may_read_far(&a, owner, &owner->marks[g])) return false;
    copy_some(to, owner->shared + a.at, a.size);
    return true;
}

static bool cluster_write(PtxAccess a, const void *from) {
    const PtxBlock *owner = owner_of(&a);
    if (!owner) return false;
    if (owner == a.warp->block) return shared_write(&a, from);
    ptx_fault(a.warp, a.instr, a.lane, "the emulator knows no writes to other blocks");
    return false;
}

static bool is_cluster(uint64_t generic) {
    return generic >> 32 == PTX_WINDOW >> 32;
}

/* The address of the same place in the block of that rank. */
static uint64_t map_rank(const PtxAccess *a, uint32_t rank) {
    if (rank >= a->warp->grid->cluster)
        ptx_fault(a->warp, a->instr, a->lane, "rank %u of a cluster of %u blocks", rank,
                  a->warp->grid->cluster);
    else if ((uint32_t)a->at >> PTX_RANK_SHIFT)
        ptx_fault(a->warp, a->instr, a->lane, "0x%llx is no address of the block's shared memory",
                  (unsigned long long)a->at);
    return a->at | (uint64_t)(rank + 1) << PTX_RANK_SHIFT;
}

/* mapa.shared::cluster.u32, mapa.u64. at: the result, the address, the rank. */
void ptx_map_rank(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    for (int l = 0; l < PTX_LANES; l++) {
        const PtxAccess a = {w, i, l, 4, PTX_REG(uint32_t, w, i->at[1])[l]};
        if (!(lanes >> l & 1)) continue;
        const uint64_t there = map_rank(&a, PTX_REG(uint32_t, w, i->at[2])[l]);
        PTX_REG(uint32_t, w, i->at[0])[l] = (uint32_t)there;
    }
}
void ptx_map_rank_generic(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    for (int l = 0; l < PTX_LANES; l++) {
        const PtxAccess a = {w, i, l, 8, PTX_REG(uint64_t, w, i->at[1])[l]};
        if (!(lanes >> l & 1)) continue;
        if (!is_cluster(a.at))
            ptx_fault(w, i, l, "0x%llx is no generic address of shared memory",
                      (unsigned long long)a.at);
        PTX_REG(uint64_t, w, i->at[0])[l] = map_rank(&a, PTX_REG(uint32_t, w, i->at[2])[l]);
    }
}

/* ---- global and local memory ----------------------------------------------------------------- */

static const PtxRegion *region_at(PtxGrid *grid, uint64_t at) {
    const PtxRegion *r = grid->last;
    if (r && at - r->address < r->size) return r;
    r = grid->launch->find(grid->launch->owner, at);
    if (!r) r = ptx_module_data(grid->kernel->module, at);
    if (r) grid->last = r;
    return r;
}

/* Where it lies in the emulator's memory, and which bytes of it are known; NULL after a fault. */
static uint8_t *global_at(const PtxAccess *a, uint8_t **known) {
    const PtxRegion *r = region_at(a->warp->grid, a->at);
    const uint64_t offset = r ? a->at - r->address : 0;
    if (!r || r->size - offset < a->size) {
        ptx_fault(a->warp, a->instr, a->lane, "global address 0x%llx, %u bytes, is %s",
                  (unsigned long long)a->at, a->size,
                  r ? "at the end of an allocation" : "in no allocation");
        return NULL;
    }
    if (a->at % a->size) {
        ptx_fault(a->warp, a->instr, a->lane, "global address 0x%llx is not aligned to %u bytes",
                  (unsigned long long)a->at, a->size);
        return NULL;
    }
    *known = r->known ? r->known + offset : NULL;
    return r->bytes + offset;
}

/* PTX_SENT is a bit of PTX_MADE. */
static bool all_known(const uint8_t *known, uint32_t size) {
    const uint64_t ones = UINT64_C(0x0101010101010101) * PTX_SENT;
    if (!known) return true;
    uint64_t found[2] = {ones, ones};
    copy_some(found, known, size);
    return (found[0] & found[1] & ones) == ones;
}

/* In a launch that began early, what is before it may still be at work on what the device writes. */
static bool has_begun(const PtxAccess *a) {
    return a->warp->begun >> a->lane & 1;
}
static bool may_begin_with(const PtxAccess *a, const uint8_t *known) {
    if (!known || !memchr(known, PTX_MADE, a->size)) return true;
    ptx_fault(
        a->warp, a->instr, a->lane,
        "global address 0x%llx was written on the device, and the thread did not wait for that",
        (unsigned long long)a->at);
    return false;
}

static bool global_read(const PtxAccess *a, void *to) {
    uint8_t *known, *from = global_at(a, &known);
    if (!from) return false;
    if (!all_known(known, a->size)) {
        ptx_fault(a->warp, a->instr, a->lane,
                  "global address 0x%llx, %u bytes, is read before it was written",
                  (unsigned long long)a->at, a->size);
        return false;
    }
    if (!has_begun(a) && !may_begin_with(a, known)) return false;
    copy_some(to, from, a->size);
    return true;
}

static bool global_write(const PtxAccess *a, const void *from) {
    uint8_t *known, *to = global_at(a, &known);
    if (!to) return false;
    if (!known) {
        ptx_fault(a->warp, a->instr, a->lane, "global address 0x%llx is a constant",
                  (unsigned long long)a->at);
        return false;
    }
    if (!has_begun(a)) {
        ptx_fault(a->warp, a->instr, a->lane,
                  "the thread did not wait for what is before its launch");
        return false;
    }
    _Static_assert(PTX_MADE == 3, "what all bytes are set to");
    static const uint8_t made[32] = {3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
                                     3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3};
    copy_some(to, from, a->size);
    copy_some(known, made, a->size);
    return true;
}

static uint8_t *local_at(const PtxAccess *a) {
    const uint32_t room = a->warp->grid->kernel->local;
    if (a->at % a->size == 0 && a->at <= room && room - a->at >= a->size)
        return a->warp->local + (size_t)a->lane * room + a->at;
    ptx_fault(a->warp, a->instr, a->lane, "local address %llu, %u bytes: the thread has %u",
              (unsigned long long)a->at, a->size, room);
    return NULL;
}

/* ---- loads and stores ------------------------------------------------------------------------ */

static uint64_t address_of(const PtxWarp *w, const PtxInstr *i, uint32_t at, int lane) {
    const uint64_t base =
        i->address_width == 8 ? PTX_REG(uint64_t, w, at)[lane] : PTX_REG(uint32_t, w, at)[lane];
    return base + (uint64_t)i->offset;
}

/* An element as it is in a register. */
static uint64_t widen(const PtxInstr *i, const uint8_t *from) {
    uint64_t bits = 0;
    copy_few(&bits, from, i->size);
    if (i->sign && i->size < 8) {
        const uint32_t left = 64 - 8u * i->size;
        bits = (uint64_t)((int64_t)(bits << left) >> left);
    }
    return bits;
}

/* Sets a lane of the register for element k. */
static void put_element(PtxWarp *w, const PtxInstr *i, uint32_t k, size_t lane, uint64_t bits) {
    copy_few(w->registers + i->at[k] + lane * i->width, &bits, i->width);
}

static bool read_lane(const PtxAccess *a, uint8_t *to) {
    const uint8_t *local;
    if (a->instr->space == PTX_GLOBAL) return global_read(a, to);
    if (a->instr->space == PTX_SHARED) return ptx_shared_read(a, to);
    if (a->instr->space == PTX_CLUSTER) return cluster_read(*a, to);
    if (a->instr->space == PTX_GENERIC)
        return is_cluster(a->at) ? cluster_read(*a, to) : global_read(a, to);
    if (!(local = local_at(a))) return false;
    memcpy(to, local, a->size);
    return true;
}

static bool write_lane(const PtxAccess *a, const uint8_t *from) {
    uint8_t *local;
    if (a->instr->space == PTX_GLOBAL) return global_write(a, from);
    if (a->instr->space == PTX_SHARED) return shared_write(a, from);
    if (a->instr->space == PTX_CLUSTER) return cluster_write(*a, from);
    if (a->instr->space == PTX_GENERIC) {
        if (is_cluster(a->at)) return cluster_write(*a, from);
        a->warp->unfenced |= UINT32_C(1) << a->lane;
        return global_write(a, from);
    }
    if (!(local = local_at(a))) return false;
    memcpy(local, from, a->size);
    return true;
}

/* A lane's access to all elements of a load or store. */
static PtxAccess access_of(PtxWarp *w, const PtxInstr *i, int lane) {
    return (PtxAccess){w, i, lane, (uint32_t)i->size * i->count,
                       address_of(w, i, i->at[i->count], lane)};
}

/* ---- side by side ---------------------------------------------------------------------------- */

/* Lanes that load or store one behind the other in global memory, or all at one place, which are checked at
 * once: the usual case. */
typedef struct Row {
    uint8_t *bytes, *known; /* of the first lane */
    uint32_t first, size;   /* the lane; bytes up to the last one's end */
    uint64_t step;          /* from a lane to the next: 0, or what each has */
} Row;

/* False where they lie otherwise, or something may be wrong: then they go one by one. */
static bool row_of(PtxWarp *w, const PtxInstr *i, uint32_t lanes, Row *row) {
    const uint32_t first = (uint32_t)__builtin_ctz(lanes),
                   last = 31u - (uint32_t)__builtin_clz(lanes);
    const uint64_t each = (uint64_t)i->size * i->count, *at = PTX_REG(uint64_t, w, i->at[i->count]);
    if ((i->space != PTX_GLOBAL && i->space != PTX_GENERIC) || i->address_width != 8) return false;
    const uint64_t from = at[first] + (uint64_t)i->offset, step = at[last] == at[first] ? 0 : each;
    uint64_t apart = 0;
    PTX_EACH(apart |= at[l] ^ (at[first] + ((uint64_t)l - first) * step);)
    if (apart || from % each || (i->space == PTX_GENERIC && is_cluster(from))) return false;
    const PtxRegion *r = region_at(w->grid, from);
    const uint64_t offset = r ? from - r->address : 0, size = (last - first) * step + each;
    if (!r || !r->known || r->size - offset < size) return false;
    *row = (Row){r->bytes + offset, r->known + offset, first, (uint32_t)size, step};
    return true;
}

/* Whether all was written, and need not be waited for. */
static bool may_read_all(const PtxWarp *w, uint32_t lanes, const Row *row) {
    uint8_t least = UINT8_MAX, most = 0;
    for (uint32_t k = 0; k < row->size; k++) {
        least = row->known[k] < least ? row->known[k] : least;
        most = row->known[k] > most ? row->known[k] : most;
    }
    _Static_assert(PTX_SENT < PTX_MADE, "what may have to be waited for is the most");
    return least && (!(lanes & ~w->begun) || most < PTX_MADE);
}

/* Element k of each lane. */
#define TAKE(T)                                                                                    \
    {                                                                                              \
        T *to = PTX_REG(T, w, i->at[k]);                                                           \
        PTX_EACH(memcpy(to + l, from + ((uint64_t)l - row.first) * row.step, sizeof *to);)         \
    }
#define GIVE(T)                                                                                    \
    {                                                                                              \
        const T *from = PTX_REG(T, w, i->at[k]);                                                   \
        PTX_EACH(memcpy(to + ((uint64_t)l - row.first) * row.step, from + l, sizeof *from);)       \
    }

/* False: nothing was done. */
static bool load_row(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    Row row;
    if (!row_of(w, i, lanes, &row) || !may_read_all(w, lanes, &row)) return false;
    for (uint32_t k = 0; k < i->count; k++) {
        const uint8_t *from = row.bytes + k * i->size;
        if (i->width != i->size)
            PTX_EACH(put_element(w, i, k, (size_t)l,
                                 widen(i, from + ((uint64_t)l - row.first) * row.step));)
        else if (i->size == 2)
            TAKE(uint16_t)
        else if (i->size == 4)
            TAKE(uint32_t)
        else
            TAKE(uint64_t)
    }
    return true;
}

static bool store_row(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    Row row;
    /* bytes between lanes that store are none of theirs */
    const bool whole = (lanes >> __builtin_ctz(lanes) & ((lanes >> __builtin_ctz(lanes)) + 1)) == 0;
    if (!whole || i->width != i->size || lanes & ~w->begun || !row_of(w, i, lanes, &row))
        return false;
    for (uint32_t k = 0; k < i->count; k++) {
        uint8_t *to = row.bytes + k * i->size;
        if (i->size == 2)
            GIVE(uint16_t)
        else if (i->size == 4)
            GIVE(uint32_t)
        else
            GIVE(uint64_t)
    }
    memset(row.known, PTX_MADE, row.size);
    w->unfenced |= lanes;
    return true;
}

/* ---- lane by lane ---------------------------------------------------------------------------- */

/* at: elements; behind them the address. */
void ptx_load(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    uint8_t bytes[32];
    if (load_row(w, i, lanes)) return;
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        const PtxAccess access = access_of(w, i, l);
        if (!read_lane(&access, bytes)) return;
        for (uint32_t k = 0; k < i->count; k++)
            put_element(w, i, k, (size_t)l, widen(i, bytes + k * i->size));
    }
}

/* prefetch.global.L2: what may be read, of the line one byte. at: the address */
void ptx_prefetch(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    uint8_t byte;
    for (int l = 0; l < PTX_LANES; l++) {
        const PtxAccess access = {w, i, l, 1, address_of(w, i, i->at[0], l)};
        if (lanes >> l & 1 && !global_read(&access, &byte)) return;
    }
}

void ptx_store(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    uint8_t bytes[32];
    if (store_row(w, i, lanes)) return;
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        const PtxAccess access = access_of(w, i, l);
        for (uint32_t k = 0; k < i->count; k++)
            copy_few(bytes + k * i->size, w->registers + i->at[k] + (size_t)l * i->width, i->size);
        if (!write_lane(&access, bytes)) return;
    }
    if (i->space == PTX_GLOBAL) w->unfenced |= lanes;
}

/* membar.gl; `sign`: a fence for what the cluster reads of shared memory alone. */
void ptx_fence(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    if (!i->sign) w->unfenced &= ~lanes;
    w->released |= lanes;
}

/* The lane's warp that has stores which other blocks need not see yet; NULL: none. */
static const PtxWarp *unfenced(const PtxBlock *block) {
    for (uint32_t k = 0; k < block->grid->warp_count; k++)
        if (block->warps[k].unfenced) return &block->warps[k];
    return NULL;
}

/* atom.global.add.u32: at: what was there, the address, what is added. It tells other blocks that this
 * one's stores are there, so these have to be behind fences. */
void ptx_atomic_add(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    const PtxWarp *late = unfenced(w->block);
    for (int l = 0; l < PTX_LANES; l++) {
        const PtxAccess access = {w, i, l, 4, address_of(w, i, i->at[1], l)};
        uint32_t value;
        if (!(lanes >> l & 1)) continue;
        if (late) {
            ptx_fault(w, i, l, "warp %u stored to global memory, and no fence came behind it",
                      late->number);
            return;
        }
        if (!global_read(&access, &value)) return;
        const uint32_t more = value + PTX_REG(uint32_t, w, i->at[2])[l];
        PTX_REG(uint32_t, w, i->at[0])[l] = value;
        if (!global_write(&access, &more)) return;
    }
}

/* Sets all those lanes of the register for element k. */
static void spread(PtxWarp *w, const PtxInstr *i, uint32_t lanes, uint32_t k, uint64_t bits) {
    switch (i->width) {
    case 2: {
        uint16_t *to = PTX_REG(uint16_t, w, i->at[k]);
        PTX_EACH(to[l] = (uint16_t)bits;)
        break;
    }
    case 4: {
        uint32_t *to = PTX_REG(uint32_t, w, i->at[k]);
        PTX_EACH(to[l] = (uint32_t)bits;)
        break;
    }
    default: {
        uint64_t *to = PTX_REG(uint64_t, w, i->at[k]);
        PTX_EACH(to[l] = bits;)
    }
    }
}

/* Of the kernel's own parameters: most often the same for all lanes. */
void ptx_load_param(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    const uint32_t size = (uint32_t)i->size * i->count, room = w->grid->kernel->info.params;
    const uint8_t *params = w->grid->launch->params;
    uint64_t bits[4] = {0}, before = UINT64_MAX;
    if (i->fixed) {
        const uint64_t at = address_of(w, i, i->at[i->count], __builtin_ctz(lanes));
        if (at % size == 0 && at <= room && room - at >= size) {
            for (uint32_t k = 0; k < i->count; k++)
                spread(w, i, lanes, k, widen(i, params + at + k * i->size));
            return;
        }
    }
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        const uint64_t at = address_of(w, i, i->at[i->count], l);
        if (at % size || at > room || room - at < size) {
            ptx_fault(w, i, l, "parameter address %llu, %u bytes: there are %u",
                      (unsigned long long)at, size, room);
            return;
        }
        for (uint32_t k = 0; k < i->count; k++) {
            if (at != before) bits[k] = widen(i, params + at + k * i->size);
            put_element(w, i, k, (size_t)l, bits[k]);
        }
        before = at;
    }
}

/* mov of a register's halves: the whole, low, high; and low, high, the whole. `size` is the halves'. */
void ptx_move_pair(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    for (size_t l = 0; l < PTX_LANES; l++) {
        uint8_t both[8];
        if (!(lanes >> l & 1)) continue;
        memcpy(both, w->registers + i->at[1] + l * i->size, i->size);
        memcpy(both + i->size, w->registers + i->at[2] + l * i->size, i->size);
        memcpy(w->registers + i->at[0] + l * 2 * i->size, both, 2u * i->size);
    }
}
void ptx_split_pair(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    for (size_t l = 0; l < PTX_LANES; l++) {
        uint8_t both[8];
        if (!(lanes >> l & 1)) continue;
        memcpy(both, w->registers + i->at[2] + l * 2 * i->size, 2u * i->size);
        memcpy(w->registers + i->at[0] + l * i->size, both, i->size);
        memcpy(w->registers + i->at[1] + l * i->size, both + i->size, i->size);
    }
}

/* ---- copies to shared memory ----------------------------------------------------------------- */

static PtxCopy *next_copy(PtxWarp *w) {
    if (w->copy_count == w->copy_room) {
        const uint32_t room = w->copy_room ? 2 * w->copy_room : 256;
        PtxCopy *larger = realloc(w->copies, room * sizeof *larger);
        if (!larger) abort();
        w->copies = larger;
        w->copy_room = room;
    }
    return &w->copies[w->copy_count++];
}

static void set_pending(PtxWarp *w, uint64_t at, uint32_t size, int by) {
    const uint32_t shift = w->grid->kernel->shift;
    for (uint64_t g = at >> shift; g <= (at + size - 1) >> shift; g++)
        w->block->marks[g].pending = (uint8_t)(w->block->marks[g].pending + by);
}

/* at: address in shared memory, in global memory, bytes that are read there: `size`, or 0 for zeros. */
void ptx_copy_async(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    static const uint8_t zeros[16];
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        const PtxAccess to = {w, i, l, i->size, PTX_REG(uint32_t, w, i->at[0])[l]};
        const PtxAccess from = {w, i, l, i->size, PTX_REG(uint64_t, w, i->at[1])[l]};
        const uint32_t size = PTX_REG(uint32_t, w, i->at[2])[l];
        PtxCopy copy = {(uint32_t)to.at, (uint32_t)l, w->groups[l], i->size, {0}};
        if (size != 0 && size != i->size) {
            ptx_fault(w, i, l, "a copy of %u bytes", size);
            return;
        }
        if ((size && !global_read(&from, copy.bytes)) || !shared_write(&to, zeros)) return;
        *next_copy(w) = copy;
        set_pending(w, to.at, i->size, 1);
    }
}

void ptx_commit(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    (void)i;
    PTX_EACH(w->groups[l]++;)
}

/* Until at most `offset` groups of a lane are on their way. */
void ptx_wait_group(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    uint32_t left = 0;
    for (uint32_t k = 0; k < w->copy_count; k++) {
        const PtxCopy copy = w->copies[k];
        const bool done = copy.group + (uint64_t)i->offset < w->groups[copy.lane];
        if (!(lanes >> copy.lane & 1) || !done) {
            w->copies[left++] = copy;
            continue;
        }
        set_pending(w, copy.at, copy.size, -1);
        const PtxAccess to = {w, i, (int)copy.lane, copy.size, copy.at};
        if (!shared_write(&to, copy.bytes)) return;
    }
    w->copy_count = left;
}

/* ---- clusters, and launches that begin early --------------------------------------------------- */

/* barrier.cluster.arrive; `sign`: it is relaxed, writes before it are behind it where a fence is. */
void ptx_arrive(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    if (lanes & w->arrived)
        ptx_fault(w, i, __builtin_ctz(lanes & w->arrived), "it arrived before, and did not wait");
    w->arrived |= lanes;
    if (i->sign && lanes & ~w->released) w->grid->relaxed = true;
}

/* griddepcontrol.wait */
void ptx_begin(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    (void)i;
    w->begun |= lanes;
}

/* griddepcontrol.launch_dependents: who begins then waits for this launch's end */
void ptx_nothing(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    (void)w, (void)i, (void)lanes;
}
