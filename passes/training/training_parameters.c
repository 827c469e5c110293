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

static bool is_parameter(const Node *node, const Row *row, uint32_t operand) {
    const Value *value = node->inputs[operand].value;
    const Tensor *init = value ? value->init : NULL;
    if (operand >= 32 || !(row->operands >> operand & 1)) return false;
    if (!init || value->graph->parent || init->rank == 0) return false;
    if (!tensor_check(init, NULL)) return true; /* and an error, when it is taken */
    const uint64_t count = tensor_count(init);
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

/* Makes initializers of the Constant nodes that are where parameters are; false where there are none. */
static bool lift_constants(PassCtx *ctx, const GradientNodes *nodes) {
    bool any = false;
    if (!model_has_free_initializers(ctx->model)) return false;
    for (size_t n = 0; n < nodes->count; n++) {
        const Node *node = nodes->items[n];
        const Row *row = row_of(node);
        for (uint32_t i = 0; row && i < node->input_count && i < 32; i++) {
            const Value *value = row->operands >> i & 1 ? node->inputs[i].value : NULL;
            Node *made_by = value ? value->producer : NULL;
            if (!made_by || !simplify_is(made_by, "Constant") || !node_may_become_constant(made_by))
                continue;
            const Tensor *tensor = constant_tensor(value, &ctx->model->arena);
            if (!tensor || !dtype_is_float((Dtype)tensor->dtype) || !tensor_check(tensor, NULL))
                continue;
            node_become_constant(ctx, made_by, &tensor);
            any = true;
        }
    }
    return any;
}

static bool find_all(PassCtx *ctx, Finding *f, const GradientNodes *nodes) {
    f->known = ARENA_ARRAY(ctx->scratch, bool, ctx->model->value_count + 1);
    for (size_t n = 0; n < nodes->count; n++) {
        const Node *node = nodes->items[n];
        const Row *row = row_of(node);
        for (uint32_t i = 0; row && i < node->input_count; i++)
            if (is_parameter(node, row, i) && !take(f, node, node->inputs[i].value)) return false;
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
    const GradientAsk reach = {.at = of->producer, .ys = &of, .y_count = 1};
    GradientNodes nodes = {0};
    if (of->producer) nodes = gradient_nodes(&reach, ctx->scratch);
    if (!find_all(ctx, &f, &nodes)) return false;
    if (!f.seen && lift_constants(ctx, &nodes)) {
        nodes = gradient_nodes(&reach, ctx->scratch);
        if (!find_all(ctx, &f, &nodes)) return false;
    }
    for (size_t i = 0; i < ask->freeze->count; i++)
        if (!f.frozen[i])
            return err_set(err, ERR_USAGE, "make-training: there is no parameter '%s'",
                           ask->freeze->items[i]);
    return parameters->count ||
           err_set(err, ERR_MODEL, "'%s' is computed from no parameters", sym_text(of->name));
}
