// SPDX-License-Identifier: Apache-2.0
/* Finding parameters; see training_parameters.h. A single number that is multiplied with, or added
 * to what is no layer of one output, is part of a formula, no parameter. */
#include "training_parameters.h"

#include <string.h>

#include "constants.h"
#include "gradient.h"
#include "simplify_graph.h"

typedef struct Row {
    const char *op;
    uint32_t operands;
    uint64_t least; /* elements */
} Row;

static const Row *row_of(const Node *node) {
    static const Row rows[] = {
#define PARAMETERS(op, operands, least) {op, operands, least},
#include "training_parameters.def"
#undef PARAMETERS
    };
    if (!domain_is_default(node->domain)) return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (sym_equals(node->op_type, rows[i].op)) return &rows[i];
    return NULL;
}

/* One number that is added to a product of one column: a bias, as a layer with one output has. */
static bool is_bias_of_one(const Node *node, uint32_t operand) {
    const Value *other = node->input_count == 2 ? node->inputs[1 - operand].value : NULL;
    const Type *type = other ? value_shaped_type(other) : NULL;
    return (sym_equals(node->op_type, "Add") || sym_equals(node->op_type, "Sub")) && type &&
           type->rank && other->producer && domain_is_default(other->producer->domain) &&
           sym_equals(other->producer->op_type, "MatMul") &&
           type->dims[type->rank - 1].kind == DIM_KNOWN && type->dims[type->rank - 1].size == 1;
}

/* True where this tensor, as that operand, is a parameter. */
static bool is_parameter(const Node *node, const Row *row, uint32_t operand, const Tensor *tensor) {
    if (operand >= 32 || !(row->operands >> operand & 1) || !tensor || tensor->rank == 0)
        return false;
    if (!tensor_check(tensor, NULL)) return true; /* and an error, when it is taken */
    const uint64_t count = tensor_count(tensor);
    return count >= row->least || (count && is_bias_of_one(node, operand));
}

typedef struct Finding {
    const TrainingAsk *ask;
    Arena *scratch;
    bool *known;  /* by value: listed, or left out */
    bool *frozen; /* by name to be left out: there is one */
    bool seen;    /* any, left out or not */
    TrainingParameters *list;
    Err *err;
} Finding;

static bool is_frozen(Finding *f, const Value *value) {
    for (size_t i = 0; i < f->ask->freeze->count; i++)
        if (sym_equals(value->name, f->ask->freeze->items[i])) return f->frozen[i] = true;
    return false;
}

static bool take(Finding *f, const Node *node, Value *value) {
    const Dtype dtype = (Dtype)value->init->dtype;
    if (f->known[value->id] || !dtype_is_float(dtype)) return true;
    f->known[value->id] = f->seen = true;
    if (is_frozen(f, value)) return true;
    if (!tensor_check(value->init, NULL))
        return node_error(node, f->err, ERR_MODEL, "parameter '%s' has not the data of its shape",
                          sym_text(value->name));
    if (dtype != DTYPE_FLOAT && dtype != DTYPE_DOUBLE)
        return node_error(
            node, f->err, ERR_MODEL,
            "parameter '%s' is %s: training is made of the float model, and converted "
            "then",
            sym_text(value->name), dtype_name(dtype));
    VEC_PUSH(f->scratch, f->list, value);
    return true;
}

/* ---- where they lie -------------------------------------------------------------------------- */

typedef struct Reached {
    Arena *scratch;
    GradientNodes nodes;
} Reached;

static void add_node(Reached *reached, Node *node);

static void add_graph(Graph *graph, void *data) {
    for (Node *node = graph->first; node; node = node->next) add_node(data, node);
}

static void add_node(Reached *reached, Node *node) {
    VEC_PUSH(reached->scratch, &reached->nodes, node);
    node_each_graph(node, add_graph, reached);
}

/* The nodes that `of` is computed by, those in branches and bodies among them. */
static GradientNodes nodes_of(PassCtx *ctx, Value *of) {
    const GradientAsk ask = {.at = of->producer, .ys = &of, .y_count = 1};
    Reached reached = {.scratch = ctx->scratch};
    if (!of->producer) return reached.nodes;
    const GradientNodes nodes = gradient_nodes(&ask, ctx->scratch);
    for (size_t i = 0; i < nodes.count; i++) add_node(&reached, nodes.items[i]);
    return reached.nodes;
}

static bool is_output(const Value *value) {
    const Graph *graph = value->graph;
    for (size_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.items[i]->use.value == value) return true;
    return false;
}

/* Moves an initializer of a branch, or of a body, to the model's graph, which alone has parameters. */
static void move_out(PassCtx *ctx, const NameCounts *names, Value *value) {
    const Tensor *tensor = value->init;
    value_remove_info(value);
    value_set_init(value, NULL);
    if (!name_is_single(names, value))
        value_rename(value, sym_fresh(&ctx->model->syms, sym_text(value->name)));
    value->graph = ctx->model->graph;
    value_set_init(value, tensor);
    ctx->counts->rewrites++;
}

/* Makes an initializer of a Constant node that is where a parameter is; outside of branches and bodies
 * if `all` is said. */
static bool lift_constant(PassCtx *ctx, const Node *node, const Row *row, uint32_t operand,
                          bool all) {
    const Value *value = node->inputs[operand].value;
    Node *made_by = value->producer;
    if (!made_by || !(all || made_by->graph->parent) || !simplify_is(made_by, "Constant") ||
        !node_may_become_constant(made_by))
        return false;
    const Tensor *tensor = constant_tensor(value, &ctx->model->arena);
    if (!tensor || !dtype_is_float((Dtype)tensor->dtype) || !tensor_check(tensor, NULL) ||
        !is_parameter(node, row, operand, tensor))
        return false;
    node_become_constant(ctx, made_by, &tensor);
    graph_sweep(made_by->graph);
    return true;
}

static bool may_move_out(const Node *node, const Row *row, uint32_t operand) {
    const Value *value = node->inputs[operand].value;
    return value->init && value->graph->parent && !value->input && !is_output(value) &&
           is_parameter(node, row, operand, value->init);
}

/* Brings what parameters are among the model's initializers: initializers and Constant nodes of branches
 * and bodies, and, where `all` is said, all Constant nodes. False where there is nothing to be brought. */
static bool lift(PassCtx *ctx, const GradientNodes *nodes, bool all) {
    bool any = false;
    if (!model_has_free_initializers(ctx->model)) return false;
    const NameCounts names = names_count(ctx);
    for (size_t n = 0; n < nodes->count; n++) {
        const Node *node = nodes->items[n];
        const Row *row = row_of(node);
        for (uint32_t i = 0; row && i < node->input_count; i++) {
            if (!node->inputs[i].value) continue;
            const bool lifted = lift_constant(ctx, node, row, i, all);
            const bool moves = may_move_out(node, row, i);
            if (moves) move_out(ctx, &names, node->inputs[i].value);
            any = any || lifted || moves;
        }
    }
    return any;
}

static bool find_all(PassCtx *ctx, Finding *f, const GradientNodes *nodes) {
    f->known = ARENA_ARRAY(ctx->scratch, bool, ctx->model->value_count + 1);
    for (size_t n = 0; n < nodes->count; n++) {
        const Node *node = nodes->items[n];
        const Row *row = row_of(node);
        for (uint32_t i = 0; row && i < node->input_count; i++) {
            Value *value = node->inputs[i].value;
            if (value && !value->graph->parent && is_parameter(node, row, i, value->init) &&
                !take(f, node, value))
                return false;
        }
    }
    return true;
}

bool training_parameters(PassCtx *ctx, const TrainingAsk *ask, TrainingParameters *parameters,
                         Err *err) {
    Value *of = ask->of;
    Finding f = {.ask = ask,
                 .scratch = ctx->scratch,
                 .frozen = ARENA_ARRAY(ctx->scratch, bool, ask->freeze->count + 1),
                 .list = parameters,
                 .err = err};
    GradientNodes nodes = nodes_of(ctx, of);
    lift(ctx, &nodes, false);
    if (!find_all(ctx, &f, &nodes)) return false;
    if (!f.seen && lift(ctx, &nodes, true)) {
        nodes = nodes_of(ctx, of);
        if (!find_all(ctx, &f, &nodes)) return false;
    }
    for (size_t i = 0; i < ask->freeze->count; i++)
        if (!f.frozen[i])
            return err_set(err, ERR_USAGE, "make-training: there is no parameter '%s'",
                           ask->freeze->items[i]);
    return parameters->count ||
           err_set(err, ERR_MODEL, "'%s' is computed from no parameters", sym_text(of->name));
}
