// SPDX-License-Identifier: Apache-2.0
/* What names in attributes mean: scopes hide each other and end, and many names mean what each of them does. */
#include "test_model.h"

#include "value_names.h"

static const char text[] =
    "<ir_version: 10, opset_import: [\"\" : 21, \"ai.onnx.preview.training\" : 1, \"f\" : 1]>\n"
    "g (float[2] x, bool c) => (float[2] y)\n"
    "<float[2] w = {1, 2}, float[2] v = {3, 4}>\n"
    "{\n"
    "    a = Mul (x, w)\n"
    "    b = If (c) <\n"
    "        then_branch = t () => (float[2] p)\n"
    "        <float[2] w = {5, 6}>\n"
    "        {\n"
    "            a = Add (v, w)\n"
    "            p = ai.onnx.preview.training.Gradient <xs = [\"w\"], zs = [\"v\"], y = \"a\"> (w, "
    "v)\n"
    "        },\n"
    "        else_branch = e () => (float[2] q) { q = Relu (x) }>\n"
    "    d = ai.onnx.preview.training.Gradient <xs = [\"a\", \"nobody\"], y = \"y\"> (a)\n"
    "    y = Add (b, d)\n"
    "}\n"
    "<domain: \"f\", opset_import: [\"\" : 21, \"ai.onnx.preview.training\" : 1]>\n"
    "F (w, z) => (r)\n"
    "{\n"
    "    r = ai.onnx.preview.training.Gradient <xs = [\"w\"], y = \"x\"> (w)\n"
    "}\n";

static bool is_referenced(const Graph *graph, const char *name) {
    return test_value(graph, name)->referenced;
}

TEST(test_scopes) {
    Model *model = test_model(text);
    const Graph *branch = attr_graph(node_attr(test_node(model->graph, "b"), "then_branch"));
    const Graph *body = model->functions.items[0]->body;
    assert_true(is_referenced(branch, "w") && is_referenced(branch, "a"));
    assert_false(is_referenced(model->graph, "w")); /* the branch has its own */
    assert_true(is_referenced(model->graph, "v"));  /* seen from the branch */
    assert_true(is_referenced(model->graph, "a") && is_referenced(model->graph, "y"));
    assert_true(is_referenced(body, "w"));
    assert_false(is_referenced(body, "z"));
    assert_false(is_referenced(model->graph, "x")); /* the function sees nothing of the model */
    model_free(model);
}

TEST(test_many_names_are_what_each_is) {
    static const char *const names[] = {"w", "a", "v", "x", "p", "q", "nobody", "y"};
    enum { COUNT = sizeof names / sizeof *names };
    Model *model = test_model(text);
    Bytes bytes[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        bytes[i] = (Bytes){(const unsigned char *)names[i], strlen(names[i])};
    const GraphList graphs = model_graphs(model, &test_arena);
    for (size_t g = 0; g < graphs.count; g++) {
        Value **values = values_named(graphs.items[g], bytes, COUNT, &test_arena);
        for (size_t i = 0; i < COUNT; i++)
            assert_ptr_equal(values[i], value_named(graphs.items[g], bytes[i]));
    }
    model_free(model);
}
