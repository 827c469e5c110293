// SPDX-License-Identifier: Apache-2.0
/* inline-branches: puts in place of an If whose condition is constant the branch that is taken.
 *
 *   y = If (c) <then_branch = { t = Neg (x) }, else_branch = { e = Abs (x) }>,  c = {true}
 *       ->  y = Neg (x)
 *
 * What the branch holds keeps its names, but for those that something else in the model has. An
 * output that is one by name, and that no node of the branch gives, comes from an Identity. Before IR
 * version 4 branches with initializers stay, and so do those with quantization annotations, which
 * belong to a graph.
 */
#include "constants.h"
#include "op_types.h"
#include "passes.h"
#include "fuse_graph.h"
#include "simplify_graph.h"

typedef struct Inline {
    const NameCounts *names;
    bool again; /* what was put in may hold such an If, too */
} Inline;

/* Names made since they were counted are nobody else's. */
static void make_unique(const Inline *in, Value *value) {
    if (value && !name_is_single(in->names, value))
        value_rename(value, sym_fresh(&value->graph->model->syms, value->name->text));
}

/* ---- branches -------------------------------------------------------------------------------- */

static Graph *taken_branch(PassCtx *ctx, const Node *node) {
    const Value *flag = node->input_count == 1 ? node->inputs[0].value : NULL;
    const Tensor *tensor =
        flag && value_is_constant(flag) ? constant_tensor(flag, ctx->scratch) : NULL;
    int64_t *items;
    uint64_t count;
    if (!tensor || !tensor_check(tensor, NULL) ||
        !tensor_read_ints(tensor, ctx->scratch, 1, &items, &count) || count != 1)
        return NULL;
    return attr_graph(node_attr(node, items[0] ? "then_branch" : "else_branch"));
}

static bool may_move(const Model *model, const Node *node, const Graph *branch) {
    bool constants = branch->initializers.count || branch->sparse_initializers.count;
    if (branch->inputs.count || branch->undefined.count || branch->annotations.count ||
        branch->outputs.count != node->output_count ||
        (constants && !model_has_free_initializers(model)))
        return false;
    for (size_t i = 0; i < branch->outputs.count; i++)
        if (!branch->outputs.items[i]->use.value) return false;
    return true;
}

static void move_out(const Inline *in, Node *node, Graph *branch) {
    for (size_t i = 0; i < branch->initializers.count; i++)
        make_unique(in, branch->initializers.items[i]);
    for (size_t i = 0; i < branch->sparse_initializers.count; i++)
        make_unique(in, branch->sparse_initializers.items[i]);
    for (Node *inner = branch->first; inner; inner = node_after(inner))
        for (uint32_t i = 0; i < inner->output_count; i++) make_unique(in, inner->outputs[i]);
    graph_move_out(branch, node);
}

static void visit(PassCtx *ctx, Node *node, void *data) {
    Inline *in = data;
    Graph *branch = simplify_is(node, "If") ? taken_branch(ctx, node) : NULL;
    if (!branch || !may_move(ctx->model, node, branch)) return;
    move_out(in, node, branch);
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *result = node->outputs[i];
        if (!result || (!result->uses && !result->referenced)) continue;
        result_become(ctx, node, i, branch->outputs.items[i]->use.value);
    }
    node_remove_unswept(node);
    ctx->counts->rewrites++;
    in->again = true;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    (void)err;
    const NameCounts names = names_count(ctx);
    Inline in = {.names = &names};
    do {
        in.again = false;
        each_node(ctx, visit, &in);
    } while (in.again);
    return true;
}

const PassInfo inline_branches_pass = {
    .name = "inline-branches",
    .summary = "replace an If with a constant condition by the branch that it takes",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .idempotent = true,
    .run = run,
};
