// SPDX-License-Identifier: Apache-2.0
/* See qdq_node.h. */
#include "qdq_node.h"

#include <string.h>

#include "constants.h"
#include "op_types.h"

enum { INITIALIZERS_ALONE = 4 }; /* the IR version from which on these need not be inputs, too */

bool qdq_is_own(const Node *node, const char *mark) {
    return node && node_is_own_quantizer(node) && node->inputs[0].value && node->outputs[0] &&
           sym_equals(node_metadata(node, OWN_QUANTIZER), mark);
}

static bool has_own_initializers(const Model *model) {
    return model->has_ir_version && model->ir_version >= INITIALIZERS_ALONE;
}

static Node *place_of(const Value *value) {
    Node *node = value->producer ? value->producer->next : value->graph->first;
    if (value->producer || has_own_initializers(value->graph->model)) return node;
    while (node && node->input_count == 0) node = node->next; /* scales are Constant nodes */
    return node;
}

/* "stem_suffix", or with a number behind it; made where interning copies it from, as there are several for
 * each value. */
static Sym name_of(PassCtx *ctx, Sym stem, const char *suffix) {
    char few[256];
    const size_t length = stem ? strlen(stem->text) : 0, more = strlen(suffix);
    char *text = few;
    if (length + more + 2 > sizeof few) text = arena_alloc(ctx->scratch, length + more + 2);
    memcpy(text, sym_text(stem), length);
    text[length] = '_';
    memcpy(text + length + 1, suffix, more + 1);
    return sym_fresh(&ctx->model->syms, text);
}

Value *qdq_value(PassCtx *ctx, const Value *of, const char *suffix, Dtype dtype) {
    Value *value = value_new(of->graph, name_of(ctx, of->name, suffix));
    const Type *type = of->type ? of->type : type_plain_tensor(dtype);
    value_set_type(value, type_with_dtype(&ctx->model->arena, type, dtype));
    return value;
}

Value *qdq_constant(PassCtx *ctx, const Value *of, const char *suffix, const Tensor *tensor) {
    Model *model = ctx->model;
    Value *value = value_new(of->graph, name_of(ctx, of->name, suffix));
    value_set_type(value, type_of_tensor(&model->arena, tensor));
    if (has_own_initializers(model)) {
        value_set_init(value, tensor);
        return value;
    }
    Node *node =
        node_new(of->graph, of->graph->first, sym_intern_cstr(&model->syms, "Constant"), NULL);
    node_resize_outputs(node, 1);
    node_set_output(node, 0, value);
    node_set_attr_tensor(node, "value", tensor);
    return value;
}

void qdq_drop_unread(Value *value) {
    if (value->uses || value->referenced || !value_is_constant(value)) return;
    if (value->producer)
        node_remove(value->producer);
    else
        graph_remove_initializer(value);
}

Node *qdq_insert(PassCtx *ctx, const char *op, Value *from, const QdqOperands *operands,
                 Value *result) {
    Node *node =
        node_new(from->graph, place_of(from), sym_intern_cstr(&ctx->model->syms, op), NULL);
    node_resize_inputs(node, operands->zero ? 3 : 2);
    node_resize_outputs(node, 1);
    node_set_input(node, 0, from);
    node_set_input(node, 1, operands->scale);
    if (operands->zero) node_set_input(node, 2, operands->zero);
    node_set_output(node, 0, result);
    node->name = name_of(ctx, result->name, op);
    if (operands->axis >= 0) node_set_attr_int(node, "axis", operands->axis);
    if (operands->block) node_set_attr_int(node, "block_size", (int64_t)operands->block);
    if (operands->output) node_set_attr_int(node, "output_dtype", operands->output);
    ctx->counts->rewrites++;
    return node;
}
