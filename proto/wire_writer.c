// SPDX-License-Identifier: Apache-2.0
/* Two-pass protobuf writer; see wire_writer.h. */
#include "wire_writer.h"

#include <string.h>

#include "wire_read.h"

enum { BUFFER = 1 << 16 };

void writer_init(WireWriter *w, Arena *arena, Err *err) {
    w->arena = arena;
    w->err = err;
    w->buffer = arena_alloc(arena, BUFFER);
}

void writer_start_writing(WireWriter *w, const ByteSink *sink, Err *err) {
    w->sink = sink;
    w->err = err;
    w->failed = false;
    w->position = 0;
    w->next_length = 0;
    w->depth = 0;
    w->filled = 0;
}

static void flush(WireWriter *w) {
    if (w->filled && !w->failed && !w->sink->write(w->sink->data, w->buffer, w->filled, w->err))
        w->failed = true;
    w->filled = 0;
}

void writer_raw_bytes(WireWriter *w, const void *bytes, uint64_t size) {
    w->position += size;
    if (!w->sink || w->failed || size == 0) return;
    if (size > BUFFER - w->filled) flush(w);
    if (size < BUFFER) {
        memcpy(w->buffer + w->filled, bytes, size);
        w->filled += size;
    } else if (!w->failed && !w->sink->write(w->sink->data, bytes, size, w->err)) {
        w->failed = true;
    }
}

void writer_skip(WireWriter *w, uint64_t size) {
    w->position += size;
}

/* Straight into the buffer; while counting it is filled no further, and the bytes mean nothing. */
void writer_raw_varint(WireWriter *w, uint64_t value) {
    if (value < 0x80 && w->filled < BUFFER) { /* most tags and lengths */
        w->buffer[w->filled] = (unsigned char)value;
        w->position++;
        w->filled += w->sink && !w->failed;
        return;
    }
    if (BUFFER - w->filled < WIRE_VARINT_MAX) flush(w);
    size_t size = wire_put_varint(w->buffer + w->filled, value);
    w->position += size;
    if (w->sink && !w->failed) w->filled += size;
}

/* ---- rest ------------------------------------------------------------------------------------ */

typedef struct RestField {
    uint64_t number;
    unsigned type; /* wire type */
    Bytes bytes;   /* tag and value */
} RestField;

static bool read_varint(const unsigned char **at, const unsigned char *end, uint64_t *value) {
    size_t length = wire_get_varint(*at, end, value);
    *at += length;
    return length > 0;
}

/* Steps over the value after a tag, less the contents of a group. */
static bool skip_value(const unsigned char **at, const unsigned char *end, uint64_t type) {
    uint64_t size = 0;
    if (type == WIRE_VARINT) return read_varint(at, end, &size);
    if (type == WIRE_GROUP || type == WIRE_GROUP_END) return true;
    if (type == WIRE_FIXED64)
        size = 8;
    else if (type == WIRE_FIXED32)
        size = 4;
    else if (type != WIRE_BYTES || !read_varint(at, end, &size))
        return false;
    if (size > (uint64_t)(end - *at)) return false;
    *at += size;
    return true;
}

/* Takes the first field, a whole group where it is one, off *rest. */
static bool rest_take(Bytes *rest, RestField *field) {
    const unsigned char *at = rest->data, *end = at + rest->size;
    uint64_t tag, first = 0, groups = 0;
    do {
        if (!read_varint(&at, end, &tag) || tag >> 3 == 0) return false;
        if (!first) first = tag;
        if ((tag & 7) == WIRE_GROUP) groups++;
        if ((tag & 7) == WIRE_GROUP_END && groups-- == 0) return false;
        if (!skip_value(&at, end, tag & 7)) return false;
    } while (groups > 0);
    *field = (RestField){.number = first >> 3,
                         .type = (unsigned)(first & 7),
                         .bytes = {.data = rest->data, .size = (size_t)(at - rest->data)}};
    rest->size = (size_t)(end - at);
    rest->data = at;
    return true;
}

static WireType field_wire_type(const ProtobufCFieldDescriptor *field) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return WIRE_FIXED32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return WIRE_FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM: return WIRE_VARINT;
    }
    return WIRE_BYTES;
}

/* A field of a known number in another wire type is unknown to protobuf. */
static bool rest_is_known(const WireFrame *frame, const RestField *field) {
    if (field->number > UINT32_MAX || !frame->known) return false;
    const ProtobufCFieldDescriptor *known =
        protobuf_c_message_descriptor_get_field(frame->known, (unsigned)field->number);
    if (!known) return false;
    bool packed = known->label == PROTOBUF_C_LABEL_REPEATED && field->type == WIRE_BYTES;
    return packed || field->type == field_wire_type(known);
}

static bool rest_is_dropped(const WireFrame *frame, uint64_t number) {
    return number < 64 && (frame->rest_drop >> number & 1);
}

static void rest_malformed(WireWriter *w) {
    err_set(w->err, ERR_MODEL, "kept bytes of unknown fields are not protobuf fields");
    w->failed = true;
}

/* The lowest number of a known field in rest that is not yet written; UINT64_MAX where none. */
static uint64_t rest_lowest(WireWriter *w, const WireFrame *frame) {
    uint64_t lowest = UINT64_MAX;
    RestField field;
    for (Bytes rest = frame->rest; rest.size > 0;) {
        if (!rest_take(&rest, &field)) return rest_malformed(w), UINT64_MAX;
        if (field.number >= frame->rest_next && field.number < lowest &&
            rest_is_known(frame, &field))
            lowest = field.number;
    }
    return lowest;
}

/* Writes the known fields of rest with numbers below `limit`. */
static void rest_write_known(WireWriter *w, WireFrame *frame, uint64_t limit) {
    for (;;) {
        uint64_t number = rest_lowest(w, frame);
        if (number >= limit || w->failed) break;
        RestField field;
        for (Bytes rest = frame->rest; rest.size > 0 && rest_take(&rest, &field);)
            if (field.number == number && rest_is_known(frame, &field) &&
                !rest_is_dropped(frame, number))
                writer_raw_bytes(w, field.bytes.data, field.bytes.size);
        frame->rest_next = (uint32_t)number + 1;
    }
    if (limit <= UINT32_MAX && frame->rest_next < limit) frame->rest_next = (uint32_t)limit;
}

static void rest_write_unknown(WireWriter *w, WireFrame *frame) {
    RestField field;
    for (Bytes rest = frame->rest; rest.size > 0 && rest_take(&rest, &field);)
        if (!rest_is_known(frame, &field)) writer_raw_bytes(w, field.bytes.data, field.bytes.size);
}

/* ---- fields ---------------------------------------------------------------------------------- */

static void put_tag(WireWriter *w, uint32_t number, WireType type) {
    if (w->failed) return; /* frames are not kept any more */
    WireFrame *frame = &w->frames[w->depth];
    if (frame->rest.size && frame->rest_next < number) rest_write_known(w, frame, number);
    writer_raw_varint(w, (uint64_t)number << 3 | (uint64_t)type);
}

void writer_put_varint(WireWriter *w, uint32_t number, uint64_t value) {
    put_tag(w, number, WIRE_VARINT);
    writer_raw_varint(w, value);
}

void writer_put_float(WireWriter *w, uint32_t number, float value) {
    put_tag(w, number, WIRE_FIXED32);
    writer_raw_bytes(w, &value, sizeof value);
}

void writer_put_head(WireWriter *w, uint32_t number, uint64_t size) {
    put_tag(w, number, WIRE_BYTES);
    writer_raw_varint(w, size);
}

void writer_put_bytes(WireWriter *w, uint32_t number, const void *bytes, uint64_t size) {
    writer_put_head(w, number, size);
    writer_raw_bytes(w, bytes, size);
}

void writer_put_sym(WireWriter *w, uint32_t number, Sym sym) {
    if (sym) writer_put_bytes(w, number, sym->text, sym->length);
}

void writer_drop(WireWriter *w, uint32_t number) {
    if (!w->failed) w->frames[w->depth].rest_drop |= UINT64_C(1) << number;
}

/* ---- messages -------------------------------------------------------------------------------- */

void writer_open_root(WireWriter *w, const ProtobufCMessageDescriptor *known, Bytes rest) {
    w->frames[0] = (WireFrame){.known = known, .rest = rest, .rest_next = 1};
}

static void open_frame(WireWriter *w, uint32_t number, const WireFrame *frame) {
    put_tag(w, number, WIRE_BYTES);
    if (w->failed) {
        w->depth++;
        return;
    }
    uint32_t length = 0;
    size_t slot = w->sink ? w->next_length++ : w->lengths.count;
    if (!w->sink)
        VEC_PUSH(w->arena, &w->lengths, 0);
    else
        length = w->lengths.items[slot];
    /* While counting, the length's own bytes are added by writer_close. */
    if (w->sink) writer_raw_varint(w, length);
    w->depth++;
    w->frames[w->depth] = *frame;
    w->frames[w->depth].slot = slot;
    w->frames[w->depth].start = w->position;
}

void writer_open(WireWriter *w, uint32_t number, const ProtobufCMessageDescriptor *known,
                 Bytes rest) {
    if (w->depth >= WIRE_DEPTH_MAX && !w->failed) {
        err_set(w->err, ERR_MODEL, "messages are nested more than %d deep", WIRE_DEPTH_MAX);
        w->failed = true;
    }
    open_frame(w, number, &(WireFrame){.known = known, .rest = rest, .rest_next = 1});
}

void writer_open_packed(WireWriter *w, uint32_t number) {
    open_frame(w, number, &(WireFrame){0});
}

static void length_mismatch(WireWriter *w) {
    err_set(w->err, ERR_ENV, "internal: a message's length changed while it was written");
    w->failed = true;
}

void writer_close(WireWriter *w) {
    uint32_t depth = w->depth;
    if (depth > 0) w->depth--;
    if (w->failed) return;
    WireFrame *frame = &w->frames[depth];
    if (frame->rest.size) {
        rest_write_known(w, frame, UINT64_MAX);
        rest_write_unknown(w, frame);
    }
    if (depth == 0 || w->failed) return;
    uint64_t length = w->position - frame->start;
    if (w->sink) {
        if (length != w->lengths.items[frame->slot]) length_mismatch(w);
        return;
    }
    /* Lengths beyond 32 bits belong to a model that is refused for its size before it is written.
     */
    w->lengths.items[frame->slot] = (uint32_t)length;
    writer_raw_varint(w, length);
}

bool writer_finish(WireWriter *w) {
    if (w->sink) flush(w);
    return !w->failed;
}
