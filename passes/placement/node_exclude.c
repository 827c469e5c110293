// SPDX-License-Identifier: Apache-2.0
/* Reasons of nodes that PATTERNs keep in fp32; see node_exclude.h. Matching is node_pattern.c's;
 * here matches become words, which nodes that match alike share. */
#include "node_exclude.h"

#include <string.h>

#include "text_distance.h"

static const char by_name[] = "kept by name";

static const char *keep_reason(Model *model, const char *pattern) {
    return arena_printf(&model->arena, "kept by '%s'", pattern);
}

/* Nodes that are called by their own names have one reason in common, however many they are. */
static void explain_names(const GraphList *graphs, const char **table) {
    static const char prefix[] = "name:";
    for (size_t i = 0; i < graphs->count; i++)
        for (const Node *node = graphs->items[i]->first; node; node = node_after(node)) {
            const char *pattern = table[node->id], *label = node_label(node);
            if (!pattern) continue;
            if (strncmp(pattern, prefix, sizeof prefix - 1) == 0) pattern += sizeof prefix - 1;
            if (strcmp(pattern, label) == 0) table[node->id] = by_name;
        }
}

/* Turns patterns into reasons. Neighbors usually match the same one: its text is shared. */
static void explain(Model *model, const char **table, Arena *scratch) {
    const char *last = NULL, *reason = NULL;
    GraphList graphs = model_graphs(model, scratch);
    explain_names(&graphs, table);
    for (uint32_t id = 0; id < model->node_count; id++) {
        if (table[id] == by_name) continue;
        if (!table[id]) continue;
        if (table[id] != last) {
            last = table[id];
            reason = keep_reason(model, last);
        }
        table[id] = reason;
    }
}

const char **node_exclusions(Model *model, const NodePatterns *patterns, Arena *scratch, Err *err) {
    const char **excluded = node_patterns_match(model, patterns, scratch, err);
    if (!excluded) return NULL;
    explain(model, excluded, scratch);
    if (patterns->only.count == 0) return excluded;
    NodePatterns only = {.keep = patterns->only, .allow_unmatched = patterns->allow_unmatched};
    const char **wanted = node_patterns_match(model, &only, scratch, err);
    if (!wanted) return NULL;
    for (uint32_t id = 0; id < model->node_count; id++)
        if (!wanted[id] && !excluded[id]) excluded[id] = "not selected by --only";
    return excluded;
}

static const Value *io_value(const Graph *graph, size_t i, bool outputs) {
    return outputs ? graph->outputs.items[i]->use.value : graph->inputs.items[i];
}

static void no_such_io(const Graph *graph, const char *name, bool outputs, Err *err) {
    size_t count = outputs ? graph->outputs.count : graph->inputs.count;
    NearestName nearest = nearest_name_of(name);
    for (size_t i = 0; i < count; i++)
        nearest_name_try(&nearest, sym_text(io_value(graph, i, outputs)->name));
    err_set(err, ERR_USAGE, "the model has no %s '%s'", outputs ? "output" : "input", name);
    if (nearest.best) err_hint(err, "did you mean '%s'?", nearest.best);
}

/* Its name's number; one that no name has, where it has none. */
static size_t io_number(const Graph *graph, size_t i, bool outputs) {
    const Sym name = io_value(graph, i, outputs)->name;
    return name ? name->number : graph->model->syms.count;
}

bool *node_named_io(const Model *model, const PassStrings *names, bool outputs, Arena *scratch,
                    Err *err) {
    const Graph *graph = model->graph;
    size_t count = outputs ? graph->outputs.count : graph->inputs.count;
    bool *named = ARENA_ARRAY(scratch, bool, count);
    bool *there = ARENA_ARRAY(scratch, bool, model->syms.count + 1); /* by a name's number */
    bool *wanted = ARENA_ARRAY(scratch, bool, model->syms.count + 1);
    for (size_t i = 0; i < count; i++) there[io_number(graph, i, outputs)] = true;
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        const Sym sym = sym_find(&model->syms, name, strlen(name));
        if (!sym || !there[sym->number]) return no_such_io(graph, name, outputs, err), NULL;
        wanted[sym->number] = true;
    }
    for (size_t i = 0; i < count; i++) named[i] = wanted[io_number(graph, i, outputs)];
    return named;
}
