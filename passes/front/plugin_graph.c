// SPDX-License-Identifier: Apache-2.0
/* What plug-ins read of a model's structure. Nothing here fails: what is not there, and what is
 * asked of nothing, is NULL, 0, false or "". */
#include <string.h>

#include "constants.h"
#include "op_types.h"
#include "plugin.h"

static const char *text_of(Sym sym) {
    return sym_text(sym);
}

/* ---- the model ------------------------------------------------------------------------------- */

static DemiGraph *api_main_graph(const DemiPassRun *run) {
    return graph_out(run->ctx->model->graph);
}

static DemiGraph *const *api_graphs(DemiPassRun *run, size_t *count) {
    *count = 0;
    ENTER(run, NULL);
    GraphList list = model_graphs(run->ctx->model, plugin_scratch(run));
    DemiGraph **graphs = ARENA_ARRAY(plugin_scratch(run), DemiGraph *, list.count);
    for (size_t i = 0; i < list.count; i++) graphs[i] = graph_out(list.items[i]);
    *count = list.count;
    return graphs;
}

static int64_t api_ir_version(const DemiPassRun *run) {
    return run->ctx->model->ir_version;
}

static const char *api_model_metadata(const DemiPassRun *run, const char *key) {
    for (const KeyValue *at = run->ctx->model->metadata; key && at; at = at->next)
        if (sym_equals(at->key, key)) return text_of(at->value);
    return NULL;
}

static size_t api_function_count(const DemiPassRun *run) {
    return run->ctx->model->functions.count;
}

static DemiFunction *api_function_at(const DemiPassRun *run, size_t i) {
    const Model *model = run->ctx->model;
    return i < model->functions.count ? function_out(model->functions.items[i]) : NULL;
}

static DemiFunction *api_called_function(const DemiPassRun *run, const DemiNode *node) {
    return node ? function_out(model_find_function(run->ctx->model, node_of(node))) : NULL;
}

static const char *api_function_name(const DemiFunction *function) {
    return function ? text_of(function_of(function)->name) : "";
}

static const char *domain_text(Sym domain) {
    return domain_is_default(domain) ? "" : text_of(domain);
}

static const char *api_function_domain(const DemiFunction *function) {
    return function ? domain_text(function_of(function)->domain) : "";
}

static DemiGraph *api_function_body(const DemiFunction *function) {
    return function ? graph_out(function_of(function)->body) : NULL;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static const char *api_graph_name(const DemiGraph *graph) {
    return graph ? text_of(graph_of(graph)->name) : "";
}

static DemiGraph *api_graph_parent(const DemiGraph *graph) {
    return graph ? graph_out(graph_of(graph)->parent) : NULL;
}

static DemiNode *api_graph_owner(const DemiGraph *graph) {
    return graph ? node_out(graph_of(graph)->owner) : NULL;
}

static DemiFunction *api_graph_function(const DemiGraph *graph) {
    return graph ? function_out(graph_of(graph)->function) : NULL;
}

static DemiNode *api_graph_first(const DemiGraph *graph) {
    return graph ? node_out(graph_of(graph)->first) : NULL;
}

static DemiNode *api_graph_last(const DemiGraph *graph) {
    return graph ? node_out(graph_of(graph)->last) : NULL;
}

static size_t api_graph_node_count(const DemiGraph *graph) {
    return graph ? graph_of(graph)->node_count : 0;
}

static size_t api_graph_input_count(const DemiGraph *graph) {
    return graph ? graph_of(graph)->inputs.count : 0;
}

static DemiValue *api_graph_input(const DemiGraph *graph, size_t i) {
    return i < api_graph_input_count(graph) ? value_out(graph_of(graph)->inputs.items[i]) : NULL;
}

static size_t api_graph_output_count(const DemiGraph *graph) {
    return graph ? graph_of(graph)->outputs.count : 0;
}

static GraphOutput *output_at(const DemiGraph *graph, size_t i) {
    return i < api_graph_output_count(graph) ? graph_of(graph)->outputs.items[i] : NULL;
}

static DemiUse *api_graph_output(const DemiGraph *graph, size_t i) {
    GraphOutput *output = output_at(graph, i);
    return output ? use_out(&output->use) : NULL;
}

static const DemiType *api_graph_output_type(const DemiGraph *graph, size_t i) {
    const GraphOutput *output = output_at(graph, i);
    return output ? type_out(output->decl->type) : NULL;
}

/* Removals are swept where somebody looks. */
static const Graph *swept(const DemiGraph *graph) {
    graph_sweep(graph_in((DemiGraph *)graph));
    return graph_of(graph);
}

static size_t api_graph_initializer_count(const DemiGraph *graph) {
    return graph ? swept(graph)->initializers.count : 0;
}

static DemiValue *api_graph_initializer(const DemiGraph *graph, size_t i) {
    if (i >= api_graph_initializer_count(graph)) return NULL;
    return value_out(graph_of(graph)->initializers.items[i]);
}

static Value *find_among(Value *const *items, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (items[i] && sym_equals(items[i]->name, name)) return items[i];
    return NULL;
}

static DemiValue *api_graph_find_value(const DemiGraph *handle, const char *name) {
    if (!handle || !name) return NULL;
    const Graph *graph = swept(handle);
    Value *found = find_among(graph->inputs.items, graph->inputs.count, name);
    if (!found) found = find_among(graph->initializers.items, graph->initializers.count, name);
    for (const Node *node = graph->first; node && !found; node = node_after(node))
        found = find_among(node->outputs, node->output_count, name);
    return value_out(found);
}

static int64_t api_graph_opset(const DemiGraph *handle, const char *domain) {
    if (!handle) return 0;
    const Graph *graph = graph_of(handle);
    const char *wanted = ops_domain(domain);
    for (size_t i = 0; i < graph->opsets->count; i++) {
        const OpsetImport *import = &graph->opsets->items[i];
        if (strcmp(domain_text(import->domain), wanted) == 0) return import->version;
    }
    return 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static DemiNode *api_node_next(const DemiNode *node) {
    return node ? node_out(node_of(node)->next) : NULL;
}

static DemiNode *api_node_previous(const DemiNode *node) {
    return node ? node_out(node_of(node)->prev) : NULL;
}

static DemiGraph *api_node_graph(const DemiNode *node) {
    return node ? graph_out(node_of(node)->graph) : NULL;
}

static const char *api_node_op_type(const DemiNode *node) {
    return node ? text_of(node_of(node)->op_type) : "";
}

static const char *api_node_domain(const DemiNode *node) {
    return node ? domain_text(node_of(node)->domain) : "";
}

static const char *api_node_name(const DemiNode *node) {
    return node ? text_of(node_of(node)->name) : "";
}

static const char *api_node_label(const DemiNode *node) {
    return node ? node_label(node_of(node)) : "";
}

static bool api_node_is_known(const DemiNode *handle) {
    const Node *node = node_of(handle);
    return node && (node_schema(node) || model_find_function(node->graph->model, node));
}

static size_t api_node_input_count(const DemiNode *node) {
    return node ? node_of(node)->input_count : 0;
}

static DemiUse *api_node_input_use(const DemiNode *node, size_t i) {
    return i < api_node_input_count(node) ? use_out(&node_of(node)->inputs[i]) : NULL;
}

static DemiValue *api_node_input(const DemiNode *node, size_t i) {
    return i < api_node_input_count(node) ? value_out(node_of(node)->inputs[i].value) : NULL;
}

static size_t api_node_output_count(const DemiNode *node) {
    return node ? node_of(node)->output_count : 0;
}

static DemiValue *api_node_output(const DemiNode *node, size_t i) {
    return i < api_node_output_count(node) ? value_out(node_of(node)->outputs[i]) : NULL;
}

static const char *api_node_metadata(const DemiNode *node, const char *key) {
    Sym value = node && key ? node_metadata(node_of(node), key) : NULL;
    return value ? text_of(value) : NULL;
}

/* ---- values and uses ------------------------------------------------------------------------- */

static const char *api_value_name(const DemiValue *value) {
    return value ? text_of(value_of(value)->name) : "";
}

static DemiGraph *api_value_graph(const DemiValue *value) {
    return value ? graph_out(value_of(value)->graph) : NULL;
}

static DemiNode *api_value_producer(const DemiValue *value) {
    return value ? node_out(value_of(value)->producer) : NULL;
}

static size_t api_value_output_index(const DemiValue *value) {
    return value ? value_of(value)->output_index : 0;
}

static size_t api_value_use_count(const DemiValue *value) {
    return value ? value_of(value)->use_count : 0;
}

static DemiUse *api_value_first_use(const DemiValue *value) {
    return value ? use_out(value_of(value)->uses) : NULL;
}

static const DemiType *api_value_type(const DemiValue *value) {
    return value ? type_out(value_of(value)->type) : NULL;
}

static DemiDtype api_value_dtype(const DemiValue *handle) {
    const Value *value = value_of(handle);
    if (!value) return DEMI_UNDEFINED;
    /* The type of an initializer is told only by infer-dtypes, or by its data. */
    if (!value->type && value->init) return (DemiDtype)value->init->dtype;
    return (DemiDtype)type_dtype(value->type);
}

static bool api_value_is_input(const DemiValue *value) {
    return value && value_of(value)->input;
}

static bool api_value_is_output(const DemiValue *value) {
    for (const Use *use = value ? value_of(value)->uses : NULL; use; use = use->next)
        if (!use->node) return true;
    return false;
}

static bool api_value_is_initializer(const DemiValue *value) {
    return value && (value_of(value)->init || value_of(value)->sparse_init);
}

static bool api_value_is_referenced(const DemiValue *value) {
    return value && value_of(value)->referenced;
}

static const DemiTensor *api_value_constant(DemiPassRun *run, const DemiValue *value) {
    if (!value) return NULL;
    ENTER(run, NULL);
    /* In the model's memory: the pass may put it into the model. */
    const Tensor *tensor = constant_tensor(value_of(value), plugin_arena(run));
    return tensor && tensor->storage != TENSOR_STRINGS ? tensor_out(tensor) : NULL;
}

static const DemiTensor *api_value_initializer(const DemiValue *value) {
    return value ? tensor_out(value_of(value)->init) : NULL;
}

static DemiUse *api_use_next(const DemiUse *use) {
    return use ? use_out(use_of(use)->next) : NULL;
}

static DemiValue *api_use_value(const DemiUse *use) {
    return use ? value_out(use_of(use)->value) : NULL;
}

static DemiNode *api_use_node(const DemiUse *use) {
    return use ? node_out(use_of(use)->node) : NULL;
}

static DemiGraph *api_use_graph(const DemiUse *use) {
    return use ? graph_out(use_graph(use_of(use))) : NULL;
}

static size_t api_use_index(const DemiUse *use) {
    return use ? use_of(use)->index : 0;
}

static void fill_nodes(DemiApi *api) {
    api->node_next = api_node_next;
    api->node_previous = api_node_previous;
    api->node_graph = api_node_graph;
    api->node_op_type = api_node_op_type;
    api->node_domain = api_node_domain;
    api->node_name = api_node_name;
    api->node_label = api_node_label;
    api->node_is_known = api_node_is_known;
    api->node_input_count = api_node_input_count;
    api->node_input_use = api_node_input_use;
    api->node_input = api_node_input;
    api->node_output_count = api_node_output_count;
    api->node_output = api_node_output;
    api->node_metadata = api_node_metadata;
}

static void fill_values(DemiApi *api) {
    api->value_name = api_value_name;
    api->value_graph = api_value_graph;
    api->value_producer = api_value_producer;
    api->value_output_index = api_value_output_index;
    api->value_use_count = api_value_use_count;
    api->value_first_use = api_value_first_use;
    api->value_type = api_value_type;
    api->value_dtype = api_value_dtype;
    api->value_is_input = api_value_is_input;
    api->value_is_output = api_value_is_output;
    api->value_is_initializer = api_value_is_initializer;
    api->value_is_referenced = api_value_is_referenced;
    api->value_constant = api_value_constant;
    api->value_initializer = api_value_initializer;
    api->use_next = api_use_next;
    api->use_value = api_use_value;
    api->use_node = api_use_node;
    api->use_graph = api_use_graph;
    api->use_index = api_use_index;
}

void plugin_fill_graph(DemiApi *api) {
    api->main_graph = api_main_graph;
    api->graphs = api_graphs;
    api->ir_version = api_ir_version;
    api->model_metadata = api_model_metadata;
    api->function_count = api_function_count;
    api->function_at = api_function_at;
    api->called_function = api_called_function;
    api->function_name = api_function_name;
    api->function_domain = api_function_domain;
    api->function_body = api_function_body;
    api->graph_name = api_graph_name;
    api->graph_parent = api_graph_parent;
    api->graph_owner = api_graph_owner;
    api->graph_function = api_graph_function;
    api->graph_first = api_graph_first;
    api->graph_last = api_graph_last;
    api->graph_node_count = api_graph_node_count;
    api->graph_input_count = api_graph_input_count;
    api->graph_input = api_graph_input;
    api->graph_output_count = api_graph_output_count;
    api->graph_output = api_graph_output;
    api->graph_output_type = api_graph_output_type;
    api->graph_initializer_count = api_graph_initializer_count;
    api->graph_initializer = api_graph_initializer;
    api->graph_find_value = api_graph_find_value;
    api->graph_opset = api_graph_opset;
    fill_nodes(api);
    fill_values(api);
}
