// SPDX-License-Identifier: Apache-2.0
/* See undo_rows.h. What computes the rows' bytes is left to who sweeps: other products may read it. */
#include "undo_rows.h"

#include "constants.h"
#include "make_node.h"
#include "op_types.h"
#include "qdq_node.h"
#include "row_form.h"

/* Of that constant with those scales, as one made before, or a new one. */
static Value *dequantize_shared(PassCtx *ctx, Value *stored, Value *factors, int32_t axis) {
    for (const Use *use = stored->uses; use; use = use->next)
        if (qdq_is_own(use->node, QDQ_MARK_WEIGHTS) && fuse_input(use->node, 1) == factors &&
            node_attr_int(use->node, "axis", -1) == axis)
            return use->node->outputs[0];
    const QdqOperands operands = {factors, NULL, axis, 0, DTYPE_UNDEFINED};
    Value *made = qdq_value(ctx, stored, "float", DTYPE_FLOAT);
    Node *node = qdq_insert(ctx, "DequantizeLinear", stored, &operands, made);
    node_add_metadata(node, OWN_QUANTIZER, QDQ_MARK_WEIGHTS);
    return made;
}

bool undo_rows_of(PassCtx *ctx, Node *node) {
    static const int64_t exchanged[2] = {1, 0};
    RowProduct p;
    RowBytes rows;
    bool turned;
    if (!row_product_find(node, &p) || !row_bytes_find(p.bytes, ctx->scratch, &rows) ||
        rows.scale != p.scale || rows.low != p.low)
        return false;
    Value *stored = row_weights_stored(p.weights.bytes, &turned), *factors = p.weights.factors;
    if (!value_is_constant(stored) || type_dtype(stored->type) != DTYPE_INT8 ||
        fuse_rank(stored) != 2 || fuse_rank(factors) > 1 || fuse_rank(factors) < 0)
        return false;
    Fuse fuse = {.ctx = ctx};
    const Make make = {ctx, node, node_label(node)};
    const int32_t axis = fuse_rank(factors) == 0 ? -1 : !turned;
    Value *weights = dequantize_shared(ctx, stored, factors, axis);
    if (turned) {
        weights = make_op(&make, "Transpose", &weights, 1, DTYPE_FLOAT);
        node_set_attr_ints(weights->producer, "perm", exchanged, 2);
    }
    Node *product = make_node(&make, "MatMul", NULL, 2);
    node_resize_outputs(product, 1);
    node_set_input(product, 0, rows.x);
    node_set_input(product, 1, weights);
    product->name = node->name;
    fuse_replace_root(&fuse, product, p.root);
    return true;
}
