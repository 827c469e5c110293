// SPDX-License-Identifier: Apache-2.0
/* Finding parameters; see training_parameters.h. A single number that is added or multiplied with is
 * part of a formula, no parameter. */
#include "training_parameters.h"

#include <string.h>

#include "gradient.h"

static uint32_t operands_of(const Node *node) {
    static const struct {
        const char *op;
        uint32_t operands;
    } rows[] = {
#define PARAMETERS(op, operands) {op, operands},
#include "training_parameters.def"
#undef PARAMETERS
    };
    if (!domain_is_default(node->domain)) return 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (sym_equals(node->op_type, rows[i].op)) return rows[i].operands;
    return 0;
}

static bool is_parameter(const Value *value) {
    const Tensor *init = value ? value->init : NULL;
    if (!init || value->graph->parent || init->rank == 0) return false;
    for (uint32_t i = 0; i < init->rank; i++)
        if (init->dims[i] > 1) return true;
    return false;
}

typedef struct Finding {
    const TrainingAsk *ask;
    Arena *scratch;
    bool *known;  /* by value: listed, or left out */
    bool *frozen; /* by name to be left out: there is one */
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
    f->known[value->id] = true;
    if (is_frozen(f, value)) return true;
    if (dtype != DTYPE_FLOAT && dtype != DTYPE_DOUBLE)
        return node_error(
            node, f->err, ERR_MODEL,
            "parameter '%s' is %s: training is made of the float model, and converted "
            "then",
            sym_text(value->name), dtype_name(dtype));
    VEC_PUSH(f->scratch, f->list, value);
    return true;
}

bool training_parameters(PassCtx *ctx, const TrainingAsk *ask, TrainingParameters *parameters,
                         Err *err) {
    Value *of = ask->of;
    Finding f = {.ask = ask,
                 .scratch = ctx->scratch,
                 .known = ARENA_ARRAY(ctx->scratch, bool, ctx->model->value_count + 1),
                 .frozen = ARENA_ARRAY(ctx->scratch, bool, ask->freeze->count + 1),
                 .list = parameters,
                 .err = err};
    const GradientAsk reach = {.at = of->producer, .ys = &of, .y_count = 1};
    const GradientNodes nodes =
        of->producer ? gradient_nodes(&reach, ctx->scratch) : (GradientNodes){0};
    for (size_t n = 0; n < nodes.count; n++) {
        const Node *node = nodes.items[n];
        const uint32_t operands = operands_of(node);
        for (uint32_t i = 0; i < node->input_count && i < 32; i++)
            if ((operands >> i & 1) && is_parameter(node->inputs[i].value) &&
                !take(&f, node, node->inputs[i].value))
                return false;
    }
    for (size_t i = 0; i < ask->freeze->count; i++)
        if (!f.frozen[i])
            return err_set(err, ERR_USAGE, "make-training: there is no parameter '%s'",
                           ask->freeze->items[i]);
    return parameters->count ||
           err_set(err, ERR_MODEL, "'%s' is computed from no parameters", sym_text(of->name));
}
