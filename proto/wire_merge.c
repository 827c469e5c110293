// SPDX-License-Identifier: Apache-2.0
/* protobuf-c 1.4 drops unknown fields and mixes up presence where it merges parts of a submessage,
 * so the parts are joined as bytes before it sees them. Rare, hence written for size: every level
 * is copied once, levels are at most 100. */
#include "wire_merge.h"

#include <stdbool.h>
#include <string.h>

#include "wire_read.h"

typedef struct Element {
    const ProtobufCFieldDescriptor *field; /* NULL: unknown */
    Bytes whole;                           /* with its tag */
    Bytes payload;                         /* WIRE_BYTES only */
} Element;

/* The element at *at, which moves past it. Escapes are fields of their own, so groups don't occur.
 */
static Element element_next(const ProtobufCMessageDescriptor *descriptor, const unsigned char **at,
                            const unsigned char *end) {
    const unsigned char *from = *at, *next = from;
    uint64_t tag = 0, value = 0;
    next += wire_get_varint(next, end, &tag);
    Element element = {
        .field = protobuf_c_message_descriptor_get_field(descriptor, wire_tag_number(tag))};
    WireType type = wire_tag_type(tag);
    if (type == WIRE_FIXED64)
        next += 8;
    else if (type == WIRE_FIXED32)
        next += 4;
    else
        next += wire_get_varint(next, end, &value);
    if (type == WIRE_BYTES) {
        element.payload = (Bytes){next, (size_t)value};
        next += value;
    }
    element.whole = (Bytes){from, (size_t)(next - from)};
    *at = next;
    return element;
}

static bool is_message(const ProtobufCFieldDescriptor *field) {
    return field && field->type == PROTOBUF_C_TYPE_MESSAGE;
}

static bool is_oneof(const ProtobufCFieldDescriptor *field) {
    return field && (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF);
}

/* Where the last run of one case of the oneof begins: earlier members of it were replaced. Messages
 * of this format have one oneof at most. */
static const unsigned char *oneof_start(const ProtobufCMessageDescriptor *descriptor, Bytes bytes) {
    const ProtobufCFieldDescriptor *current = NULL;
    const unsigned char *start = bytes.data, *end = bytes.data + bytes.size;
    for (const unsigned char *at = bytes.data; at < end;) {
        const unsigned char *from = at;
        Element element = element_next(descriptor, &at, end);
        if (!is_oneof(element.field) || element.field == current) continue;
        current = element.field;
        start = from;
    }
    return start;
}

/* All parts of a singular submessage from `from` on, joined. */
static Bytes join_parts(const ProtobufCMessageDescriptor *descriptor, Element first, Bytes rest,
                        Arena *arena) {
    const unsigned char *end = rest.data + rest.size;
    unsigned char *joined = arena_alloc(arena, first.payload.size + rest.size);
    size_t size = first.payload.size;
    if (size) memcpy(joined, first.payload.data, size);
    for (const unsigned char *at = rest.data; at < end;) {
        Element element = element_next(descriptor, &at, end);
        if (element.field != first.field) continue;
        if (element.payload.size) memcpy(joined + size, element.payload.data, element.payload.size);
        size += element.payload.size;
    }
    return (Bytes){joined, size};
}

Bytes wire_merge(const ProtobufCMessageDescriptor *descriptor, Bytes bytes, Arena *arena) {
    const unsigned char *end = bytes.data + bytes.size;
    const unsigned char *start = oneof_start(descriptor, bytes);
    uint64_t seen = 0; /* singular submessages already written, by index of their field */
    unsigned char *out = arena_alloc(arena, bytes.size); /* never grows: lengths were padded */
    size_t size = 0;
    for (const unsigned char *at = bytes.data; at < end;) {
        const unsigned char *from = at;
        Element element = element_next(descriptor, &at, end);
        if (is_oneof(element.field) && from < start) continue;
        if (!is_message(element.field)) {
            memcpy(out + size, element.whole.data, element.whole.size);
            size += element.whole.size;
            continue;
        }
        Bytes content = element.payload;
        if (element.field->label != PROTOBUF_C_LABEL_REPEATED) {
            uint64_t bit = UINT64_C(1) << (element.field - descriptor->fields);
            if (seen & bit) continue;
            seen |= bit;
            content = join_parts(descriptor, element, (Bytes){at, (size_t)(end - at)}, arena);
        }
        content = wire_merge(element.field->descriptor, content, arena);
        size += wire_put_varint(out + size, (uint64_t)element.field->id << 3 | WIRE_BYTES);
        wire_put_padded(out + size, content.size);
        size += WIRE_LENGTH_PADDED;
        if (content.size) memcpy(out + size, content.data, content.size);
        size += content.size;
    }
    return (Bytes){out, size};
}
