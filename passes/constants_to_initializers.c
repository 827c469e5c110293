// SPDX-License-Identifier: Apache-2.0
/* constants-to-initializers: makes initializers of Constant nodes.
 *
 *   g (float[2] x) => (float[2] y) { c = Constant <value = …> ()  y = Add (x, c) }
 *       ->  g (float[2] x) => (float[2] y) <c = …> { y = Add (x, c) }
 *
 * The value keeps its name, the tensor its data, wherever that lies. What stays a node: a graph's
 * output, sparse and string constants, those of functions' bodies, which can have no initializers,
 * and all before IR version 4, where initializers have to be inputs.
 */
#include "constants.h"
#include "passes.h"
#include "fuse_graph.h"
#include "simplify_graph.h"

static void visit(PassCtx *ctx, Node *node, void *data) {
    (void)data;
    if (!simplify_is(node, "Constant") || node->output_count != 1 || !node->outputs[0]->uses ||
        !node_may_become_constant(node))
        return;
    const Tensor *tensor = constant_tensor(node->outputs[0], &ctx->model->arena);
    if (!tensor || tensor->dtype == DTYPE_STRING || !tensor_check(tensor, NULL)) return;
    node_become_constant(ctx, node, &tensor);
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    (void)err;
    if (model_has_free_initializers(ctx->model)) each_node(ctx, visit, NULL);
    return true;
}

const PassInfo constants_to_initializers_pass = {
    .name = "constants-to-initializers",
    .summary = "turn Constant nodes into initializers",
    .idempotent = true,
    .run = run,
};
