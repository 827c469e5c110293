// SPDX-License-Identifier: Apache-2.0
/* strip-doc-strings: takes away what exporters note of nodes, values, graphs and functions: doc strings, and
 * metadata such as the line of Python that a node was made by, which can be more bytes than weights. What
 * the model says of itself stays, as do demi's own marks, by which conversions are undone. */
#include <string.h>

#include "passes.h"

typedef struct Notes {
    Model *model;
    uint64_t dropped;
} Notes;

static bool is_own(const KeyValue *entry) {
    return strncmp(sym_text(entry->key), "demi.", 5) == 0;
}

static void strip_list(Notes *notes, KeyValue **list) {
    while (*list) {
        if (is_own(*list)) {
            list = &(*list)->next;
            continue;
        }
        *list = (*list)->next;
        notes->dropped++;
    }
}

static void strip_doc(Notes *notes, Sym *doc) {
    notes->dropped += *doc != NULL;
    *doc = NULL;
}

static void strip_decl(Notes *notes, ValueDecl *decl) {
    if (!decl) return;
    strip_doc(notes, &decl->doc);
    strip_list(notes, &decl->metadata);
}

static void strip_node(Notes *notes, Node *node) {
    NodeExtra extra = *node_extra(node);
    if (extra.doc) {
        strip_doc(notes, &extra.doc);
        node_set_extra(node, extra);
    }
    for (const KeyValue *entry = node->metadata; entry;) {
        const Sym key = is_own(entry) ? NULL : entry->key;
        entry = entry->next;
        if (!key) continue;
        node_remove_metadata(node, sym_text(key)); /* all of that key, so begin again */
        entry = node->metadata;
        notes->dropped++;
    }
}

static void strip_graph(Notes *notes, Graph *graph) {
    strip_doc(notes, &graph->doc);
    strip_list(notes, &graph->metadata);
    for (size_t i = 0; i < graph->inputs.count; i++)
        strip_decl(notes, graph->inputs.items[i]->input);
    for (size_t i = 0; i < graph->outputs.count; i++)
        strip_decl(notes, graph->outputs.items[i]->decl);
    for (size_t i = 0; i < graph->infos.count; i++) strip_decl(notes, graph->infos.items[i]->info);
    for (Node *node = graph->first; node; node = node_after(node)) strip_node(notes, node);
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    Notes notes = {.model = ctx->model};
    const GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    (void)options;
    (void)err;
    for (size_t i = 0; i < graphs.count; i++) strip_graph(&notes, graphs.items[i]);
    for (size_t i = 0; i < ctx->model->functions.count; i++) {
        Function *function = ctx->model->functions.items[i];
        strip_doc(&notes, &function->doc);
        strip_list(&notes, &function->metadata);
    }
    ctx->counts->rewrites += notes.dropped;
    if (notes.dropped) model_touch(ctx->model);
    return true;
}

const PassInfo strip_doc_strings_pass = {
    .name = "strip-doc-strings",
    .summary = "remove doc strings and metadata of nodes and values",
    .idempotent = true,
    .keeps_shapes = true,
    .run = run,
};
