// SPDX-License-Identifier: Apache-2.0
/* Models as a whole: opset imports, order of graphs, functions, labels and paths in messages; and
 * the attributes of nodes. */
#include <stdio.h>

#include "test_model.h"
#include "verify.h"

static const char text[] =
    "g (bool c, float[3] x) => (float[3] y) {\n"
    "    p = com.x.F (x)\n"
    "    [cond] b = If (c) <then_branch = t () => (float[3] q) {\n"
    "        q = If (c) <then_branch = tt () => (float[3] u) { u = Neg (p) },\n"
    "                    else_branch = te () => (float[3] v) { v = Abs (p) }>\n"
    "    }, else_branch = e () => (float[3] r) { r = Exp (p) }>\n"
    "    y = Mul <axis = 7, s = \"text\"> (b, b)\n"
    "}\n"
    "<domain: \"com.x\", opset_import: [\"\" : 20]> F (a) => (z) { z = Neg (a) }\n"
    "<domain: \"com.x\", overload: \"o\", opset_import: [\"\" : 19]> F (a) => (z) { z = Abs (a) "
    "}\n";

TEST(test_opsets) {
    Model *model = test_model("g () => () {}\n");
    Sym empty = test_name(model, ""), own = test_name(model, "ai.onnx");
    Sym other = test_name(model, "com.x"), absent = test_name(model, "com.y");
    assert_true(domain_is_default(NULL) && domain_is_default(empty) && domain_is_default(own));
    assert_false(domain_is_default(other));
    assert_int_equal(opset_version(&model->opsets, NULL), 21);
    assert_int_equal(opset_version(&model->opsets, own), 21);
    assert_int_equal(opset_version(&model->opsets, other), 1);
    assert_int_equal(opset_version(&model->opsets, absent), 0);
    model_import_opset(model, &model->opsets, own, 21);
    model_import_opset(model, &model->opsets, own, 3); /* never lowered */
    assert_int_equal(model->edits, 0);
    model_import_opset(model, &model->opsets, own, 22);
    assert_int_equal(opset_version(&model->opsets, empty), 22);
    assert_int_equal(model->opsets.count, 2);
    model_import_opset(model, &model->opsets, absent, 5);
    assert_int_equal(model->opsets.count, 3);
    assert_int_equal(opset_version(&model->opsets, absent), 5);
    assert_int_equal(model->edits, 2);
    model_free(model);
    model_free(NULL);
}

TEST(test_graphs) {
    Model *model = test_model(text);
    GraphList graphs = model_graphs(model, &test_arena);
    static const char *const names[] = {"g", "t", "tt", "te", "e"};
    assert_int_equal(graphs.count, 7);
    for (size_t i = 0; i < 5; i++) assert_true(sym_equals(graphs.items[i]->name, names[i]));
    for (size_t i = 0; i < 2; i++)
        assert_ptr_equal(graphs.items[5 + i], model->functions.items[i]->body);
    const Graph *main = graphs.items[0], *t = graphs.items[1], *tt = graphs.items[2];
    assert_true(graph_is_within(tt, main) && graph_is_within(tt, t) && graph_is_within(t, t));
    assert_false(graph_is_within(main, t) || graph_is_within(graphs.items[4], t) ||
                 graph_is_within(graphs.items[5], main));
    assert_ptr_equal(tt->opsets, &model->opsets);
    assert_ptr_equal(graphs.items[5]->opsets, &model->functions.items[0]->opsets);
    model_free(model);
}

TEST(test_functions) {
    Model *model = test_model(text);
    Node *call = model->graph->first;
    assert_ptr_equal(model_find_function(model, call), model->functions.items[0]);
    node_set_extra(call, (NodeExtra){.overload = test_name(model, "o")});
    assert_ptr_equal(model_find_function(model, call), model->functions.items[1]);
    node_set_extra(call, (NodeExtra){.overload = test_name(model, "other")});
    assert_null(model_find_function(model, call));
    node_set_extra(call, (NodeExtra){.overload = test_name(model, "")}); /* as if absent */
    assert_ptr_equal(model_find_function(model, call), model->functions.items[0]);
    call->domain = NULL;
    assert_null(model_find_function(model, call));
    for (int i = 0; i < 100; i++) { /* all of one name; the default domain is spelt in two ways */
        Function *more = ARENA_NEW(&model->arena, Function);
        more->name = call->op_type;
        more->domain = test_name(model, i % 2 ? "ai.onnx" : "");
        more->overload = i / 2 ? sym_fresh(&model->syms, "over") : NULL;
        model_add_function(model, more);
        assert_int_equal(more->index, i + 2);
    }
    assert_ptr_equal(model_find_function(model, call), model->functions.items[2]);
    for (size_t i = 4; i < 102; i++) {
        node_set_extra(call, (NodeExtra){.overload = model->functions.items[i]->overload});
        assert_ptr_equal(model_find_function(model, call), model->functions.items[i]);
    }
    model_free(model);
}

TEST(test_messages) {
    char line[1024];
    Model *model = test_model(text);
    Node *cond = test_node(model->graph, "b"), *call = model->graph->first;
    Graph *inner = test_body(test_body(cond, "then_branch")->first, "else_branch");
    Err err = {0};
    assert_false(node_error(inner->first, &err, ERR_MODEL, "bad %d", 7));
    assert_false(node_error(call, &err, ERR_ENV, "later")); /* the first one wins */
    err_format(&err, line, sizeof line);
    assert_string_equal(line, "graph 'cond/then_branch/q/else_branch': node 'v' (Abs): bad 7");
    assert_false(node_error(call, NULL, ERR_MODEL, "nobody listens"));
    assert_string_equal(node_label(cond), "cond");
    assert_string_equal(node_label(call), "p");
    node_resize_outputs(call, 0);
    assert_string_equal(node_label(call), "");
    Err function = {0};
    node_error(model->functions.items[0]->body->first, &function, ERR_MODEL, "bad");
    assert_string_equal(function.graph, "function F");
    model_free(model);
}

/* A path longer than its buffer is cut, not overrun. */
TEST(test_deep_paths) {
    Model *model = model_new(&test_trap);
    Graph *graph = model->graph;
    char long_name[300];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    for (int depth = 0; depth < 40; depth++) {
        Node *node = node_new(graph, NULL, test_name(model, "If"), NULL);
        node->name = test_name(model, long_name);
        Graph *body = graph_new(model, graph);
        body->owner = node;
        Attr *attr = ARENA_NEW(&model->arena, Attr);
        *attr = (Attr){.name = test_name(model, long_name), .type = ATTR_GRAPH, .v.g = body};
        node->attrs = attr;
        graph = body;
    }
    Node *leaf = node_new(graph, NULL, test_name(model, long_name), NULL);
    Err err = {0};
    node_error(leaf, &err, ERR_MODEL, "%s", long_name);
    assert_true(strlen(err.graph) < sizeof err.graph);
    assert_true(strlen(err.graph) > 100);
    model_free(model);
}

static void visit(Graph *graph, void *data) {
    char *names = data;
    strcat(names, sym_text(graph->name));
}

TEST(test_each_graph) {
    char names[64] = "";
    Model *model = test_model(text);
    Node *cond = test_node(model->graph, "b");
    node_each_graph(cond, visit, names);
    assert_string_equal(names, "te"); /* `t` and `e`: not what they hold */
    Graph *more[2] = {graph_new(model, model->graph), graph_new(model, model->graph)};
    more[0]->name = test_name(model, "1");
    more[1]->name = test_name(model, "2");
    Attr list = {.name = cond->attrs->name, .type = ATTR_GRAPHS, .count = 2, .v.graphs = more};
    cond->attrs->also = &list;
    names[0] = '\0';
    node_each_graph(cond, visit, names);
    assert_string_equal(names, "t12e");
    model_free(model);
}

static size_t count_graphs(const Model *model) {
    return model_graphs(model, &test_arena).count;
}

/* The list is made once; it follows what nodes come to hold, and what goes. */
TEST(test_graphs_follow_edits) {
    Model *model = test_model(text);
    Node *cond = test_node(model->graph, "b");
    const size_t graphs = count_graphs(model);
    const GraphList mine = model_graphs(model, &test_arena);
    Node *other = node_new(model->graph, model->graph->first, test_name(model, "If"), NULL);
    Graph *body = graph_new(model, model->graph);
    body->owner = other;
    assert_int_equal(count_graphs(model), graphs);
    node_set_attr_graph(other, "then_branch", body);
    assert_int_equal(count_graphs(model), graphs + 1);
    assert_ptr_equal(model_graphs(model, &test_arena).items[1], body);
    assert_ptr_not_equal(mine.items[1], body); /* a list that somebody has stays as it was */
    node_move_before(other, NULL);
    assert_ptr_not_equal(model_graphs(model, &test_arena).items[1], body);
    node_remove(other);
    assert_int_equal(count_graphs(model), graphs);
    node_resize_outputs(cond, 0);
    node_remove(cond);
    assert_in_range(count_graphs(model), 1, graphs - 1);
    model_free(model);
}

static size_t count_attrs(const Node *node) {
    size_t count = 0;
    for (const Attr *attr = node->attrs; attr; attr = attr->next) count++;
    return count;
}

TEST(test_attributes) {
    Model *model = test_model(text);
    Node *mul = model->graph->last;
    assert_int_equal(node_attr_int(mul, "axis", 1), 7);
    assert_int_equal(node_attr_int(mul, "s", 1), 1);
    assert_int_equal(node_attr_int(mul, "axi", 1), 1);
    assert_null(node_attr(mul, "axiss"));
    node_attr(mul, "axis")->ref = test_name(model, "parameter");
    assert_int_equal(node_attr_int(mul, "axis", 1), 1);
    node_set_attr_int(mul, "axis", -2); /* in place, no longer a reference */
    assert_int_equal(node_attr_int(mul, "axis", 1), -2);
    assert_true(sym_equals(mul->attrs->name, "axis"));
    assert_int_equal(count_attrs(mul), 2);
    node_set_attr_string(mul, "axis", "x");
    assert_int_equal(node_attr(mul, "axis")->type, ATTR_STRING);
    assert_int_equal(node_attr(mul, "axis")->v.s.size, 1);
    const Tensor *one = tensor_new_float_scalar(&model->arena, 1.0f);
    node_set_attr_tensor(mul, "value", one);
    node_set_attr_type(mul, "type", type_plain_tensor(DTYPE_FLOAT));
    assert_int_equal(count_attrs(mul), 4);
    assert_ptr_equal(node_attr(mul, "value")->v.t, one);
    assert_int_equal(node_attr(mul, "type")->type, ATTR_TYPE);
    assert_int_equal(model->edits, 4);
    node_remove_attr(mul, "s");
    node_remove_attr(mul, "axis"); /* the first */
    node_remove_attr(mul, "type"); /* the last */
    node_remove_attr(mul, "never there");
    assert_int_equal(model->edits, 7);
    assert_int_equal(count_attrs(mul), 1);
    assert_ptr_equal(mul->attrs, node_attr(mul, "value"));
    model_free(model);
}

/* Replacing a value keeps what is beside it: doc string and unknown fields. */
TEST(test_attribute_rest) {
    Model *model = test_model(text);
    Attr *attr = node_attr(model->graph->last, "axis");
    attr->doc = test_name(model, "doc");
    attr->rest = (Bytes){(const unsigned char *)"r", 1};
    node_set_attr_int(model->graph->last, "axis", 3);
    attr = node_attr(model->graph->last, "axis");
    assert_true(sym_equals(attr->doc, "doc"));
    assert_int_equal(attr->rest.size, 1);
    assert_non_null(attr->next);
    model_free(model);
}

TEST(test_metadata) {
    Model *model = test_model(text);
    Node *mul = model->graph->last;
    assert_null(node_metadata(mul, "k"));
    node_add_metadata(mul, "k", "1");
    node_add_metadata(mul, "l", "2");
    node_add_metadata(mul, "k", "3");
    assert_string_equal(sym_text(node_metadata(mul, "k")), "1");
    assert_string_equal(sym_text(node_metadata(mul, "l")), "2");
    assert_string_equal(sym_text(mul->metadata->next->next->value), "3");
    assert_int_equal(model->edits, 3);
    model_free(model);
}

/* An emptied model is a sound one, and what tensors hold is there yet. */
TEST(test_empty) {
    static const float two = 2;
    Model *model = test_model(text);
    Value *value = value_new(model->graph, test_name(model, "w"));
    const Tensor *tensor = tensor_new_raw(&model->arena, DTYPE_FLOAT, NULL, 0, &two, sizeof two);
    Err err = {0};
    float number;
    value_set_init(value, tensor);
    model_empty(model);
    assert_int_equal(model_graphs(model, &test_arena).count, 1);
    assert_int_equal(model->graph->node_count + model->graph->initializers.count, 0);
    assert_true(model_verify(model, &test_arena, &err));
    assert_true(tensor_read_raw(tensor, 0, &number, sizeof number, &err));
    assert_true(number == 2);
    assert_int_equal(value_new(model->graph, test_name(model, "v"))->id, 0);
    model_free(model);
}
