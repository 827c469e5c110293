// SPDX-License-Identifier: Apache-2.0
/* TypeProto and ValueInfoProto. Types nest (sequences of optionals of …) at most as deep as the
 * guard lets messages nest. */
#include "import.h"

static bool is_empty(Bytes bytes) {
    return bytes.size == 0;
}

static Dim import_dim(Import *import, Onnx__TensorShapeProto__Dimension *proto) {
    Dim dim = {.kind = DIM_UNKNOWN};
    if (proto->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
        dim.kind = DIM_KNOWN;
        dim.size = proto->dim_value;
    } else if (proto->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM) {
        dim.kind = DIM_SYMBOL;
        dim.symbol = import_sym(import, 1, proto->dim_param);
    }
    proto->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
    Sym denotation = import_sym(import, proto->has_denotation, proto->denotation);
    proto->has_denotation = 0;
    Bytes rest = import_rest(import, &proto->base);
    if (!denotation && is_empty(rest)) return dim;
    DimExtra *extra = ARENA_NEW(import->arena, DimExtra);
    *extra = (DimExtra){.denotation = denotation, .rest = rest};
    dim.extra = extra;
    return dim;
}

static void import_shape(Import *import, Onnx__TensorShapeProto *shape, Type *type,
                         TypeExtra *extra) {
    if (!shape) return;
    type->has_shape = true;
    type->rank = (uint32_t)shape->n_dim;
    Dim *dims = type->rank ? ARENA_ARRAY(import->arena, Dim, type->rank) : NULL;
    for (uint32_t i = 0; i < type->rank; i++) dims[i] = import_dim(import, shape->dim[i]);
    type->dims = dims;
    shape->n_dim = 0;
    extra->shape_rest = import_rest(import, &shape->base);
}

static void import_tensor_type(Import *import, Onnx__TypeProto__Tensor *proto, Type *type,
                               TypeExtra *extra) {
    if (!proto) return;
    type->dtype = proto->elem_type;
    type->has_dtype = proto->has_elem_type;
    import_shape(import, proto->shape, type, extra);
    proto->has_elem_type = 0;
    proto->shape = NULL;
    extra->inner_rest = import_rest(import, &proto->base);
}

static void import_sparse_type(Import *import, Onnx__TypeProto__SparseTensor *proto, Type *type,
                               TypeExtra *extra) {
    type->dtype = proto->elem_type;
    type->has_dtype = proto->has_elem_type;
    import_shape(import, proto->shape, type, extra);
    proto->has_elem_type = 0;
    proto->shape = NULL;
    extra->inner_rest = import_rest(import, &proto->base);
}

static void import_map_type(Import *import, Onnx__TypeProto__Map *proto, Type *type,
                            TypeExtra *extra) {
    type->dtype = proto->key_type;
    type->has_dtype = proto->has_key_type;
    if (proto->value_type) type->elem = import_type(import, proto->value_type);
    proto->has_key_type = 0;
    proto->value_type = NULL;
    extra->inner_rest = import_rest(import, &proto->base);
}

/* The element type of a sequence or optional, taken out of its message. */
static void import_element(Import *import, Onnx__TypeProto **element, Type *type) {
    if (*element) type->elem = import_type(import, *element);
    *element = NULL;
}

/* Fills kind and contents; what is modeled is cleared, the case too where all of it is. */
static void import_type_value(Import *import, Onnx__TypeProto *proto, Type *type,
                              TypeExtra *extra) {
    switch (proto->value_case) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
        type->kind = TYPE_TENSOR;
        import_tensor_type(import, proto->tensor_type, type, extra);
        break;
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
        type->kind = TYPE_SPARSE_TENSOR;
        import_sparse_type(import, proto->sparse_tensor_type, type, extra);
        break;
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        type->kind = TYPE_SEQUENCE;
        import_element(import, &proto->sequence_type->elem_type, type);
        extra->inner_rest = import_rest(import, &proto->sequence_type->base);
        break;
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        type->kind = TYPE_OPTIONAL;
        import_element(import, &proto->optional_type->elem_type, type);
        extra->inner_rest = import_rest(import, &proto->optional_type->base);
        break;
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
        type->kind = TYPE_MAP;
        import_map_type(import, proto->map_type, type, extra);
        break;
    case ONNX__TYPE_PROTO__VALUE_OPAQUE_TYPE: type->kind = TYPE_OPAQUE; return;
    case ONNX__TYPE_PROTO__VALUE__NOT_SET:
    case _ONNX__TYPE_PROTO__VALUE__CASE_IS_INT_SIZE: return;
    }
    proto->value_case = ONNX__TYPE_PROTO__VALUE__NOT_SET;
}

const Type *import_type(Import *import, Onnx__TypeProto *proto) {
    Type *type = ARENA_NEW(import->arena, Type);
    TypeExtra extra = {0};
    import_type_value(import, proto, type, &extra);
    extra.denotation = import_sym(import, proto->has_denotation, proto->denotation);
    proto->has_denotation = 0;
    extra.rest = import_rest(import, &proto->base);
    if (!extra.denotation && is_empty(extra.rest) && is_empty(extra.inner_rest) &&
        is_empty(extra.shape_rest))
        return type;
    TypeExtra *kept = ARENA_NEW(import->arena, TypeExtra);
    *kept = extra;
    type->extra = kept;
    return type;
}

ValueDecl *import_decl(Import *import, Onnx__ValueInfoProto *proto) {
    ValueDecl *decl = ARENA_NEW(import->arena, ValueDecl);
    if (proto->type) decl->type = import_type(import, proto->type);
    decl->doc = import_sym(import, proto->has_doc_string, proto->doc_string);
    decl->metadata = import_key_values(import, proto->n_metadata_props, proto->metadata_props);
    proto->type = NULL;
    proto->has_doc_string = 0;
    proto->n_metadata_props = 0;
    decl->rest = import_rest(import, &proto->base);
    return decl;
}
