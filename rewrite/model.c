// SPDX-License-Identifier: Apache-2.0
/* Models as a whole: making and freeing, opset imports, walking all graphs, naming things in
 * messages. */
#include "graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory_return.h"

Model *model_new(MemTrap *trap) {
    /* The Model lives in its own arena, so that one free ends everything. Until it is made, nobody
     * else can free it. */
    MemTrap inner;
    Arena arena;
    Model *volatile made = NULL;
    arena_init(&arena, &inner);
    if (setjmp(inner.env)) {
        model_free(made);
        longjmp(trap->env, 1);
    }
    Model *model = made = ARENA_NEW(&arena, Model);
    model->arena = arena;
    arena_init(&model->parts, &inner);
    sym_table_init(&model->syms, &model->arena);
    model->graph = graph_new(model, NULL);
    model->found = ARENA_NEW(&model->arena, GraphsFound);
    model->arena.trap = trap;
    return model;
}

void model_free(Model *model) {
    if (!model) return;
    arena_free(&model->parts);
    Arena arena = model->arena; /* the model's memory goes with it */
    arena_free(&arena);
}

void model_empty(Model *model) {
    Graph *graph = model->graph;
    arena_free(&model->parts);
    memory_return_much(); /* what comes next has other sizes */
    memset(&model->pools, 0, sizeof model->pools);
    graph->inputs.count = graph->outputs.count = graph->infos.count = graph->undefined.count = 0;
    graph->initializers.count = graph->sparse_initializers.count = graph->annotations.count = 0;
    graph->first = graph->last = NULL;
    graph->node_count = 0;
    model->functions.count = model->training.count = model->function_capacity = 0;
    model->value_count = model->node_count = model->use_count = 0;
    model->graph_count = 1;
    model->found->list.count = 0;
    model_touch(model);
}

bool domain_is_default(Sym domain) {
    return sym_is_empty(domain) || sym_equals(domain, "ai.onnx");
}

static bool domain_same(Sym a, Sym b) {
    return a == b || (domain_is_default(a) && domain_is_default(b));
}

int64_t opset_version(const OpsetImports *opsets, Sym domain) {
    int64_t version = 0;
    bool found = false;
    for (size_t i = opsets->count; i-- > 0;) {
        const OpsetImport *import = &opsets->items[i];
        if (!domain_same(import->domain, domain)) continue;
        if (!domain_is_default(domain) || sym_is_empty(import->domain)) return import->version;
        if (!found) version = import->version; /* of 'ai.onnx', where '' is not imported */
        found = true;
    }
    return version;
}

void model_import_opset(Model *model, OpsetImports *opsets, Sym domain, int64_t version) {
    for (size_t i = opsets->count; i-- > 0;) {
        OpsetImport *import = &opsets->items[i];
        if (!domain_same(import->domain, domain)) continue;
        if (import->version >= version) return;
        import->version = version;
        import->has_version = true;
        model_touch(model);
        return;
    }
    OpsetImport added = {.domain = domain, .version = version, .has_version = true};
    VEC_PUSH(&model->arena, opsets, added);
    model_touch(model);
}

void model_drop_import(Model *model, OpsetImports *opsets, Sym domain) {
    size_t kept = 0;
    for (size_t i = 0; i < opsets->count; i++)
        if (!domain_same(opsets->items[i].domain, domain)) opsets->items[kept++] = opsets->items[i];
    if (kept != opsets->count) model_touch(model);
    opsets->count = kept;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

typedef struct Walk {
    Model *model;
    GraphList *list;
} Walk;

static void walk_graph(Graph *graph, void *data) {
    Walk *walk = data;
    VEC_PUSH(&walk->model->arena, walk->list, graph);
    /* All graphs there are: no need to look for more in each node. */
    if (walk->list->count == walk->model->graph_count) return;
    for (const Node *node = graph->first; node; node = node_after(node))
        if (node->attrs) node_each_graph(node, walk_graph, walk);
}

static void walk_model(Model *model) {
    Walk walk = {model, &model->found->list};
    walk.list->count = 0;
    walk_graph(model->graph, &walk);
    for (size_t i = 0; i < model->functions.count; i++)
        walk_graph(model->functions.items[i]->body, &walk);
    for (size_t i = 0; i < model->training.count; i++) {
        const TrainingInfo *info = model->training.items[i];
        if (info->initialization) walk_graph(info->initialization, &walk);
        if (info->algorithm) walk_graph(info->algorithm, &walk);
    }
}

static bool is_found(const Model *model) {
    const GraphsFound *found = model->found;
    return found->list.count && found->edits == model->edits &&
           found->graph_count == model->graph_count &&
           found->function_count == model->functions.count &&
           found->training_count == model->training.count;
}

GraphList model_graphs(const Model *model, Arena *arena) {
    GraphsFound *found = model->found;
    if (!is_found(model)) {
        walk_model(model->graph->model);
        found->edits = model->edits;
        found->graph_count = model->graph_count;
        found->function_count = model->functions.count;
        found->training_count = model->training.count;
    }
    GraphList list = {.count = found->list.count, .capacity = found->list.count};
    list.items = arena_copy(arena, found->list.items, list.count * sizeof *list.items);
    return list;
}

static bool nests_too_deeply(const Graph *graph) {
    unsigned around = 0;
    while (around <= GRAPH_NESTING_MAX && (graph = graph->parent)) around++;
    return around > GRAPH_NESTING_MAX;
}

bool graph_check_nesting(const Graph *graph, Err *err) {
    if (!nests_too_deeply(graph)) return true;
    while (graph->parent && graph->parent->owner) graph = graph->parent;
    const Node *node = graph->owner;
    graph_nesting_error(err, node ? node_label(node) : "", node ? sym_text(node->op_type) : "");
    if (node) err_graph(err, node->graph);
    return false;
}

bool model_check_nesting(const Model *model, Arena *scratch, Err *err) {
    const GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++)
        if (!graph_check_nesting(graphs.items[i], err)) return false;
    return true;
}

void model_batch_removals(Model *model) {
    model->batch = true;
}

void model_sweep(Model *model, Arena *scratch) {
    model->batch = false;
    if (!model->unswept) return;
    model->unswept = false;
    const GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++) graph_sweep(graphs.items[i]);
}

bool graph_is_within(const Graph *inner, const Graph *outer) {
    while (inner && inner != outer) inner = inner->parent;
    return inner == outer;
}

/* What a call names a function by. */
typedef struct Callee {
    Sym name, domain, overload;
} Callee;

static bool callee_is(const Callee *callee, const Function *function) {
    bool same_overload = function->overload == callee->overload ||
                         (sym_is_empty(function->overload) && sym_is_empty(callee->overload));
    return function->name == callee->name && same_overload &&
           domain_same(function->domain, callee->domain);
}

/* The slot of the function that is called so, or the free one where it belongs. */
static Function **function_slot(const Model *model, const Callee *callee) {
    uint64_t hash = callee->name ? sym_hash(callee->name) : 0;
    hash = hash * 0x9e3779b1u + (domain_is_default(callee->domain) ? 0 : sym_hash(callee->domain));
    hash = hash * 0x9e3779b1u + (sym_is_empty(callee->overload) ? 0 : sym_hash(callee->overload));
    hash *= UINT64_C(
        0x9e3779b97f4a7c15); /* names of one stem are neighbors, and would lie in one row */
    size_t mask = model->function_capacity - 1;
    for (size_t i = hash >> 32 & mask;; i = (i + 1) & mask) {
        Function **slot = &model->function_slots[i];
        if (!*slot || callee_is(callee, *slot)) return slot;
    }
}

static void function_index(Model *model, Function *function) {
    const Callee callee = {function->name, function->domain, function->overload};
    Function **slot = function_slot(model, &callee);
    if (!*slot) *slot = function;
}

void model_add_function(Model *model, Function *function) {
    function->index = (uint32_t)model->functions.count;
    model->shadowing |= domain_is_default(function->domain);
    VEC_PUSH(&model->arena, &model->functions, function);
    if (model->functions.count * 2 <= model->function_capacity) {
        function_index(model, function);
        return;
    }
    model->function_capacity = model->function_capacity ? model->function_capacity * 2 : 16;
    model->function_slots = ARENA_ARRAY(&model->arena, Function *, model->function_capacity);
    for (size_t i = 0; i < model->functions.count; i++)
        function_index(model, model->functions.items[i]);
}

Function *model_find_function(const Model *model, const Node *node) {
    if (!model->function_capacity) return NULL;
    if (!model->shadowing && domain_is_default(node->domain)) return NULL;
    const Callee callee = {node->op_type, node->domain, node_extra(node)->overload};
    return *function_slot(model, &callee);
}

const NodeExtra *node_extra(const Node *node) {
    static const NodeExtra none;
    return node->extra ? node->extra : &none;
}

void node_set_extra(Node *node, NodeExtra extra) {
    bool any = extra.overload || extra.doc || extra.device_count || extra.rest.size;
    node->extra = any ? arena_copy(&node->graph->model->arena, &extra, sizeof extra) : NULL;
}

const char *node_label(const Node *node) {
    if (!sym_is_empty(node->name)) return node->name->text;
    if (node->note && node->note->label) return node->note->label;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) return sym_text(node->outputs[i]->name);
    return "";
}

/* Appends the text's first bytes, `most` of them; returns the length. */
static size_t path_put(char *path, size_t length, const char *text, size_t most) {
    for (size_t i = 0; i < most && text[i]; i++) path[length++] = text[i];
    path[length] = '\0';
    return length;
}

/* Which attribute of its owner holds the graph: "then_branch", "graphs[2]". */
static void graph_role(const Graph *graph, char role[64]) {
    for (const Attr *attr = graph->owner->attrs; attr; attr = attr->next) {
        if (attr->type == ATTR_GRAPH && attr->v.g == graph)
            path_put(role, 0, sym_text(attr->name), 63);
        for (uint32_t i = 0; attr->type == ATTR_GRAPHS && i < attr->count; i++)
            if (attr->v.graphs[i] == graph)
                snprintf(role, 64, "%s[%u]", sym_text(attr->name), (unsigned)i);
    }
}

/* A graph's own part of its path. */
static void graph_part(const Graph *graph, char part[GRAPH_PATH]) {
    if (!graph->owner) {
        const size_t length = path_put(part, 0, "function ", GRAPH_PATH);
        path_put(part, length, sym_text(graph->function->name), 120);
        return;
    }
    char role[64] = "";
    graph_role(graph, role);
    size_t length = path_put(part, 0, node_label(graph->owner), 80);
    length = path_put(part, length, "/", 1);
    path_put(part, length, role, sizeof role);
}

void graph_path(const Graph *graph, char path[GRAPH_PATH]) {
    enum { HALF = GRAPH_PATH / 2 - 2 };
    path[0] = '\0';
    for (; graph && (graph->owner || (graph->function && !graph->parent)); graph = graph->parent) {
        char part[GRAPH_PATH], inner[HALF + 1];
        path_put(inner, 0, path, HALF);
        graph_part(graph, part);
        size_t length = path_put(path, 0, part, HALF);
        if (inner[0]) length = path_put(path, length, "/", 1);
        path_put(path, length, inner, HALF);
    }
}

void err_graph(Err *err, const Graph *graph) {
    if (err && !err->graph[0]) graph_path(graph, err->graph);
}

bool node_error(const Node *node, Err *err, ErrCode code, const char *format, ...) {
    if (!err || err->code != ERR_NONE) return false;
    char what[sizeof err->what];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    err_set(err, code, "%s", what);
    snprintf(err->node, sizeof err->node, "%s", node_label(node));
    snprintf(err->op_type, sizeof err->op_type, "%s", sym_text(node->op_type));
    err_graph(err, node->graph);
    return false;
}
