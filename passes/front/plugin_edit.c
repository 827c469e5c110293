// SPDX-License-Identifier: Apache-2.0
/* What plug-ins change in a model's structure: nodes, operands, names, initializers, subgraphs.
 *
 * Each function checks first that the change can be made, so that what it hands to the primitives
 * of graph.h keeps their preconditions: a plug-in can make a wrong model, which verify finds, but
 * no broken lists. */
#include <stdio.h>
#include <string.h>

#include "constants.h"
#include "op_types.h"
#include "plugin.h"

/* The name of the calling function without "api_". */
#define MISUSE(run, what) plugin_misuse((run), __func__ + 4, (what))

static bool node_is_live(const Node *node) {
    return node && (node->prev || node->next || node->graph->first == node);
}

static const char no_node[] = "the node is NULL or was removed";

/* The domain as nodes spell it: none for the default one. */
static Sym domain_sym(const DemiPassRun *run, const char *domain) {
    const char *text = ops_domain(domain);
    return text[0] ? plugin_sym(run, text) : NULL;
}

/* `name`, or where it is NULL `stem`; with a number where it is taken. */
static Sym fresh_name(const DemiPassRun *run, const char *name, const char *stem) {
    return sym_fresh(&run->ctx->model->syms, name && name[0] ? name : stem);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void metadata_set(const DemiPassRun *run, KeyValue **at, const char *key,
                         const char *value) {
    while (*at && !sym_equals((*at)->key, key)) at = &(*at)->next;
    if (!*at) *at = ARENA_NEW(plugin_arena(run), KeyValue);
    (*at)->key = plugin_sym(run, key);
    (*at)->value = plugin_sym(run, value);
    model_touch(run->ctx->model);
}

static bool api_model_set_metadata(DemiPassRun *run, const char *key, const char *value) {
    if (!key || !value) return MISUSE(run, "key or value is NULL");
    ENTER(run, false);
    metadata_set(run, &run->ctx->model->metadata, key, value);
    return true;
}

static bool api_graph_import(DemiPassRun *run, DemiGraph *graph, const char *domain,
                             int64_t version) {
    if (!graph || version < 1) return MISUSE(run, "the graph is NULL, or the version below 1");
    ENTER(run, false);
    OpsetImports *opsets = graph_in(graph)->opsets;
    Sym name = domain_sym(run, domain);
    int64_t have = opset_version(opsets, name);
    if (have && have != version) return MISUSE(run, "the domain is imported at another version");
    if (!have) model_import_opset(run->ctx->model, opsets, name, version);
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_imported(DemiPassRun *run, const Graph *graph, Sym domain) {
    if (opset_version(graph->opsets, domain)) return true;
    err_set(&run->err, ERR_MODEL, "the model does not import the domain '%s'",
            domain ? domain->text : "ai.onnx");
    err_graph(&run->err, graph);
    return false;
}

static bool in_scope(const Graph *reader, const Value *value) {
    return graph_is_within(reader, value->graph);
}

static void add_outputs(const DemiPassRun *run, Node *node, const DemiNewNode *of) {
    const char *stem = of->name && of->name[0] ? of->name : of->op_type;
    node_resize_outputs(node, (uint32_t)of->output_count);
    for (uint32_t i = 0; i < of->output_count; i++) {
        const char *name = of->outputs ? of->outputs[i] : NULL;
        node_set_output(node, i, value_new(node->graph, fresh_name(run, name, stem)));
    }
}

static const char *node_fault(const Graph *graph, const DemiNewNode *of) {
    const Node *before = of->before ? node_of(of->before) : NULL;
    if (!of->op_type || !of->op_type[0]) return "op_type is missing";
    if (before && (!node_is_live(before) || before->graph != graph))
        return "`before` is not a node of the graph";
    if (of->input_count && !of->inputs) return "inputs are missing";
    if (of->input_count > UINT16_MAX || of->output_count > UINT16_MAX) return "too many operands";
    for (size_t i = 0; i < of->input_count; i++)
        if (of->inputs[i] && !in_scope(graph, value_of(of->inputs[i])))
            return "an input belongs to a graph that does not contain this one";
    return NULL;
}

static DemiNode *api_node_new(DemiPassRun *run, DemiGraph *handle, const DemiNewNode *given) {
    DemiNewNode of = {0};
    if (!handle || !given) return MISUSE(run, "graph or description is NULL"), NULL;
    memcpy(&of, given, given->size < sizeof of ? given->size : sizeof of);
    Graph *graph = graph_in(handle);
    const char *fault = node_fault(graph, &of);
    if (fault) return MISUSE(run, fault), NULL;
    ENTER(run, NULL);
    Sym domain = domain_sym(run, of.domain);
    if (!is_imported(run, graph, domain)) return NULL;
    Node *node =
        node_new(graph, of.before ? node_in(of.before) : NULL, plugin_sym(run, of.op_type), domain);
    if (of.name) node->name = plugin_sym(run, of.name);
    node_resize_inputs(node, (uint32_t)of.input_count);
    for (uint32_t i = 0; i < of.input_count; i++)
        node_set_input(node, i, of.inputs[i] ? value_in(of.inputs[i]) : NULL);
    add_outputs(run, node, &of);
    return node_out(node);
}

static bool api_node_set_name(DemiPassRun *run, DemiNode *handle, const char *name) {
    if (!node_is_live(node_of(handle))) return MISUSE(run, no_node);
    ENTER(run, false);
    node_in(handle)->name = name ? plugin_sym(run, name) : NULL;
    model_touch(run->ctx->model);
    return true;
}

static bool api_node_set_op(DemiPassRun *run, DemiNode *handle, const char *domain,
                            const char *op_type) {
    if (!node_is_live(node_of(handle))) return MISUSE(run, no_node);
    if (!op_type || !op_type[0]) return MISUSE(run, "op_type is missing");
    ENTER(run, false);
    Node *node = node_in(handle);
    Sym name = domain_sym(run, domain);
    if (!is_imported(run, node->graph, name)) return false;
    node->op_type = plugin_sym(run, op_type);
    node->domain = name;
    NodeExtra extra = *node_extra(node);
    extra.overload = NULL;
    node_set_extra(node, extra);
    model_touch(run->ctx->model);
    return true;
}

static bool api_node_set_input(DemiPassRun *run, DemiNode *handle, size_t i, DemiValue *value) {
    Node *node = node_in(handle);
    if (!node_is_live(node)) return MISUSE(run, no_node);
    if (i > node->input_count || i > UINT16_MAX) return MISUSE(run, "there is no such input");
    if (value && !in_scope(node->graph, value_of(value)))
        return MISUSE(run, "the value belongs to a graph that does not contain the node");
    ENTER(run, false);
    if (i == node->input_count) node_resize_inputs(node, (uint32_t)i + 1);
    node_set_input(node, (uint32_t)i, value_in(value));
    return true;
}

static bool api_node_set_input_count(DemiPassRun *run, DemiNode *handle, size_t count) {
    if (!node_is_live(node_of(handle))) return MISUSE(run, no_node);
    if (count > UINT16_MAX) return MISUSE(run, "too many inputs");
    ENTER(run, false);
    node_resize_inputs(node_in(handle), (uint32_t)count);
    return true;
}

static DemiValue *api_node_add_output(DemiPassRun *run, DemiNode *handle, const char *name) {
    Node *node = node_in(handle);
    if (!node_is_live(node)) return MISUSE(run, no_node), NULL;
    if (node->output_count >= UINT16_MAX) return MISUSE(run, "too many outputs"), NULL;
    ENTER(run, NULL);
    Value *value = value_new(node->graph, fresh_name(run, name, sym_text(node->op_type)));
    node_resize_outputs(node, node->output_count + 1);
    node_set_output(node, node->output_count - 1, value);
    return value_out(value);
}

/* Says why a value can't go away; NULL where it can. */
static const char *value_is_needed(const Value *value) {
    if (value->uses) return "the value is still read";
    return value->referenced ? "an annotation or binding names the value" : NULL;
}

static bool api_node_omit_output(DemiPassRun *run, DemiNode *handle, size_t i) {
    Node *node = node_in(handle);
    if (!node_is_live(node)) return MISUSE(run, no_node);
    if (i >= node->output_count || !node->outputs[i]) return MISUSE(run, "there is no such output");
    const char *needed = value_is_needed(node->outputs[i]);
    if (needed) return MISUSE(run, needed);
    ENTER(run, false);
    value_remove_info(node->outputs[i]);
    node_set_output(node, (uint32_t)i, NULL);
    return true;
}

static bool api_node_move(DemiPassRun *run, DemiNode *handle, DemiNode *before) {
    Node *node = node_in(handle);
    if (!node_is_live(node)) return MISUSE(run, no_node);
    if (before && (!node_is_live(node_of(before)) || node_of(before)->graph != node->graph))
        return MISUSE(run, "`before` is not a node of the same graph");
    ENTER(run, false);
    node_move_before(node, node_in(before));
    return true;
}

static bool api_node_remove(DemiPassRun *run, DemiNode *handle) {
    Node *node = node_in(handle);
    if (!node_is_live(node)) return MISUSE(run, no_node);
    ENTER(run, false);
    for (uint32_t i = 0; i < node->output_count; i++) {
        const char *needed = node->outputs[i] ? value_is_needed(node->outputs[i]) : NULL;
        if (!needed) continue;
        node_error(node, &run->err, ERR_MODEL, "node_remove: %s", needed);
        err_operand(&run->err, "output '%s'", sym_text(node->outputs[i]->name));
        return false;
    }
    node_remove(node);
    return true;
}

static bool api_node_set_metadata(DemiPassRun *run, DemiNode *handle, const char *key,
                                  const char *value) {
    if (!node_is_live(node_of(handle))) return MISUSE(run, no_node);
    if (!key || !value) return MISUSE(run, "key or value is NULL");
    ENTER(run, false);
    node_set_metadata(node_in(handle), key, value);
    return true;
}

/* ---- uses ------------------------------------------------------------------------------------ */

/* True for an output that is called by its value's name. */
static bool is_named_output(const Use *use) {
    return !use->node && !use_graph(use)->owner;
}

/* A value that can take over the name of `from`, since a node of the same graph makes it and its
 * own name is nobody's interface. */
static bool can_take_name(const Value *from, const Value *to) {
    return to->producer && to->graph == from->graph && !value_is_named_output(to) &&
           !to->referenced && !from->referenced;
}

/* What `to` computes under the name of `from`, which gets another one: `to` itself or an Identity
 * of it. NULL, and the run fails, where that can't be. */
static Value *take_name(DemiPassRun *run, Value *from, Value *to) {
    Graph *graph = from->graph;
    if (from->input || to->graph != graph) {
        err_set(&run->err, ERR_MODEL,
                "cannot replace an output that is also an input, or that belongs to another graph");
        err_operand(&run->err, "output '%s'", sym_text(from->name));
        return NULL;
    }
    if (!can_take_name(from, to)) {
        if (!is_imported(run, graph, NULL)) return NULL;
        Node *node = node_new(graph, NULL, plugin_sym(run, "Identity"), NULL);
        node_resize_inputs(node, 1);
        node_set_input(node, 0, to);
        node_resize_outputs(node, 1);
        Value *value = value_new(graph, fresh_name(run, NULL, sym_text(from->name)));
        value_set_type(value, to->type ? to->type : from->type);
        node_set_output(node, 0, value);
        to = value;
    }
    value_swap_names(from, to);
    return to;
}

static uint32_t count_named_outputs(const Value *value) {
    uint32_t count = 0;
    for (const Use *use = value->uses; use; use = use->next) count += is_named_output(use);
    return count;
}

static bool api_use_set(DemiPassRun *run, DemiUse *handle, DemiValue *value) {
    Use *use = use_in(handle);
    if (!use || (use->node && !node_is_live(use->node)))
        return MISUSE(run, "the use is NULL, or of a node that was removed");
    if (!value && !use->node) return MISUSE(run, "cannot omit a graph's output");
    Value *to = value_in(value), *from = use->value;
    if (to && !in_scope(use_graph(use), to))
        return MISUSE(run, "the value belongs to a graph that does not contain the reader");
    if (to == from) return run->err.code == ERR_NONE;
    ENTER(run, false);
    if (is_named_output(use)) {
        if (count_named_outputs(from) > 1) return MISUSE(run, "the value is an output twice");
        Value *named = take_name(run, from, to);
        if (!named) return false;
        use_set(use, named);
        return true;
    }
    use_set(use, to);
    return true;
}

static bool api_value_replace(DemiPassRun *run, DemiValue *old, DemiValue *new) {
    Value *from = value_in(old), *to = value_in(new);
    if (!from || !to) return MISUSE(run, "a value is NULL");
    for (const Use *use = from->uses; use; use = use->next)
        if (!in_scope(use_graph(use), to))
            return MISUSE(run, "the value belongs to a graph that does not contain a reader");
    if (from == to) return run->err.code == ERR_NONE;
    ENTER(run, false);
    if (value_is_named_output(from)) {
        Value *named = take_name(run, from, to);
        if (!named) return false;
        for (Use *use = from->uses, *next; use; use = next) {
            next = use->next;
            if (is_named_output(use)) use_set(use, named);
        }
    }
    value_replace_uses(from, to);
    return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

#define ANY_IS(list, wanted, found)                                                                \
    for (size_t i_ = 0; i_ < (list)->count; i_++)                                                  \
    found = found || (list)->items[i_]->name == (wanted)

static bool graph_has_name(const Graph *graph, Sym name) {
    bool found = false;
    ANY_IS(&graph->inputs, name, found);
    ANY_IS(&graph->initializers, name, found);
    ANY_IS(&graph->sparse_initializers, name, found);
    ANY_IS(&graph->infos, name, found);
    ANY_IS(&graph->undefined, name, found);
    for (const Node *node = graph->first; node && !found; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++)
            found = found || (node->outputs[i] && node->outputs[i]->name == name);
    return found;
}

/* A name that the model uses for no value: scopes are then right wherever it appears. A name that
 * was never met is found out at once. */
static bool name_is_free(const DemiPassRun *run, const char *text) {
    const Model *model = run->ctx->model;
    Sym name = sym_find(&model->syms, text, strlen(text));
    if (!name) return true;
    GraphList graphs = model_graphs(model, plugin_scratch(run));
    for (size_t i = 0; i < graphs.count; i++) {
        graph_sweep(graphs.items[i]);
        if (graph_has_name(graphs.items[i], name)) return false;
    }
    return true;
}

static bool api_value_rename(DemiPassRun *run, DemiValue *handle, const char *name) {
    Value *value = value_in(handle);
    if (!value || !name || !name[0]) return MISUSE(run, "value or name is missing");
    if (sym_equals(value->name, name)) return run->err.code == ERR_NONE;
    ENTER(run, false);
    if (!name_is_free(run, name)) {
        err_set(&run->err, ERR_MODEL, "the name '%s' is in use", name);
        err_operand(&run->err, "value '%s'", sym_text(value->name));
        return false;
    }
    value_rename(value, plugin_sym(run, name));
    return true;
}

static bool api_value_set_type(DemiPassRun *run, DemiValue *value, const DemiType *type) {
    if (!value) return MISUSE(run, "the value is NULL");
    ENTER(run, false);
    value_set_type(value_in(value), type_of(type));
    value_sync_info(value_in(value));
    return true;
}

static bool is_dtype(DemiDtype dtype) {
    return dtype > DEMI_UNDEFINED && (int)dtype < DTYPE_COUNT;
}

static bool api_graph_declare_input(DemiPassRun *run, DemiGraph *handle, size_t i,
                                    DemiDtype dtype) {
    const Graph *graph = graph_of(handle);
    if (!graph || i >= graph->inputs.count || !is_dtype(dtype))
        return MISUSE(run, "no such input or dtype");
    Value *value = graph->inputs.items[i];
    if (!value->input->type) return MISUSE(run, "the file declares no type there");
    ENTER(run, false);
    value_declare_input(value, (Dtype)dtype);
    return true;
}

static bool api_graph_declare_output(DemiPassRun *run, DemiGraph *handle, size_t i,
                                     DemiDtype dtype) {
    Graph *graph = graph_in(handle);
    if (!graph || i >= graph->outputs.count || !is_dtype(dtype))
        return MISUSE(run, "no such output or dtype");
    if (!graph->outputs.items[i]->decl->type) return MISUSE(run, "the file declares no type there");
    ENTER(run, false);
    graph_declare_output(graph, (uint32_t)i, (Dtype)dtype);
    return true;
}

/* ---- constants ------------------------------------------------------------------------------- */

/* The type that a tensor has as a value. */
static DemiValue *api_initializer_new(DemiPassRun *run, DemiGraph *graph, const char *name,
                                      const DemiTensor *tensor) {
    if (!graph || !tensor) return MISUSE(run, "graph or tensor is NULL"), NULL;
    ENTER(run, NULL);
    Graph *place = graph_in(graph);
    bool body = place->function && !place->parent;
    if (body && !is_imported(run, place, NULL)) return NULL;
    Value *value = value_new(place, fresh_name(run, name, "constant"));
    value_set_type(value, type_of_tensor(plugin_arena(run), tensor_of(tensor)));
    if (!body) {
        value_set_init(value, tensor_of(tensor));
        return value_out(value);
    }
    Node *node = node_new(place, place->first, plugin_sym(run, "Constant"), NULL);
    node_set_attr_tensor(node, "value", tensor_of(tensor));
    node_resize_outputs(node, 1);
    node_set_output(node, 0, value);
    return value_out(value);
}

static bool api_constant_set(DemiPassRun *run, DemiValue *handle, const DemiTensor *tensor) {
    Value *value = value_in(handle);
    if (!value || !tensor) return MISUSE(run, "value or tensor is NULL");
    if (!value_is_constant(value)) return MISUSE(run, "the value is not a constant");
    ENTER(run, false);
    const Type *type = type_of_tensor(plugin_arena(run), tensor_of(tensor));
    constant_replace(value, tensor_of(tensor));
    value_set_type(value, type);
    if (value->info) value->info->type = type;
    return true;
}

static bool api_initializer_remove(DemiPassRun *run, DemiValue *handle) {
    Value *value = value_in(handle);
    if (!value || (!value->init && !value->sparse_init))
        return MISUSE(run, "the value is not an initializer");
    const char *needed = value->input ? NULL : value_is_needed(value);
    if (needed) return MISUSE(run, needed);
    ENTER(run, false);
    graph_remove_initializer(value);
    return true;
}

/* ---- subgraphs ------------------------------------------------------------------------------- */

static DemiGraph *api_subgraph_new(DemiPassRun *run, DemiNode *handle, const char *attribute) {
    Node *node = node_in(handle);
    if (!node_is_live(node)) return MISUSE(run, no_node), NULL;
    if (!attribute || !attribute[0] || node_attr(node, attribute))
        return MISUSE(run, "no name, or the name of an existing attribute"), NULL;
    ENTER(run, NULL);
    Graph *graph = graph_new(run->ctx->model, node->graph);
    graph->owner = node;
    graph->name = plugin_sym(run, attribute);
    node_set_attr_graph(node, attribute, graph);
    return graph_out(graph);
}

/* True where inputs and outputs may be added: nobody else relies on their number. */
static bool is_open(const DemiPassRun *run, const Graph *graph) {
    return graph && (graph->owner || graph == run->ctx->model->graph);
}

static const char not_open[] = "neither a subgraph nor the main graph";

static DemiValue *api_graph_add_input(DemiPassRun *run, DemiGraph *handle, const char *name,
                                      const DemiType *type) {
    Graph *graph = graph_in(handle);
    if (!is_open(run, graph)) return MISUSE(run, not_open), NULL;
    if (!type) return MISUSE(run, "the type is NULL"), NULL;
    ENTER(run, NULL);
    Value *value = value_new(graph, fresh_name(run, name, "input"));
    value->input = ARENA_NEW(plugin_arena(run), ValueDecl);
    value->input->type = type_of(type);
    value_set_type(value, type_of(type));
    VEC_PUSH(plugin_arena(run), &graph->inputs, value);
    model_touch(run->ctx->model);
    return value_out(value);
}

static bool api_graph_add_output(DemiPassRun *run, DemiGraph *handle, DemiValue *value) {
    Graph *graph = graph_in(handle);
    if (!is_open(run, graph)) return MISUSE(run, not_open);
    if (!value || value_of(value)->graph != graph)
        return MISUSE(run, "the value is NULL, or of another graph");
    if (!graph->owner && value_is_named_output(value_of(value)))
        return MISUSE(run, "the value is an output already");
    ENTER(run, false);
    ValueDecl *decl = ARENA_NEW(plugin_arena(run), ValueDecl);
    decl->type = value_of(value)->type;
    if (!decl->type && value_of(value)->init)
        decl->type = type_of_tensor(plugin_arena(run), value_in(value)->init);
    if (!graph->owner && !decl->type) return MISUSE(run, "the value's type is not known");
    graph_add_output(graph, value_in(value), decl);
    return true;
}

void plugin_fill_edit(DemiApi *api) {
    api->model_set_metadata = api_model_set_metadata;
    api->graph_import = api_graph_import;
    api->node_new = api_node_new;
    api->node_set_name = api_node_set_name;
    api->node_set_op = api_node_set_op;
    api->node_set_input = api_node_set_input;
    api->node_set_input_count = api_node_set_input_count;
    api->node_add_output = api_node_add_output;
    api->node_omit_output = api_node_omit_output;
    api->node_move = api_node_move;
    api->node_remove = api_node_remove;
    api->node_set_metadata = api_node_set_metadata;
    api->use_set = api_use_set;
    api->value_replace = api_value_replace;
    api->value_rename = api_value_rename;
    api->value_set_type = api_value_set_type;
    api->graph_declare_input = api_graph_declare_input;
    api->graph_declare_output = api_graph_declare_output;
    api->initializer_new = api_initializer_new;
    api->constant_set = api_constant_set;
    api->initializer_remove = api_initializer_remove;
    api->subgraph_new = api_subgraph_new;
    api->graph_add_input = api_graph_add_input;
    api->graph_add_output = api_graph_add_output;
}
