// SPDX-License-Identifier: Apache-2.0
/* eliminate-dead-code: removes nodes whose results nobody reads, and constants likewise.
 *
 * Works backwards through every graph, so that one run is enough. Graph outputs, values that a
 * binding or annotation names, graph inputs and operators demi does not know (they may have
 * effects) stay; so do functions, whether called or not.
 */
#include "op_types.h"
#include "passes.h"

static bool is_dead(const Node *node) {
    if (!node_schema(node) && !model_find_function(node->graph->model, node)) return false;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && (node->outputs[i]->uses || node->outputs[i]->referenced))
            return false;
    return true;
}

static void drop_dead_nodes(PassCtx *ctx, Graph *graph) {
    for (Node *node = graph->last, *previous; node; node = previous) {
        previous = node->prev;
        if (!is_dead(node)) continue;
        node_remove_unswept(node);
        ctx->counts->rewrites++;
    }
    graph_sweep(graph);
}

static bool is_dead_constant(const Value *value) {
    return !value->uses && !value->referenced && !value->input;
}

static void drop_dead_constants(PassCtx *ctx, Graph *graph) {
    VEC(Value *) dead = {0};
    for (size_t i = 0; i < graph->initializers.count; i++)
        if (is_dead_constant(graph->initializers.items[i]))
            VEC_PUSH(ctx->scratch, &dead, graph->initializers.items[i]);
    for (size_t i = 0; i < graph->sparse_initializers.count; i++)
        if (is_dead_constant(graph->sparse_initializers.items[i]))
            VEC_PUSH(ctx->scratch, &dead, graph->sparse_initializers.items[i]);
    graph_remove_initializers(graph, dead.items, dead.count);
    ctx->counts->rewrites += dead.count;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    (void)err;
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t i = graphs.count; i-- > 0;) drop_dead_nodes(ctx, graphs.items[i]);
    for (size_t i = 0; i < graphs.count; i++) drop_dead_constants(ctx, graphs.items[i]);
    return true;
}

const PassInfo eliminate_dead_code_pass = {
    .name = "eliminate-dead-code",
    .summary = "dead code elimination: remove nodes and constants that nothing reads",
    .idempotent = true,
    .run = run,
};
