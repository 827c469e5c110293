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

static bool shapes_differ(const Type *a, const Type *b) {
    if (!a->has_shape || !b->has_shape) return false;
    if (a->rank != b->rank) return true;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i].kind == DIM_KNOWN && b->dims[i].kind == DIM_KNOWN &&
            a->dims[i].size != b->dims[i].size)
            return true;
    return false;
}

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
        pass_remark(
            r->ctx->counts, arena,
            arena_printf(arena,
                         "the model declares %zu type%s or shape%s that its operators do not "
                         "give, such as that of '%s': corrected, %s",
                         r->corrections, r->corrections == 1 ? "" : "s",
                         r->corrections == 1 ? "" : "s", sym_text(r->corrected->name), when));
    if (r->dropped)
        pass_remark(
            r->ctx->counts, arena,
            arena_printf(arena,
                         "the model has %zu value_info entr%s that contradict%s what values "
                         "have elsewhere: dropped, %s",
                         r->dropped, r->dropped == 1 ? "y" : "ies", r->dropped == 1 ? "s" : "",
                         when));
}

/* What operators give, whatever is declared; false where that is not known for one that does not fit. */
static bool infer(PassCtx *ctx) {
    Err ignored = {0};
    return strict_types_infer(ctx, &ignored) && infer_shapes_strict(ctx, &ignored);
}

bool repair_model(PassCtx *ctx, const char *when) {
    const Model *model = ctx->model;
    Repair r = {.ctx = ctx, .graphs = model_graphs(ctx->model, ctx->scratch)};
    r.before = ARENA_ARRAY(ctx->scratch, const Type *, model->value_count + 1u);
    r.by_name = ARENA_ARRAY(ctx->scratch, const Value *, model->syms.count + 1u);
    name_graphs(&r, when);
    each_value(&r, keep);
    each_value(&r, forget);
    const bool known = infer(ctx);
    if (known) {
        each_value(&r, correct_info);
        for (size_t g = 0; g < r.graphs.count; g++)
            if (!r.graphs.items[g]->function) correct_graph(&r, r.graphs.items[g]);
        remark(&r, when);
    }
    each_value(&r, give_back);
    return known;
}
