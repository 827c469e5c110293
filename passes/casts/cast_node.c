// SPDX-License-Identifier: Apache-2.0
/* Making cast nodes. Their marks (metadata demi.inserted, and demi.was where an import was added)
 * are what strip-casts goes by. */
#include "cast_node.h"

#include <ctype.h>
#include <string.h>

#include "default_import.h"

void cast_set_to(Node *cast, Dtype to) {
    if (opset_version(cast->graph->opsets, NULL) >= 6) {
        node_set_attr_int(cast, "to", to);
        return;
    }
    char name[24] = ""; /* until opset 5, the type's name in upper case */
    const char *from = dtype_name(to);
    for (size_t i = 0; from[i] && i + 1 < sizeof name; i++)
        name[i] = (char)toupper((unsigned char)from[i]);
    node_set_attr_string(cast, "to", name);
}

enum { FEW = 256 };

/* What value's cast is to be called. The text is in `few` where it fits. */
static SymKey cast_name(PassCtx *ctx, const Value *value, Dtype to, char few[FEW]) {
    static const char joint[] = "_to_";
    const char *name = sym_text(value->name), *type = dtype_name(to);
    size_t length = strlen(name), more = strlen(joint), rest = strlen(type) + 1;
    bool fits = length + more + rest <= FEW;
    char *stem = fits ? few : arena_alloc(ctx->scratch, length + more + rest);
    memcpy(stem, name, length);
    memcpy(stem + length, joint, more);
    memcpy(stem + length + more, type, rest);
    return sym_key(&value->graph->model->syms, stem, length + more + rest - 1);
}

/* Attributes and metadata: those of *like where they would be the same. */
static void describe(Node *cast, Dtype to, Node **like) {
    const Node *before = like ? *like : NULL;
    if (before && before->graph->opsets == cast->graph->opsets &&
        type_dtype(before->outputs[0]->type) == to) {
        node_share_lists(cast, *like);
        return;
    }
    cast_set_to(cast, to);
    node_add_metadata(cast, "demi.inserted", "cast");
    if (like) *like = cast;
}

Value *cast_insert(PassCtx *ctx, Value *value, const Type *type, Node **like) {
    Dtype to = type_dtype(type);
    Graph *graph = value->graph;
    Model *model = graph->model;
    char few[FEW];
    SymKey stem = cast_name(ctx, value, to, few);
    if (!like || !*like || (*like)->graph->opsets != graph->opsets)
        default_import_for_cast(ctx, graph); /* else done, and it may take a walk */
    Node *before = value->producer ? value->producer->next : graph->first;
    Node *cast = node_new(graph, before, sym_intern_cstr(&model->syms, "Cast"), NULL);
    node_resize_inputs(cast, 1);
    node_resize_outputs(cast, 1);
    node_set_input(cast, 0, value);
    Sym name = sym_fresh_key(&model->syms, stem);
    cast->name = name;
    Value *result = value_new(graph, name);
    node_set_output(cast, 0, result);
    describe(cast, to, like);
    value_set_type(result, type);
    /* ONNX's inference does not read the name of a type: without this it knows none here. */
    if (opset_version(graph->opsets, NULL) < 6) value_add_info(result);
    ctx->counts->casts_added++;
    ctx->counts->rewrites++;
    return result;
}

void cast_name_output(PassCtx *ctx, Value *value, Value *cast) {
    Model *model = value->graph->model;
    if (cast->info) value_remove_info(cast); /* the output declares its type */
    value_swap_names(value, cast);
    char *stem = arena_printf(ctx->scratch, "%s_%s", sym_text(cast->name),
                              dtype_name(type_dtype(value->type)));
    value_rename(value, sym_fresh(&model->syms, stem));
}

/* ---- marks ----------------------------------------------------------------------------------- */

static bool has_mark(const KeyValue *entry) {
    for (; entry; entry = entry->next)
        if (sym_equals(entry->key, "demi.was") || sym_equals(entry->key, "demi.inserted"))
            return true;
    return false;
}

bool casts_left_mark(const Model *model, const GraphList *graphs) {
    if (has_mark(model->metadata)) return true;
    for (size_t g = 0; g < graphs->count; g++) {
        const Graph *graph = graphs->items[g];
        for (const Node *node = graph->first; node; node = node_after(node))
            if (node->metadata && has_mark(node->metadata)) return true;
        for (size_t i = 0; i < graph->inputs.count; i++)
            if (has_mark(graph->inputs.items[i]->input->metadata)) return true;
        for (size_t i = 0; i < graph->outputs.count; i++)
            if (has_mark(graph->outputs.items[i]->decl->metadata)) return true;
    }
    return false;
}

void casts_leave_mark(PassCtx *ctx) {
    GraphList main_graph = {0};
    if (ctx->counts->casts_added == 0) return;
    VEC_PUSH(ctx->scratch, &main_graph, ctx->model->graph);
    if (casts_left_mark(ctx->model, &main_graph)) return; /* mostly among the first nodes */
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    if (!casts_left_mark(ctx->model, &graphs))
        model_mark(ctx->model, NULL, "demi.was", CONSTANTS_MARK);
}
