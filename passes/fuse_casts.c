// SPDX-License-Identifier: Apache-2.0
/* fuse-casts: removes casts that change nothing.
 *
 *   y = Cast(x, T), x of type T                       ->  x
 *   y = Cast(Cast(x, B), C), every A exact in B       ->  Cast(x, C), or x where A = C
 *   y = Cast(Cast(x, B), A), both demi's own          ->  x
 *   two casts of one value to one type in one graph   ->  the first
 *
 * A chain that rounds on purpose (float -> float16 -> float, written by the author) stays: only what
 * is exact for every input, or was inserted by demi, goes. With own=true only casts that demi
 * inserted are removed, so that a model without any is left alone.
 */
#include <stddef.h>

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

/* A cast of one value to one type. */
typedef struct Seen {
    Node *cast;
    struct Seen *next;
} Seen;

typedef struct SeenCasts {
    const Graph *graph; /* that they lie in */
    Seen *first;        /* one a type */
} SeenCasts;

typedef struct Fuse {
    PassCtx *ctx;
    bool own;
    SeenCasts *seen; /* [value_count], by what is cast: the casts of the graph at hand so far */
} Fuse;

/* float8 and narrower casts have modes (saturate, round_mode): their chains are left alone. */
static bool is_plain(Dtype dtype) {
    return dtype_bits(dtype) >= 8 && dtype != DTYPE_COMPLEX64 && dtype != DTYPE_COMPLEX128 &&
           !(dtype_is_float(dtype) && dtype_bits(dtype) == 8);
}

static Dtype dtype_of(const Value *value) { return type_dtype(value->type); }

static bool may_remove(const Fuse *f, const Node *cast) {
    return !f->own || node_is_own_cast(cast);
}

static void count_removed(Fuse *f) {
    f->ctx->counts->casts_fused++;
    f->ctx->counts->rewrites++;
}

/* Replaces the cast's result by `value`, of the same type. False where both have names that are part
 * of the interface. */
static bool bypass(Fuse *f, Node *cast, Value *value) {
    Value *result = cast->outputs[0];
    if (result->referenced) return false;
    if (value_is_named_output(result)) {
        bool fixed = value->input || value->referenced || value_is_named_output(value) ||
                     value->graph != result->graph;
        if (fixed) return false;
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

/* The inner cast of a chain, where both may be looked through. */
static Node *inner_cast(const Node *outer) {
    Node *inner = outer->inputs[0].value->producer;
    if (!node_is_cast(inner) || !is_plain(dtype_of(inner->inputs[0].value)) ||
        !is_plain(dtype_of(inner->outputs[0])) || !is_plain(dtype_of(outer->outputs[0])))
        return NULL;
    return inner;
}

static void fuse_chain(Fuse *f, Node *outer) {
    Node *inner = inner_cast(outer);
    if (!inner || (!may_remove(f, inner) && !may_remove(f, outer))) return;
    Value *source = inner->inputs[0].value;
    Dtype a = dtype_of(source), b = dtype_of(inner->outputs[0]), c = dtype_of(outer->outputs[0]);
    bool exact = dtype_lossless(a, b);
    bool ours = a == c && node_is_own_cast(inner) && node_is_own_cast(outer);
    if (!exact && !ours) return;
    if (a == c && may_remove(f, outer)) {
        if (!bypass(f, outer, source)) return;
    } else if (exact) {
        node_set_input(outer, 0, source);
        f->ctx->counts->rewrites++;
    }
    remove_if_unused(f, inner);
}

/* The entry for casts of the same value to the same type, in the same graph. Its cast may have been
 * removed, or may read something else by now. */
static Seen *seen_of(Fuse *f, const Node *cast) {
    SeenCasts *casts = &f->seen[cast->inputs[0].value->id];
    if (casts->graph != cast->graph) *casts = (SeenCasts){.graph = cast->graph};
    for (Seen *seen = casts->first; seen; seen = seen->next)
        if (dtype_of(seen->cast->outputs[0]) == dtype_of(cast->outputs[0])) return seen;
    Seen *seen = ARENA_NEW(f->ctx->scratch, Seen);
    seen->next = casts->first;
    return casts->first = seen;
}

/* An earlier cast, also by age, of the same value to the same type in the same graph; else NULL, and
 * this one is remembered. */
static Node *twin_of(Fuse *f, Node *cast) {
    Seen *seen = seen_of(f, cast);
    Node *twin = seen->cast;
    bool stands = twin && twin != cast && twin->outputs[0]->producer == twin &&
                  twin->inputs[0].value == cast->inputs[0].value;
    if (stands && twin->id < cast->id) return twin;
    seen->cast = cast;
    return NULL;
}

static bool fuse_twin(Fuse *f, Node *cast) {
    Node *twin = twin_of(f, cast);
    return twin && may_remove(f, cast) && bypass(f, cast, twin->outputs[0]);
}

static void visit(Fuse *f, Node *cast) {
    if (dtype_of(cast->inputs[0].value) == dtype_of(cast->outputs[0]) &&
        dtype_of(cast->outputs[0]) != DTYPE_UNDEFINED) {
        if (may_remove(f, cast)) bypass(f, cast, cast->inputs[0].value);
        return;
    }
    if (fuse_twin(f, cast)) return;
    const Value *source = cast->inputs[0].value;
    fuse_chain(f, cast);
    bool stands = cast->outputs[0]->producer == cast;
    if (stands && cast->inputs[0].value != source) fuse_twin(f, cast);
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    (void)err;
    const FuseCastsOptions *options = opts;
    Fuse fuse = {.ctx = ctx, .own = options->own};
    fuse.seen = ARENA_ARRAY(ctx->scratch, SeenCasts, ctx->model->value_count);
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t i = 0; i < graphs.count; i++)
        for (Node *node = graphs.items[i]->first, *next; node; node = next) {
            next = node->next; /* the passes above remove node itself or something before it */
            if (node_is_cast(node)) visit(&fuse, node);
        }
    return true;
}

const PassInfo fuse_casts_pass = {
    .name = "fuse-casts",
    .summary = "remove casts that change nothing",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(FuseCastsOptions),
    .idempotent = true,
    .run = run,
};
