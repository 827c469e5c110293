// SPDX-License-Identifier: Apache-2.0
/* See quantized_forms.h: rows that are quantized when the model runs (row_form.h), and their products. */
#include "constants.h"
#include "make_node.h"
#include "quantized_forms.h"
#include "row_form.h"

/* ---- rows ------------------------------------------------------------------------------------ */

enum { ROWS_SCALE = 1, ROWS_LOW, ROWS_RESULTS };

/* All that reads the value, but these nodes of the form itself, reads what `made` gives. */
static void hand_over(Value *value, Value *made, const Node *const own[2]) {
    for (Use *use = value->uses, *next; use; use = next) {
        next = use->next;
        if (use->node != own[0] && use->node != own[1]) use_set(use, made);
    }
}

static bool is_output(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node) return true;
    return value->referenced;
}

void quantized_fuse_row_bytes(Fuse *fuse, Node *node) {
    RowBytes rows;
    if (fuse->faithful || (!node_is_cast(node) && !fuse_is(node, "QuantizeLinear")) ||
        !row_bytes_find(node->outputs[0], fuse->ctx->scratch, &rows) || is_output(rows.low) ||
        is_output(rows.scale) || rows.low->graph != node->graph || fuse_rank(rows.x) < 1)
        return;
    const Node *span = NULL;
    for (const Use *use = rows.low->uses; use; use = use->next)
        if (fuse_is(use->node, "Sub") && use->node->inputs[0].value != rows.x) span = use->node;
    const Node *moved = rows.divides->inputs[0].value->producer;
    Node *made = fuse_new(fuse, rows.low->producer, "QuantizeRows", node, 1);
    const Make make = {fuse->ctx, made, node_label(node)};
    node_set_attr_int(made, "to", DTYPE_UINT8);
    node_set_input(made, 0, rows.x);
    Value *scale = make_output(&make, made, DTYPE_FLOAT),
          *low = make_output(&make, made, DTYPE_FLOAT);
    value_set_type(scale, rows.scale->type);
    value_set_type(low, rows.low->type);
    hand_over(rows.scale, scale, (const Node *const[2]){rows.divides, NULL});
    hand_over(rows.low, low, (const Node *const[2]){span, moved});
    fuse_replace_root(fuse, made, node);
}

/* ---- products -------------------------------------------------------------------------------- */

enum { WEIGHTS = 1, FACTOR = 4, SHIFT, LOW, ROW_FACTOR = 8, ROW_SHIFT, COLUMN_SHIFT, OPERANDS };

/* Bytes that QuantizeRows made, with the scales and lows of the same rows. */
static bool are_rows(const RowProduct *p) {
    const Node *node = p->bytes->producer;
    return node && sym_equals(node->domain, FUSED_DOMAIN) &&
           sym_equals(node->op_type, "QuantizeRows") && node->output_count == ROWS_RESULTS &&
           node->outputs[ROWS_SCALE] == p->scale && node->outputs[ROWS_LOW] == p->low;
}

/* A constant of a float for each column, or of one for all. */
static bool is_columns(const Value *value, int64_t columns) {
    return value && value_is_constant(value) && type_dtype(value->type) == DTYPE_FLOAT &&
           (quantized_is_number(value) || (fuse_rank(value) == 1 && fuse_dim(value, 0) == columns));
}

void quantized_fuse_row_product(Fuse *fuse, Node *node) {
    RowProduct p;
    bool trans_b;
    if (fuse->faithful || !row_product_find(node, &p) || !are_rows(&p)) return;
    Value *weights = row_weights_stored(p.weights.bytes, &trans_b);
    if (type_dtype(weights->type) != DTYPE_INT8 || fuse_rank(weights) != 2) return;
    const int64_t columns = fuse_dim(weights, trans_b ? 0 : 1), depth = fuse_dim(weights, trans_b);
    if (columns < 1 || depth < 1 || depth > ROW_DEPTH_MOST ||
        !is_columns(p.weights.factors, columns) || !is_columns(p.weights.shifts, columns))
        return;
    Node *root = p.root, *add = fuse_reader(root->outputs[0]);
    Value *bias = fuse_is(add, "Add") ? fuse_other(add, root->outputs[0]) : NULL;
    if (is_columns(bias, columns) && fuse_rank(bias) <= fuse_rank(root->outputs[0]))
        root = add;
    else
        bias = NULL;
    FuseActivation bounds = {0};
    if (quantized_find_bounds(fuse, root->outputs[0], &bounds)) root = bounds.nodes[0];
    Node *made = fuse_new(fuse, root, "QMatMul", node, OPERANDS);
    if (trans_b) node_set_attr_int(made, "transB", 1);
    node_set_input(made, 0, p.bytes);
    node_set_input(made, WEIGHTS, weights);
    node_set_input(made, FACTOR, p.weights.factors);
    node_set_input(made, SHIFT, bias);
    node_set_input(made, ROW_FACTOR, p.scale);
    node_set_input(made, ROW_SHIFT, p.low);
    node_set_input(made, COLUMN_SHIFT, p.weights.shifts);
    quantized_set_result(fuse, made, &(QuantizedResult){NULL, &bounds},
                         (const uint32_t[2]){0, LOW});
    fuse_replace_root(fuse, made, root);
}
