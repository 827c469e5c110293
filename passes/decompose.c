// SPDX-License-Identifier: Apache-2.0
/* decompose: operators of ONNX Runtime become those that have kernels, for plans.
 *
 *   com.microsoft.BiasGelu(A, B)  ->  demi.fused.Gelu(Add(A, B))
 *   com.microsoft.QLinearAdd(…)   ->  QuantizeLinear(Add(DequantizeLinear(A), DequantizeLinear(B)))
 *
 * and so on: decompose.h has the list, passes/decompose/ the recipes. What a recipe can't decompose is refused
 * with the operator's name. Operators that have kernels of their own stay. Ranks are asked of shapes, so
 * infer-shapes comes first; what is new has none, so it is run again where there is anything new.
 *
 * A function's body has other types and shapes in each call. Where one holds such an operator, calls of
 * it become what the body does, and the nodes are decomposed there; other functions stay.
 *
 * Products of bytes are integers' in faithful plans. In others they are those of the numbers that the
 * bytes stand for, which fuse-quantized makes faster ones of integers of.
 */
#include <string.h>

#include "infer_shapes.h"
#include "inline_calls.h"
#include "op_types.h"
#include "passes.h"
#include "simplify_graph.h"
#include "decompose.h"

static const struct Recipe {
    const char *domain, *op;
    DecomposeRecipe *decompose;
} recipes[] = {
#define X(domain, op, name) {domain, op, decompose_##name},
    DECOMPOSE_RECIPES(X)
#undef X
};

typedef struct DecomposeRun {
    const FuseOptions *options;
    Err *err;
    bool failed;
} DecomposeRun;

static const struct Recipe *recipe_of(const Node *node) {
    const OpRecord *record = node_record(node);
    if (!op_record_has(record, OP_DECOMPOSED) || model_find_function(node->graph->model, node))
        return NULL;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        if (strcmp(recipes[i].op, record->name) == 0 &&
            strcmp(recipes[i].domain, record->domain) == 0)
            return &recipes[i];
    return NULL;
}

/* A later version of the runtime may have more of an operator, which would be left out unseen. */
static bool is_as_defined(Decompose *decompose) {
    const Node *node = decompose->node;
    const OpSchema *schema = node_schema(node);
    if (!schema) return decompose_refuse(decompose, "of this version");
    if (!op_allows(node->input_count, 0, schema->max_input) ||
        !op_allows(node->output_count, 0, schema->max_output))
        return decompose_refuse(decompose, "with %u inputs and %u outputs", node->input_count,
                                node->output_count);
    for (uint32_t i = 0; i < schema->input_count; i++)
        if (op_schema_input_is_required(schema, i) && !fuse_input(node, i))
            return decompose_refuse(decompose, "without input %u", i);
    for (const Attr *attr = node->attrs; attr; attr = attr->next)
        if (!op_schema_attr(schema, sym_text(attr->name)))
            return decompose_refuse(decompose, "with an attribute '%s'", sym_text(attr->name));
    return true;
}

/* ---- bodies of functions --------------------------------------------------------------------- */

static bool calls_decomposed(const Model *model, const Node *node, const bool *decomposed) {
    const Function *function = model_find_function(model, node);
    return function && decomposed[function->index];
}

static bool holds_decomposed(const Model *model, const Graph *graph, const bool *decomposed) {
    for (const Node *node = graph->first; node; node = node->next)
        if (recipe_of(node) || calls_decomposed(model, node, decomposed)) return true;
    return false;
}

/* Which functions hold something to decompose, or call one that does. NULL where none. */
static const bool *find_decomposed(PassCtx *ctx) {
    const Model *model = ctx->model;
    bool *decomposed = ARENA_ARRAY(ctx->scratch, bool, model->functions.count + 1);
    const GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    bool any = false, more = model->functions.count > 0;
    while (more) {
        more = false;
        for (size_t i = 0; i < graphs.count; i++) {
            const Function *function = graphs.items[i]->function;
            if (!function || decomposed[function->index]) continue;
            decomposed[function->index] = holds_decomposed(model, graphs.items[i], decomposed);
            more |= decomposed[function->index];
        }
        any |= more;
    }
    return any ? decomposed : NULL;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void visit(PassCtx *ctx, Node *node, void *data) {
    DecomposeRun *run = data;
    const struct Recipe *recipe = run->failed ? NULL : recipe_of(node);
    if (!recipe) return;
    Decompose decompose = {
        .fuse = {.ctx = ctx, .faithful = run->options->numerics == 1, .options = run->options},
        .node = node,
        .err = run->err,
        .opset = fuse_opset(node)};
    if (!is_as_defined(&decompose) || !recipe->decompose(&decompose)) {
        run->failed = true;
        return;
    }
    node_remove_unswept(node);
    ctx->counts->rewrites++;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    DecomposeRun decomposed = {.options = options, .err = err};
    uint64_t before = ctx->counts->rewrites;
    const bool *holds = find_decomposed(ctx);
    if (holds && !calls_inline(ctx, holds,
                               "demi does not run operators of com.microsoft in functions whose "
                               "opsets differ from the model's",
                               err))
        return false;
    if (ctx->counts->rewrites != before && !infer_again(ctx, err)) return false;
    before = ctx->counts->rewrites;
    each_node(ctx, visit, &decomposed);
    if (decomposed.failed) return false;
    return ctx->counts->rewrites == before || infer_again(ctx, err);
}

const PassInfo decompose_pass = {
    .name = "decompose",
    .summary = "decompose operators of com.microsoft into operators with kernels, for plans",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = fuse_options,
    .options_size = sizeof(FuseOptions),
    .idempotent = true,
    .run = run,
};
