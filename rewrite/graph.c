// SPDX-License-Identifier: Apache-2.0
/* The primitives that change graphs. Each keeps the use lists right and counts an edit; nothing
 * else in demi writes to a Use's links, a Value's producer or a Node's neighbors. */
#include "graph.h"

#include <stdio.h>
#include <string.h>

/* Its trap is that of the model, which changes from call to call. */
static Arena *parts_of(Model *model) {
    model->parts.trap = model->arena.trap;
    return &model->parts;
}

static void use_unlink(Use *use) {
    Value *value = use->value;
    if (!value) return;
    if (use->prev)
        use->prev->next = use->next;
    else
        value->uses = use->next;
    if (use->next) use->next->prev = use->prev;
    use->prev = use->next = NULL;
    use->value = NULL;
    value->use_count--;
}

static void use_link(Use *use, Value *value) {
    use->value = value;
    use->prev = NULL;
    use->next = NULL;
    if (!value) return;
    use->next = value->uses;
    if (value->uses) value->uses->prev = use;
    value->uses = use;
    value->use_count++;
}

static bool is_operand(const Node *node, const Value *value) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value == value) return true;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] == value) return true;
    return false;
}

/* A sharding specification must name an input or output of its node. */
static void specs_follow(Node *node, const Value *from, Value *to) {
    if (!from || !to || is_operand(node, from)) return;
    const NodeExtra *extra = node->extra;
    for (uint32_t i = 0; i < extra->device_count; i++)
        for (uint32_t k = 0; k < extra->devices[i].spec_count; k++)
            if (extra->devices[i].specs[k].tensor.value == from)
                extra->devices[i].specs[k].tensor.value = to;
}

void use_set(Use *use, Value *value) {
    const Value *old = use->value;
    if (old == value) return;
    use_unlink(use);
    use_link(use, value);
    if (use->node && use->node->extra) specs_follow(use->node, old, value);
    model_touch(use_graph(use)->model);
}

/* A Use moved in memory: its neighbors must point at the new place. */
static void use_relocated(Use *use) {
    if (!use->value) return;
    if (use->prev)
        use->prev->next = use;
    else
        use->value->uses = use;
    if (use->next) use->next->prev = use;
}

Graph *graph_new(Model *model, Graph *parent) {
    Graph *graph = ARENA_NEW(&model->arena, Graph);
    graph->model = model;
    graph->id = model->graph_count++;
    graph->parent = parent;
    graph->opsets = parent ? parent->opsets : &model->opsets;
    graph->function = parent ? parent->function : NULL;
    return graph;
}

bool graph_nesting_error(Err *err, const char *label, const char *op_type) {
    if (!err || err->code != ERR_NONE) return false;
    err_set(err, ERR_MODEL, "graphs are nested more than %d deep", GRAPH_NESTING_MAX);
    snprintf(err->node, sizeof err->node, "%s", label);
    snprintf(err->op_type, sizeof err->op_type, "%s", op_type);
    err_hint(err, "protobuf readers do not support deeper nesting of branches and loops");
    return false;
}

Value *value_new(Graph *graph, Sym name) {
    Model *model = graph->model;
    Value *value = arena_pool_alloc(parts_of(model), &model->pools.values, sizeof *value);
    value->name = name;
    value->graph = graph;
    value->id = model->value_count++;
    return value;
}

static void node_link(Node *node, Node *before) {
    Graph *graph = node->graph;
    node->next = before;
    node->prev = before ? before->prev : graph->last;
    if (node->prev)
        node->prev->next = node;
    else
        graph->first = node;
    if (before)
        before->prev = node;
    else
        graph->last = node;
    graph->node_count++;
}

static void node_unlink(Node *node) {
    Graph *graph = node->graph;
    if (node->prev)
        node->prev->next = node->next;
    else
        graph->first = node->next;
    if (node->next)
        node->next->prev = node->prev;
    else
        graph->last = node->prev;
    node->prev = node->next = NULL;
    graph->node_count--;
}

Node *node_new(Graph *graph, Node *before, Sym op_type, Sym domain) {
    Model *model = graph->model;
    Node *node = arena_pool_alloc(parts_of(model), &model->pools.nodes, sizeof *node);
    node->graph = graph;
    node->id = model->node_count++;
    node->op_type = op_type;
    node->domain = domain;
    node_link(node, before);
    model_touch(model);
    return node;
}

/* The value comes from no node any more. */
static void value_lose_producer(Value *value) {
    value->producer = NULL;
    value->output_index = 0;
}

/* The room of an array that has `was` items and grows to `count`: twice as much as it needs at most, so that n
 * items that come one by one cost no more than those that come at once. */
static uint8_t room_of(uint32_t was, uint32_t count) {
    uint8_t room = was ? 2 : 0;
    while (was && UINT64_C(1) << room < count) room++;
    return room;
}

static bool has_room(uint8_t room, uint32_t count) {
    return room && count <= UINT64_C(1) << room;
}

static size_t room_size(uint8_t room, uint32_t count) {
    return room ? (size_t)1 << room : count;
}

static void inputs_grow(Node *node, uint32_t count) {
    Model *model = node->graph->model;
    if (has_room(node->input_room, count)) return;
    node->input_room = room_of(node->input_count, count);
    const size_t size = room_size(node->input_room, count);
    Use *grown = arena_pool_array(parts_of(model), &model->pools.uses, size, sizeof *grown);
    for (uint32_t i = 0; i < node->input_count; i++) {
        grown[i] = node->inputs[i];
        use_relocated(&grown[i]);
    }
    node->inputs = grown;
}

/* Before more inputs come: their numbers are to be in a row. */
static void inputs_renumber(Node *node) {
    Model *model = node->graph->model;
    if (!node->input_count || node->inputs[0].id + node->input_count == model->use_count) return;
    for (uint32_t i = 0; i < node->input_count; i++) node->inputs[i].id = model->use_count++;
}

void node_resize_inputs(Node *node, uint32_t count) {
    Model *model = node->graph->model;
    if (count == node->input_count) return;
    for (uint32_t i = count; i < node->input_count; i++) use_unlink(&node->inputs[i]);
    if (count > node->input_count) {
        inputs_grow(node, count);
        inputs_renumber(node);
    }
    for (uint32_t i = node->input_count; i < count; i++)
        node->inputs[i] = (Use){.node = node, .index = i, .id = model->use_count++};
    node->input_count = count;
    model_touch(model);
}

static void outputs_grow(Node *node, uint32_t count) {
    Model *model = node->graph->model;
    if (has_room(node->output_room, count)) return;
    node->output_room = room_of(node->output_count, count);
    const size_t size = room_size(node->output_room, count);
    Value **grown = arena_pool_array(parts_of(model), &model->pools.outputs, size, sizeof *grown);
    if (node->output_count) memcpy(grown, node->outputs, node->output_count * sizeof *grown);
    node->outputs = grown;
}

void node_resize_outputs(Node *node, uint32_t count) {
    if (count == node->output_count) return;
    for (uint32_t i = count; i < node->output_count; i++)
        if (node->outputs[i]) value_lose_producer(node->outputs[i]);
    if (count > node->output_count) outputs_grow(node, count);
    for (uint32_t i = node->output_count; i < count; i++) node->outputs[i] = NULL;
    node->output_count = count;
    model_touch(node->graph->model);
}

void node_set_input(Node *node, uint32_t i, Value *value) {
    use_set(&node->inputs[i], value);
}

void node_set_output(Node *node, uint32_t i, Value *value) {
    if (node->outputs[i]) value_lose_producer(node->outputs[i]);
    node->outputs[i] = value;
    if (value) {
        value->producer = node;
        value->output_index = i;
    }
    model_touch(node->graph->model);
}

void value_replace_uses(Value *from, Value *to) {
    while (from->uses) use_set(from->uses, to);
}

void value_rename(Value *value, Sym name) {
    if (value->name == name) return;
    value->name = name;
    model_touch(value->graph->model);
}

void value_swap_names(Value *a, Value *b) {
    Sym name = a->name;
    a->name = b->name;
    b->name = name;
    model_touch(a->graph->model);
}

void value_set_type(Value *value, const Type *type) {
    value->type = type;
}

void value_sync_info(Value *value) {
    ValueDecl *info = value->info;
    if (!info || !value->type || type_same_dtypes(info->type, value->type)) return;
    Arena *arena = &value->graph->model->arena;
    Dtype dtype = type_dtype(value->type);
    const Type *kept = dtype ? type_with_dtype(arena, info->type, dtype) : NULL;
    info->type = kept && type_same_dtypes(kept, value->type) ? kept : value->type;
    model_touch(value->graph->model);
}

static void decl_set_dtype(Model *model, ValueDecl *decl, Dtype dtype) {
    const Type *type = type_with_dtype(&model->arena, decl->type, dtype);
    if (type == decl->type) return;
    decl->type = type;
    model_touch(model);
}

void decl_set_type(Model *model, ValueDecl *decl, const Type *type) {
    decl->type = type;
    model_touch(model);
}

void value_declare_input(Value *value, Dtype dtype) {
    decl_set_dtype(value->graph->model, value->input, dtype);
}

void graph_declare_output(Graph *graph, uint32_t index, Dtype dtype) {
    decl_set_dtype(graph->model, graph->outputs.items[index]->decl, dtype);
}

/* Removes the values whose field is NULL from a list of its graph, keeping the order. */
#define LIST_KEEP(list, field)                                                                     \
    do {                                                                                           \
        size_t kept_ = 0;                                                                          \
        for (size_t i_ = 0; i_ < (list)->count; i_++)                                              \
            if ((list)->items[i_]->field) (list)->items[kept_++] = (list)->items[i_];              \
        (list)->count = kept_;                                                                     \
    } while (0)

void graph_sweep(Graph *graph) {
    if (graph->unswept) LIST_KEEP(&graph->infos, info);
    if (graph->dropped) {
        LIST_KEEP(&graph->initializers, init);
        LIST_KEEP(&graph->sparse_initializers, sparse_init);
    }
    graph->unswept = graph->dropped = false;
}

static void graph_lost_info(Graph *graph) {
    graph->unswept = graph->model->unswept = true;
}

static void graph_lost_init(Graph *graph) {
    graph->dropped = graph->model->unswept = true;
}

/* After a removal from one of the lists. */
static void graph_removed(Graph *graph) {
    if (!graph->model->batch) graph_sweep(graph);
    model_touch(graph->model);
}

/* Who comes back into a list comes to its end. */
static void value_relist(Value *value, bool *lost) {
    if (*lost) graph_sweep(value->graph);
    *lost = false;
}

void value_set_init(Value *value, const Tensor *tensor) {
    Graph *graph = value->graph;
    const Tensor *was = value->init;
    if (tensor && !was) {
        value_relist(value, &value->lost_init);
        VEC_PUSH(&graph->model->arena, &graph->initializers, value);
    }
    value->init = tensor;
    model_touch(graph->model);
    if (tensor || !was) return;
    value->lost_init = true;
    graph_lost_init(graph);
    graph_removed(graph);
}

void value_add_info(Value *value) {
    if (value->info) return;
    value_relist(value, &value->lost_info);
    Arena *arena = &value->graph->model->arena;
    value->info = ARENA_NEW(arena, ValueDecl);
    value->info->type = value->type;
    VEC_PUSH(arena, &value->graph->infos, value);
    model_touch(value->graph->model);
}

void value_remove_info(Value *value) {
    if (!value->info) return;
    value->info = NULL;
    value->lost_info = true;
    graph_lost_info(value->graph);
    graph_removed(value->graph);
}

static void graph_unlink_uses(Graph *graph, void *data) {
    for (Node *node = graph->first; node; node = node_after(node)) {
        for (uint32_t i = 0; i < node->input_count; i++) use_unlink(&node->inputs[i]);
        node_each_graph(node, graph_unlink_uses, data);
    }
    for (size_t i = 0; i < graph->outputs.count; i++) use_unlink(&graph->outputs.items[i]->use);
}

void node_remove_unswept(Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) use_unlink(&node->inputs[i]);
    node_each_graph(node, graph_unlink_uses, NULL);
    for (uint32_t i = 0; i < node->output_count; i++) {
        Value *value = node->outputs[i];
        if (!value) continue;
        value_lose_producer(value);
        if (!value->info) continue;
        value->info = NULL;
        value->lost_info = true;
        graph_lost_info(node->graph);
    }
    node_unlink(node);
    model_touch(node->graph->model);
}

void node_remove(Node *node) {
    node_remove_unswept(node);
    graph_removed(node->graph);
}

void node_move_before(Node *node, Node *before) {
    if (node == before || node->next == before) return;
    node_unlink(node);
    node_link(node, before);
    model_touch(node->graph->model);
}

/* Appends the values of a list to another graph's, where they lie from now on. */
#define LIST_MOVE(list, from, to)                                                                  \
    do {                                                                                           \
        for (size_t i_ = 0; i_ < (from)->list.count; i_++) {                                       \
            (from)->list.items[i_]->graph = (to);                                                  \
            VEC_PUSH(&(to)->model->arena, &(to)->list, (from)->list.items[i_]);                    \
        }                                                                                          \
        (from)->list.count = 0;                                                                    \
    } while (0)

static void graph_set_parent(Graph *graph, void *parent) {
    graph->parent = parent;
}

void graph_move_out(Graph *graph, Node *before) {
    Graph *to = before->graph;
    LIST_MOVE(initializers, graph, to);
    LIST_MOVE(sparse_initializers, graph, to);
    LIST_MOVE(infos, graph, to);
    to->unswept = to->unswept || graph->unswept;
    to->dropped = to->dropped || graph->dropped;
    while (graph->first) {
        Node *node = graph->first;
        node_unlink(node);
        node->graph = to;
        node_link(node, before);
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) node->outputs[i]->graph = to;
        node_each_graph(node, graph_set_parent, to);
    }
    model_touch(to->model);
}

void graph_remove_initializers(Graph *graph, Value *const *values, size_t count) {
    if (count == 0) return;
    for (size_t i = 0; i < count; i++) {
        values[i]->init = NULL;
        values[i]->sparse_init = NULL;
        values[i]->lost_init = true;
        if (!values[i]->info || values[i]->input) continue;
        values[i]->info = NULL;
        graph_lost_info(graph);
    }
    graph_lost_init(graph);
    graph_removed(graph);
}

void graph_remove_initializer(Value *value) {
    graph_remove_initializers(value->graph, &value, 1);
}

GraphOutput *graph_add_output(Graph *graph, Value *value, ValueDecl *decl) {
    Arena *arena = &graph->model->arena;
    GraphOutput *output = ARENA_NEW(arena, GraphOutput);
    output->decl = decl;
    output->graph = graph;
    output->use.index = (uint32_t)graph->outputs.count;
    output->use.id = graph->model->use_count++;
    use_link(&output->use, value);
    VEC_PUSH(arena, &graph->outputs, output);
    model_touch(graph->model);
    return output;
}

void graph_clear_outputs(Graph *graph) {
    for (size_t i = 0; i < graph->outputs.count; i++) use_unlink(&graph->outputs.items[i]->use);
    graph->outputs.count = 0;
    model_touch(graph->model);
}
