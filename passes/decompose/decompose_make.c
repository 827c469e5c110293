// SPDX-License-Identifier: Apache-2.0
/* What recipes ask and make; see decompose.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "make_node.h"
#include "decompose.h"

/* ---- refusing -------------------------------------------------------------------------------- */

bool decompose_refuse(Decompose *decompose, const char *format, ...) {
    char why[160];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    const char *domain = sym_text(decompose->node->domain);
    return node_error(decompose->node, decompose->err, ERR_MODEL, "demi does not run %s%s%s %s",
                      domain, *domain ? "." : "", sym_text(decompose->node->op_type), why);
}

bool decompose_needs(Decompose *decompose, int64_t least) {
    if (decompose->opset >= least) return true;
    return decompose_refuse(
        decompose, "with opset %lld of ai.onnx: it is decomposed into operators of opset %lld",
        (long long)decompose->opset, (long long)least);
}

bool decompose_wants(const Decompose *decompose, uint32_t output) {
    const Node *node = decompose->node;
    return output < node->output_count && node->outputs[output] &&
           (node->outputs[output]->uses || node->outputs[output]->referenced);
}

bool decompose_lacks(Decompose *decompose, uint32_t output, const char *what) {
    return !decompose_wants(decompose, output) ||
           decompose_refuse(decompose, "with its output '%s'", what);
}

bool decompose_takes(Decompose *decompose, const Value *value) {
    if (fuse_takes(value)) return true;
    return decompose_refuse(decompose, "of this type");
}

/* ---- operands -------------------------------------------------------------------------------- */

Value *decompose_input(const Decompose *decompose, uint32_t i) {
    return fuse_input(decompose->node, i);
}

static bool is_narrow(Dtype dtype) {
    return dtype_is_reduced(dtype);
}

Value *decompose_wide(Decompose *decompose, uint32_t i) {
    Value *value = decompose_input(decompose, i);
    return value && is_narrow(type_dtype(value->type))
               ? decompose_cast(decompose, value, DTYPE_FLOAT)
               : value;
}

int64_t decompose_int(const Decompose *decompose, const char *name, int64_t otherwise) {
    return node_attr_int(decompose->node, name, otherwise);
}

float decompose_real(const Decompose *decompose, const char *name, float otherwise) {
    float number;
    fuse_attr_float(decompose->node, name, otherwise, &number);
    return number;
}

/* ---- making ---------------------------------------------------------------------------------- */

static Make make_of(Decompose *decompose) {
    return (Make){decompose->fuse.ctx, decompose->node, node_label(decompose->node)};
}

Value *decompose_output(Decompose *decompose, Node *node, Dtype dtype) {
    const Make make = make_of(decompose);
    return make_output(&make, node, dtype);
}

static Node *new_node(Decompose *decompose, const char *op, Sym domain, uint32_t inputs,
                      Dtype dtype) {
    const Make make = make_of(decompose);
    Node *node = make_node(&make, op, domain, inputs);
    make_output(&make, node, dtype);
    return node;
}

Node *decompose_plain(Decompose *decompose, const char *op, uint32_t inputs, Dtype dtype) {
    return new_node(decompose, op, NULL, inputs, dtype);
}

Node *decompose_own(Decompose *decompose, const char *op, uint32_t inputs, Dtype dtype) {
    return new_node(decompose, op, decompose->node->domain, inputs, dtype);
}

Node *decompose_fused(Decompose *decompose, const char *op, uint32_t inputs, Dtype dtype) {
    Node *node = fuse_new(&decompose->fuse, decompose->node, op, decompose->node, inputs);
    node_resize_outputs(node, 0);
    decompose_output(decompose, node, dtype);
    return node;
}

Value *decompose_make(Decompose *decompose, const char *op, Value *const operands[3], Dtype dtype) {
    const Make make = make_of(decompose);
    return make_op(&make, op, operands, operands[2] ? 3 : operands[1] ? 2 : 1, dtype);
}

Value *decompose_constant(Decompose *decompose, const Tensor *tensor) {
    const Make make = make_of(decompose);
    return make_constant(&make, tensor);
}

Value *decompose_ints(Decompose *decompose, const int64_t *items, uint32_t count) {
    return fuse_new_ints(&decompose->fuse, decompose->node->graph, items, count);
}

Value *decompose_floats(Decompose *decompose, float number, int64_t count) {
    Arena *arena = &decompose->fuse.ctx->model->arena;
    float *items = ARENA_ARRAY(arena, float, (size_t)count + 1);
    for (int64_t i = 0; i <= count; i++) items[i] = number;
    return decompose_constant(decompose,
                              tensor_new_raw(arena, DTYPE_FLOAT, &count, count ? 1 : 0, items,
                                             (uint64_t)(count ? count : 1) * sizeof *items));
}

Value *decompose_zero(Decompose *decompose, Dtype dtype) {
    static const uint64_t zero;
    uint64_t size;
    Arena *arena = &decompose->fuse.ctx->model->arena;
    if (!dtype_bytes(dtype, 1, &size) || size > sizeof zero) size = 1;
    return decompose_constant(decompose, tensor_new_raw(arena, dtype, NULL, 0, &zero, size));
}

Value *decompose_transpose(Decompose *decompose, Value *x, const int64_t *perm, uint32_t rank) {
    Value *y = DECOMPOSE(decompose, "Transpose", type_dtype(x->type), x);
    node_set_attr_ints(y->producer, "perm", perm, rank);
    return y;
}

Value *decompose_cast(Decompose *decompose, Value *x, Dtype to) {
    Value *y = DECOMPOSE(decompose, "Cast", to, x);
    node_set_attr_int(y->producer, "to", to);
    return y;
}

Value *decompose_channels(Decompose *decompose, Value *x, uint32_t rank, bool first) {
    int64_t *perm = ARENA_ARRAY(decompose->fuse.ctx->scratch, int64_t, rank + 1);
    for (uint32_t i = 0; i < rank; i++) {
        if (first)
            perm[i] = i == 0 ? 0 : i == 1 ? (int64_t)rank - 1 : (int64_t)i - 1;
        else
            perm[i] = i == 0 ? 0 : i + 1 == rank ? 1 : (int64_t)i + 1;
    }
    return decompose_transpose(decompose, x, perm, rank);
}

bool decompose_keep_attrs(Decompose *decompose, Node *made, const char *const *names) {
    for (; *names; names++) {
        const Attr *attr = node_attr(decompose->node, *names);
        int64_t number;
        uint32_t count;
        Bytes text;
        if (!attr) continue;
        if (attr_int(attr, &number)) {
            node_set_attr_int(made, *names, number);
        } else if (attr_string(attr, &text)) {
            node_set_attr_string(made, *names,
                                 arena_printf(decompose->fuse.ctx->scratch, "%.*s", (int)text.size,
                                              (const char *)text.data));
        } else if (attr_ints(attr, &count)) {
            const int64_t *ints = attr_ints(attr, &count);
            node_set_attr_ints(made, *names, ints, count);
        } else {
            return decompose_refuse(decompose, "with this '%s'", *names);
        }
    }
    return true;
}

const char *const decompose_window_attrs[] = {"auto_pad",  "ceil_mode", "count_include_pad",
                                              "dilations", "group",     "kernel_shape",
                                              "pads",      "strides",   NULL};

void decompose_give(Decompose *decompose, uint32_t output, Value *value) {
    Node *node = decompose->node;
    if (output >= node->output_count || !node->outputs[output]) return;
    Value *result = node->outputs[output];
    const Dtype to = type_dtype(result->type);
    if (type_dtype(value->type) != to) value = decompose_cast(decompose, value, to);
    Node *from = value->producer;
    const uint32_t place = value->output_index;
    node_set_output(node, output, NULL);
    node_set_output(from, place, result);
    value_replace_uses(value, result);
}
