// SPDX-License-Identifier: Apache-2.0
/* See repair.h. Types are inferred from inputs, constants and operators alone; what is declared beside that
 * is held against them. */
#include "repair.h"

#include "infer_shapes.h"
#include "op_types.h"
#include "strict_types.h"

typedef struct Repair {
    PassCtx *ctx;
    GraphList graphs;
    const Type **before;    /* [value_count]: what values had, and will have again */
    const Value **by_name;  /* by a name's number: a value that some graph defines */
    const Value *corrected; /* the first; NULL: none */
    size_t corrections, dropped;
} Repair;

/* ---- values ---------------------------------------------------------------------------------- */

typedef void (*Visitor)(Repair *r, Value *value);

static void each_value(Repair *r, Visitor visit) {
    for (size_t g = 0; g < r->graphs.count; g++) {
        const Graph *graph = r->graphs.items[g];
        for (size_t i = 0; i < graph->inputs.count; i++) visit(r, graph->inputs.items[i]);
        for (size_t i = 0; i < graph->initializers.count; i++)
            visit(r, graph->initializers.items[i]);
        for (const Node *node = graph->first; node; node = node_after(node))
            for (uint32_t i = 0; i < node->output_count; i++)
                if (node->outputs[i]) visit(r, node->outputs[i]);
    }
}

static void keep(Repair *r, Value *value) {
    r->before[value->id] = value->type;
    r->by_name[value->name->number] = value;
}

static bool is_operators(const Value *value) {
    const Node *node = value->producer;
    return node && node_schema(node) && !model_find_function(value->graph->model, node);
}

static void forget(Repair *r, Value *value) {
    (void)r;
    if (is_operators(value)) value_set_type(value, NULL);
}

static void give_back(Repair *r, Value *value) {
    value_set_type(value, r->before[value->id]);
}

/* ---- declarations ---------------------------------------------------------------------------- */

static bool contradicts(const Type *declared, const Type *is) {
    for (; declared && is; declared = declared->elem, is = is->elem) {
        if (declared->kind == TYPE_NONE || is->kind == TYPE_NONE) return false;
        if (declared->kind != is->kind || shapes_differ(declared, is)) return true;
        if (declared->dtype && is->dtype && declared->dtype != is->dtype) return true;
    }
    return false;
}

static void correct(Repair *r, const Value *value, ValueDecl *decl) {
    if (!decl || !contradicts(decl->type, value->type)) return;
    decl_set_type(r->ctx->model, decl, value->type);
    r->before[value->id] = value->type;
    if (!r->corrected) r->corrected = value;
    r->corrections++;
}

static void correct_info(Repair *r, Value *value) {
    if (is_operators(value)) correct(r, value, value->info);
}

/* An entry of a value that its graph does not define. */
static bool is_wrong_mention(const Repair *r, const Value *entry) {
    const Value *value = r->by_name[entry->name->number];
    return value && value != entry && entry->info && contradicts(entry->info->type, value->type);
}

static void correct_graph(Repair *r, const Graph *graph) {
    for (size_t i = 0; i < graph->outputs.count; i++) {
        const Value *value = graph->outputs.items[i]->use.value;
        if (is_operators(value)) correct(r, value, graph->outputs.items[i]->decl);
    }
    for (size_t i = graph->infos.count; i-- > 0;) {
        if (!is_wrong_mention(r, graph->infos.items[i])) continue;
        value_remove_info(graph->infos.items[i]);
        r->dropped++;
    }
}

/* ---- what operators give --------------------------------------------------------------------- */

/* What operators give, whatever is declared; false where that is not known for one that does not fit. */
static bool infer(Repair *r) {
    Err ignored = {0};
    each_value(r, forget);
    return strict_types_infer(r->ctx, &ignored) && infer_shapes_strict(r->ctx, &ignored);
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* A Cast to one type whose result is declared as another of the same kind, as converters leave them that
 * lower declarations and forget the attribute. */
typedef struct WrongCast {
    Node *node;
    Dtype to, declared;
    bool changed;
} WrongCast;

typedef VEC(WrongCast) WrongCasts;

static bool is_one_kind(Dtype a, Dtype b) {
    return (dtype_is_float(a) && dtype_is_float(b)) || (dtype_is_integer(a) && dtype_is_integer(b));
}

static WrongCasts find_casts(const Repair *r) {
    WrongCasts casts = {0};
    const Type **declared = declared_types(r->ctx->model, true, r->ctx->scratch);
    for (size_t g = 0; g < r->graphs.count; g++) {
        const Graph *graph = r->graphs.items[g];
        for (Node *node = graph->function ? NULL : graph->first; node; node = node_after(node)) {
            if (!node_is_cast(node) || !is_operators(node->outputs[0])) continue;
            WrongCast cast = {.node = node,
                              .to = (Dtype)node_attr_int(node, "to", DTYPE_UNDEFINED),
                              .declared = type_dtype(declared[node->outputs[0]->id])};
            if (cast.to != cast.declared && is_one_kind(cast.to, cast.declared))
                VEC_PUSH(r->ctx->scratch, &casts, cast);
        }
    }
    return casts;
}

static void set_cast(WrongCast *cast, bool changed) {
    node_set_attr_int(cast->node, "to", changed ? cast->declared : cast->to);
    cast->changed = changed;
}

/* Where operators do not fit what Casts give, but do fit what is declared of it, that was meant. Every Cast
 * that may stay as it is does: there the declaration alone is wrong. */
static bool correct_casts(Repair *r, const char *when) {
    enum { MOST_CASTS = 256 }; /* each is a look at the whole model */
    WrongCasts casts = find_casts(r);
    Arena *arena = &r->ctx->model->arena;
    const WrongCast *first = NULL;
    size_t count = 0;
    if (casts.count == 0 || casts.count > MOST_CASTS) return false;
    for (size_t i = 0; i < casts.count; i++) set_cast(&casts.items[i], true);
    const bool fits = infer(r);
    for (size_t i = 0; i < casts.count; i++) {
        set_cast(&casts.items[i], false);
        if (fits && !infer(r)) set_cast(&casts.items[i], true);
        if (!casts.items[i].changed) continue;
        if (!first) first = &casts.items[i];
        count++;
    }
    if (!fits) return false;
    pass_remark(r->ctx->counts, arena,
                arena_printf(arena,
                             "%zu Cast%s a type other than the declared one, such as '%s' (%s), "
                             "and the readers of %s accept only the declared one: corrected, %s",
                             count, count == 1 ? " gives" : "s give", node_label(first->node),
                             dtype_name(first->to), count == 1 ? "it" : "them", when));
    return infer(r);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void name_graphs(Repair *r, const char *when) {
    Model *model = r->ctx->model;
    size_t named = 0;
    for (size_t g = 0; g < r->graphs.count; g++) {
        Graph *graph = r->graphs.items[g];
        const bool needs = !graph->function || graph->owner;
        if (!needs || (graph->name && graph->name->length)) continue;
        model_touch(model);
        graph->name = sym_intern_cstr(&model->syms, graph->owner ? "body" : "main_graph");
        named++;
    }
    if (named)
        pass_remark(r->ctx->counts, &model->arena,
                    arena_printf(&model->arena, "%zu graph%s without a name got one, %s", named,
                                 named == 1 ? "" : "s", when));
}

static void remark(const Repair *r, const char *when) {
    Arena *arena = &r->ctx->model->arena;
    if (r->corrections)
        pass_remark(r->ctx->counts, arena,
                    arena_printf(arena,
                                 "the model declares %zu type%s or shape%s that contradict its "
                                 "operators, such as that of '%s': corrected, %s",
                                 r->corrections, r->corrections == 1 ? "" : "s",
                                 r->corrections == 1 ? "" : "s", sym_text(r->corrected->name),
                                 when));
    if (r->dropped)
        pass_remark(r->ctx->counts, arena,
                    arena_printf(arena,
                                 "the model has %zu value_info entr%s that contradict%s other "
                                 "declarations of the same values: dropped, %s",
                                 r->dropped, r->dropped == 1 ? "y" : "ies",
                                 r->dropped == 1 ? "s" : "", when));
}

bool repair_model(PassCtx *ctx, const char *when) {
    const Model *model = ctx->model;
    Repair r = {.ctx = ctx, .graphs = model_graphs(ctx->model, ctx->scratch)};
    r.before = ARENA_ARRAY(ctx->scratch, const Type *, model->value_count + 1u);
    r.by_name = ARENA_ARRAY(ctx->scratch, const Value *, model->syms.count + 1u);
    name_graphs(&r, when);
    each_value(&r, keep);
    const bool known = infer(&r) || correct_casts(&r, when);
    if (known) {
        model_batch_removals(ctx->model);
        each_value(&r, correct_info);
        for (size_t g = 0; g < r.graphs.count; g++)
            if (!r.graphs.items[g]->function) correct_graph(&r, r.graphs.items[g]);
        model_sweep(ctx->model, ctx->scratch);
        remark(&r, when);
    }
    each_value(&r, give_back);
    return known;
}
