// SPDX-License-Identifier: Apache-2.0
/* Inference on the model itself, whose values get back what they said before. */
#include "strict_check.h"

#include "infer_shapes.h"
#include "strict_types.h"
#include "work_progress.h"
#include "verify.h"

typedef void (*ValueVisitor)(Value *value, const Type **types);

static void keep(Value *value, const Type **types) {
    types[value->id] = value->type;
}
static void give_back(Value *value, const Type **types) {
    value_set_type(value, types[value->id]);
}
static void declare(Value *value, const Type **types) {
    if (types[value->id]) value_set_type(value, types[value->id]);
}

static void each_value(const GraphList *graphs, ValueVisitor visit, const Type **types) {
    for (size_t g = 0; g < graphs->count; g++) {
        const Graph *graph = graphs->items[g];
        for (size_t i = 0; i < graph->inputs.count; i++) visit(graph->inputs.items[i], types);
        for (size_t i = 0; i < graph->initializers.count; i++)
            visit(graph->initializers.items[i], types);
        for (size_t i = 0; i < graph->sparse_initializers.count; i++)
            visit(graph->sparse_initializers.items[i], types);
        for (Node *node = graph->first; node; node = node_after(node))
            for (uint32_t i = 0; i < node->output_count; i++)
                if (node->outputs[i]) visit(node->outputs[i], types);
    }
}

/* What is checked one after the other, for the terminal. */
typedef enum Stage {
    STAGE_STRUCTURE,
    STAGE_FORM,
    STAGE_OPERATORS,
    STAGE_TYPES,
    STAGE_SHAPES,
    STAGE_COUNT
} Stage;

static const char checking[] = "checking the model";

static bool enter(unsigned piece, Stage stage) {
    progress_turn(piece, checking, stage, STAGE_COUNT);
    return true;
}

/* What infer-dtypes refuses for want of a type is a fault of the model here. */
static bool check_types(PassCtx *ctx, bool shapes, unsigned piece, Err *err) {
    bool ok = strict_types(ctx, true, err);
    if (ok && shapes) {
        enter(piece, STAGE_SHAPES);
        const Type **declared = declared_types(ctx->model, true, ctx->scratch);
        ok =
            infer_shapes_strict(ctx, err) && strict_shapes(ctx->model, declared, ctx->scratch, err);
    }
    if (!ok && err->code == ERR_USAGE) err->code = ERR_MODEL;
    return ok;
}

/* What needs no inference. */
static bool check_written(Model *model, unsigned parts, unsigned piece, Arena *scratch, Err *err) {
    return model_verify(model, scratch, err) && enter(piece, STAGE_FORM) &&
           (!(parts & STRICT_FORMAL) || (model_check_interface(model, scratch, err) &&
                                         model_check_deprecated(model, scratch, err))) &&
           model_check_form(model, scratch, err) && enter(piece, STAGE_OPERATORS) &&
           model_check_operators(model, scratch, err);
}

static bool check_all(Model *model, unsigned parts, unsigned piece, Arena *scratch, Err *err) {
    if (!check_written(model, parts, piece, scratch, err)) return false;
    enter(piece, STAGE_TYPES);
    PassCounts counts = {0};
    PassCtx ctx = {.model = model, .scratch = scratch, .counts = &counts};
    GraphList graphs = model_graphs(model, scratch);
    const Type **before = ARENA_ARRAY(scratch, const Type *, model->value_count + 1u);
    each_value(&graphs, keep, before);
    each_value(&graphs, declare, declared_types(model, true, scratch));
    bool ok = check_types(&ctx, parts & STRICT_SHAPES, piece, err);
    each_value(&graphs, give_back, before);
    return ok;
}

bool strict_check(Model *model, unsigned parts, Arena *scratch, Err *err) {
    const unsigned piece = progress_begin(checking, STAGE_COUNT, PROGRESS_PARTS);
    const bool ok = check_all(model, parts, piece, scratch, err);
    progress_end(piece);
    return ok;
}
