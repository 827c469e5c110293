// SPDX-License-Identifier: Apache-2.0
/* Types, tensors and attributes as short text; see diff_text.h. */
#include "diff_text.h"

typedef struct Text {
    Arena *arena;
    VEC(char) out;
} Text;

static void put(Text *text, const char *string) {
    for (; *string; string++) VEC_PUSH(text->arena, &text->out, *string);
}

static void put_integer(Text *text, int64_t value) {
    put(text, arena_printf(text->arena, "%lld", (long long)value));
}

static void put_float(Text *text, float value) {
    put(text, arena_printf(text->arena, "%.9g", (double)value));
}

static const char *end(Text *text) {
    VEC_PUSH(text->arena, &text->out, '\0');
    return text->out.items;
}

static void put_dims(Text *text, const Type *type) {
    put(text, "[");
    for (uint32_t i = 0; i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        if (i) put(text, ",");
        switch (dim->kind) {
        case DIM_UNKNOWN: put(text, "?"); break;
        case DIM_KNOWN: put_integer(text, dim->size); break;
        case DIM_SYMBOL: put(text, sym_text(dim->symbol)); break;
        }
    }
    put(text, "]");
}

/* Nesting is bounded by the reader. */
static void put_type(Text *text, const Type *type) {
    if (!type) {
        put(text, "?");
        return;
    }
    switch (type->kind) {
    case TYPE_NONE: put(text, "?"); return;
    case TYPE_OPAQUE: put(text, "opaque"); return;
    case TYPE_TENSOR: break;
    case TYPE_SPARSE_TENSOR: put(text, "sparse "); break;
    case TYPE_SEQUENCE: put(text, "seq("); break;
    case TYPE_OPTIONAL: put(text, "optional("); break;
    case TYPE_MAP: put(text, "map("); break;
    }
    if (type->elem) {
        if (type->kind == TYPE_MAP) put(text, dtype_name((Dtype)type->dtype));
        if (type->kind == TYPE_MAP) put(text, ",");
        put_type(text, type->elem);
        put(text, ")");
        return;
    }
    put(text, dtype_name((Dtype)type->dtype));
    if (type->has_shape) put_dims(text, type);
}

const char *diff_type_text(Arena *arena, const Type *type) {
    Text text = {.arena = arena};
    put_type(&text, type);
    return end(&text);
}

static void put_tensor(Text *text, const Tensor *tensor) {
    if (!tensor) return;
    put(text, dtype_name((Dtype)tensor->dtype));
    put(text, "[");
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (i) put(text, ",");
        put_integer(text, tensor->dims[i]);
    }
    put(text, "]");
}

const char *diff_tensor_text(Arena *arena, const Tensor *tensor) {
    Text text = {.arena = arena};
    put_tensor(&text, tensor);
    return end(&text);
}

static void put_bytes(Text *text, Bytes bytes) {
    put(text, "'");
    for (size_t i = 0; i < bytes.size; i++)
        if (bytes.data[i])
            VEC_PUSH(text->arena, &text->out, (char)bytes.data[i]);
        else
            put(text, "\\0");
    put(text, "'");
}

static void put_item(Text *text, const Attr *attr, uint32_t i) {
    if (i) put(text, ",");
    if (attr->type == ATTR_FLOATS) put_float(text, attr->v.floats[i]);
    if (attr->type == ATTR_INTS) put_integer(text, attr->v.ints[i]);
    if (attr->type == ATTR_STRINGS) put_bytes(text, attr->v.strings[i]);
    if (attr->type == ATTR_TENSORS) put_tensor(text, attr->v.tensors[i]);
    if (attr->type == ATTR_TYPES) put_type(text, attr->v.types[i]);
    if (attr->type == ATTR_GRAPHS) put(text, "graph");
}

static void put_value(Text *text, const Attr *attr) {
    switch (attr->type) {
    case ATTR_UNDEFINED: return;
    case ATTR_FLOAT: put_float(text, attr->v.f); return;
    case ATTR_INT: put_integer(text, attr->v.i); return;
    case ATTR_STRING: put_bytes(text, attr->v.s); return;
    case ATTR_TENSOR: put_tensor(text, attr->v.t); return;
    case ATTR_TYPE: put_type(text, attr->v.tp); return;
    case ATTR_GRAPH: put(text, "graph"); return;
    case ATTR_SPARSE_TENSOR: put(text, "sparse "); break;
    case ATTR_FLOATS:
    case ATTR_INTS:
    case ATTR_STRINGS:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: break;
    }
    if (attr->type == ATTR_SPARSE_TENSOR) {
        if (attr->v.sparse) put_tensor(text, attr->v.sparse->values);
        return;
    }
    put(text, "[");
    for (uint32_t i = 0; i < attr->count; i++) put_item(text, attr, i);
    put(text, "]");
}

const char *diff_attr_text(Arena *arena, const Attr *attr) {
    Text text = {.arena = arena};
    if (!attr) return "";
    if (attr->ref) {
        put(&text, "@");
        put(&text, sym_text(attr->ref));
    } else {
        put_value(&text, attr);
    }
    return end(&text);
}
