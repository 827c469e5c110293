// SPDX-License-Identifier: Apache-2.0
/* Making nodes of training graphs, and optimizers of them; see training_nodes.h. */
#include "training_nodes.h"

#include <string.h>

TrainingNodes training_nodes_in(PassCtx *ctx, Graph *graph) {
    Model *model = ctx->model;
    return (TrainingNodes){.ctx = ctx,
                           .graph = graph,
                           .opset = opset_version(&model->opsets, NULL),
                           .training_domain =
                               sym_intern_cstr(&model->syms, "ai.onnx.preview.training")};
}

TrainingNodes training_nodes(PassCtx *ctx) {
    Model *model = ctx->model;
    Graph *graph = graph_new(model, model->graph);
    graph->name = sym_intern_cstr(&model->syms, "training");
    graph->opsets = model->graph->opsets;
    return training_nodes_in(ctx, graph);
}

Value *training_value(const TrainingNodes *nodes, const char *name, const Type *type) {
    SymTable *syms = &nodes->ctx->model->syms;
    const bool used = sym_find(syms, name, strlen(name)) != NULL;
    Value *value =
        value_new(nodes->graph, used ? sym_fresh(syms, name) : sym_intern_cstr(syms, name));
    value_set_type(value, type);
    return value;
}

Value *training_input(const TrainingNodes *nodes, const char *name, const Type *type) {
    Value *value = training_value(nodes, name, type);
    value->input = ARENA_NEW(&nodes->ctx->model->arena, ValueDecl);
    value->input->type = type;
    VEC_PUSH(&nodes->ctx->model->arena, &nodes->graph->inputs, value);
    return value;
}

Value *training_constant(const TrainingNodes *nodes, const char *name, Dtype dtype,
                         const void *number) {
    Arena *arena = &nodes->ctx->model->arena;
    uint64_t size = 0;
    dtype_bytes(dtype, 1, &size);
    Value *value = training_value(nodes, name, type_new_shaped(arena, dtype, NULL, 0));
    value_set_init(value, tensor_new_raw(arena, dtype, NULL, 0, number, size));
    return value;
}

Node *training_node(const TrainingNodes *nodes, const char *op, Sym domain, uint32_t inputs) {
    Node *node =
        node_new(nodes->graph, NULL, sym_intern_cstr(&nodes->ctx->model->syms, op), domain);
    node_resize_inputs(node, inputs);
    return node;
}

Value *training_output(const TrainingNodes *nodes, Node *node, const char *name, const Type *type) {
    Value *value = training_value(nodes, name, type);
    node_resize_outputs(node, node->output_count + 1);
    node_set_output(node, node->output_count - 1, value);
    return value;
}

Value *training_op(const TrainingNodes *nodes, const char *op, Value *const *operands,
                   uint32_t count, const Type *type) {
    Node *node = training_node(nodes, op, NULL, count);
    for (uint32_t i = 0; i < count; i++) node_set_input(node, i, operands[i]);
    return training_output(nodes, node, arena_printf(nodes->ctx->scratch, "training_%s", op), type);
}

void training_bind(TrainingInfo *info, Value *key, Value *value) {
    const TrainingBinding binding = {.key = {.name = key->name, .value = key},
                                     .value = {.name = value->name, .value = value}};
    key->referenced = value->referenced = key->trained = true;
    VEC_PUSH(&key->graph->model->arena, &info->update_bindings, binding);
}

void training_forget_domain(Model *model, Arena *scratch) {
    const Sym domain = sym_intern_cstr(&model->syms, "ai.onnx.preview.training");
    const GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++) {
        if (graphs.items[i]->function) continue; /* which imports for itself */
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node))
            if (node->domain == domain) return;
    }
    if (opset_version(&model->opsets, domain)) model_drop_import(model, &model->opsets, domain);
}

/* ---- optimizers ------------------------------------------------------------------------------ */

/* Zeros of a tensor's type and shape. */
static Value *zeros_like(const TrainingNodes *nodes, const char *name, const Tensor *like) {
    Arena *arena = &nodes->ctx->model->arena;
    const uint64_t size = tensor_raw_size(like);
    const Dtype dtype = (Dtype)like->dtype;
    const void *nothing = arena_alloc(nodes->ctx->scratch, (size_t)size + 1);
    Value *value = training_value(nodes, name, type_of_tensor(arena, like));
    value_set_init(value, tensor_new_raw(arena, dtype, like->dims, like->rank, nothing, size));
    return value;
}

typedef struct Updating {
    const TrainingNodes *nodes;
    const TrainingUpdate *update;
    Value *rate;
    TrainingPairs pairs;
} Updating;

static void pair(Updating *u, Value *key, Value *value) {
    VEC_PUSH(u->nodes->ctx->scratch, &u->pairs, ((TrainingPair){key, value}));
}

static const char *named(const Updating *u, const Value *parameter, const char *what) {
    return arena_printf(u->nodes->ctx->scratch, "%s_%s", sym_text(parameter->name), what);
}

static Value *number_like(const Updating *u, const Value *parameter, const char *name,
                          float number) {
    const double wide = (double)number;
    const Dtype dtype = type_dtype(parameter->type);
    return training_constant(u->nodes, name, dtype,
                             dtype == DTYPE_DOUBLE ? (const void *)&wide : &number);
}

/* X - R (G + decay X), in operators that every runtime has. */
static void update_plainly(Updating *u) {
    const TrainingUpdate *update = u->update;
    Value *decay = NULL;
    if (update->decay > 0) decay = number_like(u, update->parameters[0], "decay", update->decay);
    for (uint32_t i = 0; i < update->count; i++) {
        Value *x = update->parameters[i], *g = update->gradients[i];
        const Type *type = x->type;
        if (decay) {
            Value *part = training_op(u->nodes, "Mul", (Value *[]){x, decay}, 2, type);
            g = training_op(u->nodes, "Add", (Value *[]){g, part}, 2, type);
        }
        Value *step = training_op(u->nodes, "Mul", (Value *[]){g, u->rate}, 2, type);
        Node *node = training_node(u->nodes, "Sub", NULL, 2);
        node_set_input(node, 0, x);
        node_set_input(node, 1, step);
        pair(u, x, training_output(u->nodes, node, named(u, x, "updated"), type));
    }
}

/* The number of steps that were made: 0 at first, or 1 where the operator's own count begins so. */
static Value *count_steps(Updating *u, int64_t first) {
    static const int64_t one = 1;
    Value *steps = training_constant(u->nodes, "steps", DTYPE_INT64, &first);
    Value *more = training_constant(u->nodes, "one_step", DTYPE_INT64, &one);
    pair(u, steps, training_op(u->nodes, "Add", (Value *[]){steps, more}, 2, steps->type));
    return steps;
}

/* R, T, then all X, all G, and all of each state; out come all X and all of each state. */
static Node *update_by(Updating *u, const char *op, const char *const *states, int64_t first) {
    const TrainingUpdate *update = u->update;
    const uint32_t count = update->count;
    uint32_t lists = 0;
    while (states[lists]) lists++;
    Node *node = training_node(u->nodes, op, u->nodes->training_domain, 2 + count * (2 + lists));
    node_set_input(node, 0, u->rate);
    node_set_input(node, 1, count_steps(u, first));
    for (uint32_t i = 0; i < count; i++) {
        Value *x = update->parameters[i];
        node_set_input(node, 2 + i, x);
        node_set_input(node, 2 + count + i, update->gradients[i]);
        pair(u, x, training_output(u->nodes, node, named(u, x, "updated"), x->type));
    }
    for (uint32_t k = 0; k < lists; k++)
        for (uint32_t i = 0; i < count; i++) {
            const Value *x = update->parameters[i];
            Value *state = zeros_like(u->nodes, named(u, x, states[k]), x->init);
            const char *name =
                arena_printf(u->nodes->ctx->scratch, "%s_updated", sym_text(state->name));
            node_set_input(node, 2 + count * (2 + k) + i, state);
            pair(u, state, training_output(u->nodes, node, name, state->type));
        }
    if (update->decay > 0) node_set_attr_float(node, "norm_coefficient", update->decay);
    return node;
}

TrainingPairs training_update(const TrainingNodes *nodes, const TrainingUpdate *update) {
    static const char *const momentum[] = {"momentum", NULL}, *const adagrad[] = {"squares", NULL};
    static const char *const adam[] = {"mean", "squares", NULL};
    Updating u = {.nodes = nodes, .update = update};
    u.rate = number_like(&u, update->parameters[0], "learning_rate", update->rate);
    Node *node = NULL;
    switch (update->optimizer) {
    case TRAINING_SGD: update_plainly(&u); break;
    case TRAINING_MOMENTUM:
        node = update_by(&u, "Momentum", momentum, 0);
        node_set_attr_float(node, "alpha", update->momentum);
        node_set_attr_float(node, "beta", 1);
        if (update->decay <= 0) node_set_attr_float(node, "norm_coefficient", 0);
        node_set_attr_string(node, "mode", "standard");
        break;
    case TRAINING_ADAM: update_by(&u, "Adam", adam, 1); break;
    case TRAINING_ADAGRAD: update_by(&u, "Adagrad", adagrad, 0); break;
    }
    return u.pairs;
}
