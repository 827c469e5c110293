// SPDX-License-Identifier: Apache-2.0
/* Constants of initializers and Constant nodes alike; see constants.h. */
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
    return value->init && !value->input && !value->trained;
}

/* Lists and numbers as the tensors that they stand for. */
static const Tensor *tensor_of(const Attr *attr, Arena *arena) {
    int64_t number;
    float real;
    uint32_t count;
    if (attr_tensor(attr)) return attr_tensor(attr);
    if (attr_float(attr, &real)) return tensor_new_float_scalar(arena, real);
    if (attr_int(attr, &number)) return tensor_new_raw(arena, DTYPE_INT64, NULL, 0, &number, 8);
    if (attr->type != ATTR_FLOATS && attr->type != ATTR_INTS) return NULL;
    const int64_t *ints = attr_ints(attr, &count);
    const float *floats = ints ? NULL : attr_floats(attr, &count);
    const int64_t dims[] = {count};
    uint64_t size = count; /* the product with 8 passes 2^32 for a file that fits */
    return attr->type == ATTR_FLOATS
               ? tensor_new_raw(arena, DTYPE_FLOAT, dims, 1, floats, size * sizeof *floats)
               : tensor_new_raw(arena, DTYPE_INT64, dims, 1, ints, size * sizeof *ints);
}

const Tensor *constant_tensor(const Value *value, Arena *arena) {
    if (!value->producer) return value->input ? NULL : value->init;
    const Attr *attr = constant_attr(value);
    return attr ? tensor_of(attr, arena) : NULL;
}

bool constant_scalar(const Value *value, float *number) {
    const Tensor *tensor = value->producer ? NULL : value->init;
    const Attr *attr = value->producer ? constant_attr(value) : NULL;
    if (value->input) return false;
    if (attr_float(attr, number)) return true;
    if (attr) tensor = attr_tensor(attr);
    if (!tensor || !tensor_check(tensor, NULL) || tensor_count(tensor) != 1) return false;
    bool is_float = dtype_is_working(tensor->dtype);
    return is_float && tensor_read_floats(tensor, 0, 1, number, NULL);
}

void constant_replace(Value *value, const Tensor *tensor) {
    Node *node = value->producer;
    if (!node) {
        value_set_init(value, tensor);
        return;
    }
    const Attr *attr = constant_attr(value);
    node_rename_attr(node, attr->name->text, "value");
    node_set_attr_tensor(node, "value", tensor);
}
