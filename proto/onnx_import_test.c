// SPDX-License-Identifier: Apache-2.0
/* The importer on small hand-written models: names, captures, what is kept, what is refused. */
#include "onnx_export.h"
#include "onnx_import.h"
#include "unit_test.h"
#include "verify.h"
#include "wire_build.h"

enum { MODEL_IR = 1, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_TRAINING = 20, MODEL_FUNCTION = 25 };
enum { GRAPH_NODE = 1, GRAPH_INIT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_INFO = 13 };

typedef struct Fixture {
    MemTrap trap;
    Arena arena;
    Err err;
    Model *model;
} Fixture;

static Fixture *begin(void) {
    static Fixture fixture;
    fixture = (Fixture){0};
    arena_init(&fixture.arena, NULL); /* out of memory aborts the test */
    return &fixture;
}

static void end(Fixture *fixture) {
    model_free(fixture->model);
    arena_free(&fixture->arena);
}

static Wire wire_new(Fixture *fixture) {
    return (Wire){.arena = &fixture->arena};
}

/* A node; inputs and outputs are space-separated names, "-" for an omitted one. */
static void add_names(Wire *node, uint32_t field, const char *names) {
    while (*names) {
        size_t length = strcspn(names, " ");
        bool omitted = length == 1 && names[0] == '-';
        build_bytes(node, field, names, omitted ? 0 : length);
        names += length + strspn(names + length, " ");
    }
}

static Wire node_wire(Fixture *fixture, const char *op, const char *inputs, const char *outputs) {
    Wire node = wire_new(fixture);
    add_names(&node, 1, inputs);
    add_names(&node, 2, outputs);
    build_text(&node, 4, op);
    return node;
}

static void add_node(Fixture *fixture, Wire *graph, const char *op, const char *names[2]) {
    Wire node = node_wire(fixture, op, names[0], names[1]);
    build_message(graph, GRAPH_NODE, &node);
}
#define ADD_NODE(graph, op, inputs, outputs)                                                       \
    add_node(fixture, (graph), (op), (const char *[2]){(inputs), (outputs)})

/* A ValueInfoProto: a float tensor of unknown shape. */
static void add_value(Fixture *fixture, Wire *graph, uint32_t field, const char *name) {
    Wire tensor = wire_new(fixture), type = wire_new(fixture), info = wire_new(fixture);
    build_int(&tensor, 1, 1);
    build_message(&type, 1, &tensor);
    build_text(&info, 1, name);
    build_message(&info, 2, &type);
    build_message(graph, field, &info);
}

static void add_init(Fixture *fixture, Wire *graph, const char *name) {
    Wire tensor = wire_new(fixture);
    build_int(&tensor, 1, 1);
    build_int(&tensor, 2, 1);
    build_text(&tensor, 8, name);
    build_bytes(&tensor, 9, "\0\0\x80\x3f", 4);
    build_message(graph, GRAPH_INIT, &tensor);
}

static Wire model_wire(Fixture *fixture, const Wire *graph) {
    Wire model = wire_new(fixture), opset = wire_new(fixture);
    build_int(&model, MODEL_IR, 8);
    build_message(&model, MODEL_GRAPH, graph);
    build_int(&opset, 2, 17);
    build_message(&model, MODEL_OPSET, &opset);
    return model;
}

static bool import(Fixture *fixture, const Wire *wire) {
    model_free(fixture->model);
    fixture->err = (Err){0};
    ImportBytes bytes = {.bytes = wire->items, .size = wire->count, .name = "test.onnx"};
    fixture->model = onnx_import_memory(&bytes, NULL, &fixture->trap, &fixture->err);
    return fixture->model != NULL;
}

static Model *import_graph(Fixture *fixture, const Wire *graph) {
    Wire wire = model_wire(fixture, graph);
    if (!import(fixture, &wire)) fail_msg("%s", fixture->err.what);
    assert_int_equal(fixture->model->edits, 0);
    return fixture->model;
}

static void refuse_graph(Fixture *fixture, const Wire *graph, const char *what) {
    Wire wire = model_wire(fixture, graph);
    assert_false(import(fixture, &wire));
    assert_int_equal(fixture->err.code, ERR_MODEL);
    assert_string_equal(fixture->err.file, "test.onnx");
    if (!strstr(fixture->err.what, what))
        fail_msg("expected '%s', got '%s'", what, fixture->err.what);
}

static bool sink_write(void *data, const void *bytes, size_t size, Err *err) {
    (void)err;
    build_raw(data, bytes, size);
    return true;
}

/* The model as it is written after an edit. */
static Wire export_changed(Fixture *fixture) {
    Wire out = wire_new(fixture);
    ByteSink sink = {.write = sink_write, .data = &out};
    model_touch(fixture->model);
    if (!onnx_export(fixture->model, &fixture->arena, &sink, &fixture->err))
        fail_msg("%s", fixture->err.what);
    return out;
}

static void assert_same(const Wire *a, const Wire *b) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->items, b->items, a->count);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void test_unsorted_graph(void **state) {
    (void)state;
    Fixture *fixture = begin();
    Wire graph = wire_new(fixture);
    ADD_NODE(&graph, "Relu", "a", "y");
    ADD_NODE(&graph, "Add", "x w -", "a");
    add_value(fixture, &graph, GRAPH_OUTPUT, "y");
    add_init(fixture, &graph, "w");
    add_value(fixture, &graph, GRAPH_INPUT, "x");
    const Graph *main = import_graph(fixture, &graph)->graph;
    const Node *relu = main->first, *add = relu->next;
    assert_false(model_verify(fixture->model, &fixture->arena, NULL)); /* unsorted, but read */
    assert_ptr_equal(relu->inputs[0].value, add->outputs[0]);
    assert_ptr_equal(add->inputs[0].value, main->inputs.items[0]);
    assert_ptr_equal(add->inputs[1].value, main->initializers.items[0]);
    assert_null(add->inputs[2].value);
    assert_int_equal(add->input_count, 3);
    assert_ptr_equal(main->outputs.items[0]->use.value, relu->outputs[0]);
    assert_int_equal(main->undefined.count, 0);
    assert_int_equal(type_dtype(main->inputs.items[0]->type), DTYPE_FLOAT);
    assert_int_equal(type_dtype(relu->outputs[0]->type), DTYPE_FLOAT); /* from the output */
    assert_null(add->outputs[0]->type);
    end(fixture);
}

static void test_captures(void **state) {
    (void)state;
    Fixture *fixture = begin();
    Wire inner = wire_new(fixture), branch = wire_new(fixture), graph = wire_new(fixture);
    ADD_NODE(&inner, "Add", "late x", "z");
    ADD_NODE(&inner, "Neg", "nowhere", "n");
    add_value(fixture, &inner, GRAPH_OUTPUT, "z");
    add_value(fixture, &inner, GRAPH_OUTPUT, "late"); /* says nothing of the graph around it */
    Wire attribute = wire_new(fixture), node = node_wire(fixture, "If", "x", "b");
    build_text(&attribute, 1, "then_branch");
    build_message(&attribute, 6, &inner);
    build_int(&attribute, 20, ATTR_GRAPH);
    build_message(&node, 5, &attribute);
    build_message(&branch, GRAPH_NODE, &node);
    Wire holder = wire_new(fixture), list = node_wire(fixture, "Custom", "", "y");
    build_text(&holder, 1, "bodies");
    build_message(&holder, 11, &branch);
    build_message(&holder, 11, &branch);
    build_int(&holder, 20, ATTR_GRAPHS);
    build_message(&list, 5, &holder);
    build_message(&graph, GRAPH_NODE, &list);
    ADD_NODE(&graph, "Neg", "x", "late");
    add_value(fixture, &graph, GRAPH_INPUT, "x");
    const Graph *main = import_graph(fixture, &graph)->graph;
    const Attr *bodies = node_attr(main->first, "bodies");
    assert_int_equal(bodies->count, 2);
    const Graph *second = bodies->v.graphs[1];
    const Graph *deepest = node_attr(second->first, "then_branch")->v.g;
    assert_ptr_equal(deepest->parent, second);
    assert_ptr_equal(deepest->owner, second->first);
    assert_ptr_equal(second->parent, main);
    assert_ptr_equal(deepest->first->inputs[0].value, main->last->outputs[0]);
    assert_ptr_equal(deepest->first->inputs[1].value, main->inputs.items[0]);
    assert_non_null(deepest->first->outputs[0]->type);
    assert_null(main->last->outputs[0]->type);
    assert_int_equal(deepest->undefined.count, 1);
    assert_string_equal(deepest->undefined.items[0]->name->text, "nowhere");
    assert_int_equal(main->undefined.count, 0);
    end(fixture);
}

static void test_infos(void **state) {
    (void)state;
    Fixture *fixture = begin();
    Wire graph = wire_new(fixture);
    ADD_NODE(&graph, "Relu", "stale", "a");
    add_value(fixture, &graph, GRAPH_INFO, "a");
    add_value(fixture, &graph, GRAPH_INFO, "stale");
    add_value(fixture, &graph, GRAPH_INFO, "gone");
    add_value(fixture, &graph, GRAPH_INFO, "a"); /* twice: a mention */
    const Graph *main = import_graph(fixture, &graph)->graph;
    assert_int_equal(main->infos.count, 4);
    assert_true(main->model->mentions);
    assert_ptr_not_equal(main->infos.items[3], main->infos.items[0]);
    assert_ptr_equal(main->infos.items[3]->name, main->infos.items[0]->name);
    assert_ptr_equal(main->infos.items[0], main->first->outputs[0]);
    assert_int_equal(main->undefined.count, 1); /* read, not just declared */
    assert_ptr_equal(main->undefined.items[0], main->infos.items[1]);
    assert_int_equal(main->rest.size, 0);
    Wire before = model_wire(fixture, &graph), after = export_changed(fixture);
    assert_same(&before, &after);
    end(fixture);
}

static void test_second_definitions(void **state) {
    (void)state;
    Fixture *fixture = begin();
    const struct {
        uint32_t first, second;
    } cases[] = {{GRAPH_INPUT, GRAPH_INPUT},
                 {GRAPH_INIT, GRAPH_INIT},
                 {GRAPH_NODE, GRAPH_NODE},
                 {GRAPH_INPUT, GRAPH_NODE},
                 {GRAPH_NODE, GRAPH_INIT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Wire graph = wire_new(fixture);
        for (int k = 0; k < 2; k++) {
            uint32_t field = k ? cases[i].second : cases[i].first;
            if (field == GRAPH_NODE)
                ADD_NODE(&graph, "Op", "", "twice");
            else if (field == GRAPH_INIT)
                add_init(fixture, &graph, "twice");
            else
                add_value(fixture, &graph, field, "twice");
        }
        refuse_graph(fixture, &graph, "a second definition of 'twice'");
    }
    Wire graph = wire_new(fixture);
    add_init(fixture, &graph, "x");
    add_value(fixture, &graph, GRAPH_INPUT, "x"); /* an input with a default */
    import_graph(fixture, &graph);
    const Value *x = fixture->model->graph->inputs.items[0];
    assert_true(x->init && x->input && fixture->model->value_count == 1);
    end(fixture);
}

/* ---- what a file must have ------------------------------------------------------------------- */

static void test_required_fields(void **state) {
    (void)state;
    Fixture *fixture = begin();
    for (int left_out = 0; left_out < 4; left_out++) {
        Wire model = wire_new(fixture), opset = wire_new(fixture), graph = wire_new(fixture);
        build_int(&opset, 2, 17);
        if (left_out != 0) build_int(&model, MODEL_IR, 8);
        if (left_out != 1) build_message(&model, MODEL_OPSET, &opset);
        if (left_out != 2) build_message(&model, MODEL_GRAPH, &graph);
        const char *names[] = {"ir_version", "opset_import", "graph"};
        assert_int_equal(import(fixture, &model), left_out == 3);
        if (left_out < 3) assert_non_null(strstr(fixture->err.what, names[left_out]));
    }
    end(fixture);
}

static void test_missing_file(void **state) {
    (void)state;
    Fixture *fixture = begin();
    assert_null(onnx_import_file("/nonexistent/x.onnx", NULL, &fixture->trap, &fixture->err));
    assert_int_equal(fixture->err.code, ERR_USAGE);
    assert_string_equal(fixture->err.file, "/nonexistent/x.onnx");
    end(fixture);
}

static void test_external_without_folder(void **state) {
    (void)state;
    Fixture *fixture = begin();
    Wire graph = wire_new(fixture), tensor = wire_new(fixture), entry = wire_new(fixture);
    build_text(&entry, 1, "location");
    build_text(&entry, 2, "data");
    build_text(&tensor, 8, "w");
    build_message(&tensor, 13, &entry);
    build_int(&tensor, 14, 1);
    build_message(&graph, GRAPH_INIT, &tensor);
    refuse_graph(fixture, &graph, "in no folder");
    assert_string_equal(fixture->err.operand, "tensor 'w'");
    end(fixture);
}

/* ---- attributes and tensors ------------------------------------------------------------------ */

static Attr *import_attribute(Fixture *fixture, const Wire *attribute) {
    Wire graph = wire_new(fixture), node = node_wire(fixture, "Op", "", "y");
    build_message(&node, 5, attribute);
    build_message(&graph, GRAPH_NODE, &node);
    return import_graph(fixture, &graph)->graph->first->attrs;
}

static void test_attribute_without_type(void **state) {
    (void)state;
    Fixture *fixture = begin();
    Wire attribute = wire_new(fixture);
    build_text(&attribute, 1, "axis");
    build_int(&attribute, 3, (uint64_t)-1);
    const Attr *attr = import_attribute(fixture, &attribute);
    assert_int_equal(attr->type, ATTR_INT);
    assert_false(attr->has_type);
    assert_int_equal(attr->v.i, -1);
    assert_null(attr->also);
    end(fixture);
}

static void test_attribute_with_several_values(void **state) {
    (void)state;
    Fixture *fixture = begin();
    unsigned char large[300] = {5};
    Wire attribute = wire_new(fixture), tensor = wire_new(fixture);
    build_text(&attribute, 1, "a");
    build_int(&attribute, 3, 7);
    build_bytes(&tensor, 9, large, sizeof large);
    build_message(&attribute, 5, &tensor);
    build_int(&attribute, 20, ATTR_INT);
    const Attr *attr = import_attribute(fixture, &attribute);
    assert_int_equal(attr->type, ATTR_INT);
    assert_true(attr->has_value);
    assert_int_equal(attr->rest.size, 0);
    assert_int_equal(attr->also->type, ATTR_TENSOR);
    assert_ptr_equal(attr->also->v.t->source, fixture->model->source);
    assert_int_equal(attr->also->v.t->size, sizeof large);
    assert_null(attr->also->also);
    end(fixture);
}

/* The field of the dtype counts; the others are kept. */
static void test_tensor_storage(void **state) {
    (void)state;
    Fixture *fixture = begin();
    Wire attribute = wire_new(fixture), tensor = wire_new(fixture);
    build_text(&attribute, 1, "value");
    build_int(&tensor, 2, DTYPE_INT64);
    build_int(&tensor, 7, 9);
    build_bytes(&tensor, 4, "\0\0\x80\x3f", 4);
    build_int(&tensor, 14, 0);
    build_int(&tensor, 77, 1);
    build_message(&attribute, 5, &tensor);
    build_int(&attribute, 20, ATTR_TENSOR);
    const Tensor *value = import_attribute(fixture, &attribute)->v.t;
    assert_int_equal(value->storage, TENSOR_INT64S);
    assert_int_equal(value->size, 8);
    assert_int_equal(value->bytes[0], 9);
    assert_int_equal(tensor_extra(value)->rest.size,
                     6 + 2 + 3); /* float_data, data_location, the unknown one */
    end(fixture);
}

/* ---- nothing is lost ------------------------------------------------------------------------- */

/* Unknown fields, strange wire types and groups come back from every level of a changed model. */
static void test_unknown_fields_survive(void **state) {
    (void)state;
    Fixture *fixture = begin();
    Wire node = node_wire(fixture, "Op", "x", "y"), graph = wire_new(fixture);
    build_int(&node, 99, 1);
    build_tag(&node, 100, WIRE_GROUP);
    build_text(&node, 1, "inside");
    build_tag(&node, 100, WIRE_GROUP_END);
    build_int(&node, 3, 1); /* name as a number */
    build_message(&graph, GRAPH_NODE, &node);
    build_text(&graph, 2, "g");
    add_value(fixture, &graph, GRAPH_INPUT, "x");
    build_text(&graph, 536870911, "the guard's own number");
    build_int(&graph, GRAPH_NODE, 5); /* node as a number */
    Wire model = wire_new(fixture), opset = wire_new(fixture), device = wire_new(fixture);
    build_int(&model, MODEL_IR, 8);
    build_message(&model, MODEL_GRAPH, &graph);
    build_int(&opset, 2, 17);
    build_message(&model, MODEL_OPSET, &opset);
    build_text(&device, 1, "configuration");
    build_int(&device, 50, 1);
    build_message(&model, 26, &device);
    build_int(&model, 1000, 1);
    assert_true(import(fixture, &model));
    Wire after = export_changed(fixture);
    assert_same(&model, &after);
    end(fixture);
}

/* A graph in two parts and functions between them: both parts are one graph. */
static void test_graph_in_two_parts(void **state) {
    (void)state;
    Fixture *fixture = begin();
    Wire first = wire_new(fixture), second = wire_new(fixture), function = wire_new(fixture);
    ADD_NODE(&first, "Neg", "x", "a");
    build_text(&first, 2, "old");
    ADD_NODE(&second, "Neg", "a", "y");
    build_text(&second, 2, "new");
    build_text(&function, 1, "F");
    Wire model = model_wire(fixture, &first);
    build_message(&model, MODEL_FUNCTION, &function);
    build_message(&model, MODEL_GRAPH, &second);
    assert_true(import(fixture, &model));
    const Graph *main = fixture->model->graph;
    assert_int_equal(main->node_count, 2);
    assert_string_equal(main->name->text, "new");
    assert_ptr_equal(main->last->inputs[0].value, main->first->outputs[0]);
    assert_int_equal(fixture->model->functions.count, 1);
    assert_int_equal(fixture->model->functions.items[0]->body->node_count, 0);
    end(fixture);
}

static void test_functions(void **state) {
    (void)state;
    Fixture *fixture = begin();
    Wire function = wire_new(fixture), attribute = wire_new(fixture), graph = wire_new(fixture);
    Wire opset = wire_new(fixture), node = node_wire(fixture, "Op", "x", "y");
    build_text(&function, 1, "F");
    build_text(&function, 4, "x");
    build_text(&function, 5, "y");
    build_text(&function, 6, "alpha");
    build_message(&function, 7, &node);
    build_int(&opset, 2, 13);
    build_message(&function, 9, &opset);
    build_text(&function, 10, "local");
    build_text(&attribute, 1, "beta");
    build_int(&attribute, 3, 1);
    build_message(&function, 11, &attribute);
    add_value(fixture, &function, 12, "y");
    Wire model = model_wire(fixture, &graph);
    build_message(&model, MODEL_FUNCTION, &function);
    assert_true(import(fixture, &model));
    const Function *read = fixture->model->functions.items[0];
    assert_ptr_equal(read->body->function, read);
    assert_ptr_equal(read->body->opsets, &read->opsets);
    assert_ptr_equal(read->body->first->inputs[0].value, read->body->inputs.items[0]);
    assert_ptr_equal(read->body->outputs.items[0]->use.value, read->body->first->outputs[0]);
    assert_int_equal(read->body->infos.count, 1);
    assert_int_equal(read->attributes.count, 1);
    assert_string_equal(read->attribute_protos->name->text, "beta");
    Wire after = export_changed(fixture);
    assert_same(&model, &after);
    end(fixture);
}

static Wire entry_wire(Fixture *fixture, const char *key, const char *value) {
    Wire entry = wire_new(fixture);
    build_text(&entry, 1, key);
    build_text(&entry, 2, value);
    return entry;
}

static void test_references(void **state) {
    (void)state;
    Fixture *fixture = begin();
    Wire graph = wire_new(fixture), annotation = wire_new(fixture), info = wire_new(fixture);
    Wire scale = entry_wire(fixture, "SCALE_TENSOR", "s"), step = wire_new(fixture);
    add_init(fixture, &graph, "w");
    add_init(fixture, &graph, "s");
    build_text(&annotation, 1, "w");
    build_message(&annotation, 2, &scale);
    build_message(&graph, 14, &annotation);
    ADD_NODE(&step, "Neg", "w", "w_new");
    Wire update = entry_wire(fixture, "w", "w_new"), init = entry_wire(fixture, "w", "none");
    build_message(&info, 2, &step);
    build_message(&info, 3, &init);
    build_message(&info, 4, &update);
    Wire model = model_wire(fixture, &graph);
    build_message(&model, MODEL_TRAINING, &info);
    assert_true(import(fixture, &model));
    const Graph *main = fixture->model->graph;
    const TrainingInfo *training = fixture->model->training.items[0];
    assert_ptr_equal(main->annotations.items[0].tensor.value, main->initializers.items[0]);
    assert_ptr_equal(main->annotations.items[0].params[0].value, main->initializers.items[1]);
    assert_true(main->initializers.items[1]->referenced);
    assert_null(training->initialization);
    assert_ptr_equal(training->update_bindings.items[0].key.value, main->initializers.items[0]);
    assert_ptr_equal(training->update_bindings.items[0].value.value,
                     training->algorithm->first->outputs[0]);
    assert_null(training->initialization_bindings.items[0].value.value);
    assert_ptr_equal(training->algorithm->first->inputs[0].value, main->initializers.items[0]);
    Wire after = export_changed(fixture);
    assert_same(&model, &after);
    end(fixture);
}

UNIT_TESTS(onnx_import_test) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unsorted_graph),
        cmocka_unit_test(test_captures),
        cmocka_unit_test(test_infos),
        cmocka_unit_test(test_second_definitions),
        cmocka_unit_test(test_required_fields),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_external_without_folder),
        cmocka_unit_test(test_attribute_without_type),
        cmocka_unit_test(test_attribute_with_several_values),
        cmocka_unit_test(test_tensor_storage),
        cmocka_unit_test(test_unknown_fields_survive),
        cmocka_unit_test(test_graph_in_two_parts),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
