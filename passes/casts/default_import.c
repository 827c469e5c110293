// SPDX-License-Identifier: Apache-2.0
/* Imports for casts, and their marks: "opset_import=" where there was none, else with the number
 * that there was; see default_import.h. */
#include "default_import.h"

#include <inttypes.h>
#include <stdio.h>

#include "op_types.h"

static const char key[] = "demi.was";

typedef char Mark[40];

static void mark_of(Mark mark, int64_t version) {
    if (version)
        snprintf(mark, sizeof(Mark), "opset_import=%" PRId64, version);
    else
        snprintf(mark, sizeof(Mark), "opset_import=");
}

/* The newest opset that was published with an IR version (ONNX's Versioning.md), or 13 if that is
 * newer, where Cast learnt bfloat16. */
static int64_t opset_of_ir(int64_t ir_version) {
    static const int8_t opsets[] = {1, 1, 1, 8, 9, 10, 11, 14, 18, 20, 22, 23, 24, 25, 28};
    int64_t last = (int64_t)sizeof opsets - 1;
    if (ir_version < 0) ir_version = 0;
    int64_t opset = opsets[ir_version > last ? last : ir_version];
    return opset < 13 ? 13 : opset;
}

static void import(Model *model, OpsetImports *opsets, int64_t version) {
    model_drop_import(model, opsets, NULL);
    model_import_opset(model, opsets, sym_intern_cstr(&model->syms, ""), version);
}

/* True where the operators that are called under these imports are the same at both versions. */
static bool are_same(const GraphList *graphs, const OpsetImports *opsets, int64_t a, int64_t b) {
    for (size_t i = 0; i < graphs->count; i++)
        for (const Node *node = graphs->items[i]->first; node; node = node_after(node))
            if (graphs->items[i]->opsets == opsets && domain_is_default(node->domain) &&
                ops_find_sym(NULL, node->op_type, a) != ops_find_sym(NULL, node->op_type, b))
                return false;
    return true;
}

/* True where both import the default domain, and a Cast is not the same in the model. */
static bool is_apart(const Model *model, const OpsetImports *opsets) {
    const int64_t own = opset_version(opsets, NULL), main = opset_version(&model->opsets, NULL);
    return own && main && own != main && ops_find("", "Cast", own) != ops_find("", "Cast", main);
}

/* A function that is apart comes to import what the model does. */
static void follow_model(Model *model, const GraphList *graphs, OpsetImports *opsets) {
    const int64_t own = opset_version(opsets, NULL), main = opset_version(&model->opsets, NULL);
    if (!is_apart(model, opsets) || !are_same(graphs, opsets, own, main)) return;
    Mark mark;
    mark_of(mark, own);
    import(model, opsets, main);
    model_mark(model, opsets, key, mark);
}

/* What a graph without an import comes to have: what others of the model have. */
static int64_t common_version(const Model *model) {
    int64_t version = opset_version(&model->opsets, NULL);
    for (size_t i = 0; !version && i < model->functions.count; i++)
        version = opset_version(&model->functions.items[i]->opsets, NULL);
    return version ? version : opset_of_ir(model->ir_version);
}

void default_import_for_cast(PassCtx *ctx, Graph *graph) {
    Model *model = ctx->model;
    const bool own = opset_version(graph->opsets, NULL);
    if (own && !is_apart(model, graph->opsets)) return;
    const GraphList graphs = model_graphs(model, ctx->scratch);
    if (own) {
        follow_model(model, &graphs, graph->opsets);
        return;
    }
    Mark mark;
    mark_of(mark, 0);
    import(model, graph->opsets, common_version(model));
    model_mark(model, graph->opsets, key, mark);
    for (size_t i = 0; graph->opsets == &model->opsets && i < graphs.count; i++)
        if (graphs.items[i]->opsets != &model->opsets)
            follow_model(model, &graphs, graphs.items[i]->opsets);
}

/* True where a node under these imports calls ONNX's operators. */
static bool has_calls(const GraphList *graphs, const OpsetImports *opsets) {
    for (size_t i = 0; i < graphs->count; i++)
        for (const Node *node = graphs->items[i]->first; node; node = node_after(node))
            if (graphs->items[i]->opsets == opsets && domain_is_default(node->domain)) return true;
    return false;
}

void default_import_restore(Model *model, const GraphList *graphs, OpsetImports *opsets) {
    const int64_t own = opset_version(opsets, NULL);
    Mark mark;
    mark_of(mark, 0);
    if (model_take_mark(model, opsets, key, mark) && !has_calls(graphs, opsets))
        model_drop_import(model, opsets, NULL);
    for (int64_t was = 1; was <= ops_latest_opset(""); was++) {
        mark_of(mark, was);
        if (model_take_mark(model, opsets, key, mark) && are_same(graphs, opsets, own, was))
            import(model, opsets, was);
    }
}
