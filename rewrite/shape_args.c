// SPDX-License-Identifier: Apache-2.0
/* Building the arguments of shape functions from a node: see shape_args.h. */
#include "shape_args.h"

#include <string.h>

#include "constants.h"
#include "op_attrs.h"

enum { FLOAT_ITEMS = 64 }; /* float contents only ever are scales and bounds */

const ShapeRow *shape_args_row(const Node *node) {
    const Model *model = node->graph->model;
    if (model->functions.count && model_find_function(model, node)) return NULL;
    if (!node->op_type) return NULL;
    const char *domain = domain_is_default(node->domain) ? "" : node->domain->text;
    return shape_find(domain, node->op_type->text,
                      opset_version(node->graph->opsets, node->domain));
}

/* ---- attributes ------------------------------------------------------------------------------ */

static AttrText text_of(Bytes bytes) {
    const char *text = bytes.size ? (const char *)bytes.data : ""; /* no bytes may lie nowhere */
    return (AttrText){true, (uint32_t)bytes.size, text};
}

static const ShapeOperand *tensor_operand(const Attr *attr, Arena *arena) {
    const SparseTensor *sparse = attr_sparse(attr);
    Tensor dense = {.dtype = DTYPE_UNDEFINED};
    if (sparse) {
        dense.rank = sparse->rank;
        dense.dims = sparse->dims;
    }
    const Tensor *tensor = sparse ? &dense : attr_tensor(attr);
    if (!tensor) return NULL;
    ShapeOperand *operand = ARENA_NEW(arena, ShapeOperand);
    *operand = shape_args_of_tensor(tensor, arena);
    return operand;
}

/* One attribute as plain data: lists are borrowed from it, of strings there is only the number, of
 * a tensor only its shape and small contents. False for graphs, types, and lists of these. */
static bool shape_args_plain(const Attr *attr, Arena *arena, PlainAttr *plain) {
    Bytes text;
    *plain = (PlainAttr){.name = {true, attr->name ? attr->name->length : 0, sym_text(attr->name)},
                         .count = attr->count};
    switch (attr->type) {
    case ATTR_INT: plain->kind = PLAIN_INT; return attr_int(attr, &plain->v.i);
    case ATTR_FLOAT: plain->kind = PLAIN_FLOAT; return attr_float(attr, &plain->v.f);
    case ATTR_INTS:
        plain->kind = PLAIN_INTS;
        plain->v.ints = attr_ints(attr, &plain->count);
        return true;
    case ATTR_FLOATS:
        plain->kind = PLAIN_FLOATS;
        plain->v.floats = attr_floats(attr, &plain->count);
        return true;
    case ATTR_STRINGS: plain->kind = PLAIN_TEXTS; return true;
    case ATTR_STRING:
        plain->kind = PLAIN_TEXT;
        if (!attr_string(attr, &text) || text.size > UINT32_MAX) return false;
        plain->v.text = text_of(text);
        return true;
    case ATTR_TENSOR:
    case ATTR_SPARSE_TENSOR:
        plain->kind = PLAIN_TENSOR;
        plain->v.tensor.shape = tensor_operand(attr, arena);
        return plain->v.tensor.shape;
    case ATTR_UNDEFINED:
    case ATTR_GRAPH:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPE:
    case ATTR_TYPES: return false;
    }
    return false;
}

const void *shape_args_attrs(const Node *node, const ShapeRow *row, Arena *arena) {
    void *attrs = attr_layout_new(row->layout, arena);
    for (const Attr *attr = node->attrs; attr; attr = attr->next) {
        PlainAttr plain;
        const AttrField *field =
            attr->name ? attr_layout_find(row->layout, attr->name->text, attr->name->length) : NULL;
        if (!field) continue;
        if (attr->ref && attr_layout_is_shape(row->layout, field)) return NULL;
        if (!attr->ref && shape_args_plain(attr, arena, &plain))
            attr_layout_fill(attrs, field, &plain, arena);
    }
    return attrs;
}

/* ---- operands -------------------------------------------------------------------------------- */

static const Type *innermost(const Type *type) {
    while (type && (type->kind == TYPE_SEQUENCE || type->kind == TYPE_OPTIONAL)) type = type->elem;
    return type && (type->kind == TYPE_TENSOR || type->kind == TYPE_SPARSE_TENSOR) ? type : NULL;
}

static ShapeNum num_of_dim(const Dim *dim) {
    ShapeNum num = {.kind = SHAPE_UNKNOWN};
    if (dim->kind == DIM_KNOWN && dim->size >= 0) {
        num.kind = SHAPE_KNOWN;
        num.value = dim->size;
    }
    if (dim_is_named(dim)) {
        num.kind = SHAPE_SYMBOL;
        num.symbol = (uintptr_t)dim->symbol;
    }
    return num;
}

ShapeOperand shape_args_of_type(const Type *type, Arena *arena) {
    const Type *leaf = innermost(type);
    ShapeOperand operand = {.present = true, .wrapped = type && leaf != type};
    if (!leaf) return operand;
    operand.dtype = type_dtype(leaf);
    if (!leaf->has_shape || leaf->rank > SHAPE_RANK_LIMIT) return operand;
    ShapeNum *dims = ARENA_ARRAY(arena, ShapeNum, leaf->rank);
    for (uint32_t i = 0; i < leaf->rank; i++) dims[i] = num_of_dim(&leaf->dims[i]);
    operand.has_rank = true;
    operand.rank = leaf->rank;
    operand.dims = dims;
    return operand;
}

static void read_items(const Tensor *tensor, Arena *arena, ShapeOperand *operand) {
    uint64_t count = tensor_count(tensor);
    int64_t *values;
    if (count > SHAPE_ITEM_LIMIT) return;
    bool is_float = operand->dtype == DTYPE_FLOAT;
    bool read = false;
    ShapeNum *items = NULL;
    if (!is_float && tensor_read_ints(tensor, arena, SHAPE_ITEM_LIMIT, &values, &count)) {
        items = ARENA_ARRAY(arena, ShapeNum, count);
        for (uint64_t i = 0; i < count; i++) items[i] = (ShapeNum){SHAPE_KNOWN, {values[i]}};
        read = true;
    } else if (is_float && count <= FLOAT_ITEMS) {
        float floats[FLOAT_ITEMS];
        read = tensor_read_floats(tensor, 0, count, floats, NULL);
        items = ARENA_ARRAY(arena, ShapeNum, count);
        for (uint64_t i = 0; i < count; i++)
            items[i] = (ShapeNum){.kind = SHAPE_REAL, .real = (double)floats[i]};
    }
    if (!read) return;
    operand->items = items;
    operand->item_count = (uint32_t)count;
}

ShapeOperand shape_args_of_dims(const Tensor *tensor, Arena *arena) {
    ShapeOperand operand = {.present = true};
    if (tensor->dtype > 0 && tensor->dtype < DTYPE_COUNT) operand.dtype = (Dtype)tensor->dtype;
    if (tensor->rank > SHAPE_RANK_LIMIT) return operand;
    ShapeNum *dims = ARENA_ARRAY(arena, ShapeNum, tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->dims[i] < 0) return operand;
        dims[i] = (ShapeNum){SHAPE_KNOWN, {tensor->dims[i]}};
    }
    operand.has_rank = true;
    operand.rank = tensor->rank;
    operand.dims = dims;
    return operand;
}

ShapeOperand shape_args_of_tensor(const Tensor *tensor, Arena *arena) {
    ShapeOperand operand = shape_args_of_dims(tensor, arena);
    if (operand.has_rank && operand.dtype && tensor_check(tensor, NULL))
        read_items(tensor, arena, &operand);
    return operand;
}

/* ---- back to types --------------------------------------------------------------------------- */

static bool dim_is(const Dim *dim, ShapeNum num) {
    if (num.kind == SHAPE_UNKNOWN) return dim->kind == DIM_UNKNOWN;
    return shape_num_same(num_of_dim(dim), num);
}

static Dim dim_of_num(ShapeNum num) {
    switch (num.kind) {
    case SHAPE_KNOWN: return (Dim){.kind = DIM_KNOWN, .size = num.value};
    case SHAPE_SYMBOL: return (Dim){.kind = DIM_SYMBOL, .symbol = (Sym)(uintptr_t)num.symbol};
    case SHAPE_UNKNOWN:
    case SHAPE_REAL: break;
    }
    return (Dim){.kind = DIM_UNKNOWN};
}

/* The leaf with other dims; a dim that says the same stays, denotation included. */
static const Type *leaf_with_shape(Arena *arena, const Type *leaf, const ShapeOperand *shape) {
    bool same_rank = leaf->has_shape && leaf->rank == shape->rank;
    uint32_t same = 0;
    while (same_rank && same < shape->rank && dim_is(&leaf->dims[same], shape->dims[same])) same++;
    if (same_rank && same == shape->rank) return leaf;
    Dim *dims = ARENA_ARRAY(arena, Dim, shape->rank);
    for (uint32_t i = 0; i < shape->rank; i++) {
        bool keep = same_rank && dim_is(&leaf->dims[i], shape->dims[i]);
        dims[i] = keep ? leaf->dims[i] : dim_of_num(shape->dims[i]);
        if (same_rank) dims[i].extra = leaf->dims[i].extra;
    }
    Type *changed = ARENA_NEW(arena, Type);
    *changed = *leaf;
    changed->has_shape = true;
    changed->rank = shape->rank;
    changed->dims = dims;
    return changed;
}

static const Type *with_shape(Arena *arena, const Type *type, const ShapeOperand *shape) {
    if (type->kind == TYPE_TENSOR || type->kind == TYPE_SPARSE_TENSOR)
        return leaf_with_shape(arena, type, shape);
    bool wraps = type->kind == TYPE_SEQUENCE || type->kind == TYPE_OPTIONAL;
    if (!wraps || !type->elem) return type;
    const Type *elem = with_shape(arena, type->elem, shape);
    if (elem == type->elem) return type;
    Type *changed = ARENA_NEW(arena, Type);
    *changed = *type;
    changed->elem = elem;
    return changed;
}

const Type *shape_args_to_type(Arena *arena, const Type *type, const ShapeOperand *shape) {
    static const Type bare = {.kind = TYPE_TENSOR};
    if (!shape->has_rank) return type;
    if (!type || type->kind == TYPE_NONE) {
        if (shape->wrapped) return type;
        return leaf_with_shape(arena, &bare, shape);
    }
    return with_shape(arena, type, shape);
}
