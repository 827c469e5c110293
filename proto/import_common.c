// SPDX-License-Identifier: Apache-2.0
/* The importer's small change: strings, key-value lists, and the bytes of what is not modeled. */
#include <string.h>

#include "import.h"
#include "wire_read.h"

static bool unpack_failed(Import *import, const ProtobufCMessageDescriptor *descriptor) {
    return err_set(import->err, ERR_MODEL, "not a valid %s", descriptor->short_name);
}

void import_init_unpackers(Import *import) {
    unpacker_init(&import->unpacker, &import->scratch);
    unpacker_init(&import->other_unpacker, &import->scratch);
    import->nodes[0].unpacker = &import->unpacker;
    import->nodes[1].unpacker = &import->other_unpacker;
}

ProtobufCMessage *import_unpack_with(Import *import, Unpacker *unpacker,
                                     const ProtobufCMessageDescriptor *descriptor,
                                     ShadowPiece piece) {
    unpacker_reset(unpacker);
    Bytes bytes = {piece.at.data, piece.size};
    ProtobufCMessage *message = unpacker_unpack(unpacker, descriptor, bytes);
    if (!message) unpack_failed(import, descriptor);
    return message;
}

ProtobufCMessage *import_unpack(Import *import, const ProtobufCMessageDescriptor *descriptor,
                                ShadowPiece piece) {
    return import_unpack_with(import, &import->unpacker, descriptor, piece);
}

ProtobufCMessage *import_remainder(Import *import, const ProtobufCMessageDescriptor *descriptor,
                                   const ShadowRecord *record) {
    size_t size = 0;
    for (size_t i = 0; i < record->remainder.count; i++) size += record->remainder.items[i].size;
    for (size_t i = 0; i < import->unmodeled.count; i++)
        size += import->unmodeled.items[i].size + 2 * WIRE_VARINT_MAX;
    unpacker_reset(&import->unpacker);
    unsigned char *bytes = unpacker_alloc(&import->unpacker, size);
    size = 0;
    for (size_t i = 0; i < record->remainder.count; i++) {
        Bytes part = record->remainder.items[i];
        memcpy(bytes + size, part.data, part.size);
        size += part.size;
    }
    for (size_t i = 0; i < import->unmodeled.count; i++) {
        ShadowPiece piece = import->unmodeled.items[i];
        size += wire_put_varint(bytes + size, (uint64_t)piece.field << 3 | WIRE_BYTES);
        size += wire_put_varint(bytes + size, piece.size);
        memcpy(bytes + size, piece.at.data, piece.size);
        size += piece.size;
    }
    import->unmodeled.count = 0;
    ProtobufCMessage *message =
        unpacker_unpack(&import->unpacker, descriptor, (Bytes){bytes, size});
    if (!message) unpack_failed(import, descriptor);
    return message;
}

/* Turns the guard's escapes back into the fields they hold. */
static void unescape_fields(ProtobufCMessage *message) {
    for (unsigned i = 0; i < message->n_unknown_fields; i++) {
        ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
        if (field->tag != SHADOW_ESCAPE) continue;
        const unsigned char *end = field->data + field->len;
        uint64_t value = 0;
        size_t length = wire_get_varint(field->data, end, &value); /* of the payload */
        length += wire_get_varint(field->data + length, end, &value);
        field->tag = wire_tag_number(value);
        field->wire_type = (ProtobufCWireType)wire_tag_type(value);
        field->data += length;
        field->len -= length;
    }
}

/* The submessages of a field: their number, the first at *items. */
static size_t submessages(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                          ProtobufCMessage *const **items) {
    const char *base = (const char *)message;
    const void *at = base + field->offset;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        *items = *(ProtobufCMessage *const *const *)at;
        return *(const size_t *)(const void *)(base + field->quantifier_offset);
    }
    *items = at;
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(const void *)(base + field->quantifier_offset) == field->id;
    return **items != NULL;
}

static void unescape(ProtobufCMessage *message) {
    unescape_fields(message);
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        if (field->type != PROTOBUF_C_TYPE_MESSAGE) continue;
        ProtobufCMessage *const *items;
        size_t count = submessages(message, field, &items);
        for (size_t k = 0; k < count; k++) unescape(items[k]);
    }
}

Bytes import_rest(Import *import, ProtobufCMessage *message) {
    if (import->shadow.escapes) unescape(message);
    size_t size = protobuf_c_message_get_packed_size(message);
    if (size == 0) return (Bytes){0};
    unsigned char *bytes = arena_alloc(import->arena, size);
    protobuf_c_message_pack(message, bytes);
    return (Bytes){bytes, size};
}

Sym import_sym(Import *import, protobuf_c_boolean has, ProtobufCBinaryData data) {
    if (!has) return NULL;
    return sym_intern(&import->model->syms, (const char *)data.data, data.len);
}

Sym import_name(Import *import, protobuf_c_boolean has, ProtobufCBinaryData data) {
    Sym name = import_sym(import, has, data);
    return name ? name : sym_intern(&import->model->syms, "", 0);
}

Bytes import_bytes(Import *import, ProtobufCBinaryData data) {
    return (Bytes){arena_copy(import->arena, data.data, data.len), data.len};
}

KeyValue *import_key_value(Import *import, Onnx__StringStringEntryProto *entry) {
    KeyValue *result = ARENA_NEW(import->arena, KeyValue);
    result->key = import_sym(import, entry->has_key, entry->key);
    result->value = import_sym(import, entry->has_value, entry->value);
    entry->has_key = entry->has_value = 0;
    result->rest = import_rest(import, &entry->base);
    return result;
}

KeyValue *import_key_values(Import *import, size_t count, Onnx__StringStringEntryProto **entries) {
    KeyValue *first = NULL, **next = &first;
    for (size_t i = 0; i < count; i++) {
        *next = import_key_value(import, entries[i]);
        next = &(*next)->next;
    }
    return first;
}

const ShadowRecord *import_graph_record(Import *import, const Onnx__GraphProto *graph) {
    uint32_t index = 0;
    for (size_t i = 0; i < 4; i++) index |= (uint32_t)graph->name.data[i] << (8 * i);
    return import->shadow.records.items[index];
}
