// SPDX-License-Identifier: Apache-2.0
/* The guard on hand-written bytes: what it refuses, and what the shadow holds. */
#include <stdio.h>

#include "graph.h"
#include "onnx.pb-c.h"
#include "unit_test.h"
#include "unpack.h"
#include "wire_build.h"
#include "wire_guard.h"

typedef struct Fixture {
    Shadow shadow;
    Err err;
} Fixture;

static int set_up(void **state) {
    static Fixture fixture;
    fixture = (Fixture){0};
    *state = &fixture;
    return 0;
}
TEST_FIXTURE(set_up, NULL);

static bool guard_as(Fixture *fixture, const ProtobufCMessageDescriptor *root, const Wire *wire,
                     uint64_t budget) {
    Source *source = source_from_memory(&test_arena, wire->items, wire->count, "test.onnx");
    fixture->err = (Err){0};
    GuardInput input = {.source = source, .root = root, .memory_budget = budget};
    return wire_guard(&input, &test_arena, &fixture->shadow, &fixture->err);
}

static void refuse(Fixture *fixture, const Wire *wire, const char *what) {
    assert_false(guard_as(fixture, &onnx__model_proto__descriptor, wire, 0));
    assert_int_equal(fixture->err.code, ERR_MODEL);
    if (!strstr(fixture->err.what, what))
        fail_msg("expected '%s', got '%s'", what, fixture->err.what);
}

static ProtobufCMessage *unpack_shadow(Fixture *fixture,
                                       const ProtobufCMessageDescriptor *descriptor) {
    Unpacker *unpacker = ARENA_NEW(&test_arena, Unpacker);
    unpacker_init(unpacker, &test_arena);
    ProtobufCMessage *message = unpacker_unpack(unpacker, descriptor, fixture->shadow.message);
    assert_non_null(message);
    return message;
}

TEST_WITH(test_refuses_bad_bytes, Fixture *fixture) {
    const struct {
        const char *bytes;
        size_t size;
        const char *what;
    } cases[] = {
        {"\x00\x01", 2, "field number 0"},
        {"\x80\x80\x00\x01", 4, "field number 0"},
        {"\x0e", 1, "bad wire type"},
        {"\x0f\x00", 2, "bad wire type"},
        {"\x08", 1, "bad varint"},
        {"\x08\x80", 2, "bad varint"},
        {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12, "bad varint"},
        {"\x80\x80\x80\x80\x80\x01", 6, "bad field number"},
        {"\x12\x05"
         "abc",
         5, "extends beyond the end"},
        {"\x3a\x02\x0a\x05", 4, "extends beyond the end of its message"},
        {"\x3a\x03\x12\x81\x80\x00", 6, "extends beyond the end"},
        {"\x0d\x01\x02", 3, "extends beyond the end"},
        {"\x0c", 1, "misplaced end of a group"},
        {"\xfb\x07\x08\x01", 4, "a group without end"},
        {"\xfb\x07\x08\x01\x0c", 5, "misplaced end of a group"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Wire wire = {.arena = &test_arena};
        build_raw(&wire, cases[i].bytes, cases[i].size);
        refuse(fixture, &wire, cases[i].what);
    }
}

TEST_WITH(test_refuses_bad_packed_lists, Fixture *fixture) {
    Wire floats = {.arena = &test_arena}, ints = {.arena = &test_arena};
    build_bytes(&floats, 4, "12345", 5);
    assert_false(guard_as(fixture, &onnx__tensor_proto__descriptor, &floats, 0));
    build_bytes(&ints, 1, "\x01\x80", 2);
    assert_false(guard_as(fixture, &onnx__tensor_proto__descriptor, &ints, 0));
    build_tag(&ints, 2, WIRE_VARINT); /* where the list's last number would go on */
    build_int(&ints, 2, 1);
    assert_false(guard_as(fixture, &onnx__tensor_proto__descriptor, &ints, 0));
}

/* A TypeProto that nests `depth` messages. */
static Wire nested_types(Arena *arena, int depth) {
    Wire type = {.arena = arena};
    for (int i = 0; i < depth; i++) {
        Wire outer = {.arena = arena};
        build_message(&outer, i % 2 ? 4 : 1, &type); /* sequence_type, elem_type */
        type = outer;
    }
    return type;
}

TEST_WITH(test_depth, Fixture *fixture) {
    Wire most = nested_types(&test_arena, WIRE_DEPTH_MAX);
    assert_true(guard_as(fixture, &onnx__type_proto__descriptor, &most, 0));
    Wire more = nested_types(&test_arena, WIRE_DEPTH_MAX + 2);
    assert_false(guard_as(fixture, &onnx__type_proto__descriptor, &more, 0));
    assert_non_null(strstr(fixture->err.what, "nested too deeply"));
}

TEST_WITH(test_group_depth, Fixture *fixture) {
    for (int depth = WIRE_DEPTH_MAX; depth <= WIRE_DEPTH_MAX + 1; depth++) {
        Wire wire = {.arena = &test_arena};
        for (int i = 0; i < depth; i++) build_tag(&wire, 99, WIRE_GROUP);
        for (int i = 0; i < depth; i++) build_tag(&wire, 99, WIRE_GROUP_END);
        assert_int_equal(guard_as(fixture, &onnx__model_proto__descriptor, &wire, 0),
                         depth == WIRE_DEPTH_MAX);
        Wire graph = {.arena = &test_arena}; /* which counts as one of them */
        build_message(&graph, 7, &wire);
        assert_false(guard_as(fixture, &onnx__model_proto__descriptor, &graph, 0));
    }
}

/* The innermost graph holds next to nothing: one more would still be fewer messages than may be. */
TEST_WITH(test_graph_depth, Fixture *fixture) {
    Wire graph = {.arena = &test_arena};
    build_text(&graph, 2, "innermost");
    for (int i = 1; i <= GRAPH_NESTING_MAX + 1; i++) {
        Wire attribute = {.arena = &test_arena}, node = {.arena = &test_arena};
        Wire model = {.arena = &test_arena};
        char name[16];
        snprintf(name, sizeof name, "node%d", i);
        build_message(&attribute, 6, &graph);
        build_text(&node, 2, "output");
        if (i % 2 == 0) build_text(&node, 3, name);
        build_text(&node, 4, "If");
        build_message(&node, 5, &attribute);
        graph = (Wire){.arena = &test_arena};
        build_message(&graph, 1, &node);
        build_message(&model, 7, &graph);
        if (i == GRAPH_NESTING_MAX) {
            assert_true(guard_as(fixture, &onnx__model_proto__descriptor, &model, 0));
            assert_int_equal(fixture->shadow.records.count, GRAPH_NESTING_MAX + 2);
        } else if (i > GRAPH_NESTING_MAX) {
            refuse(fixture, &model, "graphs are nested more than 31 deep");
            assert_string_equal(fixture->err.node, "node32"); /* the outermost one */
            assert_string_equal(fixture->err.op_type, "If");
        }
    }
}

TEST_WITH(test_size_limit, Fixture *fixture) {
    Source source = {
        .name = "big", .size = WIRE_SIZE_MAX + 1, .memory = (const void *)"", .fd = -1};
    GuardInput input = {.source = &source, .root = &onnx__model_proto__descriptor};
    assert_false(wire_guard(&input, &test_arena, &fixture->shadow, &fixture->err));
    assert_non_null(strstr(fixture->err.what, "too large"));
}

TEST_WITH(test_empty_attributes_bomb, Fixture *fixture) {
    enum { SIZE = 20 << 20 };
    Wire node = {.arena = &test_arena}, model = {.arena = &test_arena};
    node.items = arena_alloc(&test_arena, SIZE);
    for (size_t i = 0; i < SIZE; i += 2) node.items[i] = 5 << 3 | WIRE_BYTES;
    node.count = SIZE;
    Wire graph = {.arena = &test_arena};
    build_message(&graph, 1, &node);
    build_message(&model, 7, &graph);
    refuse(fixture, &model, "memory limit");
    assert_true(guard_as(fixture, &onnx__model_proto__descriptor, &model, UINT64_C(1) << 40));
}

static const Onnx__TensorProto *tensor_with_raw(Fixture *fixture, const void *raw, size_t size) {
    Wire wire = {.arena = &test_arena};
    build_bytes(&wire, 9, raw, size);
    assert_true(guard_as(fixture, &onnx__tensor_proto__descriptor, &wire, 0));
    return (Onnx__TensorProto *)unpack_shadow(fixture, &onnx__tensor_proto__descriptor);
}

TEST_WITH(test_raw_data, Fixture *fixture) {
    unsigned char raw[SHADOW_INLINE_MAX + 1] = {7};
    const Onnx__TensorProto *tensor = tensor_with_raw(fixture, raw, SHADOW_INLINE_MAX);
    assert_int_equal(tensor->raw_data.len, SHADOW_INLINE_MAX + 1);
    assert_int_equal(tensor->raw_data.data[0], SHADOW_INLINE);
    assert_memory_equal(tensor->raw_data.data + 1, raw, SHADOW_INLINE_MAX);
    tensor = tensor_with_raw(fixture, raw, SHADOW_INLINE_MAX + 1);
    static const unsigned char reference[SHADOW_REFERENCE_SIZE] = {
        SHADOW_REFERENCE, 3, [9] = 1, [10] = 1}; /* after tag and two bytes of length: 257 */
    assert_int_equal(tensor->raw_data.len, SHADOW_REFERENCE_SIZE);
    assert_memory_equal(tensor->raw_data.data, reference, SHADOW_REFERENCE_SIZE);
    tensor = tensor_with_raw(fixture, reference, sizeof reference); /* a forged one stays data */
    assert_int_equal(tensor->raw_data.len, SHADOW_REFERENCE_SIZE + 1);
    assert_int_equal(tensor->raw_data.data[0], SHADOW_INLINE);
    tensor = tensor_with_raw(fixture, raw, 0);
    assert_int_equal(tensor->raw_data.len, 1);
}

TEST_WITH(test_forged_graph_index, Fixture *fixture) {
    Wire graph = {.arena = &test_arena}, attribute = {.arena = &test_arena};
    build_bytes(&graph, 2, "\xff\xff\xff\x7f", 4);
    build_message(&attribute, 6, &graph);
    build_message(&attribute, 6, &graph); /* in two parts */
    build_message(&attribute, 11, &graph);
    assert_true(guard_as(fixture, &onnx__attribute_proto__descriptor, &attribute, 0));
    const Onnx__AttributeProto *proto =
        (Onnx__AttributeProto *)unpack_shadow(fixture, &onnx__attribute_proto__descriptor);
    assert_int_equal(fixture->shadow.records.count, 2);
    assert_memory_equal(proto->g->name.data, "\0\0\0\0", 4);
    assert_memory_equal(proto->graphs[0]->name.data, "\1\0\0\0", 4);
    assert_int_equal(fixture->shadow.records.items[0]->remainder.count, 2);
}

TEST_WITH(test_escapes, Fixture *fixture) {
    Wire wire = {.arena = &test_arena};
    build_int(&wire, 2, 5);            /* dim_param as a number */
    build_tag(&wire, 1, WIRE_FIXED32); /* dim_value as fixed32 */
    build_raw(&wire, "abcd", 4);
    build_tag(&wire, 50, WIRE_GROUP);
    build_int(&wire, 1, 1);
    build_tag(&wire, 50, WIRE_GROUP_END);
    build_text(&wire, SHADOW_ESCAPE, "mine");
    build_int(&wire, 51, 1); /* plainly unknown: no escape */
    assert_true(guard_as(fixture, &onnx__tensor_shape_proto__dimension__descriptor, &wire, 0));
    assert_true(fixture->shadow.escapes);
    const ProtobufCMessage *message =
        unpack_shadow(fixture, &onnx__tensor_shape_proto__dimension__descriptor);
    assert_int_equal(message->n_unknown_fields, 5);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(message->unknown_fields[i].tag, SHADOW_ESCAPE);
    assert_int_equal(message->unknown_fields[4].tag, 51);
}

TEST_WITH(test_split_submessages, Fixture *fixture) {
    Wire first = {.arena = &test_arena}, second = {.arena = &test_arena};
    Wire sparse = {.arena = &test_arena};
    Wire from = {.arena = &test_arena}, to = {.arena = &test_arena};
    build_int(&from, 98, 1); /* a segment: parts within the parts */
    build_int(&to, 98, 1);
    build_message(&first, 3, &from);
    build_message(&second, 3, &to);
    build_int(&first, 1, 2);
    build_text(&first, 8, "name");
    build_text(&first, 9, "old");
    build_int(&first, 99, 1);
    build_int(&second, 1, 3);
    build_text(&second, 9, "new");
    build_int(&second, 99, 2);
    build_message(&sparse, 1, &first);
    build_int(&sparse, 3, 4);
    build_message(&sparse, 1, &second);
    assert_true(guard_as(fixture, &onnx__sparse_tensor_proto__descriptor, &sparse, 0));
    const Onnx__SparseTensorProto *proto =
        (Onnx__SparseTensorProto *)unpack_shadow(fixture, &onnx__sparse_tensor_proto__descriptor);
    assert_int_equal(proto->n_dims, 1);
    assert_int_equal(proto->values->n_dims, 2);
    assert_int_equal(proto->values->dims[1], 3);
    assert_int_equal(proto->values->name.len, 4);
    assert_memory_equal(proto->values->raw_data.data, "\0new", 4);
    assert_int_equal(proto->values->base.n_unknown_fields, 2);
    assert_int_equal(proto->values->segment->base.n_unknown_fields, 2);
}

/* tensor, sequence, tensor: the first is gone, as protobuf replaces a oneof's other case. */
TEST_WITH(test_split_oneof, Fixture *fixture) {
    Wire float_type = {.arena = &test_arena}, shaped = {.arena = &test_arena};
    Wire empty = {.arena = &test_arena}, type = {.arena = &test_arena};
    build_int(&float_type, 1, 1);
    build_message(&shaped, 2, &empty);
    build_message(&type, 1, &float_type);
    build_message(&type, 4, &empty);
    build_message(&type, 1, &shaped);
    assert_true(guard_as(fixture, &onnx__type_proto__descriptor, &type, 0));
    const Onnx__TypeProto *proto =
        (Onnx__TypeProto *)unpack_shadow(fixture, &onnx__type_proto__descriptor);
    assert_int_equal(proto->value_case, ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE);
    assert_false(proto->tensor_type->has_elem_type);
    assert_non_null(proto->tensor_type->shape);
}

/* What the guard and wire_merge take for granted of the schema. */
static void check_descriptor(const ProtobufCMessageDescriptor *descriptor, int depth) {
    unsigned oneof_offset = 0;
    assert_true(descriptor->n_fields <= 64);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        assert_int_not_equal(field->type, PROTOBUF_C_TYPE_STRING); /* NULs must survive */
        assert_int_not_equal(field->type, PROTOBUF_C_TYPE_FIXED32);
        assert_int_not_equal(field->type, PROTOBUF_C_TYPE_FIXED64);
        assert_int_not_equal(field->label, PROTOBUF_C_LABEL_REQUIRED);
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
            if (oneof_offset) assert_int_equal(oneof_offset, field->quantifier_offset);
            oneof_offset = field->quantifier_offset;
        }
        if (field->type == PROTOBUF_C_TYPE_MESSAGE && depth < 7)
            check_descriptor(field->descriptor, depth + 1);
    }
}

TEST(test_schema_facts) {
    check_descriptor(&onnx__model_proto__descriptor, 0);
}
