// SPDX-License-Identifier: Apache-2.0
/* inline-calls: puts the bodies of a model's own functions in place of their calls.
 *
 *   y = com.x.Layer (x, w)   with Layer (a, b) => (c) { c = MatMul (a, b) }
 *       ->  y = MatMul (x, w)
 *
 * Calls within bodies go the same way, and so do those in subgraphs. Attributes that are parameters
 * of the function become what the call gives, and names of a body become new ones. A call stays where
 * the body is of other versions of operators than the graph around it. Functions that nothing calls any
 * more are left to eliminate-dead-code.
 */
#include "inline_calls.h"

#include "call_size.h"
#include "clone_nodes.h"
#include "fuse_graph.h"
#include "infer_shapes.h"
#include "passes.h"
#include "simplify_graph.h"

typedef struct Inline {
    const bool *chosen;
    const char *refusal;
    CloneNodes clone;
    Err *err;
    bool again; /* what was put in may be a call, too */
    bool failed;
} Inline;

/* The graph around may lack domains that the body imports. */
static void import_as(Model *model, const Function *function, const Graph *graph) {
    for (size_t i = 0; i < function->opsets.count; i++) {
        const OpsetImport *import = &function->opsets.items[i];
        if (opset_version(graph->opsets, import->domain) < 1)
            model_import_opset(model, graph->opsets, import->domain, import->version);
    }
}

static void visit(PassCtx *ctx, Node *node, void *data) {
    Inline *in = data;
    Model *model = ctx->model;
    const Function *function = model_find_function(model, node);
    if (in->failed || !function || (in->chosen && !in->chosen[function->index])) return;
    Value **outputs = ARENA_ARRAY(ctx->scratch, Value *, node->output_count + 1);
    import_as(model, function, node->graph);
    if (!clone_call(&in->clone, node, node, outputs)) {
        in->failed = in->refusal && !node_error(node, in->err, ERR_MODEL, "%s", in->refusal);
        return;
    }
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && outputs[i]) result_become(ctx, node, i, outputs[i]);
    node_remove_unswept(node);
    ctx->counts->rewrites++;
    in->again = true;
}

bool calls_inline(PassCtx *ctx, const bool *chosen, const char *refusal, Err *err) {
    Model *model = ctx->model;
    if (!model->functions.count) return true;
    if (call_size_expanded(model, ctx->scratch) >
        call_size_room(model, ctx->scratch) / sizeof(Node))
        return err_set(err, ERR_MODEL, "inlining function calls makes too many nodes");
    Inline in = {.chosen = chosen, .refusal = refusal, .err = err};
    in.clone =
        clone_begin(model, ctx->scratch); /* bodies, whose values it maps, stay as they are */
    do {
        in.again = false;
        each_node(ctx, visit, &in);
    } while (in.again && !in.failed);
    return !in.failed;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    const uint64_t before = ctx->counts->rewrites;
    return calls_inline(ctx, NULL, NULL, err) &&
           (ctx->counts->rewrites == before || infer_again(ctx, err));
}

const PassInfo inline_calls_pass = {
    .name = "inline-calls",
    .summary = "inline calls to the model's own functions",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .idempotent = true,
    .run = run,
};
