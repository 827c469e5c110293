// SPDX-License-Identifier: Apache-2.0
/* What the steps of upgrade-opset ask and make; see upgrade.h. */
#include "upgrade.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "constants.h"
#include "infer_dtypes.h"
#include "passes.h"

bool upgrade_refuse(const Upgrade *upgrade, const Node *node, Err *err, const char *format, ...) {
    char why[200];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return node_error(node, err, ERR_MODEL, "no upgrade from opset %lld to %lld: %s",
                      (long long)opset_version(node->graph->opsets, NULL), (long long)upgrade->to,
                      why);
}

/* ---- questions ------------------------------------------------------------------------------- */

void upgrade_infer(Upgrade *upgrade) {
    if (upgrade->inferred || upgrade->applying) return;
    upgrade->inferred = true;
    PassCounts kept = *upgrade->ctx->counts;
    Err ignored = {0}; /* what can't be inferred is unknown; a step that needs it refuses */
    infer_dtypes(upgrade->ctx, NULL, NULL, &ignored);
    const void *defaults = arena_alloc(upgrade->ctx->scratch, infer_shapes_pass.options_size);
    ignored = (Err){0};
    infer_shapes_pass.run(upgrade->ctx, defaults, &ignored);
    *upgrade->ctx->counts = kept;
}

Value *upgrade_input(const Node *node, uint32_t input) {
    return input < node->input_count ? node->inputs[input].value : NULL;
}

const Type *upgrade_input_type(Upgrade *upgrade, const Node *node, uint32_t input) {
    const Value *value = upgrade_input(node, input);
    if (!value || node->graph->function) return NULL;
    upgrade_infer(upgrade);
    return value->type;
}

int64_t upgrade_rank(Upgrade *upgrade, const Node *node, uint32_t input) {
    const Type *type = upgrade_input_type(upgrade, node, input);
    return type && type->kind == TYPE_TENSOR && type->has_shape ? (int64_t)type->rank : -1;
}

Dtype upgrade_dtype(Upgrade *upgrade, const Node *node, uint32_t input) {
    return type_dtype(upgrade_input_type(upgrade, node, input));
}

int64_t upgrade_dim(Upgrade *upgrade, const Node *node, uint32_t input, uint32_t i) {
    if (upgrade_rank(upgrade, node, input) <= (int64_t)i) return -1;
    const Dim *dim = &upgrade_input_type(upgrade, node, input)->dims[i];
    return dim->kind == DIM_KNOWN && dim->size >= 0 ? dim->size : -1;
}

bool upgrade_constant_ints(Upgrade *upgrade, const Node *node, uint32_t input, int64_t **values,
                           uint64_t *count) {
    const Value *value = upgrade_input(node, input);
    if (!value || !value_is_constant(value)) return false;
    const Tensor *tensor = constant_tensor(value, upgrade->ctx->scratch);
    return tensor && tensor_check(tensor, NULL) &&
           tensor_read_ints(tensor, upgrade->ctx->scratch, 4096, values, count);
}

bool upgrade_is_parameter(const Attr *attr) {
    return attr && attr->ref;
}

bool upgrade_may_be_absent(const Node *node, const Attr *attr) {
    if (!upgrade_is_parameter(attr)) return false;
    const Function *function = node->graph->function;
    for (const Attr *given = function ? function->attribute_protos : NULL; given;
         given = given->next)
        if (given->name == attr->ref) return false;
    return true;
}

bool upgrade_attr_is(const Node *node, const char *name, const char *text) {
    const Attr *attr = node_attr(node, name);
    return attr_is_text(attr, text);
}

bool upgrade_check_plain(const Upgrade *upgrade, const Node *node, const char *names, Err *err) {
    for (const char *at = names; *at;) {
        char name[64] = {0};
        size_t length = strcspn(at, " ");
        memcpy(name, at, length < sizeof name ? length : sizeof name - 1);
        if (upgrade_is_parameter(node_attr(node, name)))
            return upgrade_refuse(upgrade, node, err, "'%s' is a parameter of the function", name);
        at += length + (at[length] == ' ');
    }
    return true;
}

enum { CAST_LIKE_OPSET = 15, VALUE_INTS_OPSET = 12 };

bool upgrade_can_make_like(Upgrade *upgrade, const Node *node, uint32_t input) {
    return upgrade_dtype(upgrade, node, input) || upgrade->to >= CAST_LIKE_OPSET;
}

/* ---- making ---------------------------------------------------------------------------------- */

static char *stem_for(const Upgrade *upgrade, const Node *at, const char *stem) {
    for (uint32_t i = 0; i < at->output_count; i++)
        if (at->outputs[i] && !sym_is_empty(at->outputs[i]->name))
            return arena_printf(upgrade->ctx->scratch, "%s_%s", at->outputs[i]->name->text, stem);
    return arena_printf(upgrade->ctx->scratch, "%s", stem);
}

Value *upgrade_value(Upgrade *upgrade, const Node *at, const char *stem) {
    SymTable *syms = &upgrade->model->syms;
    return value_new(at->graph, sym_fresh(syms, stem_for(upgrade, at, stem)));
}

static void note_node(Upgrade *upgrade, Node *node, int64_t opset) {
    VEC_PUSH(upgrade->ctx->scratch, &upgrade->added, ((NewNode){node, opset}));
}

/* A Constant node without attributes, before `at`. */
static Node *constant_node(Upgrade *upgrade, Node *at, int64_t opset, const char *stem) {
    Value *value = upgrade_value(upgrade, at, stem);
    Node *node = node_new(at->graph, at, sym_intern_cstr(&upgrade->model->syms, "Constant"), NULL);
    node_resize_outputs(node, 1);
    node_set_output(node, 0, value);
    note_node(upgrade, node, opset);
    return node;
}

Value *upgrade_constant(Upgrade *upgrade, Node *at, const Tensor *tensor, const char *stem) {
    Arena *arena = &upgrade->model->arena;
    Dim *dims = ARENA_ARRAY(arena, Dim, tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++)
        dims[i] = (Dim){.kind = DIM_KNOWN, .size = tensor->dims[i]};
    Value *value;
    if (at->graph->function || upgrade->model->ir_version < 4) {
        Node *node = constant_node(upgrade, at, 9, stem);
        node_set_attr_tensor(node, "value", tensor);
        value = node->outputs[0];
    } else {
        value = upgrade_value(upgrade, at, stem);
        value_set_init(value, tensor);
    }
    value_set_type(value, type_new_shaped(arena, (Dtype)tensor->dtype, dims, tensor->rank));
    return value;
}

Value *upgrade_ints(Upgrade *upgrade, Node *at, const int64_t *values, uint32_t count,
                    const char *stem) {
    int64_t dims[1] = {count};
    return upgrade_constant(upgrade, at,
                            tensor_new_raw(&upgrade->model->arena, DTYPE_INT64, dims, 1, values,
                                           (uint64_t)count * sizeof *values),
                            stem);
}

Value *upgrade_int(Upgrade *upgrade, Node *at, int64_t value, uint32_t rank, const char *stem) {
    int64_t dims[1] = {1};
    return upgrade_constant(
        upgrade, at,
        tensor_new_raw(&upgrade->model->arena, DTYPE_INT64, dims, rank, &value, sizeof value),
        stem);
}

Value *upgrade_floats(Upgrade *upgrade, Node *at, const float *values, uint32_t count,
                      const char *stem) {
    int64_t dims[1] = {count};
    return upgrade_constant(upgrade, at,
                            tensor_new_raw(&upgrade->model->arena, DTYPE_FLOAT, dims, 1, values,
                                           (uint64_t)count * sizeof *values),
                            stem);
}

Value *upgrade_bool(Upgrade *upgrade, Node *at, bool value, const char *stem) {
    unsigned char byte = value;
    return upgrade_constant(
        upgrade, at, tensor_new_raw(&upgrade->model->arena, DTYPE_BOOL, NULL, 0, &byte, 1), stem);
}

Value *upgrade_scalar_like(Upgrade *upgrade, Node *at, float value, const char *stem) {
    Arena *arena = &upgrade->model->arena;
    Dtype dtype = upgrade_dtype(upgrade, at, 0);
    uint64_t bits, size;
    if (dtype && dtype_from_double(dtype, (double)value, &bits) && dtype_bytes(dtype, 1, &size)) {
        unsigned char bytes[8];
        for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(bits >> (8 * i));
        return upgrade_constant(upgrade, at, tensor_new_raw(arena, dtype, NULL, 0, bytes, size),
                                stem);
    }
    Value *number = upgrade_constant(upgrade, at, tensor_new_float_scalar(arena, value), stem);
    Value *inputs[] = {number, at->inputs[0].value, NULL};
    return upgrade_node(upgrade, at, at, "CastLike", CAST_LIKE_OPSET, inputs, stem);
}

Value *upgrade_node(Upgrade *upgrade, Node *at, Node *before, const char *op, int64_t opset,
                    Value *const *inputs, const char *stem) {
    Value *value = upgrade_value(upgrade, at, stem);
    Node *node = node_new(at->graph, before, sym_intern_cstr(&upgrade->model->syms, op), NULL);
    uint32_t count = 0;
    while (inputs[count]) count++;
    node_resize_inputs(node, count);
    for (uint32_t i = 0; i < count; i++) node_set_input(node, i, inputs[i]);
    node_resize_outputs(node, 1);
    node_set_output(node, 0, value);
    note_node(upgrade, node, opset);
    return value;
}

Value *upgrade_detach_output(Upgrade *upgrade, Node *node, uint32_t i, const char *stem) {
    Value *old = node->outputs[i];
    node_set_output(node, i, upgrade_value(upgrade, node, stem));
    return old;
}

void upgrade_move_output(Value *made, Value *value) {
    node_set_output(made->producer, 0, value);
}

void upgrade_set_input(Node *node, uint32_t i, Value *value) {
    if (i >= node->input_count) {
        if (!value) return;
        node_resize_inputs(node, i + 1);
    }
    node_set_input(node, i, value);
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* A Constant node that reads the function's parameter; a number of rank 1 is reshaped to it. */
static Value *parameter_value(Upgrade *upgrade, Node *at, const Attr *attr, uint32_t rank,
                              const char *stem) {
    Node *node = constant_node(upgrade, at, VALUE_INTS_OPSET, stem);
    const char *name = attr->type == ATTR_FLOATS ? "value_floats"
                       : attr->type == ATTR_INTS ? "value_ints"
                                                 : "value_int";
    node_set_attr_int(node, name, 0);
    Attr *parameter = node_attr(node, name);
    parameter->type = attr->type;
    parameter->has_value = false;
    parameter->ref = attr->ref;
    if (rank == 0 || attr->type != ATTR_INT) return node->outputs[0];
    Value *inputs[] = {node->outputs[0], upgrade_int(upgrade, at, 1, 1, stem), NULL};
    return upgrade_node(upgrade, at, at, "Reshape", VALUE_INTS_OPSET, inputs, stem);
}

Value *upgrade_attr_value(Upgrade *upgrade, Node *at, const Attr *attr, uint32_t rank) {
    const char *stem = attr->name->text;
    if (attr->ref) return parameter_value(upgrade, at, attr, rank, stem);
    int64_t number;
    uint32_t count;
    if (attr_int(attr, &number)) return upgrade_int(upgrade, at, number, rank, stem);
    const float *floats = attr_floats(attr, &count);
    if (attr->type == ATTR_FLOATS) return upgrade_floats(upgrade, at, floats, count, stem);
    const int64_t *ints = attr_ints(attr, &count);
    return upgrade_ints(upgrade, at, ints, count, stem);
}
