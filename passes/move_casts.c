// SPDX-License-Identifier: Apache-2.0
/* move-casts: moves demi's casts across operators that only move data, to where they convert the
 * fewest elements.
 *
 *   y = Expand(x); y1 = Cast(y, float16)                 ->  x1 = Cast(x, float16); y1 = Expand(x1)
 *   x1 = Cast(x, float); y = Slice(x1)                   ->  y1 = Slice(x); y = Cast(y1, float)
 *   x1 = Cast(x, float); y = Transpose(x1); Cast(y, float16)  ->  Transpose(x)
 *
 * It differs from insert-casts, which decides where values are rounded: here no value changes,
 * since moving commutes with converting. move_plan.h says which nodes and what a cast costs. Casts
 * of the model's author stay where they stand, and so do casts of values of another graph; what a
 * class or an exclusion settled stays in its precision. Between rounds, casts of demi's that change
 * nothing are removed (fuse_casts.h), so that the places are the best for what is left.
 */
#include <string.h>

#include "cast_node.h"
#include "fuse_casts.h"
#include "move_plan.h"
#include "op_facts.h"
#include "op_types.h"
#include "passes.h"

enum { ROUNDS_MAX = 16 };

typedef struct Pair {
    Dtype wide, narrow;
} Pair;

typedef VEC(Pair) Pairs;

/* A value whose readers or own type change, as it was before. */
typedef struct Moved {
    Value *value;
    MoveReader *readers; /* [reader_count]; `low`: what each is to have */
    Node **casts;        /* [cast_count] shared ones */
    size_t reader_count, cast_count;
} Moved;

typedef struct Move {
    MovePlan plan;
    VEC(Moved) moved;
    TypeMemo types;
} Move;

static bool is_low(const Move *m, const Value *value) {
    return type_dtype(value->type) == m->plan.narrow;
}

/* ---- what is there --------------------------------------------------------------------------- */

static bool flips(const Move *m, const Node *node) {
    uint32_t site = node && node->id < m->plan.node_count ? m->plan.site_of[node->id] : 0;
    return site && m->plan.sites.items[site - 1].planned != m->plan.sites.items[site - 1].low;
}

static void list_casts(Move *m, Moved *moved) {
    moved->casts = ARENA_ARRAY(m->plan.ctx->scratch, Node *, moved->value->use_count);
    for (const Use *use = moved->value->uses; use; use = use->next)
        if (move_plan_is_shared_cast(&m->plan, use->node))
            moved->casts[moved->cast_count++] = use->node;
}

/* Lists the value where anything about it changes. */
static void list_value(Move *m, size_t index) {
    const MoveReaders *readers = &m->plan.readers[index];
    Moved moved = {.value = m->plan.values.items[index],
                   .readers = readers->list.items,
                   .reader_count = readers->list.count};
    bool changes = flips(m, moved.value->producer);
    for (size_t i = 0; i < moved.reader_count; i++) {
        MoveReader *reader = &moved.readers[i];
        if (!reader->site) continue;
        changes |= flips(m, reader->use->node);
        reader->low = m->plan.sites.items[reader->site - 1].planned;
    }
    if (!changes) return;
    list_casts(m, &moved);
    VEC_PUSH(m->plan.ctx->scratch, &m->moved, moved);
}

/* ---- carrying the plan out ------------------------------------------------------------------- */

static const Type *with_dtype(Move *m, const Value *value, bool low) {
    Dtype dtype = low ? m->plan.narrow : m->plan.wide;
    return type_memo_with_dtype(&m->types, &value->graph->model->arena, value->type, dtype);
}

/* What said that it is fp32 because this value was. */
static void move_reason(Move *m, const Use *use, const Value *value) {
    Node *reader = use->node;
    const NodeNote *was = reader ? reader->note : NULL;
    if (!was || (was->kind != NOTE_FOLLOWS && was->kind != NOTE_READS) || !was->subject ||
        strcmp(was->subject, sym_text(value->name)) != 0)
        return;
    NodeNote *note = ARENA_NEW(&m->plan.ctx->model->arena, NodeNote);
    *note = *was;
    note->kind = NOTE_MOVED;
    note->subject = NULL;
    note->reason = "follows a cast, which converts less right before this node";
    reader->note = note;
}

static void flip_node(Move *m, const MoveSite *site) {
    Node *node = site->node;
    for (uint32_t o = 0; o < node->output_count; o++)
        if (node->outputs[o])
            value_set_type(node->outputs[o], with_dtype(m, node->outputs[o], site->planned));
    m->plan.ctx->counts->rewrites++;
    if (!node->note) return;
    NodeNote *note = ARENA_NEW(&m->plan.ctx->model->arena, NodeNote);
    *note = *node->note;
    note->dtype = site->planned ? m->plan.narrow : m->plan.wide;
    note->kind = site->planned ? NOTE_LOW : NOTE_MOVED;
    note->reason = site->planned ? "cheaper in 16-bit" : "its casts convert less this way";
    node->note = note;
    for (uint32_t o = 0; site->planned && o < node->output_count; o++)
        for (const Use *use = node->outputs[o] ? node->outputs[o]->uses : NULL; use;
             use = use->next)
            move_reason(m, use, node->outputs[o]);
}

static bool names_output(const Use *use) {
    return !use->node && !use_graph(use)->owner;
}

/* The cast of the value to its other type that is there, or NULL. It goes right behind the value's
 * producer, since it has readers now that may come before those it had. */
static Value *cast_beside(Move *m, const Moved *moved) {
    Value *value = moved->value;
    for (size_t i = 0; i < moved->cast_count; i++) {
        Node *cast = moved->casts[i];
        if (is_low(m, cast->outputs[0]) == is_low(m, value)) continue;
        Node *behind = value->producer ? value->producer->next : value->graph->first;
        if (behind != cast) node_move_before(cast, behind);
        return cast->outputs[0];
    }
    return NULL;
}

static Value *new_cast(Move *m, Value *value) {
    return cast_insert(m->plan.ctx, value, with_dtype(m, value, !is_low(m, value)), NULL);
}

/* Gives a reader what it is to have. *fresh is the cast that was made for the value, or NULL. */
static void point_reader(Move *m, const Moved *moved, const MoveReader *reader, Value **fresh) {
    Value *value = moved->value, *now = reader->use->value, *then = value;
    if (is_low(m, value) != reader->low) {
        if (now != value && is_low(m, now) == reader->low) return;
        then = *fresh ? *fresh : cast_beside(m, moved);
        if (!then) then = *fresh = new_cast(m, value);
    }
    if (then == now) return;
    if (names_output(reader->use)) {
        /* Once for an output that is declared twice. */
        bool named = value_is_named_output(then);
        if (!named && then == value) value_swap_names(now, value);
        if (!named && then != value) cast_name_output(m->plan.ctx, value, then);
    }
    use_set(reader->use, then);
}

static void realize(Move *m, const Moved *moved) {
    PassCtx *ctx = m->plan.ctx;
    Value *fresh = NULL;
    for (size_t i = 0; i < moved->reader_count; i++)
        point_reader(m, moved, &moved->readers[i], &fresh);
    for (size_t i = 0; i < moved->cast_count; i++) {
        Node *cast = moved->casts[i];
        if (cast->outputs[0]->uses) continue;
        node_remove(cast);
        ctx->counts->casts_fused++;
        ctx->counts->rewrites++;
    }
    value_sync_info(moved->value);
}

/* True where something moved; *chained is set where casts of casts were met. */
static bool move_pair(PassCtx *ctx, Pair pair, bool *chained) {
    Move *m = ARENA_NEW(ctx->scratch, Move);
    m->plan = (MovePlan){.ctx = ctx, .wide = pair.wide, .narrow = pair.narrow};
    bool moves = move_plan_make(&m->plan);
    *chained |= m->plan.chained;
    if (!moves) return false;
    for (size_t i = 0; i < m->plan.values.count; i++) list_value(m, i);
    for (size_t i = 0; i < m->plan.sites.count; i++)
        if (flips(m, m->plan.sites.items[i].node)) flip_node(m, &m->plan.sites.items[i]);
    for (size_t i = 0; i < m->moved.count; i++) realize(m, &m->moved.items[i]);
    return true;
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* float8 and narrower casts have modes (saturate, round_mode); zeros that an operator fills in are
 * not the same thing as text. */
static bool is_plain(Dtype dtype) {
    return (dtype_is_float(dtype) && dtype_bits(dtype) > 8) || dtype == DTYPE_BOOL ||
           (dtype_is_integer(dtype) && dtype_bits(dtype) >= 8);
}

static void note_pair(PassCtx *ctx, const Node *cast, Pairs *pairs) {
    Dtype from = type_dtype(cast->inputs[0].value->type), to = type_dtype(cast->outputs[0]->type);
    if (from == to || !is_plain(from) || !is_plain(to)) return;
    bool widens = dtype_lossless(from, to);
    if (!widens && !dtype_lossless(to, from)) return;
    Pair pair = widens ? (Pair){.wide = to, .narrow = from} : (Pair){.wide = from, .narrow = to};
    for (size_t i = 0; i < pairs->count; i++)
        if (pairs->items[i].wide == pair.wide && pairs->items[i].narrow == pair.narrow) return;
    VEC_PUSH(ctx->scratch, pairs, pair);
}

static Pairs pairs_of(PassCtx *ctx) {
    Pairs pairs = {0};
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t g = 0; g < graphs.count; g++)
        for (const Node *node = graphs.items[g]->first; node; node = node_after(node))
            if (node_is_own_cast(node)) note_pair(ctx, node, &pairs);
    return pairs;
}

/* ---- whether there is anything to do --------------------------------------------------------- */

typedef struct Look {
    const Model *model;
    uint8_t *moves; /* by number of op_type, at the model's own opsets: 1 no, 2 yes, 0 not asked */
    bool *seen;     /* by value id: what many casts read is looked at once */
} Look;

static bool moves_data(const Node *node) {
    const OpSchema *schema = node_schema(node);
    return schema && op_has_flags(schema, OP_MOVES);
}

static bool is_mover(Look *look, const Node *node) {
    if (!node || !node->op_type) return false;
    if (node->graph->opsets != &look->model->opsets || !domain_is_default(node->domain))
        return moves_data(node);
    uint8_t *known = &look->moves[node->op_type->number];
    if (!*known) *known = moves_data(node) ? 2 : 1;
    return *known == 2;
}

static bool has_mover_beside(Look *look, const Node *cast) {
    const Value *from = cast->inputs[0].value;
    if (is_mover(look, from->producer)) return true;
    for (const Use *use = look->seen[from->id] ? NULL : from->uses; use; use = use->next)
        if (is_mover(look, use->node)) return true;
    look->seen[from->id] = true;
    for (const Use *use = cast->outputs[0]->uses; use; use = use->next)
        if (is_mover(look, use->node)) return true;
    return false;
}

/* Most models have no cast beside data movement: one look tells. */
static bool may_move(PassCtx *ctx) {
    Look look = {.model = ctx->model,
                 .moves = ARENA_ARRAY(ctx->scratch, uint8_t, ctx->model->syms.count + 1),
                 .seen = ARENA_ARRAY(ctx->scratch, bool, ctx->model->value_count)};
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t g = 0; g < graphs.count; g++)
        for (const Node *node = graphs.items[g]->first; node; node = node_after(node))
            if (node_is_own_cast(node) && has_mover_beside(&look, node)) return true;
    return false;
}

/* A plan is the best there is for one pair, but casts of casts are not in it: what it moved may
 * make room for fusion and for more. */
static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    (void)err;
    bool moved = may_move(ctx), again = false;
    for (size_t round = 0; moved && round < ROUNDS_MAX; round++) {
        bool fused = fuse_casts(ctx, FUSE_EXACT);
        if (round > 0 && !fused && !again) break;
        Pairs pairs = pairs_of(ctx);
        model_batch_removals(ctx->model);
        again = pairs.count > 1;
        moved = false;
        for (size_t i = 0; i < pairs.count; i++) moved |= move_pair(ctx, pairs.items[i], &again);
        model_sweep(ctx->model, ctx->scratch);
    }
    return true;
}

const PassInfo move_casts_pass = {
    .name = "move-casts",
    .summary = "move casts across data movement to where they convert the least",
    .needs = FACT_DTYPES | FACT_SHAPES,
    .gives = FACT_DTYPES,
    .idempotent = true,
    .keeps_shapes = true,
    .run = run,
};
