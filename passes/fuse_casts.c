// SPDX-License-Identifier: Apache-2.0
/* fuse-casts: removes casts that change nothing.
 *
 *   y = Cast(x, T), x of type T                       ->  x
 *   y = Cast(Cast(x, B), C), exact (cast_chain.h)     ->  Cast(x, C), or x where A = C
 *   y = Cast(Cast(x, B), C), both demi's own          ->  Cast(x, C), or x where A = C
 *   two casts of one value to one type                ->  the first, also from a graph around,
 *                                                         where it comes before
 *
 * A chain that rounds on purpose (float -> float16 -> float, written by the author) stays. With
 * own=true only casts that demi inserted are removed, so that a model without any is left alone,
 * and strip-casts can take back all that is done: an author's cast to float that only a cast of
 * demi's reads casts to that one's type itself, and is marked (demi.was) as insert-casts marks
 * such. Without, a cast of demi's that comes to stand for an author's is marked likewise: it is to stay.
 */
#include <stddef.h>

#include "cast_chain.h"
#include "cast_node.h"
#include "fuse_casts.h"
#include "op_types.h"
#include "passes.h"

typedef struct FuseCastsOptions {
    bool own;
} FuseCastsOptions;

static const PassOption options_table[] = {
    {"own", OPTION_BOOL, offsetof(FuseCastsOptions, own), NULL, NULL,
     "remove only casts that demi inserted"},
    {0},
};

/* A cast of one value to one type, the first of its graph. */
typedef struct Seen {
    Node *cast;
    struct Seen *next; /* of the same graph, or of one around it */
} Seen;

typedef struct Fuse {
    PassCtx *ctx;
    bool own, exact;
    Seen **seen;        /* [value_count], by what is cast */
    uint32_t *position; /* [node_count] in its graph */
} Fuse;

static Dtype dtype_of(const Value *value) {
    return type_dtype(value->type);
}

static bool may_remove(const Fuse *f, const Node *cast) {
    return !f->own || node_is_own_cast(cast);
}

static bool stands(const Node *cast) {
    return cast->outputs[0]->producer == cast;
}

static void count_removed(Fuse *f) {
    f->ctx->counts->casts_fused++;
    f->ctx->counts->rewrites++;
}

/* True where the result is an output of the graph it lies in. */
static bool is_graph_output(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node) return true;
    return false;
}

/* Replaces the cast's result by `value`, of the same type. False where both have names that are
 * part of the interface, or a graph would give out a value of another one, which engines refuse. */
static bool bypass(Fuse *f, Node *cast, Value *value) {
    Value *result = cast->outputs[0];
    if (result->referenced) return false;
    if (value->graph != result->graph && is_graph_output(result)) return false;
    if (value_is_named_output(result)) {
        if (value->input || value->referenced || value_is_named_output(value)) return false;
        value_swap_names(result, value);
    }
    value_replace_uses(result, value);
    node_remove(cast);
    count_removed(f);
    return true;
}

static void remove_if_unused(Fuse *f, Node *cast) {
    const Value *result = cast->outputs[0];
    if (result->uses || result->referenced || !may_remove(f, cast)) return;
    node_remove(cast);
    count_removed(f);
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* An author's cast to float that nothing but demi's cast of its result reads, in the same graph: it
 * can cast to that one's type itself. */
static bool can_retype(const Node *inner, const Node *outer) {
    const Value *between = inner->outputs[0];
    return between->use_count == 1 && !between->referenced && inner->graph == outer->graph &&
           !outer->outputs[0]->referenced && dtype_of(between) == DTYPE_FLOAT &&
           !node_metadata(inner, "demi.was") && node_attr(inner, "to") &&
           !node_attr(inner, "to")->ref;
}

static void retype(Fuse *f, Node *inner, Node *outer) {
    Arena *arena = &f->ctx->model->arena;
    Value *between = inner->outputs[0];
    Dtype to = dtype_of(outer->outputs[0]);
    cast_set_to(inner, to);
    node_add_metadata(inner, "demi.was", "to");
    value_set_type(between, type_with_dtype(arena, between->type, to));
    value_sync_info(between);
    f->ctx->counts->rewrites++;
    bypass(f, outer, between);
    if (!inner->note) return;
    NodeNote *note = ARENA_NEW(arena, NodeNote);
    *note = *inner->note;
    note->dtype = to;
    note->kind = NOTE_LOW;
    note->reason = "cheaper in 16-bit";
    inner->note = note;
}

/* A cast of demi's stands for an author's one, too: it is to stay. Where that gave float, it is marked as
 * one that did, which strip-casts makes of it again. */
static void take_place(const Node *inner, Node *outer) {
    if (!node_is_own_cast(outer)) return;
    node_remove_metadata(outer, "demi.inserted");
    if (dtype_of(inner->outputs[0]) == DTYPE_FLOAT) node_add_metadata(outer, "demi.was", "to");
}

/* outer reads what inner reads. */
static void skip_inner(Fuse *f, Node *inner, Node *outer) {
    Value *source = inner->inputs[0].value;
    if (dtype_of(source) == dtype_of(outer->outputs[0]) && may_remove(f, outer)) {
        if (!bypass(f, outer, source)) return;
    } else {
        if (!node_is_own_cast(inner)) take_place(inner, outer);
        node_set_input(outer, 0, source);
        f->ctx->counts->rewrites++;
    }
    remove_if_unused(f, inner);
}

static void fuse_chain(Fuse *f, Node *outer) {
    Node *inner = outer->inputs[0].value->producer;
    if (!node_is_cast(inner) || (!may_remove(f, inner) && !may_remove(f, outer))) return;
    bool ours = !f->exact && node_is_own_cast(inner) && node_is_own_cast(outer);
    if (!ours && !cast_chain_is_exact(inner, outer)) return;
    if (!f->own || node_is_own_cast(inner))
        skip_inner(f, inner, outer);
    else if (can_retype(inner, outer))
        retype(f, inner, outer);
}

/* ---- twins ----------------------------------------------------------------------------------- */

/* True where `twin` has run before whatever `cast` lies in does. */
static bool comes_before(const Fuse *f, const Node *twin, const Node *cast) {
    const Node *at = cast;
    while (at && at->graph != twin->graph) at = at->graph->owner;
    return at && f->position[twin->id] < f->position[at->id];
}

/* Graphs are visited outer ones first, so what was seen in a graph that is left is of no more use.
 */
static void leave_graphs(Fuse *f, const Node *cast) {
    Seen **seen = &f->seen[cast->inputs[0].value->id];
    while (*seen && !graph_is_within(cast->graph, (*seen)->cast->graph)) *seen = (*seen)->next;
}

/* An earlier cast of the same value to the same type; else NULL, and this one is remembered. What
 * was seen may have been removed, or may read something else by now. */
static Node *twin_of(Fuse *f, Node *cast) {
    const Value *source = cast->inputs[0].value;
    leave_graphs(f, cast);
    for (Seen **at = &f->seen[source->id]; *at;) {
        Node *twin = (*at)->cast;
        if (twin == cast) return NULL;
        if (!stands(twin) || twin->inputs[0].value != source) {
            *at = (*at)->next;
            continue;
        }
        if (cast_is_same(twin, cast) && may_remove(f, twin) == may_remove(f, cast) &&
            comes_before(f, twin, cast))
            return twin;
        at = &(*at)->next;
    }
    Seen *seen = ARENA_NEW(f->ctx->scratch, Seen);
    *seen = (Seen){cast, f->seen[source->id]};
    f->seen[source->id] = seen;
    return NULL;
}

static bool fuse_twin(Fuse *f, Node *cast) {
    Node *twin = twin_of(f, cast);
    if (!twin || !may_remove(f, cast)) return false;
    bool ours = node_is_own_cast(cast);
    if (!bypass(f, cast, twin->outputs[0])) return false;
    if (!ours) node_remove_metadata(twin, "demi.inserted");
    return true;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void visit(Fuse *f, Node *cast) {
    if (dtype_of(cast->inputs[0].value) == dtype_of(cast->outputs[0]) &&
        dtype_of(cast->outputs[0]) != DTYPE_UNDEFINED && cast_is_identity(cast)) {
        if (may_remove(f, cast)) bypass(f, cast, cast->inputs[0].value);
        return;
    }
    if (fuse_twin(f, cast)) return;
    const Value *source;
    do {
        source = cast->inputs[0].value;
        fuse_chain(f, cast);
        if (!stands(cast) || cast->inputs[0].value == source) return;
    } while (!fuse_twin(f, cast));
}

typedef VEC(Node *) NodeList;

/* Lists the casts, outer graphs first: most nodes are none, and need not be looked at again. */
static NodeList list_casts(Fuse *f) {
    NodeList casts = {0};
    GraphList graphs = model_graphs(f->ctx->model, f->ctx->scratch);
    for (size_t i = 0; i < graphs.count; i++) {
        uint32_t position = 0;
        for (Node *node = graphs.items[i]->first; node; node = node_after(node)) {
            f->position[node->id] = position++;
            if (node_is_cast(node)) VEC_PUSH(f->ctx->scratch, &casts, node);
        }
    }
    return casts;
}

bool fuse_casts(PassCtx *ctx, FuseRules rules) {
    Fuse fuse = {.ctx = ctx, .own = rules != FUSE_ALL, .exact = rules == FUSE_EXACT};
    uint64_t rewrites = ctx->counts->rewrites;
    fuse.seen = ARENA_ARRAY(ctx->scratch, Seen *, ctx->model->value_count);
    fuse.position = ARENA_ARRAY(ctx->scratch, uint32_t, ctx->model->node_count);
    NodeList casts = list_casts(&fuse);
    model_batch_removals(ctx->model);
    for (size_t i = 0; i < casts.count; i++)
        if (stands(casts.items[i])) visit(&fuse, casts.items[i]); /* else removed with another */
    model_sweep(ctx->model, ctx->scratch);
    return ctx->counts->rewrites != rewrites;
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    (void)err;
    const FuseCastsOptions *options = opts;
    fuse_casts(ctx, options->own ? FUSE_OWN : FUSE_ALL);
    if (options->own) casts_leave_mark(ctx);
    return true;
}

const PassInfo fuse_casts_pass = {
    .name = "fuse-casts",
    .summary = "remove redundant casts",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(FuseCastsOptions),
    .idempotent = true,
    .keeps_shapes = true,
    .run = run,
};
