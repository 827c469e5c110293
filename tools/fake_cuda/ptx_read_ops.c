// SPDX-License-Identifier: Apache-2.0
/* Statements that become instructions: those of ptx_ops.def by their table, the others one by one. */
#include <stdlib.h>
#include <string.h>

#include "ptx_read.h"

enum { MOST = 8 }; /* operands of a statement */

typedef struct Operands {
    PtxSlice items[MOST];
    uint32_t count;
} Operands;

static Operands split(PtxReader *r, PtxSlice rest) {
    Operands all = {.count = 0};
    PtxSlice one;
    while (ptx_next_operand(&rest, &one)) {
        if (all.count == MOST) {
            ptx_refuse(r, "too many operands");
            break;
        }
        all.items[all.count++] = one;
    }
    return all;
}

/* The copy of a register, without a predicate of its own. */
static void emit_move(PtxReader *r, uint32_t to, uint32_t from, uint32_t width) {
    const char *name = width == 8 ? "mov.b64" : "mov.b32";
    PtxInstr *i = ptx_emit(r, ptx_op(name, 7)->run, PTX_PLAIN);
    i->at[0] = to;
    i->at[1] = from;
}

/* Shared memory is watched in the smallest pieces that the kernel writes. */
static void watch(PtxReader *r, uint32_t size) {
    while (size < (1u << r->kernel->shift)) r->kernel->shift--;
}

/* ---- by the table ---------------------------------------------------------------------------- */

/* The operand of a conversion, of whose register it takes the low half where that is wider. */
static uint32_t converted(PtxReader *r, PtxSlice operand, uint32_t width) {
    uint32_t found;
    const uint32_t at = ptx_register(r, operand, &found);
    if (!at || found != 8 || width != 4) return ptx_operand(r, operand, width);
    const uint32_t low = ptx_new_register(r, width);
    PtxInstr *i = ptx_emit(r, ptx_op("cvt.u32.u64", 11)->run, PTX_PLAIN);
    i->at[0] = low;
    i->at[1] = at;
    return low;
}

static void read_plain(PtxReader *r, const PtxOp *op, const PtxStatement *s) {
    const Operands all = split(r, s->rest);
    if (all.count != op->count) {
        ptx_refuse(r, "%u operands, not %u", all.count, op->count);
        return;
    }
    uint32_t at[MOST] = {0};
    const bool converts = strncmp(s->name.at, "cvt.", 4) == 0;
    for (uint32_t k = 0; k < all.count; k++)
        at[k] = converts && k ? converted(r, all.items[k], op->width[k])
                              : ptx_operand(r, all.items[k], op->width[k]);
    memcpy(ptx_emit(r, op->run, op->kind)->at, at, sizeof at);
}

static void read_pair(PtxReader *r, const PtxStatement *s, const Operands *all) {
    const uint32_t size = (uint32_t)ptx_type_size((PtxSlice){s->name.at + 3, 4}) / 2;
    const bool splits = all->items[0].at[0] == '{';
    PtxSlice pair = ptx_inside(all->items[splits ? 0 : 1]);
    const Operands halves = split(r, pair);
    if (halves.count != 2 || size < 2) {
        ptx_refuse(r, "an unknown pair");
        return;
    }
    const uint32_t low = ptx_operand(r, halves.items[0], size);
    const uint32_t high = ptx_operand(r, halves.items[1], size);
    const uint32_t whole = ptx_operand(r, all->items[splits ? 1 : 0], 2 * size);
    PtxInstr *i = ptx_emit(r, splits ? ptx_split_pair : ptx_move_pair, PTX_PLAIN);
    i->size = (uint8_t)size;
    i->at[0] = splits ? low : whole;
    i->at[1] = splits ? high : low;
    i->at[2] = splits ? whole : high;
}

/* shfl.sync.bfly.b32 d|p, a, b, c, members; bar.warp.sync members */
static void read_sync(PtxReader *r, const PtxOp *op, const PtxStatement *s) {
    const Operands all = split(r, s->rest);
    uint32_t at[PTX_OPERANDS] = {0}, width;
    if (all.count == 1) {
        at[3] = ptx_operand(r, all.items[0], 4);
    } else if (all.count == 5) {
        const PtxSlice to = all.items[0];
        const char *bar = memchr(to.at, '|', to.length);
        const uint32_t length = bar ? (uint32_t)(bar - to.at) : to.length;
        at[0] = ptx_operand(r, (PtxSlice){to.at, length}, 4);
        if (bar) at[1] = ptx_register(r, (PtxSlice){bar + 1, to.length - length - 1}, &width);
        at[2] = ptx_operand(r, all.items[1], 4);
        at[3] = ptx_operand(r, all.items[4], 4);
        at[4] = ptx_operand(r, all.items[2], 4);
        at[5] = ptx_operand(r, all.items[3], 4);
    } else {
        ptx_refuse(r, "an unknown form");
    }
    memcpy(ptx_emit(r, op->run, PTX_SYNC)->at, at, sizeof at);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* [%rd1+16], [name+4] or [16]: a register of the address, and what is behind it. */
static uint32_t read_address(PtxReader *r, PtxSlice text, PtxInstr *to) {
    PtxSlice s = ptx_inside(text), base = ptx_word(s);
    const char *plus = memchr(s.at, '+', s.length);
    uint32_t width, at = ptx_register(r, base, &width);
    to->offset = plus ? strtoll(plus + 1, NULL, 10) : 0;
    if (!at) {
        width = 8;
        at = ptx_operand(r, base, 8);
        to->fixed = true;
    }
    if (width < 4) ptx_refuse(r, "an address of %u bytes", width);
    to->address_width = (uint8_t)width;
    return at;
}

/* The value of a call: st.param [param0+0], %r1; ld.param %r1, [retval0+0]; false where it is none. */
static bool read_value(PtxReader *r, const Operands *all, bool stores) {
    const PtxSlice inside = ptx_inside(all->items[stores ? 0 : 1]);
    const PtxSymbol *symbol = ptx_symbol(r, ptx_word(inside));
    if (!symbol || symbol->kind != PTX_VALUE) return false;
    const uint32_t at = symbol->at, width = symbol->width;
    const char *plus = memchr(inside.at, '+', inside.length);
    if (plus && strtol(plus + 1, NULL, 10)) ptx_refuse(r, "a part of a parameter");
    const uint32_t other = ptx_operand(r, all->items[stores ? 1 : 0], width);
    emit_move(r, stores ? at : other, stores ? other : at, width);
    return true;
}

typedef struct Access {
    PtxSpace space;
    uint32_t count, size;
    bool sign;
} Access;

/* ld.global.nc.v4.f32: what is between the first word and the type */
static bool read_access(PtxReader *r, PtxSlice name, Access *a) {
    static const char *const spaces[] = {".global", ".shared", ".local", ".param",
                                         ".shared::cluster"};
    PtxSlice rest = {name.at + 2, name.length - 2};
    bool known = false;
    *a = (Access){.space = PTX_GENERIC, .count = 1};
    for (uint32_t k = PTX_CLUSTER + 1; k-- > 0 && !known;)
        if ((known = ptx_starts(rest, spaces[k]))) {
            a->space = (PtxSpace)k;
            rest.at += strlen(spaces[k]), rest.length -= (uint32_t)strlen(spaces[k]);
        }
    if (ptx_starts(rest, ".nc") || ptx_starts(rest, ".cg")) rest.at += 3, rest.length -= 3;
    if (ptx_starts(rest, ".v2") || ptx_starts(rest, ".v4")) {
        a->count = (uint32_t)(rest.at[2] - '0');
        rest.at += 3, rest.length -= 3;
    }
    const int size = ptx_type_size(rest);
    a->sign = rest.length > 1 && rest.at[1] == 's';
    if (size < 1) return ptx_refuse(r, "an unknown access");
    a->size = (uint32_t)size;
    return true;
}

static void read_memory(PtxReader *r, const PtxStatement *s, const Operands *all) {
    const bool stores = s->name.at[0] == 's';
    Access a;
    PtxInstr made = {0};
    if (all->count != 2 || !read_access(r, s->name, &a)) {
        ptx_refuse(r, "an unknown form");
        return;
    }
    if (a.space == PTX_PARAM && read_value(r, all, stores)) return;
    if (a.space == PTX_PARAM && (stores || r->returns)) {
        ptx_refuse(r, "an unknown parameter");
        return;
    }
    const Operands items = split(r, ptx_inside(all->items[stores ? 1 : 0]));
    if (items.count != a.count) {
        ptx_refuse(r, "%u elements, not %u", items.count, a.count);
        return;
    }
    uint32_t width = 0, first = ptx_register(r, items.items[0], &width);
    if (!first) width = a.size < 2 ? 2 : a.size; /* a constant */
    if (width < a.size) ptx_refuse(r, "a register of %u bytes", width);
    for (uint32_t k = 0; k < a.count; k++) made.at[k] = ptx_operand(r, items.items[k], width);
    made.at[a.count] = read_address(r, all->items[stores ? 0 : 1], &made);
    PtxInstr *i = ptx_emit(r,
                           stores                 ? ptx_store
                           : a.space == PTX_PARAM ? ptx_load_param
                                                  : ptx_load,
                           PTX_PLAIN);
    memcpy(i->at, made.at, sizeof made.at);
    i->offset = made.offset;
    i->address_width = made.address_width;
    i->fixed = made.fixed;
    i->space = (uint8_t)a.space;
    i->count = (uint8_t)a.count;
    i->size = (uint8_t)a.size;
    i->width = (uint8_t)width;
    i->sign = a.sign;
    if (a.space != PTX_GLOBAL && a.space != PTX_LOCAL) watch(r, a.size);
}

/* prefetch.global.L2 [%rd1] */
static void read_prefetch(PtxReader *r, const Operands *all) {
    PtxInstr from = {0};
    if (all->count != 1) {
        ptx_refuse(r, "an unknown form");
        return;
    }
    const uint32_t at = read_address(r, all->items[0], &from);
    PtxInstr *i = ptx_emit(r, ptx_prefetch, PTX_PLAIN);
    i->at[0] = at;
    i->offset = from.offset;
    i->address_width = from.address_width;
}

/* atom.global.add.u32 %r1, [%rd1], %r2 */
static void read_atomic(PtxReader *r, const Operands *all) {
    PtxInstr from = {0};
    if (all->count != 3) {
        ptx_refuse(r, "an unknown form");
        return;
    }
    const uint32_t to = ptx_operand(r, all->items[0], 4),
                   at = read_address(r, all->items[1], &from);
    const uint32_t added = ptx_operand(r, all->items[2], 4);
    PtxInstr *i = ptx_emit(r, ptx_atomic_add, PTX_PLAIN);
    i->at[0] = to;
    i->at[1] = at;
    i->at[2] = added;
    i->offset = from.offset;
    i->address_width = from.address_width;
}

/* mapa.u64 %rd1, %rd2, %r1 and mapa.shared::cluster.u32 %r1, %r2, %r3 */
static void read_map(PtxReader *r, const Operands *all, uint32_t width) {
    if (all->count != 3) {
        ptx_refuse(r, "an unknown form");
        return;
    }
    const uint32_t to = ptx_operand(r, all->items[0], width),
                   from = ptx_operand(r, all->items[1], width),
                   rank = ptx_operand(r, all->items[2], 4);
    PtxInstr *i = ptx_emit(r, width == 8 ? ptx_map_rank_generic : ptx_map_rank, PTX_PLAIN);
    i->at[0] = to;
    i->at[1] = from;
    i->at[2] = rank;
}

/* cp.async.cg.shared.global [to], [from], 16, size */
static void read_copy(PtxReader *r, const Operands *all, uint32_t bytes) {
    PtxInstr to = {0}, from = {0};
    if (all->count != 4 || !ptx_is(all->items[2], bytes == 4 ? "4" : "16")) {
        ptx_refuse(r, "an unknown form");
        return;
    }
    const uint32_t a = read_address(r, all->items[0], &to),
                   b = read_address(r, all->items[1], &from);
    const uint32_t size = ptx_operand(r, all->items[3], 4);
    if (to.offset || from.offset || to.address_width != 4 || from.address_width != 8)
        ptx_refuse(r, "an unknown form");
    watch(r, bytes);
    PtxInstr *i = ptx_emit(r, ptx_copy_async, PTX_PLAIN);
    i->size = (uint8_t)bytes;
    i->at[0] = a;
    i->at[1] = b;
    i->at[2] = size;
}

/* ---- matrices -------------------------------------------------------------------------------- */

static void put_all(PtxReader *r, PtxSlice braces, uint32_t *to, uint32_t count) {
    const Operands items = split(r, ptx_inside(braces));
    if (items.count != count) ptx_refuse(r, "%u registers, not %u", items.count, count);
    for (uint32_t k = 0; k < count && k < items.count; k++)
        to[k] = ptx_operand(r, items.items[k], 4);
}

static void read_mma(PtxReader *r, const Operands *all, PtxRun *run) {
    static const uint32_t counts[] = {4, 4, 2, 4};
    uint32_t at[PTX_OPERANDS] = {0}, next = 0;
    for (uint32_t k = 0; k < 4 && k < all->count; k++) {
        put_all(r, all->items[k], at + next, counts[k]);
        next += counts[k];
    }
    if (all->count != 4) ptx_refuse(r, "an unknown form");
    memcpy(ptx_emit(r, run, PTX_ALIGNED)->at, at, sizeof at);
}

static void read_matrices(PtxReader *r, const Operands *all, PtxRun *run, uint32_t count) {
    PtxInstr made = {0};
    if (all->count != 2) {
        ptx_refuse(r, "an unknown form");
        return;
    }
    put_all(r, all->items[0], made.at, count);
    made.at[count] = read_address(r, all->items[1], &made);
    if (made.address_width != 4) ptx_refuse(r, "an address of shared memory has 4 bytes");
    PtxInstr *i = ptx_emit(r, run, PTX_ALIGNED);
    memcpy(i->at, made.at, sizeof made.at);
    i->offset = made.offset;
    i->count = (uint8_t)count;
}

/* ---- control --------------------------------------------------------------------------------- */

static void read_branch(PtxReader *r, PtxSlice label) {
    r->jumps = ptx_grow(r->jumps, r->jump_count, &r->jump_room, sizeof *r->jumps);
    r->jumps[r->jump_count++] = (PtxJump){label, r->kernel->count};
    ptx_emit(r, NULL, PTX_BRANCH);
}

/* call.uni (result), name, (actuals): moves around it */
static void read_call(PtxReader *r, const Operands *all) {
    const bool has = all->count && all->items[0].at[0] == '(';
    const PtxCalled *called = all->count > has ? ptx_called(r, all->items[has]) : NULL;
    if (!called || r->guard || all->count != 2u + has) {
        ptx_refuse(r, "an unknown form");
        return;
    }
    const Operands actuals = split(r, ptx_inside(all->items[has + 1]));
    if (actuals.count != called->count) {
        ptx_refuse(r, "%u parameters, not %u", actuals.count, called->count);
        return;
    }
    for (uint32_t k = 0; k < actuals.count; k++)
        emit_move(r, called->formals[k], ptx_operand(r, actuals.items[k], called->widths[k]),
                  called->widths[k]);
    PtxInstr *i = ptx_emit(r, NULL, PTX_CALL);
    i->target = called->entry;
    i->at[0] = called->returns;
    if (has)
        emit_move(r, ptx_operand(r, ptx_inside(all->items[0]), called->result_width),
                  called->result, called->result_width);
}

/* barrier.cluster.arrive and .wait, with what the ISA lets stand behind it. Of those that a warp's lanes
 * do together, an instruction before says so. */
static bool read_cluster_barrier(PtxReader *r, PtxSlice name) {
    static const struct {
        const char *name;
        bool waits, relaxed, aligned;
    } forms[] = {{"arrive", false, false, false},
                 {"arrive.aligned", false, false, true},
                 {"arrive.release", false, false, false},
                 {"arrive.release.aligned", false, false, true},
                 {"arrive.relaxed", false, true, false},
                 {"arrive.relaxed.aligned", false, true, true},
                 {"wait", true, false, false},
                 {"wait.aligned", true, false, true},
                 {"wait.acquire", true, false, false},
                 {"wait.acquire.aligned", true, false, true}};
    const uint32_t before = (uint32_t)strlen("barrier.cluster.");
    if (!ptx_starts(name, "barrier.cluster.")) return false;
    const PtxSlice form = {name.at + before, name.length - before};
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        if (!ptx_is(form, forms[k].name)) continue;
        if (forms[k].aligned) ptx_emit(r, ptx_nothing, PTX_ALIGNED);
        PtxInstr *i = ptx_emit(r, ptx_arrive, forms[k].waits ? PTX_WAIT : PTX_PLAIN);
        i->sign = forms[k].relaxed;
        r->kernel->joins = true;
        return true;
    }
    return false;
}

/* bar.sync number, threads */
static void read_barrier(PtxReader *r, const Operands *all) {
    const uint32_t number = ptx_operand(r, all->items[0], 4);
    const uint32_t threads = ptx_operand(r, all->items[1], 4);
    PtxInstr *i = ptx_emit(r, NULL, PTX_BARRIER);
    i->at[0] = number;
    i->at[1] = threads;
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool read_control(PtxReader *r, const PtxStatement *s, const Operands *all) {
    if (ptx_is(s->name, "bra") || ptx_is(s->name, "bra.uni"))
        read_branch(r, s->rest);
    else if (ptx_is(s->name, "call.uni"))
        read_call(r, all);
    else if (ptx_is(s->name, "ret"))
        ptx_emit(r, NULL, r->returns ? PTX_RETURN : PTX_EXIT)->at[0] = r->returns;
    else if (ptx_is(s->name, "bar.sync") && ptx_is(s->rest, "0"))
        ptx_emit(r, NULL, PTX_BARRIER);
    else if (ptx_is(s->name, "bar.sync") && all->count == 2)
        read_barrier(r, all);
    else if (ptx_is(s->name, "griddepcontrol.wait"))
        ptx_emit(r, ptx_begin, PTX_PLAIN);
    else if (ptx_is(s->name, "griddepcontrol.launch_dependents"))
        ptx_emit(r, ptx_nothing, PTX_PLAIN);
    else
        return read_cluster_barrier(r, s->name);
    return true;
}

static bool read_special(PtxReader *r, const PtxStatement *s, const Operands *all) {
    if (ptx_is(s->name, "cp.async.cg.shared.global"))
        read_copy(r, all, 16);
    else if (ptx_is(s->name, "cp.async.ca.shared.global"))
        read_copy(r, all, 4);
    else if (ptx_is(s->name, "cp.async.commit_group"))
        ptx_emit(r, ptx_commit, PTX_PLAIN);
    else if (ptx_is(s->name, "cp.async.wait_group"))
        ptx_emit(r, ptx_wait_group, PTX_PLAIN)->offset = strtol(s->rest.at, NULL, 10);
    else if (ptx_is(s->name, "prefetch.global.L2"))
        read_prefetch(r, all);
    else if (ptx_is(s->name, "atom.global.add.u32"))
        read_atomic(r, all);
    else if (ptx_is(s->name, "mapa.u64"))
        read_map(r, all, 8);
    else if (ptx_is(s->name, "mapa.shared::cluster.u32"))
        read_map(r, all, 4);
    else if (ptx_is(s->name, "membar.gl"))
        ptx_emit(r, ptx_fence, PTX_PLAIN);
    else if (ptx_is(s->name, "fence.release.sync_restrict::shared::cta.cluster"))
        ptx_emit(r, ptx_fence, PTX_PLAIN)->sign = true;
    else if (ptx_is(s->name, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"))
        read_mma(r, all, ptx_mma_f16);
    else if (ptx_is(s->name, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"))
        read_mma(r, all, ptx_mma_bf16);
    else if (ptx_is(s->name, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"))
        read_matrices(r, all, ptx_load_matrices, 4);
    else if (ptx_is(s->name, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"))
        read_matrices(r, all, ptx_load_turned, 4);
    else if (ptx_starts(s->name, "ld.") || ptx_starts(s->name, "st."))
        read_memory(r, s, all);
    else
        return false;
    return true;
}

void ptx_read_instruction(PtxReader *r, const PtxStatement *s) {
    const Operands all = split(r, s->rest);
    if (read_control(r, s, &all) || read_special(r, s, &all)) return;
    if (ptx_starts(s->name, "mov.") && memchr(s->rest.at, '{', s->rest.length)) {
        read_pair(r, s, &all);
        return;
    }
    const PtxOp *op = ptx_op(s->name.at, s->name.length);
    if (!op)
        ptx_refuse(r, "an instruction that the emulator does not know");
    else if (op->kind == PTX_SYNC)
        read_sync(r, op, s);
    else
        read_plain(r, op, s);
}
