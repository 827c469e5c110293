// SPDX-License-Identifier: Apache-2.0
/* Reading and writing of data files; see value_pb.h. The numbers of fields are those of
 * onnx-ml.proto and onnx-data.proto. */
#include "value_pb.h"

#include <string.h>

#include "checked.h"
#include "graph.h"
#include "onnx_import.h"
#include "wire_read.h"

enum {
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_STRING_DATA = 6,
    TENSOR_NAME = 8,
    TENSOR_RAW_DATA = 9,
    /* SequenceProto and OptionalProto */
    DATA_NAME = 1,
    DATA_ELEM_TYPE = 2,
    DATA_TENSOR = 3,
    DATA_SEQUENCE = 5,
    /* their elem_type */
    ELEM_TENSOR = 1,
    ELEM_SEQUENCE = 3,
};

typedef VEC(unsigned char) ByteList;

static void put(Arena *arena, ByteList *list, const void *bytes, size_t size) {
    while (list->capacity - list->count < size)
        list->items = vec_grow(arena, list->items, &list->capacity, 1);
    if (size) memcpy(list->items + list->count, bytes, size);
    list->count += size;
}

static void put_varint(Arena *arena, ByteList *list, uint64_t value) {
    unsigned char bytes[WIRE_VARINT_MAX];
    put(arena, list, bytes, wire_put_varint(bytes, value));
}

static void put_number(Arena *arena, ByteList *list, uint32_t field, uint64_t value) {
    put_varint(arena, list, (uint64_t)field << 3 | WIRE_VARINT);
    put_varint(arena, list, value);
}

static void put_bytes(Arena *arena, ByteList *list, uint32_t field, Bytes bytes) {
    put_varint(arena, list, (uint64_t)field << 3 | WIRE_BYTES);
    put_varint(arena, list, bytes.size);
    put(arena, list, bytes.data, bytes.size);
}

static void put_text(Arena *arena, ByteList *list, uint32_t field, const char *text) {
    put_bytes(arena, list, field, (Bytes){(const unsigned char *)text, strlen(text)});
}

static Bytes bytes_of(const ByteList *list) {
    return (Bytes){list->items, list->count};
}

/* ---- reading: tensors ------------------------------------------------------------------------ */

/* A model of one Constant with that TensorProto. */
static Bytes model_around(Arena *arena, Bytes tensor) {
    ByteList attr = {0}, node = {0}, graph = {0}, opset = {0}, model = {0};
    put_text(arena, &attr, 1, "value");
    put_bytes(arena, &attr, 5, tensor);
    put_number(arena, &attr, 20, 4); /* AttributeProto.TENSOR */
    put_text(arena, &node, 2, "v");
    put_text(arena, &node, 4, "Constant");
    put_bytes(arena, &node, 5, bytes_of(&attr));
    put_bytes(arena, &graph, 1, bytes_of(&node));
    put_number(arena, &opset, 2, 21);
    put_number(arena, &model, 1, 10);
    put_bytes(arena, &model, 7, bytes_of(&graph));
    put_bytes(arena, &model, 8, bytes_of(&opset));
    arena_release(arena, attr.items, attr.capacity);
    arena_release(arena, node.items, node.capacity);
    arena_release(arena, graph.items, graph.capacity);
    return bytes_of(&model);
}

static void *read_strings(Arena *arena, const Tensor *tensor) {
    DemiString *to = ARENA_ARRAY(arena, DemiString, tensor->string_count + 1);
    for (uint64_t i = 0; i < tensor->string_count; i++) {
        Bytes from = tensor->strings[i];
        to[i] = (DemiString){from.size, arena_copy(arena, from.data, from.size)};
    }
    return to;
}

/* Elements of less than a byte get one each. */
static void *spread(Arena *arena, const unsigned char *from, unsigned bits, uint64_t count) {
    unsigned char *to = arena_alloc(arena, count + 1);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = i * bits;
        unsigned both = from[at / 8] | (unsigned)from[at / 8 + 1] << 8;
        to[i] = (unsigned char)(both >> at % 8 & ((1u << bits) - 1));
    }
    return to;
}

static bool take_tensor(Arena *arena, const Tensor *tensor, DemiData *value, Err *err) {
    if (!tensor_check(tensor, err)) return false;
    unsigned bits = dtype_bits((Dtype)tensor->dtype);
    uint64_t size = tensor_raw_size(tensor);
    void *data;
    if (tensor->dtype == DTYPE_STRING) {
        data = read_strings(arena, tensor);
    } else {
        data = arena_alloc(arena, size + 2);
        if (!tensor_read_raw(tensor, 0, data, size, err)) return false;
        if (bits < 8) data = spread(arena, data, bits, tensor_count(tensor));
    }
    const int64_t *dims = arena_copy(arena, tensor->dims, tensor->rank * sizeof *dims);
    DemiData made = DEMI_DATA_TENSOR(tensor->dtype, tensor->rank, dims, data);
    *value = made;
    return true;
}

static bool parse_tensor(Arena *arena, const char *name, Bytes bytes, DemiData *value, Err *err) {
    Bytes model_bytes = model_around(arena, bytes);
    ImportBytes input = {model_bytes.data, model_bytes.size, name};
    Err inner = {.code = ERR_NONE};
    Model *model = onnx_import_memory(&input, NULL, arena->trap, &inner);
    const Attr *attr = model && model->graph->first ? model->graph->first->attrs : NULL;
    const Tensor *tensor = attr_tensor(attr);
    bool ok = tensor && take_tensor(arena, tensor, value, &inner);
    if (model) model_free(model);
    if (ok) return true;
    if (inner.code == ERR_ENV) {
        *err = inner;
        return false;
    }
    /* Node and operand of the inner error are the made model's. */
    err_set(err, ERR_MODEL, "cannot read its tensor%s%s", inner.what[0] ? ": " : "", inner.what);
    if (inner.expected[0]) err_expected(err, "%s", inner.expected);
    if (inner.actual[0]) err_actual(err, "%s", inner.actual);
    return false;
}

/* ---- reading: what is around tensors --------------------------------------------------------- */

typedef struct Field {
    uint32_t number;
    Bytes bytes; /* where its wire type is WIRE_BYTES */
    uint64_t value;
} Field;

/* Takes one field off the front; false where the message is not well formed. */
static bool take_field(Bytes *left, Field *field) {
    const unsigned char *p = left->data, *end = p + left->size;
    uint64_t tag, value = 0;
    size_t used = wire_get_varint(p, end, &tag);
    if (!used || tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3) return false;
    p += used;
    *field = (Field){.number = wire_tag_number(tag)};
    switch (wire_tag_type(tag)) {
    case WIRE_VARINT:
    case WIRE_BYTES:
        used = wire_get_varint(p, end, &value);
        if (!used) return false;
        p += used;
        field->value = value;
        if (wire_tag_type(tag) == WIRE_VARINT) break;
        if (value > (uint64_t)(end - p)) return false;
        field->bytes = (Bytes){p, (size_t)value};
        p += value;
        break;
    case WIRE_FIXED32:
    case WIRE_FIXED64:
        used = wire_tag_type(tag) == WIRE_FIXED32 ? 4 : 8;
        if (used > (size_t)(end - p)) return false;
        p += used;
        break;
    case WIRE_GROUP:
    case WIRE_GROUP_END: return false;
    default: return false; /* 6 and 7 are not wire types */
    }
    *left = (Bytes){p, (size_t)(end - p)};
    return true;
}

static bool malformed(Err *err, const char *what) {
    return err_set(err, ERR_MODEL, "this is not a %s", what);
}

static bool parse_sequence(Arena *arena, const char *name, Bytes bytes, DemiData *value, Err *err) {
    VEC(DemiData) items = {0};
    while (bytes.size) {
        Field field;
        if (!take_field(&bytes, &field)) return malformed(err, "SequenceProto");
        if (field.number == DATA_TENSOR && field.bytes.data) {
            DemiData item;
            if (!parse_tensor(arena, name, field.bytes, &item, err)) return false;
            VEC_PUSH(arena, &items, item);
        } else if (field.number >= DATA_TENSOR) {
            return err_set(err, ERR_MODEL, "a sequence with items other than tensors");
        }
    }
    DemiData made = DEMI_DATA_SEQUENCE(items.count, items.items);
    *value = made;
    return true;
}

static bool parse_optional(Arena *arena, const PbFile *file, DemiData *value, Err *err) {
    Bytes left = file->bytes;
    DemiData none = DEMI_DATA_INIT;
    *value = none;
    while (left.size) {
        Field field;
        if (!take_field(&left, &field)) return malformed(err, "OptionalProto");
        bool ok = true;
        if (field.number == DATA_TENSOR && field.bytes.data)
            ok = parse_tensor(arena, file->name, field.bytes, value, err);
        else if (field.number == DATA_SEQUENCE && field.bytes.data)
            ok = parse_sequence(arena, file->name, field.bytes, value, err);
        else if (field.number >= DATA_TENSOR)
            ok =
                err_set(err, ERR_MODEL, "an optional with a value other than a tensor or sequence");
        if (!ok) return false;
    }
    return true;
}

bool value_pb_parse(Arena *arena, const PbFile *file, DemiData *value, Err *err) {
    if (file->optional) return parse_optional(arena, file, value, err);
    if (file->kind == DEMI_DATA_SEQUENCE_KIND)
        return parse_sequence(arena, file->name, file->bytes, value, err);
    return parse_tensor(arena, file->name, file->bytes, value, err);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The raw_data form: elements of less than a byte without gaps. */
static Bytes pack(Arena *arena, const DemiData *tensor, uint64_t count) {
    unsigned bits = dtype_bits((Dtype)tensor->dtype);
    const unsigned char *from = tensor->data;
    if (bits >= 8) return (Bytes){from, (size_t)(count * (bits / 8))};
    unsigned char *to = arena_alloc(arena, count + 2);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = i * bits;
        unsigned shifted = (from[i] & ((1u << bits) - 1)) << at % 8;
        to[at / 8] |= (unsigned char)shifted;
        to[at / 8 + 1] |= (unsigned char)(shifted >> 8);
    }
    return (Bytes){to, (size_t)((count * bits + 7) / 8)};
}

static void put_tensor(Arena *arena, ByteList *list, const DemiData *tensor, const char *name) {
    uint64_t count;
    if (!checked_count(tensor->dims, tensor->rank, &count)) arena_exhausted(arena);
    for (uint32_t i = 0; i < tensor->rank; i++)
        put_number(arena, list, TENSOR_DIMS, (uint64_t)tensor->dims[i]);
    put_number(arena, list, TENSOR_DATA_TYPE, (uint64_t)tensor->dtype);
    if (tensor->dtype == DTYPE_STRING) {
        const DemiString *strings = tensor->data;
        for (uint64_t i = 0; i < count; i++)
            put_bytes(arena, list, TENSOR_STRING_DATA,
                      (Bytes){(const unsigned char *)strings[i].text, strings[i].size});
    }
    if (name[0]) put_text(arena, list, TENSOR_NAME, name);
    if (tensor->dtype != DTYPE_STRING)
        put_bytes(arena, list, TENSOR_RAW_DATA, pack(arena, tensor, count));
}

static void put_sequence(Arena *arena, ByteList *list, const DemiData *value, const char *name) {
    if (name[0]) put_text(arena, list, DATA_NAME, name);
    put_number(arena, list, DATA_ELEM_TYPE, ELEM_TENSOR);
    for (size_t i = 0; i < value->count; i++) {
        ByteList item = {0};
        put_tensor(arena, &item, &value->items[i], "");
        put_bytes(arena, list, DATA_TENSOR, bytes_of(&item));
        arena_release(arena, item.items, item.capacity);
    }
}

Bytes value_pb_make(Arena *arena, const DemiData *value, const char *name, bool optional) {
    ByteList inner = {0}, outer = {0};
    bool sequence = value->kind == DEMI_DATA_SEQUENCE_KIND;
    const char *inner_name = optional ? "" : name;
    if (sequence)
        put_sequence(arena, &inner, value, inner_name);
    else if (value->kind == DEMI_DATA_TENSOR_KIND)
        put_tensor(arena, &inner, value, inner_name);
    if (!optional) return bytes_of(&inner);
    if (name[0]) put_text(arena, &outer, DATA_NAME, name);
    put_number(arena, &outer, DATA_ELEM_TYPE,
               value->kind == DEMI_DATA_NONE ? 0
               : sequence                    ? ELEM_SEQUENCE
                                             : ELEM_TENSOR);
    if (value->kind != DEMI_DATA_NONE)
        put_bytes(arena, &outer, sequence ? DATA_SEQUENCE : DATA_TENSOR, bytes_of(&inner));
    return bytes_of(&outer);
}
