// SPDX-License-Identifier: Apache-2.0
/* Value types: small immutable trees. Changing one means building the path to the leaf anew. */
#include "graph.h"

const Type *type_new_tensor(Arena *arena, Dtype dtype) {
    Type *type = ARENA_NEW(arena, Type);
    *type = (Type){.kind = TYPE_TENSOR, .dtype = (int32_t)dtype, .has_dtype = true};
    return type;
}

const Type *type_new_shaped(Arena *arena, Dtype dtype, const Dim *dims, uint32_t rank) {
    Type *type = ARENA_NEW(arena, Type);
    *type = (Type){.kind = TYPE_TENSOR,
                   .dtype = (int32_t)dtype,
                   .has_dtype = true,
                   .has_shape = true,
                   .rank = rank,
                   .dims = dims};
    return type;
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

Dtype type_dtype(const Type *type) {
    while (type && type_wraps(type)) type = type->elem;
    if (!type || !type_has_leaf(type)) return DTYPE_UNDEFINED;
    return (unsigned)type->dtype < DTYPE_COUNT ? (Dtype)type->dtype : DTYPE_UNDEFINED;
}

bool type_same_dtypes(const Type *a, const Type *b) {
    for (; a && b; a = a->elem, b = b->elem)
        if (a->kind != b->kind || a->dtype != b->dtype) return false;
    return !a && !b;
}
