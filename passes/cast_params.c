// SPDX-License-Identifier: Apache-2.0
/* cast-params: constants that are read only through casts to one type are stored in that type.
 *
 * Before: w (float); w1 = Cast(w, float16); y = Conv(x, w1)      and nothing else reads w
 * After:  w (float16); y = Conv(x, w)
 *
 * Constants are initializers and Constant nodes, in every graph, branch and function. One that is
 * also read as it is, or in two types, stays and keeps its run-time casts, unless both=true stores
 * a second copy; a single number always has one. A graph input's default, and a parameter that a training binding updates, are no
 * constants. Data is converted when it is written: no copy is held. With own=true a constant is
 * left alone unless demi itself inserted one of its casts.
 */
#include <stddef.h>

#include "cast_node.h"
#include "constant_store.h"
#include "constants.h"
#include "op_types.h"
#include "passes.h"

typedef struct CastParamsOptions {
    bool both, own;
    int overflow;
} CastParamsOptions;

static const char *const overflow_names[] = {"inf", "clamp", NULL};

static const PassOption options_table[] = {
    {"both", OPTION_BOOL, offsetof(CastParamsOptions, both), NULL, NULL,
     "store a second copy of constants that are read in both precisions"},
    {"own", OPTION_BOOL, offsetof(CastParamsOptions, own), NULL, NULL,
     "do not change constants that only the model's own casts read"},
    {"overflow", OPTION_CHOICE, offsetof(CastParamsOptions, overflow), overflow_names, NULL,
     "what finite values beyond the type's range become: Inf, or the largest finite value"},
    {0},
};

typedef struct CastParams {
    PassCtx *ctx;
    ConstantStore store;
    bool both, own;
    Err *err;
} CastParams;

static bool converts(Dtype dtype) {
    return dtype_is_working(dtype);
}

static bool is_graph_output(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node) return true;
    return false;
}

/* The type that this use casts `value` to, if storing it so saves bytes; else UNDEFINED. */
static Dtype cast_target(const Use *use) {
    if (!node_is_cast(use->node)) return DTYPE_UNDEFINED;
    const Value *result = use->node->outputs[0];
    Dtype to = type_dtype(result->type), from = type_dtype(use->value->type);
    if (!converts(to) || !converts(from) || dtype_bits(to) >= dtype_bits(from))
        return DTYPE_UNDEFINED;
    /* An output of another graph could not take over this constant's name, nor does a graph give
     * out what another one holds. */
    bool foreign = result->graph != use->value->graph && is_graph_output(result);
    return foreign ? DTYPE_UNDEFINED : to;
}

/* The one type that every use casts to; UNDEFINED where there is none. */
static Dtype common_target(const Value *value) {
    Dtype target = DTYPE_UNDEFINED;
    for (const Use *use = value->uses; use; use = use->next) {
        Dtype to = cast_target(use);
        if (to == DTYPE_UNDEFINED || (target && to != target)) return DTYPE_UNDEFINED;
        target = to;
    }
    return target;
}

typedef VEC(Node *) NodeList;

static NodeList casts_to(PassCtx *ctx, const Value *value, Dtype to) {
    NodeList casts = {0};
    for (const Use *use = value->uses; use; use = use->next)
        if (cast_target(use) == to) VEC_PUSH(ctx->scratch, &casts, use->node);
    return casts;
}

/* Readers of the casts read `stored`, which has their type. A second cast whose result is an output
 * of its own name stays, as an identity: a value has one name. */
static void drop_casts(PassCtx *ctx, NodeList casts, Value *stored) {
    for (size_t i = 0; i < casts.count; i++) {
        Node *cast = casts.items[i];
        Value *result = cast->outputs[0];
        if (value_is_named_output(result)) {
            if (value_is_named_output(stored)) {
                node_set_input(cast, 0, stored);
                continue;
            }
            value_swap_names(result, stored);
        }
        value_replace_uses(result, stored);
        node_remove_unswept(cast);
        ctx->counts->casts_removed++;
        ctx->counts->rewrites++;
    }
}

static bool fold(CastParams *c, Value *value, const Tensor *tensor, Dtype to) {
    if (!constant_count_loss(&c->store, value, tensor, to, c->err)) return false;
    NodeList casts = casts_to(c->ctx, value, to);
    constant_store(&c->store, value, tensor, to);
    drop_casts(c->ctx, casts, value);
    return true;
}

/* A second constant beside `value`: a Constant node beside a Constant node (a function
 * body has no initializers), else an initializer. */
static Value *constant_beside(Value *value, const Tensor *stored) {
    Model *model = value->graph->model;
    char *stem = arena_printf(&model->arena, "%s_%s", sym_text(value->name),
                              dtype_name((Dtype)stored->dtype));
    Value *copy = value_new(value->graph, sym_fresh(&model->syms, stem));
    value_set_type(copy, type_with_dtype(&model->arena, value->type, (Dtype)stored->dtype));
    if (!value->producer) {
        value_set_init(copy, stored);
        return copy;
    }
    Node *node = node_new(value->graph, value->producer->next, value->producer->op_type, NULL);
    node_resize_outputs(node, 1);
    node_set_output(node, 0, copy);
    node_set_attr_tensor(node, "value", stored);
    constant_note(node, (Dtype)stored->dtype);
    return copy;
}

/* The last type takes the constant's own place where nobody reads it as it is. */
static bool store_both(CastParams *c, Value *value, const Tensor *tensor) {
    static const Dtype targets[] = {DTYPE_FLOAT16, DTYPE_BFLOAT16};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        NodeList casts = casts_to(c->ctx, value, targets[i]);
        if (casts.count == 0) continue;
        if (common_target(value) == targets[i]) return fold(c, value, tensor, targets[i]);
        if (!constant_count_loss(&c->store, value, tensor, targets[i], c->err)) return false;
        const Tensor *stored = constant_as(&c->store, tensor, targets[i]);
        drop_casts(c->ctx, casts, constant_beside(value, stored));
    }
    return true;
}

static bool has_own_cast(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (use->node && node_is_own_cast(use->node)) return true;
    return false;
}

/* A run-time cast does not clamp: what it would turn into Inf is stored a second time. */
static bool must_clamp(CastParams *c, const Value *value, const Tensor *tensor, bool *must) {
    ValueStatistics statistics = {0};
    Dtype to = DTYPE_UNDEFINED;
    for (const Use *use = value->uses; c->store.clamp && use && !to; use = use->next)
        to = cast_target(use);
    if (to && !tensor_statistics(c->ctx->statistics, tensor, to, &statistics, c->err)) return false;
    *must = statistics.overflow > 0;
    return true;
}

/* A second copy of a number, such as a scale, takes less than a Cast of it and runs no node. */
static bool is_number(const Tensor *tensor) {
    return tensor_count(tensor) == 1;
}

static bool visit(CastParams *c, Value *value) {
    if (!value || !value->uses || (c->own && !has_own_cast(value))) return true;
    const Tensor *tensor = constant_storable(value);
    if (!tensor) return true;
    Dtype to = common_target(value);
    if (to) return fold(c, value, tensor, to);
    bool must;
    if (!must_clamp(c, value, tensor, &must)) return false;
    return !(c->both || must || is_number(tensor)) || store_both(c, value, tensor);
}

static bool visit_all(CastParams *c, const GraphList *graphs) {
    for (size_t g = 0; g < graphs->count; g++) {
        Graph *graph = graphs->items[g];
        for (size_t i = 0, count = graph->initializers.count; i < count; i++)
            if (!visit(c, graph->initializers.items[i])) return false;
        for (Node *node = graph->first; node; node = node_after(node))
            if (node->output_count == 1 && !visit(c, node->outputs[0])) return false;
    }
    return true;
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const CastParamsOptions *options = opts;
    CastParams c = {.ctx = ctx,
                    .store = {.ctx = ctx, .clamp = options->overflow == 1},
                    .both = options->both,
                    .own = options->own,
                    .err = err};
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    bool ok = visit_all(&c, &graphs);
    for (size_t g = 0; g < graphs.count; g++) graph_sweep(graphs.items[g]);
    if (ok) casts_leave_mark(ctx);
    return ok;
}

const PassInfo cast_params_pass = {
    .name = "cast-params",
    .summary = "store constants in the type that their casts convert them to",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(CastParamsOptions),
    .idempotent = true,
    .keeps_shapes = true,
    .run = run,
};
