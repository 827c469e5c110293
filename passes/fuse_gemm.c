// SPDX-License-Identifier: Apache-2.0
/* fuse-gemm: makes one node of a product of matrices and the bias that is added to it.
 *
 *   Add (MatMul (x, w), b)   of x [M, K], w [K, N], b [N]  ->  Gemm (x, w, b)
 *
 * Both operands are known to be matrices, the bias to have N elements or one, and nothing else reads
 * the product. Sums may be rounded otherwise: the bias may be the first of what is added.
 */
#include "fuse_graph.h"
#include "simplify_graph.h"

static bool is_float(const Value *value) {
    Dtype dtype = type_dtype(value->type);
    return value_type(value)->kind == TYPE_TENSOR && (fuse_takes(value) || dtype == DTYPE_DOUBLE);
}

static bool is_product(const Node *node) {
    const Value *x = fuse_input(node, 0), *w = fuse_input(node, 1);
    return x && w && is_float(x) && fuse_rank(x) == 2 && fuse_rank(w) == 2 && fuse_dim(w, 1) > 0;
}

static bool is_bias(const Value *value, int64_t width) {
    return fuse_rank(value) == 0 ||
           (fuse_rank(value) == 1 && (fuse_dim(value, 0) == width || fuse_dim(value, 0) == 1));
}

static void visit(PassCtx *ctx, Node *node, void *data) {
    enum { SINCE = 7 }; /* from there on the bias broadcasts by itself */
    (void)data;
    if (!simplify_is(node, "MatMul") || fuse_opset(node) < SINCE || !is_product(node)) return;
    Node *add = fuse_reader(node->outputs[0]);
    Value *bias = add && simplify_is(add, "Add") ? fuse_other(add, node->outputs[0]) : NULL;
    if (!bias || !is_bias(bias, fuse_dim(node->inputs[1].value, 1))) return;
    Value *result = add->outputs[0];
    Node *gemm = node_new(add->graph, add, sym_intern_cstr(&ctx->model->syms, "Gemm"), NULL);
    gemm->name = node->name;
    node_resize_inputs(gemm, 3);
    node_resize_outputs(gemm, 1);
    for (uint32_t i = 0; i < 2; i++) node_set_input(gemm, i, node->inputs[i].value);
    node_set_input(gemm, 2, bias);
    node_set_output(add, 0, NULL);
    node_set_output(gemm, 0, result);
    node_remove_unswept(add);
    node_remove_unswept(node);
    ctx->counts->rewrites++;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    (void)err;
    each_node(ctx, visit, NULL);
    return true;
}

const PassInfo fuse_gemm_pass = {
    .name = "fuse-gemm",
    .summary = "fuse MatMul and Add into Gemm",
    .needs = FACT_DTYPES | FACT_SHAPES,
    .gives = FACT_DTYPES | FACT_SHAPES,
    .idempotent = true,
    .run = run,
};
