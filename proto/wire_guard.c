// SPDX-License-Identifier: Apache-2.0
/* The walk of wire_guard.h: a stack of open messages, each with the offset where it ends.
 *
 * A frame either is a container, whose fields go to its record, or lies inside the open piece of
 * its level. A graph inside a piece opens the next level, so that its own pieces don't mix with the
 * one that holds it. */
#include "wire_guard.h"

#include <string.h>

#include "graph.h"
#include "onnx.pb-c.h"
#include "wire_read.h"
#include "shadow_writer.h"
#include "work_progress.h"

enum {
    /* Three messages (node, attribute, graph) lie between one graph and the next. */
    LEVELS_MAX = WIRE_DEPTH_MAX / 2 + 2,
    GRAPHS_OF_A_MESSAGE = 2, /* most singular GraphProto fields: TrainingInfoProto has two */
    TENSOR_RAW_DATA = 9,
    GRAPH_NAME = 2,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP_TYPE = 4,
    TEXT_SHOWN = 120,    /* bytes of a node's name */
    PART_COST = 1 << 20, /* estimated bytes of objects that are given away at a time */
};

/* Where a text lies in the file: its length, and its bytes. */
typedef struct Place {
    uint64_t at, end; /* 0: nowhere */
} Place;

typedef struct Frame {
    const ProtobufCMessageDescriptor *descriptor;
    uint64_t end;
    ShadowRecord *record; /* of a container; of its parent where the frame is a piece's root */
    bool container, root; /* root: the frame is a whole piece */
    unsigned level;
    uint32_t field;                       /* in the parent */
    size_t length_at;                     /* where its length is to be patched */
    uint64_t seen;                        /* singular submessages so far, by index of their field */
    const ProtobufCFieldDescriptor *last; /* met in this message; NULL: none yet */
    struct {
        uint32_t field;
        ShadowRecord *record;
    } graphs[GRAPHS_OF_A_MESSAGE]; /* of singular fields: a second part goes to the same record */
    Place label, op_type;          /* of a node, so far */
} Frame;

typedef struct Guard {
    WireReader reader;
    Arena *arena;
    Shadow *shadow;
    Err *err;
    uint64_t cost, budget; /* estimated bytes of objects */
    const GuardInput *input;
    struct {
        uint64_t cost;                      /* when it began */
        ShadowPosition writers[LEVELS_MAX]; /* likewise */
    } part;                                 /* of the main graph, to be given away */
    unsigned depth;                         /* index of the innermost frame */
    Frame frames[WIRE_DEPTH_MAX + 1];
    ShadowWriter writers[LEVELS_MAX];
} Guard;

static bool refuse(Guard *guard, const char *what) {
    err_set(guard->err, ERR_MODEL, "not a valid protobuf at byte %llu: %s",
            (unsigned long long)reader_position(&guard->reader), what);
    err_file(guard->err, guard->reader.source->name);
    return false;
}

static bool charge(Guard *guard, uint64_t bytes) {
    guard->cost += bytes; /* far from wrapping: the file has less than 2^31 bytes */
    if (guard->cost <= guard->budget) return true;
    err_set(guard->err, ERR_MODEL, "too many objects for the memory limit");
    err_expected(guard->err, "at most %llu bytes", (unsigned long long)guard->budget);
    err_file(guard->err, guard->reader.source->name);
    return false;
}

static bool is_container(const ProtobufCMessageDescriptor *descriptor) {
    return descriptor == &onnx__graph_proto__descriptor ||
           descriptor == &onnx__function_proto__descriptor ||
           descriptor == &onnx__model_proto__descriptor;
}

static ShadowRecord *record_new(Guard *guard) {
    ShadowRecord *record = ARENA_NEW(guard->arena, ShadowRecord);
    record->index = (uint32_t)guard->shadow->records.count;
    VEC_PUSH(guard->arena, &guard->shadow->records, record);
    return record;
}

static Frame *top(Guard *guard) {
    return &guard->frames[guard->depth];
}

static ShadowWriter *writer_of(Guard *guard, const Frame *frame) {
    return &guard->writers[frame->level];
}

/* ---- parts of the main graph ----------------------------------------------------------------- */

/* True directly inside the graph whose parts are given away. */
static bool in_taken_graph(const Guard *guard) {
    return guard->input->take && guard->depth == 1 &&
           guard->frames[1].descriptor == &onnx__graph_proto__descriptor;
}

static void part_begin(Guard *guard) {
    guard->part.cost = guard->cost;
    for (int i = 0; i < LEVELS_MAX; i++)
        guard->part.writers[i] = shadow_position(&guard->writers[i]);
}

/* Gives the part away, and lets the next one have its memory. */
static bool part_end(Guard *guard) {
    ShadowRecord *graph = guard->frames[1].record;
    if (!guard->input->take(guard->input->data, guard->shadow, graph)) return false;
    graph->pieces.count = 0;
    for (int i = 0; i < LEVELS_MAX; i++) shadow_rewind(&guard->writers[i], guard->part.writers[i]);
    part_begin(guard);
    return true;
}

/* ---- fields other than submessages ----------------------------------------------------------- */

static bool read_varint(Guard *guard, uint64_t *value) {
    const Frame *frame = top(guard);
    if (!reader_varint(&guard->reader, value)) return refuse(guard, "bad varint");
    if (reader_position(&guard->reader) > frame->end)
        return refuse(guard, "a field extends beyond the end");
    return true;
}

static bool read_tag(Guard *guard, uint64_t *tag) {
    if (!read_varint(guard, tag)) return false;
    if (*tag > UINT32_MAX) return refuse(guard, "bad field number");
    if (wire_tag_number(*tag) == 0) return refuse(guard, "field number 0");
    if (wire_tag_type(*tag) > WIRE_FIXED32) return refuse(guard, "bad wire type");
    return true;
}

static bool read_length(Guard *guard, uint64_t *length) {
    if (!read_varint(guard, length)) return false;
    if (*length > top(guard)->end - reader_position(&guard->reader))
        return refuse(guard, "a length extends beyond the end of its message");
    return true;
}

static bool copy_bytes(Guard *guard, uint64_t size) {
    if (size > top(guard)->end - reader_position(&guard->reader))
        return refuse(guard, "a field extends beyond the end");
    unsigned char *to = shadow_extend(writer_of(guard, top(guard)), (size_t)size);
    if (reader_copy(&guard->reader, to, size)) return true;
    return refuse(guard, "it cannot be read"); /* err is set by the reader: the first one stays */
}

/* Copies the value of a field that is not a group; the tag was written. */
static bool copy_value(Guard *guard, WireType type) {
    ShadowWriter *writer = writer_of(guard, top(guard));
    uint64_t value;
    switch (type) {
    case WIRE_VARINT:
        if (!read_varint(guard, &value)) return false;
        shadow_put_varint(writer, value);
        return true;
    case WIRE_FIXED64: return copy_bytes(guard, 8);
    case WIRE_FIXED32: return copy_bytes(guard, 4);
    case WIRE_BYTES:
        if (!read_length(guard, &value)) return false;
        shadow_put_varint(writer, value);
        return copy_bytes(guard, value);
    case WIRE_GROUP:
    case WIRE_GROUP_END: break;
    }
    return refuse(guard, "misplaced end of a group");
}

/* Copies a group's content and end. Groups nest, and count as messages do. */
static bool copy_group(Guard *guard, uint32_t number) {
    uint32_t open[WIRE_DEPTH_MAX];
    size_t count = 0;
    if (guard->depth >= WIRE_DEPTH_MAX) return refuse(guard, "nested too deeply");
    open[count++] = number;
    while (count > 0) {
        uint64_t tag;
        if (reader_position(&guard->reader) >= top(guard)->end)
            return refuse(guard, "a group without end");
        if (!read_tag(guard, &tag)) return false;
        shadow_put_varint(writer_of(guard, top(guard)), tag);
        if (wire_tag_type(tag) == WIRE_GROUP_END) {
            if (open[--count] != wire_tag_number(tag))
                return refuse(guard, "misplaced end of a group");
        } else if (wire_tag_type(tag) == WIRE_GROUP) {
            if (guard->depth + count >= WIRE_DEPTH_MAX) return refuse(guard, "nested too deeply");
            open[count++] = wire_tag_number(tag);
        } else if (!copy_value(guard, wire_tag_type(tag))) {
            return false;
        }
    }
    return true;
}

/* A field that protobuf keeps as unknown; `known` where only its wire type is. */
static bool copy_unknown(Guard *guard, uint64_t tag, bool known) {
    enum { UNKNOWN_COST = 96 };
    ShadowWriter *writer = writer_of(guard, top(guard));
    WireType type = wire_tag_type(tag);
    if (!charge(guard, UNKNOWN_COST)) return false;
    bool escape = known || type == WIRE_GROUP || wire_tag_number(tag) == SHADOW_ESCAPE;
    size_t length_at = 0;
    if (escape) {
        guard->shadow->escapes = true;
        shadow_put_varint(writer, (uint64_t)SHADOW_ESCAPE << 3 | WIRE_BYTES);
        length_at = shadow_reserve_length(writer);
    }
    shadow_put_varint(writer, tag);
    if (type == WIRE_GROUP ? !copy_group(guard, wire_tag_number(tag)) : !copy_value(guard, type))
        return false;
    if (escape) shadow_patch_length(writer, length_at);
    return true;
}

static bool copy_raw_data(Guard *guard) {
    ShadowWriter *writer = writer_of(guard, top(guard));
    uint64_t length;
    if (!read_length(guard, &length)) return false;
    shadow_put_varint(writer, TENSOR_RAW_DATA << 3 | WIRE_BYTES);
    if (length <= SHADOW_INLINE_MAX) {
        shadow_put_varint(writer, length + 1);
        *shadow_extend(writer, 1) = SHADOW_INLINE;
        return copy_bytes(guard, length);
    }
    uint64_t offset = reader_position(&guard->reader);
    shadow_put_varint(writer, SHADOW_REFERENCE_SIZE);
    unsigned char *to = shadow_extend(writer, SHADOW_REFERENCE_SIZE);
    to[0] = SHADOW_REFERENCE;
    for (int i = 0; i < 8; i++) {
        to[1 + i] = (unsigned char)(offset >> (8 * i));
        to[9 + i] = (unsigned char)(length >> (8 * i));
    }
    reader_skip(&guard->reader, length);
    return true;
}

/* The wire type of one value of the field, where it is not packed. */
static WireType field_wire_type(const ProtobufCFieldDescriptor *field) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_FLOAT: return WIRE_FIXED32;
    case PROTOBUF_C_TYPE_DOUBLE: return WIRE_FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    default: return WIRE_VARINT; /* the format has no fixed-width integers */
    }
}

/* A packed list: whole elements that fill the length. */
static bool copy_packed(Guard *guard, const ProtobufCFieldDescriptor *field, uint64_t tag) {
    WireType type = field_wire_type(field);
    uint64_t length, value;
    if (!read_length(guard, &length)) return false;
    if (!charge(guard, type == WIRE_VARINT ? 16 * length : 2 * length)) return false;
    ShadowWriter *writer = writer_of(guard, top(guard));
    shadow_put_varint(writer, tag);
    if (type != WIRE_VARINT) {
        if (length % (type == WIRE_FIXED32 ? 4 : 8) != 0) return refuse(guard, "bad packed list");
        shadow_put_varint(writer, length);
        return copy_bytes(guard, length);
    }
    size_t length_at = shadow_reserve_length(writer);
    uint64_t end = reader_position(&guard->reader) + length;
    while (reader_position(&guard->reader) < end) {
        if (!read_varint(guard, &value)) return false;
        shadow_put_varint(writer, value);
    }
    if (reader_position(&guard->reader) != end) return refuse(guard, "bad packed list");
    shadow_patch_length(writer, length_at);
    return true;
}

/* What a message about the node may call it by: its name, else its first output. */
static void note_text(Frame *node, uint32_t field, Place place) {
    if (place.end - place.at <= 1) return; /* empty */
    if (field == NODE_NAME || (field == NODE_OUTPUT && !node->label.end)) node->label = place;
    if (field == NODE_OP_TYPE) node->op_type = place;
}

/* A field of the schema that is not a submessage. */
static bool copy_known(Guard *guard, const ProtobufCFieldDescriptor *field, uint64_t tag) {
    enum { FIELD_COST = 16, ITEM_COST = 96 };
    const Frame *frame = top(guard);
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    if (!charge(guard, repeated ? ITEM_COST : FIELD_COST)) return false;
    if (frame->descriptor == &onnx__tensor_proto__descriptor && field->id == TENSOR_RAW_DATA)
        return copy_raw_data(guard);
    if (wire_tag_type(tag) != field_wire_type(field)) return copy_packed(guard, field, tag);
    shadow_put_varint(writer_of(guard, frame), tag);
    Place place = {.at = reader_position(&guard->reader)};
    if (!copy_value(guard, wire_tag_type(tag))) return false;
    place.end = reader_position(&guard->reader);
    if (frame->descriptor == &onnx__node_proto__descriptor) note_text(top(guard), field->id, place);
    return true;
}

/* ---- submessages ----------------------------------------------------------------------------- */

static Frame *push(Guard *guard, const ProtobufCFieldDescriptor *field) {
    enum { POINTER_COST = 64 };
    uint64_t length;
    if (!read_length(guard, &length)) return NULL;
    if (guard->depth >= WIRE_DEPTH_MAX) return refuse(guard, "nested too deeply"), NULL;
    const ProtobufCMessageDescriptor *descriptor = field->descriptor;
    if (!charge(guard, POINTER_COST + descriptor->sizeof_message)) return NULL;
    const Frame *parent = top(guard);
    Frame *frame = &guard->frames[++guard->depth];
    *frame = (Frame){.descriptor = descriptor,
                     .end = reader_position(&guard->reader) + length,
                     .level = parent->level,
                     .field = field->id};
    return frame;
}

/* A submessage of a container: a container too, or the root of a piece. */
static bool enter_piece(Guard *guard, const ProtobufCFieldDescriptor *field) {
    Frame *parent = top(guard), *frame = push(guard, field);
    if (!frame) return false;
    if (!is_container(field->descriptor)) {
        frame->root = true;
        frame->record = parent->record;
        shadow_begin(writer_of(guard, frame));
        return true;
    }
    frame->container = true;
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    if (!repeated) frame->record = parent->graphs[0].record;
    if (!frame->record) {
        frame->record = record_new(guard);
        if (!repeated) parent->graphs[0].record = frame->record;
        ShadowPiece piece = {.field = field->id, .at.record = frame->record};
        VEC_PUSH(guard->arena, &parent->record->pieces, piece);
    }
    if (in_taken_graph(guard)) part_begin(guard);
    return true;
}

/* The record of a graph inside a piece; *known where an earlier part made it. */
static ShadowRecord *graph_record(Guard *guard, Frame *parent,
                                  const ProtobufCFieldDescriptor *field, bool *known) {
    *known = false;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) return record_new(guard);
    for (int i = 0; i < GRAPHS_OF_A_MESSAGE; i++) {
        if (parent->graphs[i].field == field->id) {
            *known = true;
            return parent->graphs[i].record;
        }
        if (parent->graphs[i].field) continue;
        parent->graphs[i].field = field->id;
        return parent->graphs[i].record = record_new(guard);
    }
    return record_new(guard); /* not reached: no message has more such fields */
}

/* Whether a graph in the message at hand is one of more in each other than may be; a function is one, too. */
static bool nests_too_deeply(const Guard *guard) {
    unsigned around = 0;
    for (unsigned i = 0; i <= guard->depth; i++) {
        const ProtobufCMessageDescriptor *descriptor = guard->frames[i].descriptor;
        around += descriptor == &onnx__graph_proto__descriptor ||
                  descriptor == &onnx__function_proto__descriptor ||
                  descriptor == &onnx__training_info_proto__descriptor;
    }
    return around > GRAPH_NESTING_MAX;
}

/* The text's beginning, "" where it is nowhere or can't be read. */
static void text_at(const Guard *guard, Place place, char text[TEXT_SHOWN + 1]) {
    unsigned char bytes[TEXT_SHOWN + 10];
    size_t size = (size_t)(place.end - place.at), at = 0;
    text[0] = '\0';
    if (size > sizeof bytes) size = sizeof bytes;
    if (!size || !source_read(guard->reader.source, place.at, bytes, size, NULL)) return;
    while (at < size && bytes[at] & 0x80) at++; /* its length */
    if (at == size) return;
    size -= at + 1;
    if (size > TEXT_SHOWN) size = TEXT_SHOWN;
    memcpy(text, bytes + at + 1, size);
    text[size] = '\0';
}

/* Names the outermost node, as graph_check_nesting does. */
static bool refuse_nest(Guard *guard) {
    char label[TEXT_SHOWN + 1] = "", op_type[TEXT_SHOWN + 1] = "";
    unsigned i = 0;
    while (i < guard->depth && guard->frames[i].descriptor != &onnx__node_proto__descriptor) i++;
    text_at(guard, guard->frames[i].label, label);
    text_at(guard, guard->frames[i].op_type, op_type);
    graph_nesting_error(guard->err, label, op_type);
    err_file(guard->err, guard->reader.source->name);
    return false;
}

/* A graph inside an attribute or training info: the piece gets the index of its record. */
static bool enter_graph(Guard *guard, const ProtobufCFieldDescriptor *field) {
    if (nests_too_deeply(guard)) return refuse_nest(guard);
    Frame *parent = top(guard), *frame = push(guard, field);
    bool known;
    if (!frame) return false;
    if (frame->level + 1 >= LEVELS_MAX) return refuse(guard, "nested too deeply");
    frame->level++;
    frame->container = true;
    frame->record = graph_record(guard, parent, field, &known);
    if (known) return true;
    ShadowWriter *writer = writer_of(guard, parent);
    shadow_put_varint(writer, (uint64_t)field->id << 3 | WIRE_BYTES);
    size_t length_at = shadow_reserve_length(writer);
    unsigned char *to = shadow_extend(writer, 6);
    to[0] = GRAPH_NAME << 3 | WIRE_BYTES;
    to[1] = 4;
    for (int i = 0; i < 4; i++) to[2 + i] = (unsigned char)(frame->record->index >> (8 * i));
    shadow_patch_length(writer, length_at);
    return true;
}

static bool enter_message(Guard *guard, const ProtobufCFieldDescriptor *field) {
    Frame *parent = top(guard);
    if (parent->container) return enter_piece(guard, field);
    ShadowWriter *writer = writer_of(guard, parent);
    if (field->label != PROTOBUF_C_LABEL_REPEATED && !is_container(field->descriptor)) {
        uint64_t bit = UINT64_C(1) << (field - parent->descriptor->fields);
        if (parent->seen & bit) writer->split = true;
        parent->seen |= bit;
    }
    if (is_container(field->descriptor)) return enter_graph(guard, field);
    Frame *frame = push(guard, field);
    if (!frame) return false;
    shadow_put_varint(writer, (uint64_t)field->id << 3 | WIRE_BYTES);
    frame->length_at = shadow_reserve_length(writer);
    return true;
}

/* The innermost message is complete. */
static bool leave(Guard *guard) {
    Frame *frame = top(guard);
    guard->depth--; /* wraps with the outermost frame, which ends the walk */
    if (frame->container) return true;
    ShadowWriter *writer = writer_of(guard, frame);
    if (!frame->root) {
        shadow_patch_length(writer, frame->length_at);
        return true;
    }
    Bytes bytes = shadow_end(writer, frame->descriptor);
    if (bytes.size > WIRE_SIZE_MAX) return refuse(guard, "a message is too large");
    if (!frame->record) {
        guard->shadow->message = bytes;
        return true;
    }
    ShadowPiece piece = {
        .field = frame->field, .size = (uint32_t)bytes.size, .at.data = bytes.data};
    VEC_PUSH(guard->arena, &frame->record->pieces, piece);
    return !in_taken_graph(guard) || guard->cost - guard->part.cost < PART_COST || part_end(guard);
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* Whether a value of this wire type belongs to the field, rather than being unknown to protobuf. */
static bool field_accepts(const ProtobufCFieldDescriptor *field, WireType type) {
    if (!field) return false;
    WireType own = field_wire_type(field);
    if (type == own) return true;
    return type == WIRE_BYTES && field->label == PROTOBUF_C_LABEL_REPEATED; /* packed */
}

/* A field that is not a submessage, in a container: it joins the record's remainder. */
static bool container_field(Guard *guard, const ProtobufCFieldDescriptor *field, uint64_t tag) {
    Frame *frame = top(guard);
    ShadowWriter *writer = writer_of(guard, frame);
    shadow_begin(writer);
    bool accepted = field_accepts(field, wire_tag_type(tag));
    if (accepted ? !copy_known(guard, field, tag) : !copy_unknown(guard, tag, field != NULL))
        return false;
    Bytes bytes = shadow_end(writer, frame->descriptor);
    if (in_taken_graph(guard)) bytes.data = arena_copy(guard->arena, bytes.data, bytes.size);
    VEC_PUSH(guard->arena, &frame->record->remainder, bytes);
    return true;
}

/* The field of that number, NULL where there is none. Most messages have theirs in order: the last
 * one again, or the one after it, needs no search. */
static const ProtobufCFieldDescriptor *field_find(Frame *frame, uint32_t number) {
    const ProtobufCMessageDescriptor *message = frame->descriptor;
    const ProtobufCFieldDescriptor *last = frame->last, *end = message->fields + message->n_fields;
    if (last && last->id == number) return last;
    const ProtobufCFieldDescriptor *next = last ? last + 1 : message->fields;
    if (next < end && next->id == number) return frame->last = next;
    const ProtobufCFieldDescriptor *found =
        protobuf_c_message_descriptor_get_field(message, number);
    if (found) frame->last = found;
    return found;
}

static bool step(Guard *guard) {
    Frame *frame = top(guard);
    if (reader_position(&guard->reader) == frame->end) return leave(guard);
    uint64_t tag;
    if (!read_tag(guard, &tag)) return false;
    const ProtobufCFieldDescriptor *field = field_find(frame, wire_tag_number(tag));
    if (!field_accepts(field, wire_tag_type(tag))) {
        if (frame->container) return container_field(guard, field, tag);
        return copy_unknown(guard, tag, field != NULL);
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) return enter_message(guard, field);
    if (frame->container) return container_field(guard, field, tag);
    return copy_known(guard, field, tag);
}

static bool too_large(const Source *source, Err *err) {
    err_set(err, ERR_MODEL, "the file is too large for a protobuf message");
    err_expected(err, "at most %llu bytes", (unsigned long long)WIRE_SIZE_MAX);
    err_actual(err, "%llu", (unsigned long long)source->size);
    err_file(err, source->name);
    return false;
}

bool wire_guard(const GuardInput *input, Arena *arena, Shadow *shadow, Err *err) {
    const Source *source = input->source;
    if (source->size > WIRE_SIZE_MAX) return too_large(source, err);
    *shadow = (Shadow){0};
    Guard *guard = ARENA_NEW(arena, Guard);
    guard->arena = arena;
    guard->shadow = shadow;
    guard->input = input;
    guard->err = err;
    guard->budget =
        input->memory_budget ? input->memory_budget : (UINT64_C(1) << 30) + 8 * source->size;
    reader_init(&guard->reader, arena, source, err);
    for (int i = 0; i < LEVELS_MAX; i++) guard->writers[i].arena = arena;
    Frame *root = &guard->frames[0];
    *root = (Frame){.descriptor = input->root, .end = source->size};
    root->container = is_container(input->root);
    root->root = !root->container;
    if (root->container) root->record = shadow->model = record_new(guard);
    const unsigned piece = progress_begin("its messages", source->size, PROGRESS_BYTES);
    bool ok = true;
    while (ok && guard->depth != UINT32_MAX) {
        ok = step(guard);
        progress_at(piece, reader_position(&guard->reader));
    }
    progress_end(piece);
    return ok;
}
