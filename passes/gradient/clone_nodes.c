// SPDX-License-Identifier: Apache-2.0
/* Copying nodes; see clone_nodes.h. */
#include "clone_nodes.h"

CloneNodes clone_begin(Model *model, Arena *scratch) {
    return (CloneNodes){.scratch = scratch,
                        .map = ARENA_ARRAY(scratch, Value *, model->value_count + 1),
                        .map_count = model->value_count};
}

/* Stands in the map for nothing at all. */
static Value omitted;

Value *clone_value(const CloneNodes *clone, Value *value) {
    Value *to = value && value->id < clone->map_count ? clone->map[value->id] : NULL;
    return to == &omitted ? NULL : to ? to : value;
}

void clone_map(CloneNodes *clone, const Value *value, Value *to) {
    if (value->id < clone->map_count) clone->map[value->id] = to ? to : &omitted;
}

static Value *fresh(CloneNodes *clone, const Value *value, Graph *graph) {
    Value *made = value_new(graph, sym_fresh(&graph->model->syms, sym_text(value->name)));
    if (!clone->frame) value_set_type(made, value->type); /* a body's types are some call's */
    clone_map(clone, value, made);
    return made;
}

static Graph *clone_graph(CloneNodes *clone, const Graph *graph, Graph *parent);

/* ---- attributes ------------------------------------------------------------------------------ */

/* Behind those that are there. */
static void append_attr(Node *made, Attr *attr) {
    Attr **last = &made->attrs;
    while (*last) last = &(*last)->next;
    *last = attr;
}

/* No operator has a list of graphs. */
static void clone_attr(CloneNodes *clone, Node *made, const Attr *attr) {
    const CallFrame *frame = clone->frame;
    const Attr *given = frame ? call_attr(&frame, attr) : attr;
    if (!given) return; /* the call leaves it out */
    const Graph *graph = attr_graph(given);
    if (graph) {
        Graph *copy = clone_graph(clone, graph, made->graph);
        copy->owner = made;
        node_set_attr_graph(made, sym_text(attr->name), copy);
        return;
    }
    Attr *copy = arena_copy(&made->graph->model->arena, given, sizeof *given);
    copy->name = attr->name;
    copy->next = NULL;
    append_attr(made, copy);
}

static void clone_lists(CloneNodes *clone, Node *made, const Node *node) {
    for (const Attr *attr = node->attrs; attr; attr = attr->next) clone_attr(clone, made, attr);
    for (const KeyValue *entry = node->metadata; entry; entry = entry->next)
        node_add_metadata(made, sym_text(entry->key), sym_text(entry->value));
}

/* ---- nodes and graphs ------------------------------------------------------------------------ */

Node *clone_node(CloneNodes *clone, const Node *node, Graph *graph, Node *before) {
    Node *made = node_new(graph, before, node->op_type, node->domain);
    const Sym overload = node_extra(node)->overload;
    if (overload) node_set_extra(made, (NodeExtra){.overload = overload});
    node_resize_inputs(made, node->input_count);
    for (uint32_t i = 0; i < node->input_count; i++)
        node_set_input(made, i, clone_value(clone, node->inputs[i].value));
    node_resize_outputs(made, node->output_count);
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) node_set_output(made, i, fresh(clone, node->outputs[i], graph));
    clone_lists(clone, made, node);
    return made;
}

static ValueDecl *clone_decl(Arena *arena, const ValueDecl *decl) {
    return arena_copy(arena, decl, sizeof *decl);
}

void clone_into(CloneNodes *clone, const Graph *graph, Graph *made) {
    for (size_t i = 0; i < graph->initializers.count; i++) {
        Value *from = graph->initializers.items[i], *to = clone_value(clone, from);
        if (to == from) to = fresh(clone, from, made);
        value_set_init(to, from->init);
    }
    for (const Node *node = graph->first; node; node = node->next)
        clone_node(clone, node, made, NULL);
}

Graph *clone_inside(CloneNodes *clone, const Graph *graph, Graph *parent) {
    Arena *arena = &parent->model->arena;
    Graph *made = graph_new(parent->model, parent);
    made->function = parent->function;
    made->opsets = parent->opsets;
    made->name = graph->name;
    for (size_t i = 0; i < graph->inputs.count; i++) {
        Value *input = fresh(clone, graph->inputs.items[i], made);
        input->input = clone_decl(arena, graph->inputs.items[i]->input);
        VEC_PUSH(arena, &made->inputs, input);
    }
    clone_into(clone, graph, made);
    return made;
}

/* Within `parent`; nothing owns it yet. */
static Graph *clone_graph(CloneNodes *clone, const Graph *graph, Graph *parent) {
    Graph *made = clone_inside(clone, graph, parent);
    for (size_t i = 0; i < graph->outputs.count; i++) {
        const GraphOutput *output = graph->outputs.items[i];
        graph_add_output(made, clone_value(clone, output->use.value),
                         clone_decl(&parent->model->arena, output->decl));
    }
    return made;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Every domain that the body imports means the same around the call. */
static bool same_opsets(const OpsetImports *body, const OpsetImports *around) {
    for (size_t i = 0; i < body->count; i++)
        if (opset_version(around, body->items[i].domain) != body->items[i].version) return false;
    return true;
}

bool clone_call(CloneNodes *clone, const Node *call, Node *before, Value **outputs) {
    const Function *function = model_find_function(call->graph->model, call);
    const CallFrame frame = {.call = call, .function = function};
    const Graph *body = function->body;
    if (!same_opsets(&function->opsets, before->graph->opsets)) return false;
    for (uint32_t i = 0; i < body->inputs.count; i++)
        clone_map(clone, body->inputs.items[i],
                  i < call->input_count ? call->inputs[i].value : NULL);
    clone->frame = &frame;
    for (const Node *node = body->first; node; node = node->next)
        clone_node(clone, node, before->graph, before);
    clone->frame = NULL;
    for (uint32_t i = 0; i < call->output_count && i < body->outputs.count; i++)
        outputs[i] = clone_value(clone, body->outputs.items[i]->use.value);
    return true;
}
