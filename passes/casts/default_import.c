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

/* ---- what is called -------------------------------------------------------------------------- */

/* Whose imports they are: a function's, or where it is NULL the model's. */
typedef struct Importer {
    Model *model;
    Function *function;
    OpsetImports *opsets;
} Importer;

static Importer importer_of(Model *model, Function *function) {
    return (Importer){model, function, function ? &function->opsets : &model->opsets};
}

typedef struct Calls {
    int64_t a, b;     /* versions */
    bool any, differ; /* operators of ONNX are called; one of them is another in b than in a */
} Calls;

static void add_calls(Graph *graph, void *data) {
    Calls *calls = data;
    for (const Node *node = graph->first; node && !calls->differ; node = node_after(node)) {
        if (domain_is_default(node->domain)) {
            calls->any = true;
            calls->differ = ops_find_sym(NULL, node->op_type, calls->a) !=
                            ops_find_sym(NULL, node->op_type, calls->b);
        }
        node_each_graph(node, add_calls, calls);
    }
}

/* What is called under these imports, of which the graphs are walked and no others. */
static Calls calls_under(const Importer *importer, int64_t a, int64_t b) {
    Calls calls = {.a = a, .b = b};
    const Model *model = importer->model;
    add_calls(importer->function ? importer->function->body : model->graph, &calls);
    for (size_t i = 0; !importer->function && i < model->training.count; i++) {
        const TrainingInfo *info = model->training.items[i];
        if (info->initialization) add_calls(info->initialization, &calls);
        if (info->algorithm) add_calls(info->algorithm, &calls);
    }
    return calls;
}

/* True where the operators that are called under these imports are the same at both versions. */
static bool are_same(const Importer *importer, int64_t a, int64_t b) {
    return !calls_under(importer, a, b).differ;
}

/* True where a node under these imports calls ONNX's operators. */
static bool has_calls(const Importer *importer) {
    return calls_under(importer, 1, 1).any;
}

/* ---- imports --------------------------------------------------------------------------------- */

/* True where both import the default domain, and a Cast is not the same in the model. */
static bool is_apart(const Model *model, const OpsetImports *opsets) {
    const int64_t own = opset_version(opsets, NULL), main = opset_version(&model->opsets, NULL);
    return own && main && own != main && ops_find("", "Cast", own) != ops_find("", "Cast", main);
}

static void leave_mark(const Importer *importer, int64_t version) {
    Mark mark;
    mark_of(mark, version);
    model_mark(importer->model, importer->function, key, mark);
}

/* A function that is apart comes to import what the model does. */
static void follow_model(const Importer *importer) {
    Model *model = importer->model;
    const int64_t own = opset_version(importer->opsets, NULL);
    const int64_t main = opset_version(&model->opsets, NULL);
    if (!is_apart(model, importer->opsets) || !are_same(importer, own, main)) return;
    import(model, importer->opsets, main);
    leave_mark(importer, own);
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
    const Importer importer = importer_of(model, graph->function);
    if (opset_version(graph->opsets, NULL)) {
        follow_model(&importer);
        return;
    }
    import(model, graph->opsets, common_version(model));
    leave_mark(&importer, 0);
    for (size_t i = 0; !graph->function && i < model->functions.count; i++) {
        const Importer function = importer_of(model, model->functions.items[i]);
        follow_model(&function);
    }
}

static void restore(const Importer *importer) {
    Model *model = importer->model;
    const int64_t own = opset_version(importer->opsets, NULL);
    Mark mark;
    mark_of(mark, 0);
    if (model_take_mark(model, importer->function, key, mark) && !has_calls(importer))
        model_drop_import(model, importer->opsets, NULL);
    for (int64_t was = 1; was <= ops_latest_opset(""); was++) {
        mark_of(mark, was);
        if (model_take_mark(model, importer->function, key, mark) && are_same(importer, own, was))
            import(model, importer->opsets, was);
    }
}

void default_imports_restore(Model *model) {
    Importer importer = importer_of(model, NULL);
    restore(&importer);
    for (size_t i = 0; i < model->functions.count; i++) {
        importer = importer_of(model, model->functions.items[i]);
        restore(&importer);
    }
}
