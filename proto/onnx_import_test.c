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
    Err err;
    Model *model;
} Fixture;

static int set_up(void **state) {
    static Fixture fixture;
    fixture = (Fixture){0};
    *state = &fixture;
    return 0;
}

static int tear_down(void **state) {
    Fixture *fixture = *state;
    model_free(fixture->model);
    return 0;
}
TEST_FIXTURE(set_up, tear_down);

static Wire wire_new(void) {
    return (Wire){.arena = &test_arena};
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

static Wire node_wire(const char *op, const char *inputs, const char *outputs) {
    Wire node = wire_new();
    add_names(&node, 1, inputs);
    add_names(&node, 2, outputs);
    build_text(&node, 4, op);
    return node;
}

static void add_node(Wire *graph, const char *op, const char *names[2]) {
    Wire node = node_wire(op, names[0], names[1]);
    build_message(graph, GRAPH_NODE, &node);
}
#define ADD_NODE(graph, op, inputs, outputs)                                                       \
    add_node((graph), (op), (const char *[2]){(inputs), (outputs)})

/* A ValueInfoProto: a float tensor of unknown shape. */
static void add_value(Wire *graph, uint32_t field, const char *name) {
    Wire tensor = wire_new(), type = wire_new(), info = wire_new();
    build_int(&tensor, 1, 1);
    build_message(&type, 1, &tensor);
    build_text(&info, 1, name);
    build_message(&info, 2, &type);
    build_message(graph, field, &info);
}

static void add_init(Wire *graph, const char *name) {
    Wire tensor = wire_new();
    build_int(&tensor, 1, 1);
    build_int(&tensor, 2, 1);
    build_text(&tensor, 8, name);
    build_bytes(&tensor, 9, "\0\0\x80\x3f", 4);
    build_message(graph, GRAPH_INIT, &tensor);
}

static Wire model_wire(const Wire *graph) {
    Wire model = wire_new(), opset = wire_new();
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
    fixture->model = onnx_import_memory(&bytes, NULL, &test_trap, &fixture->err);
    return fixture->model != NULL;
}

static Model *import_graph(Fixture *fixture, const Wire *graph) {
    Wire wire = model_wire(graph);
    if (!import(fixture, &wire)) fail_msg("%s", fixture->err.what);
    assert_int_equal(fixture->model->edits, 0);
    return fixture->model;
}

static void refuse_graph(Fixture *fixture, const Wire *graph, const char *what) {
    Wire wire = model_wire(graph);
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
    Wire out = wire_new();
    ByteSink sink = {.write = sink_write, .data = &out};
    model_touch(fixture->model);
    if (!onnx_export(fixture->model, &test_arena, &sink, &fixture->err))
        fail_msg("%s", fixture->err.what);
    return out;
}

static void assert_same(const Wire *a, const Wire *b) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->items, b->items, a->count);
}

/* ---- names ----------------------------------------------------------------------------------- */

TEST_WITH(test_unsorted_graph, Fixture *fixture) {
    Wire graph = wire_new();
    ADD_NODE(&graph, "Relu", "a", "y");
    ADD_NODE(&graph, "Add", "x w -", "a");
    add_value(&graph, GRAPH_OUTPUT, "y");
    add_init(&graph, "w");
    add_value(&graph, GRAPH_INPUT, "x");
    const Graph *main = import_graph(fixture, &graph)->graph;
    const Node *relu = main->first, *add = relu->next;
    assert_false(model_verify(fixture->model, &test_arena, NULL)); /* unsorted, but read */
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
}

TEST_WITH(test_captures, Fixture *fixture) {
    Wire inner = wire_new(), branch = wire_new(), graph = wire_new();
    ADD_NODE(&inner, "Add", "late x", "z");
    ADD_NODE(&inner, "Neg", "nowhere", "n");
    add_value(&inner, GRAPH_OUTPUT, "z");
    add_value(&inner, GRAPH_OUTPUT, "late"); /* says nothing of the graph around it */
    Wire attribute = wire_new(), node = node_wire("If", "x", "b");
    build_text(&attribute, 1, "then_branch");
    build_message(&attribute, 6, &inner);
    build_int(&attribute, 20, ATTR_GRAPH);
    build_message(&node, 5, &attribute);
    build_message(&branch, GRAPH_NODE, &node);
    Wire holder = wire_new(), list = node_wire("Custom", "", "y");
    build_text(&holder, 1, "bodies");
    build_message(&holder, 11, &branch);
    build_message(&holder, 11, &branch);
    build_int(&holder, 20, ATTR_GRAPHS);
    build_message(&list, 5, &holder);
    build_message(&graph, GRAPH_NODE, &list);
    ADD_NODE(&graph, "Neg", "x", "late");
    add_value(&graph, GRAPH_INPUT, "x");
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
}

TEST_WITH(test_infos, Fixture *fixture) {
    Wire graph = wire_new();
    ADD_NODE(&graph, "Relu", "stale", "a");
    add_value(&graph, GRAPH_INFO, "a");
    add_value(&graph, GRAPH_INFO, "stale");
    add_value(&graph, GRAPH_INFO, "gone");
    add_value(&graph, GRAPH_INFO, "a"); /* twice: a mention */
    const Graph *main = import_graph(fixture, &graph)->graph;
    assert_int_equal(main->infos.count, 4);
    assert_true(main->model->mentions);
    assert_ptr_not_equal(main->infos.items[3], main->infos.items[0]);
    assert_ptr_equal(main->infos.items[3]->name, main->infos.items[0]->name);
    assert_ptr_equal(main->infos.items[0], main->first->outputs[0]);
    assert_int_equal(main->undefined.count, 1); /* read, not just declared */
    assert_ptr_equal(main->undefined.items[0], main->infos.items[1]);
    assert_int_equal(main->rest.size, 0);
    Wire before = model_wire(&graph), after = export_changed(fixture);
    assert_same(&before, &after);
}

TEST_WITH(test_second_definitions, Fixture *fixture) {
    const struct {
        uint32_t first, second;
    } cases[] = {{GRAPH_INPUT, GRAPH_INPUT},
                 {GRAPH_INIT, GRAPH_INIT},
                 {GRAPH_NODE, GRAPH_NODE},
                 {GRAPH_INPUT, GRAPH_NODE},
                 {GRAPH_NODE, GRAPH_INIT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Wire graph = wire_new();
        for (int k = 0; k < 2; k++) {
            uint32_t field = k ? cases[i].second : cases[i].first;
            if (field == GRAPH_NODE)
                ADD_NODE(&graph, "Op", "", "twice");
            else if (field == GRAPH_INIT)
                add_init(&graph, "twice");
            else
                add_value(&graph, field, "twice");
        }
        refuse_graph(fixture, &graph, "a second definition of 'twice'");
    }
    Wire graph = wire_new();
    add_init(&graph, "x");
    add_value(&graph, GRAPH_INPUT, "x"); /* an input with a default */
    import_graph(fixture, &graph);
    const Value *x = fixture->model->graph->inputs.items[0];
    assert_true(x->init && x->input && fixture->model->value_count == 1);
}

/* ---- what a file must have ------------------------------------------------------------------- */

TEST_WITH(test_required_fields, Fixture *fixture) {
    for (int left_out = 0; left_out < 4; left_out++) {
        Wire model = wire_new(), opset = wire_new(), graph = wire_new();
        build_int(&opset, 2, 17);
        if (left_out != 0) build_int(&model, MODEL_IR, 8);
        if (left_out != 1) build_message(&model, MODEL_OPSET, &opset);
        if (left_out != 2) build_message(&model, MODEL_GRAPH, &graph);
        const char *names[] = {"ir_version", "opset_import", "graph"};
        assert_int_equal(import(fixture, &model), left_out == 3);
        if (left_out < 3) assert_non_null(strstr(fixture->err.what, names[left_out]));
    }
}

TEST_WITH(test_missing_file, Fixture *fixture) {
    assert_null(onnx_import_file("/nonexistent/x.onnx", NULL, &test_trap, &fixture->err));
    assert_int_equal(fixture->err.code, ERR_USAGE);
    assert_string_equal(fixture->err.file, "/nonexistent/x.onnx");
}

TEST_WITH(test_external_without_folder, Fixture *fixture) {
    Wire graph = wire_new(), tensor = wire_new(), entry = wire_new();
    build_text(&entry, 1, "location");
    build_text(&entry, 2, "data");
    build_text(&tensor, 8, "w");
    build_message(&tensor, 13, &entry);
    build_int(&tensor, 14, 1);
    build_message(&graph, GRAPH_INIT, &tensor);
    refuse_graph(fixture, &graph, "not in a folder");
    assert_string_equal(fixture->err.operand, "tensor 'w'");
}

/* ---- attributes and tensors ------------------------------------------------------------------ */

static Attr *import_attribute(Fixture *fixture, const Wire *attribute) {
    Wire graph = wire_new(), node = node_wire("Op", "", "y");
    build_message(&node, 5, attribute);
    build_message(&graph, GRAPH_NODE, &node);
    return import_graph(fixture, &graph)->graph->first->attrs;
}

TEST_WITH(test_attribute_without_type, Fixture *fixture) {
    Wire attribute = wire_new();
    build_text(&attribute, 1, "axis");
    build_int(&attribute, 3, (uint64_t)-1);
    const Attr *attr = import_attribute(fixture, &attribute);
    assert_int_equal(attr->type, ATTR_INT);
    assert_false(attr->has_type);
    assert_int_equal(attr->v.i, -1);
    assert_null(attr->also);
}

TEST_WITH(test_attribute_with_several_values, Fixture *fixture) {
    unsigned char large[300] = {5};
    Wire attribute = wire_new(), tensor = wire_new();
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
}

/* The field of the dtype counts; the others are kept. */
TEST_WITH(test_tensor_storage, Fixture *fixture) {
    Wire attribute = wire_new(), tensor = wire_new();
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
}

/* ---- nothing is lost ------------------------------------------------------------------------- */

/* Unknown fields, strange wire types and groups come back from every level of a changed model. */
TEST_WITH(test_unknown_fields_survive, Fixture *fixture) {
    Wire node = node_wire("Op", "x", "y"), graph = wire_new();
    build_int(&node, 99, 1);
    build_tag(&node, 100, WIRE_GROUP);
    build_text(&node, 1, "inside");
    build_tag(&node, 100, WIRE_GROUP_END);
    build_int(&node, 3, 1); /* name as a number */
    build_message(&graph, GRAPH_NODE, &node);
    build_text(&graph, 2, "g");
    add_value(&graph, GRAPH_INPUT, "x");
    build_text(&graph, 536870911, "the guard's own number");
    build_int(&graph, GRAPH_NODE, 5); /* node as a number */
    Wire model = wire_new(), opset = wire_new(), device = wire_new();
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
}

/* A graph in two parts and functions between them: both parts are one graph. */
TEST_WITH(test_graph_in_two_parts, Fixture *fixture) {
    Wire first = wire_new(), second = wire_new(), function = wire_new();
    ADD_NODE(&first, "Neg", "x", "a");
    build_text(&first, 2, "old");
    ADD_NODE(&second, "Neg", "a", "y");
    build_text(&second, 2, "new");
    build_text(&function, 1, "F");
    Wire model = model_wire(&first);
    build_message(&model, MODEL_FUNCTION, &function);
    build_message(&model, MODEL_GRAPH, &second);
    assert_true(import(fixture, &model));
    const Graph *main = fixture->model->graph;
    assert_int_equal(main->node_count, 2);
    assert_string_equal(main->name->text, "new");
    assert_ptr_equal(main->last->inputs[0].value, main->first->outputs[0]);
    assert_int_equal(fixture->model->functions.count, 1);
    assert_int_equal(fixture->model->functions.items[0]->body->node_count, 0);
}

TEST_WITH(test_functions, Fixture *fixture) {
    Wire function = wire_new(), attribute = wire_new(), graph = wire_new();
    Wire opset = wire_new(), node = node_wire("Op", "x", "y");
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
    add_value(&function, 12, "y");
    Wire model = model_wire(&graph);
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
}

static Wire entry_wire(const char *key, const char *value) {
    Wire entry = wire_new();
    build_text(&entry, 1, key);
    build_text(&entry, 2, value);
    return entry;
}

TEST_WITH(test_references, Fixture *fixture) {
    Wire graph = wire_new(), annotation = wire_new(), info = wire_new();
    Wire scale = entry_wire("SCALE_TENSOR", "s"), step = wire_new();
    add_init(&graph, "w");
    add_init(&graph, "s");
    build_text(&annotation, 1, "w");
    build_message(&annotation, 2, &scale);
    build_message(&graph, 14, &annotation);
    ADD_NODE(&step, "Neg", "w", "w_new");
    Wire update = entry_wire("w", "w_new"), init = entry_wire("w", "none");
    build_message(&info, 2, &step);
    build_message(&info, 3, &init);
    build_message(&info, 4, &update);
    Wire model = model_wire(&graph);
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
}
