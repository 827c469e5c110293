// SPDX-License-Identifier: Apache-2.0
/* Making nodes and constants; see make_node.h. */
#include "make_node.h"

static Value *make_value(const Make *make, const char *what, Dtype dtype) {
    Model *model = make->ctx->model;
    const char *stem = arena_printf(make->ctx->scratch, "%s_%s", make->stem, what);
    Value *value = value_new(make->at->graph, sym_fresh(&model->syms, stem));
    value_set_type(value, type_plain_tensor(dtype));
    return value;
}

Node *make_node(const Make *make, const char *op, Sym domain, uint32_t inputs) {
    Model *model = make->ctx->model;
    Node *node = node_new(make->at->graph, make->at, sym_intern_cstr(&model->syms, op), domain);
    node_resize_inputs(node, inputs);
    return node;
}

Value *make_output(const Make *make, Node *node, Dtype dtype) {
    Value *value = make_value(make, sym_text(node->op_type), dtype);
    node_resize_outputs(node, node->output_count + 1);
    node_set_output(node, node->output_count - 1, value);
    return value;
}

Value *make_op(const Make *make, const char *op, Value *const *operands, uint32_t count,
               Dtype dtype) {
    Node *node = make_node(make, op, NULL, count);
    for (uint32_t i = 0; i < count; i++) node_set_input(node, i, operands[i]);
    return make_output(make, node, dtype);
}

Value *make_constant(const Make *make, const Tensor *tensor) {
    Model *model = make->ctx->model;
    Arena *arena = &model->arena;
    Dim *dims = ARENA_ARRAY(arena, Dim, tensor->rank + 1);
    for (uint32_t i = 0; i < tensor->rank; i++)
        dims[i] = (Dim){.kind = DIM_KNOWN, .size = tensor->dims[i]};
    Value *value = make_value(make, "constant", (Dtype)tensor->dtype);
    value_set_type(value, type_new_shaped(arena, (Dtype)tensor->dtype, dims, tensor->rank));
    if (!make->at->graph->function && model->ir_version >= 4) {
        value_set_init(value, tensor);
        return value;
    }
    Node *node = make_node(make, "Constant", NULL, 0);
    node_resize_outputs(node, 1);
    node_set_output(node, 0, value);
    node_set_attr_tensor(node, "value", tensor);
    return value;
}

Value *make_ints(const Make *make, const int64_t *items, uint32_t count) {
    const int64_t length = count;
    return make_constant(make, tensor_new_raw(&make->ctx->model->arena, DTYPE_INT64, &length, 1,
                                              items, 8 * (uint64_t)count));
}
