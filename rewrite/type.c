// SPDX-License-Identifier: Apache-2.0
/* Value types: small immutable trees. Changing one means building the path to the leaf anew. */
#include "graph.h"

#define PLAIN(name) [DTYPE_##name] = {.kind = TYPE_TENSOR, .dtype = DTYPE_##name, .has_dtype = true}

const Type *type_plain_tensor(Dtype dtype) {
    static const Type plain[DTYPE_COUNT] = {
        PLAIN(UNDEFINED),      PLAIN(FLOAT),        PLAIN(UINT8),          PLAIN(INT8),
        PLAIN(UINT16),         PLAIN(INT16),        PLAIN(INT32),          PLAIN(INT64),
        PLAIN(STRING),         PLAIN(BOOL),         PLAIN(FLOAT16),        PLAIN(DOUBLE),
        PLAIN(UINT32),         PLAIN(UINT64),       PLAIN(COMPLEX64),      PLAIN(COMPLEX128),
        PLAIN(BFLOAT16),       PLAIN(FLOAT8E4M3FN), PLAIN(FLOAT8E4M3FNUZ), PLAIN(FLOAT8E5M2),
        PLAIN(FLOAT8E5M2FNUZ), PLAIN(UINT4),        PLAIN(INT4),           PLAIN(FLOAT4E2M1),
        PLAIN(FLOAT8E8M0),     PLAIN(UINT2),        PLAIN(INT2),           PLAIN(FLOAT6E2M3),
        PLAIN(FLOAT6E3M2),
    };
    return &plain[dtype];
}

#define SCALAR(name)                                                                               \
    [DTYPE_##                                                                                      \
        name] = {.kind = TYPE_TENSOR, .dtype = DTYPE_##name, .has_dtype = true, .has_shape = true}

/* One for all models, as scales and zero points of a quantized one are many. */
static const Type *scalar_type(Dtype dtype) {
    static const Type scalars[DTYPE_COUNT] = {SCALAR(FLOAT), SCALAR(UINT8), SCALAR(INT8),
                                              SCALAR(UINT16), SCALAR(INT16)};
    return (unsigned)dtype < DTYPE_COUNT && scalars[dtype].has_shape ? &scalars[dtype] : NULL;
}

const Type *type_new_shaped(Arena *arena, Dtype dtype, const Dim *dims, uint32_t rank) {
    const Type *scalar = rank ? NULL : scalar_type(dtype);
    if (scalar) return scalar;
    Type *type = ARENA_NEW(arena, Type);
    *type = (Type){.kind = TYPE_TENSOR,
                   .dtype = (int32_t)dtype,
                   .has_dtype = true,
                   .has_shape = true,
                   .rank = rank,
                   .dims = dims};
    return type;
}

const Type *type_of_tensor(Arena *arena, const Tensor *tensor) {
    Dim *dims = tensor->rank ? ARENA_ARRAY(arena, Dim, tensor->rank) : NULL;
    for (uint32_t i = 0; i < tensor->rank; i++)
        dims[i] = (Dim){.kind = DIM_KNOWN, .size = tensor->dims[i]};
    return type_new_shaped(arena, (Dtype)tensor->dtype, dims, tensor->rank);
}

const Type *type_new_wrapped(Arena *arena, TypeKind kind, const Type *elem) {
    Type *type = ARENA_NEW(arena, Type);
    *type = (Type){.kind = kind, .elem = elem};
    return type;
}

static bool type_has_leaf(const Type *type) {
    return type->kind == TYPE_TENSOR || type->kind == TYPE_SPARSE_TENSOR;
}

static bool type_wraps(const Type *type) {
    return type->kind == TYPE_SEQUENCE || type->kind == TYPE_OPTIONAL;
}

const Type *type_with_dtype(Arena *arena, const Type *type, Dtype dtype) {
    if (!type) return NULL;
    const Type *elem = type->elem;
    if (type_wraps(type)) elem = type_with_dtype(arena, elem, dtype);
    bool leaf = type_has_leaf(type);
    if (elem == type->elem && (!leaf || type->dtype == (int32_t)dtype)) return type;
    Type *changed = ARENA_NEW(arena, Type);
    *changed = *type;
    changed->elem = elem;
    if (leaf) {
        changed->dtype = (int32_t)dtype;
        changed->has_dtype = true;
    }
    return changed;
}

const Type *type_memo_with_dtype(TypeMemo *memo, Arena *arena, const Type *type, Dtype dtype) {
    uint64_t hash = ((uint64_t)(uintptr_t)type ^ (uint64_t)dtype) * UINT64_C(0x9e3779b97f4a7c15);
    size_t place = (size_t)(hash >> 58);
    if (!type || memo->seen[place].from != type || memo->seen[place].dtype != dtype) {
        memo->seen[place].from = type;
        memo->seen[place].dtype = dtype;
        memo->seen[place].to = type_with_dtype(arena, type, dtype);
    }
    return memo->seen[place].to;
}

bool dim_is_named(const Dim *dim) {
    return dim->kind == DIM_SYMBOL && !sym_is_empty(dim->symbol) && !sym_equals(dim->symbol, "?");
}

bool dim_same(const Dim *a, const Dim *b) {
    if (a->kind == DIM_KNOWN) return b->kind == DIM_KNOWN && a->size == b->size && a->size >= 0;
    return b->kind == DIM_SYMBOL && a->symbol == b->symbol && dim_is_named(a);
}

bool shapes_differ(const Type *a, const Type *b) {
    if (!a->has_shape || !b->has_shape) return false;
    if (a->rank != b->rank) return true;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i].kind == DIM_KNOWN && b->dims[i].kind == DIM_KNOWN &&
            a->dims[i].size != b->dims[i].size)
            return true;
    return false;
}

Dtype type_dtype(const Type *type) {
    while (type && type_wraps(type)) type = type->elem;
    if (!type || !type_has_leaf(type)) return DTYPE_UNDEFINED;
    return (unsigned)type->dtype < DTYPE_COUNT ? (Dtype)type->dtype : DTYPE_UNDEFINED;
}

const Type *value_type(const Value *value) {
    static const Type unknown = {.kind = TYPE_NONE};
    return value && value->type ? value->type : &unknown;
}

const Type *value_shaped_type(const Value *value) {
    const Type *type = value_type(value);
    return type->kind == TYPE_TENSOR && type->has_shape ? type : NULL;
}

bool type_same_dtypes(const Type *a, const Type *b) {
    for (; a && b; a = a->elem, b = b->elem)
        if (a->kind != b->kind || a->dtype != b->dtype) return false;
    return !a && !b;
}
