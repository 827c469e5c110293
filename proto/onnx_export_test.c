// SPDX-License-Identifier: Apache-2.0
/* What the export writes, byte by byte where it matters, read back by protobuf-c. */
#include "onnx_export.h"

#include <onnx.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "hash64.h"
#include "onnx_fields.h"
#include "onnx_import.h"
#include "unit_test.h"

typedef struct Output {
    Arena *arena;
    unsigned char *bytes;
    size_t size, capacity;
    size_t fail_after; /* bytes; 0: never */
} Output;

static bool output_write(void *data, const void *bytes, size_t size, Err *err) {
    Output *output = data;
    if (output->fail_after && output->size + size > output->fail_after)
        return err_set(err, ERR_ENV, "sink is full");
    while (output->size + size > output->capacity)
        output->bytes = vec_grow(output->arena, output->bytes, &output->capacity, 1);
    memcpy(output->bytes + output->size, bytes, size);
    output->size += size;
    return true;
}

typedef struct Fixture {
    Arena scratch;
    Model *model;
    Output out, data;
    ByteSink to_out, to_data;
    Err err;
} Fixture;

static int setup(void **state) {
    Fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    arena_init(&f->scratch, &test_trap);
    f->model = model_new(&test_trap);
    f->model->has_ir_version = true;
    f->model->ir_version = 10;
    model_import_opset(f->model, &f->model->opsets, NULL, 21);
    f->out.arena = f->data.arena = &f->scratch;
    f->to_out = (ByteSink){.write = output_write, .data = &f->out};
    f->to_data = (ByteSink){.write = output_write, .data = &f->data};
    *state = f;
    return 0;
}

static int teardown(void **state) {
    Fixture *f = *state;
    model_free(f->model);
    arena_free(&f->scratch);
    free(f);
    return 0;
}
TEST_FIXTURE(setup, teardown);

static Sym name(Fixture *f, const char *text) {
    return sym_intern_cstr(&f->model->syms, text);
}

static Node *add_node(Fixture *f, const char *op) {
    Node *node = node_new(f->model->graph, NULL, name(f, op), NULL);
    node_resize_outputs(node, 1);
    node_set_output(node, 0, value_new(f->model->graph, sym_fresh(&f->model->syms, "v")));
    return node;
}

/* An initializer of count floats 0, 1, 2, … */
static Value *add_weights(Fixture *f, const char *text, int64_t count) {
    float *data = ARENA_ARRAY(&f->scratch, float, (size_t)count);
    for (int64_t i = 0; i < count; i++) data[i] = (float)i;
    Value *value = value_new(f->model->graph, name(f, text));
    value_set_init(value, tensor_new_raw(&f->model->arena, DTYPE_FLOAT, &count, 1, data,
                                         (uint64_t)count * sizeof *data));
    return value;
}

static void export_ok(Fixture *f) {
    f->out.size = 0;
    if (!onnx_export(f->model, &f->scratch, &f->to_out, &f->err)) fail_msg("%s", f->err.what);
}

static Onnx__ModelProto *unpack(Fixture *f) {
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, f->out.size, f->out.bytes);
    assert_non_null(proto);
    return proto;
}

/* ---- fields ---------------------------------------------------------------------------------- */

TEST(test_field_numbers){
#define CHECK(enumerator, message, text, number)                                                   \
    {                                                                                              \
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(   \
            &onnx__##message##__descriptor, #text);                                                \
        assert_non_null(field);                                                                    \
        assert_int_equal(field->id, enumerator);                                                   \
    }
    ONNX_FIELDS(CHECK)
#undef CHECK
}

TEST_WITH(test_exact_bytes, Fixture *f) {
    Node *node = add_node(f, "Neg");
    node_resize_inputs(node, 2); /* both omitted */
    node_set_attr_int(node, "i", -1);
    f->model->graph->name = name(f, "");
    export_ok(f);
    static const unsigned char expected[] =
        "\x08\x0a"                                     /* ir_version: 10 */
        "\x3a\x23"                                     /* graph */
        "\x0a\x1f"                                     /* node */
        "\x0a\x00\x0a\x00"                             /* input "", "" */
        "\x12\x01v"                                    /* output */
        "\x22\x03Neg"                                  /* op_type */
        "\x2a\x11"                                     /* attribute */
        "\x0a\x01i"                                    /* name */
        "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" /* i: -1 */
        "\xa0\x01\x02"                                 /* type: INT */
        "\x12\x00"                                     /* graph name "" is present */
        "\x42\x02\x10\x15";                            /* opset_import: version 21 */
    assert_int_equal(f->out.size, sizeof expected - 1);
    assert_memory_equal(f->out.bytes, expected, sizeof expected - 1);
}

TEST_WITH(test_rest_is_merged_by_number, Fixture *f) {
    /* Field 1000, metadata_props (14) with one key, producer_name (2) as a varint, domain (4). */
    static const unsigned char rest[] = "\xc2\x3e\x01u"
                                        "\x72\x03\x0a\x01k"
                                        "\x10\x05"
                                        "\x22\x01"
                                        "d";
    f->model->rest = (Bytes){rest, sizeof rest - 1};
    f->model->has_model_version = true;
    export_ok(f);
    static const unsigned char expected[] = "\x08\x0a"
                                            "\x22\x01"
                                            "d"
                                            "\x28\x00"
                                            "\x3a\x00"
                                            "\x42\x02\x10\x15"
                                            "\x72\x03\x0a\x01k"
                                            "\xc2\x3e\x01u"
                                            "\x10\x05"; /* wrong wire type: unknown to protobuf */
    assert_int_equal(f->out.size, sizeof expected - 1);
    assert_memory_equal(f->out.bytes, expected, sizeof expected - 1);
}

TEST_WITH(test_groups_are_kept_and_rubbish_refused, Fixture *f) {
    static const unsigned char group[] =
        "\xc3\x3e\x08\x01\xcb\x3e\xcc\x3e\xc4\x3e"; /* nested, too */
    f->model->rest = (Bytes){group, sizeof group - 1};
    export_ok(f);
    assert_memory_equal(f->out.bytes + f->out.size - (sizeof group - 1), group, sizeof group - 1);
    static const char *const bad[] = {"\xc2\x3e\x09u", "\xc4\x3e", "\xc3\x3e",
                                      "\xc6\x3e",      "\x02",     "\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Err err = {0};
        f->model->rest = (Bytes){(const unsigned char *)bad[i], strlen(bad[i])};
        assert_false(onnx_export(f->model, &f->scratch, &f->to_out, &err));
        assert_int_equal(err.code, ERR_MODEL);
    }
}

/* ---- tensors --------------------------------------------------------------------------------- */

TEST_WITH(test_lazy_cast_becomes_raw, Fixture *f) {
    Value *w = add_weights(f, "w", 3000);
    value_set_init(w, tensor_new_cast(&f->model->arena, w->init, DTYPE_FLOAT16));
    value_rename(w, name(f, "renamed"));
    export_ok(f);
    Onnx__ModelProto *proto = unpack(f);
    const Onnx__TensorProto *tensor = proto->graph->initializer[0];
    assert_int_equal(tensor->data_type, DTYPE_FLOAT16);
    assert_int_equal(tensor->raw_data.len, 6000);
    const uint16_t *halves = (const uint16_t *)(const void *)tensor->raw_data.data;
    assert_int_equal(halves[1], 0x3c00);
    assert_int_equal(halves[2048], 0x6800);
    assert_memory_equal(tensor->name.data, "renamed", 7);
    onnx__model_proto__free_unpacked(proto, NULL);
}

TEST_WITH(test_typed_fields_stay, Fixture *f) {
    static const int32_t entries[] = {-1, 0, 300};
    static const int64_t dims[] = {3};
    Tensor *tensor = ARENA_NEW(&f->model->arena, Tensor);
    *tensor = (Tensor){.dtype = DTYPE_INT32,
                       .has_dtype = true,
                       .storage = TENSOR_INT32S,
                       .rank = 1,
                       .dims = dims,
                       .bytes = (const unsigned char *)entries,
                       .size = sizeof entries};
    value_set_init(value_new(f->model->graph, name(f, "w")), tensor);
    export_ok(f);
    Onnx__ModelProto *proto = unpack(f);
    assert_int_equal(f->out.size, onnx__model_proto__get_packed_size(proto)); /* -1: ten bytes */
    assert_int_equal(proto->graph->initializer[0]->n_int32_data, 3);
    assert_memory_equal(proto->graph->initializer[0]->int32_data, entries, sizeof entries);
    assert_false(proto->graph->initializer[0]->has_raw_data);
    onnx__model_proto__free_unpacked(proto, NULL);
}

TEST_WITH(test_external_data, Fixture *f) {
    add_weights(f, "small", 255); /* 1,020 bytes: stays */
    add_weights(f, "middle", 300);
    add_weights(f, "large", 1 << 18); /* 1 MiB */
    add_weights(f, "last", 1 << 14);
    /* No elements, but external: at 0, not at the file's end. */
    const KeyValue old = {.key = name(f, "checksum"), .value = name(f, "of another file")};
    const Tensor none = {.storage = TENSOR_EXTERNAL,
                         .dtype = DTYPE_FLOAT,
                         .has_dtype = true,
                         .rank = 1,
                         .external = &old};
    const int64_t no_elements = 0;
    Tensor *empty = arena_copy(&f->scratch, &none, sizeof none);
    empty->dims = &no_elements;
    value_set_init(value_new(f->model->graph, sym_fresh(&f->model->syms, "empty")), empty);
    value_set_init(value_new(f->model->graph, sym_fresh(&f->model->syms, "empty")),
                   tensor_new_cast(&f->model->arena, empty, DTYPE_FLOAT16));
    node_set_attr_tensor(add_node(f, "Constant"), "value", add_weights(f, "attr", 1000)->init);
    const ExportOptions options = {.external = true, .data_name = "m.0000.data"};
    ExportPlan *plan = onnx_export_plan(f->model, &options, &f->scratch, &f->err);
    assert_non_null(plan);
    assert_true(onnx_export_data(plan, &f->to_data, &f->err));
    assert_true(onnx_export_model(plan, "m.12ab.data", &f->to_out, &f->err));
    assert_int_equal(f->out.size, export_plan_size(plan));
    assert_int_equal(f->data.size, export_plan_data_size(plan));
    Onnx__ModelProto *proto = unpack(f);
    static const unsigned long long offsets[] = {0, 0, 1 << 16, (1 << 16) + (1 << 20), 0, 0};
    assert_true(proto->graph->initializer[0]->has_raw_data);
    for (size_t i = 1; i < 6; i++) {
        const Onnx__TensorProto *tensor = proto->graph->initializer[i];
        assert_false(tensor->has_raw_data);
        assert_int_equal(tensor->data_location, ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
        assert_int_equal(tensor->n_external_data, 3);
        assert_memory_equal(tensor->external_data[0]->value.data, "m.12ab.data", 11);
        char offset[24] = "";
        memcpy(offset, tensor->external_data[1]->value.data, tensor->external_data[1]->value.len);
        assert_int_equal(strtoull(offset, NULL, 10), offsets[i]);
        const Tensor *source = f->model->graph->initializers.items[i]->init;
        assert_memory_equal(f->data.bytes + offsets[i], source->bytes, source->size);
        Tensor *read = tensor_new_raw(&f->scratch, DTYPE_FLOAT, source->dims, source->rank,
                                      f->data.bytes + offsets[i], source->size);
        assert_true(export_plan_same_data(plan, source, read, &f->err));
        if (*source->dims == 0) continue;
        f->data.bytes[offsets[i] + source->size - 1] ^= 1;
        read = tensor_new_raw(&f->scratch, DTYPE_FLOAT, source->dims, source->rank,
                              f->data.bytes + offsets[i], source->size);
        assert_false(export_plan_same_data(plan, source, read, &f->err));
        f->err = (Err){0};
    }
    assert_true(proto->graph->node[0]->attribute[0]->t->has_raw_data);
    onnx__model_proto__free_unpacked(proto, NULL);
}

/* Tensors of 3 GiB that are never read: only measured. */
TEST_WITH(test_too_large_goes_external, Fixture *f) {
    static const int64_t dims[] = {3, 1 << 28};
    Tensor *tensor = ARENA_NEW(&f->model->arena, Tensor);
    *tensor = (Tensor){.dtype = DTYPE_FLOAT,
                       .has_dtype = true,
                       .storage = TENSOR_RAW,
                       .rank = 2,
                       .dims = dims,
                       .size = UINT64_C(3) << 30};
    node_set_attr_tensor(add_node(f, "Constant"), "value", tensor);
    ExportOptions options = {.data_name = "d"};
    ExportPlan *plan = onnx_export_plan(f->model, &options, &f->scratch, &f->err);
    assert_non_null(plan);
    assert_true(export_plan_data_size(plan) == UINT64_C(3) << 30);
    assert_true(export_plan_size(plan) < 1000);
    options.data_name = NULL; /* a pipe */
    assert_null(onnx_export_plan(f->model, &options, &f->scratch, &f->err));
    assert_int_equal(f->err.code, ERR_ENV);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void expect_refused(Fixture *f, ErrCode code, const char *what) {
    f->out.size = 0;
    assert_false(onnx_export(f->model, &f->scratch, &f->to_out, &f->err));
    assert_int_equal(f->err.code, code);
    if (!strstr(f->err.what, what)) fail_msg("'%s' instead of '%s'", f->err.what, what);
}

TEST_WITH(test_fused_operators_are_refused, Fixture *f) {
    Node *node = add_node(f, "ConvRelu");
    node->domain = name(f, "demi.fused");
    expect_refused(f, ERR_MODEL, "demi.fused");
    assert_string_equal(f->err.op_type, "ConvRelu");
    assert_int_equal(f->out.size, 0);
}

TEST_WITH(test_function_initializers_are_refused, Fixture *f) {
    Function *function = ARENA_NEW(&f->model->arena, Function);
    function->name = name(f, "F");
    function->body = graph_new(f->model, NULL);
    function->body->function = function;
    model_add_function(f->model, function);
    export_ok(f);
    value_set_init(value_new(function->body, name(f, "w")),
                   tensor_new_float_scalar(&f->model->arena, 1));
    expect_refused(f, ERR_MODEL, "initializers");
}

/* A graph that holds a node that holds a graph … */
static void nest_graphs(Fixture *f, unsigned levels) {
    Graph *graph = f->model->graph;
    for (unsigned i = 0; i < levels; i++) {
        Node *node = node_new(graph, NULL, name(f, "If"), NULL);
        if (!i) node->name = name(f, "outermost");
        node_set_attr_int(node, "then_branch", 0);
        Graph *inner = graph_new(f->model, graph);
        inner->owner = node;
        node->attrs->type = ATTR_GRAPH;
        node->attrs->v.g = inner;
        graph = inner;
    }
}

TEST_WITH(test_nesting_is_limited, Fixture *f) {
    nest_graphs(f, GRAPH_NESTING_MAX);
    export_ok(f);
    Err err = {0};
    Model *again = onnx_import_memory(&(ImportBytes){f->out.bytes, f->out.size, "nested"}, NULL,
                                      &test_trap, &err);
    if (!again) fail_msg("%s", err.what);
    assert_true(model_compare(f->model, again, NULL, &err));
    model_free(again);
    nest_graphs(f, 50000); /* deeper than the stack, if it were walked */
    expect_refused(f, ERR_MODEL, "graphs are nested more than 31 deep");
    assert_string_equal(f->err.node, "outermost");
    assert_string_equal(f->err.op_type, "If");
}

TEST_WITH(test_deep_types_are_refused, Fixture *f) {
    const Type *type = type_plain_tensor(DTYPE_FLOAT);
    for (int i = 0; i < 50000; i++) type = type_new_wrapped(&f->scratch, TYPE_SEQUENCE, type);
    node_set_attr_type(add_node(f, "Optional"), "type", type);
    expect_refused(f, ERR_MODEL, "nested");
}

TEST_WITH(test_sink_errors_end_it, Fixture *f) {
    add_weights(f, "w", 1 << 20);
    f->out.fail_after = 1000;
    expect_refused(f, ERR_ENV, "sink is full");
    assert_true(f->out.size <= 1000);
}
