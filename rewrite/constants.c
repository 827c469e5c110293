// SPDX-License-Identifier: Apache-2.0
#include "constants.h"

#include <string.h>

/* The attribute that holds a Constant node's data, or NULL. */
static const Attr *constant_attr(const Value *value) {
    const Node *node = value->producer;
    if (!node || !domain_is_default(node->domain) || !sym_equals(node->op_type, "Constant"))
        return NULL;
    for (const Attr *attr = node->attrs; attr; attr = attr->next)
        if (attr->name && attr->name->length >= 5 && !memcmp(attr->name->text, "value", 5) &&
            !attr->ref)
            return attr;
    return NULL;
}

bool value_is_constant(const Value *value) {
    if (value->producer) return constant_attr(value) != NULL;
    return value->init && !value->input;
}

static const Tensor *attr_tensor(const Attr *attr, Arena *arena) {
    int64_t count = attr->count;
    switch (attr->type) {
    case ATTR_TENSOR: return attr->v.t;
    case ATTR_FLOAT: return tensor_new_float_scalar(arena, attr->v.f);
    case ATTR_INT: return tensor_new_raw(arena, DTYPE_INT64, NULL, 0, &attr->v.i, 8);
    case ATTR_FLOATS:
        return tensor_new_raw(arena, DTYPE_FLOAT, &count, 1, attr->v.floats, attr->count * 4u);
    case ATTR_INTS:
        return tensor_new_raw(arena, DTYPE_INT64, &count, 1, attr->v.ints, attr->count * 8u);
    case ATTR_UNDEFINED:
    case ATTR_STRING:
    case ATTR_GRAPH:
    case ATTR_STRINGS:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSOR:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPE:
    case ATTR_TYPES: return NULL;
    }
    return NULL;
}

const Tensor *constant_tensor(const Value *value, Arena *arena) {
    if (!value->producer) return value->input ? NULL : value->init;
    const Attr *attr = constant_attr(value);
    return attr ? attr_tensor(attr, arena) : NULL;
}

bool constant_scalar(const Value *value, float *number) {
    const Tensor *tensor = value->producer ? NULL : value->init;
    const Attr *attr = value->producer ? constant_attr(value) : NULL;
    if (value->input) return false;
    if (attr && attr->type == ATTR_FLOAT) return *number = attr->v.f, true;
    if (attr && attr->type == ATTR_TENSOR) tensor = attr->v.t;
    if (!tensor || !tensor_check(tensor, NULL) || tensor_count(tensor) != 1) return false;
    bool is_float = tensor->dtype == DTYPE_FLOAT || tensor->dtype == DTYPE_FLOAT16 ||
                    tensor->dtype == DTYPE_BFLOAT16;
    return is_float && tensor_read_floats(tensor, 0, 1, number, NULL);
}

void constant_replace(Value *value, const Tensor *tensor) {
    Node *node = value->producer;
    if (!node) {
        value_set_init(value, tensor);
        return;
    }
    /* value_float and the like become `value` in place: what else the attribute holds stays. */
    Attr *attr = node_attr(node, sym_text(constant_attr(value)->name));
    attr->name = sym_intern_cstr(&node->graph->model->syms, "value");
    node_set_attr_tensor(node, "value", tensor);
}
