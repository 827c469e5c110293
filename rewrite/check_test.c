// SPDX-License-Identifier: Apache-2.0
/* Nodes against their schemas: what must be refused, with the whole line, and what must not. */
#include <stdio.h>

#include "test_model.h"

/* Types come from declarations alone here: no pass has run. */
static void check(const char *text, const char *expected) {
    Err err = {0};
    Arena scratch;
    char line[1024];
    Model *model = test_model(text);
    arena_init(&scratch, &test_trap);
    bool ok = model_check(model, &scratch, &err);
    err_format(&err, line, sizeof line);
    if (ok && expected) fail_msg("accepted: %s", text);
    if (!ok && !expected) fail_msg("refused: %s: %s", text, line);
    if (expected && strcmp(line, expected) != 0) fail_msg("'%s' instead of '%s'", line, expected);
    arena_free(&scratch);
    model_free(model);
}

static const char *const refused[][2] = {
    {"g (float x) => (float y) { y = Relu (x, x) }",
     "node 'y' (Relu): wrong number of inputs: expected 1, got 2"},
    {"g (float x) => (float y) { y = Relu () }",
     "node 'y' (Relu): wrong number of inputs: expected 1, got 0"},
    {"g (float x) => (float y) { y = Clip (x, x, x, x) }",
     "node 'y' (Clip): wrong number of inputs: expected 1 to 3, got 4"},
    {"g (float x) => (float y) { y = Concat <axis = 0> () }",
     "node 'y' (Concat): wrong number of inputs: expected at least 1, got 0"},
    {"g (float x) => (float y) { y, z = Relu (x) }",
     "node 'y' (Relu): wrong number of outputs: expected 1, got 2"},
    {"<ir_version: 8, opset_import: [\"\" : 14]> g (float x, float[1] s) => (float y) { y, m, v = "
     "BatchNormalization (x, s, s, s, s) }",
     "node 'y' (BatchNormalization): wrong number of outputs: expected 1, got 3"},
    {"g (float x) => (float y) { y = Add (, x) }",
     "node 'y' (Add), input 'A': a required input is missing"},
    {"g (float x) => (float y) { y = Relu <alpha = 1.0> (x) }",
     "node 'y' (Relu), attribute 'alpha': the operator has no such attribute"},
    {"g (float x) => (float y) { y = Concat <axis = 1.0> (x) }",
     "node 'y' (Concat), attribute 'axis': wrong type of attribute: expected int, got float"},
    {"g (float x) => (float y) { y = Concat (x) }",
     "node 'y' (Concat), attribute 'axis': a required attribute is missing"},
    {"g (int64[1] x) => (float y) { y = ConstantOfShape <value: tensor = !> (x) }",
     "node 'y' (ConstantOfShape), attribute 'value': it declares a type, but has no value: "
     "expected tensor"},
    {"g (int64[1] x) => (float y) { y = ConstantOfShape <value: tensor = ! | float = 1.5> (x) }",
     "node 'y' (ConstantOfShape), attribute 'value': its type and its value differ: expected "
     "tensor, got float"},
    {"g (int64[1] x) => (float y) { y = ConstantOfShape <value: tensor = float[1] {2} | int = 3> "
     "(x) }",
     "node 'y' (ConstantOfShape), attribute 'value': its type and its value differ: expected "
     "tensor, got int as well"},
    {"g (float x) => (float y) { y = com.x.Anything <t: sparse_tensor = !> (x) }",
     "node 'y' (Anything), attribute 't': it declares a type, but has no value: expected "
     "sparse_tensor"},
    {"g (bool x) => (float y) { y = If <then_branch: graph = !, else_branch: graph = !> (x) }",
     "node 'y' (If), attribute 'then_branch': it declares a type, but has no value: expected "
     "graph"},
    {"g (string x) => (string y) { y = Relu (x) }",
     "node 'y' (Relu), operand 'X' ('x'): type not allowed at opset 21: got tensor of string"},
    {"g (seq(float) x) => (float y) { y = Relu (x) }",
     "node 'y' (Relu), operand 'X' ('x'): type not allowed at opset 21: got sequence of float"},
    {"g (float x, int64 k) => (float y) { y = Add (x, k) }",
     "node 'y' (Add), operand 'B' ('k'): operands with the same type variable differ: expected "
     "float, as "
     "'A', got int64"},
    {"g (float x, int64 k) => (float y) { y = Max (x, k) }",
     "node 'y' (Max), operand 'data_0' ('k'): operands with the same type variable differ: "
     "expected "
     "float, as 'data_0', got int64"},
    {"g (float x) => (float16 y) { y = Relu (x) }",
     "node 'y' (Relu), operand 'Y' ('y'): operands with the same type variable differ: expected "
     "float, as "
     "'X', got float16"},
    {"g (bool c, float x) => (float y) { [n] y = If (c) <then_branch = t () => (float q) { q = "
     "Relu "
     "(x, x) }, else_branch = e () => (float x) {}> }",
     "graph 'n/then_branch': node 'q' (Relu): wrong number of inputs: expected 1, got 2"},
};

TEST(test_refused) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check(refused[i][0], refused[i][1]);
}

/* These say more than the tests above pin down: only their core is compared. */
TEST(test_unknown_operators) {
    static const char *const rows[][2] = {
        {"g (float x) => (float y) { y = Rellu (x) }", "did you mean 'Relu'"},
        {"g (float x) => (float y) { y = ai.onnx.ml.Scaler (x) }", "does not import"},
        {"g (float x) => (float y) { y = Upsample (x, x) }", "deprecated"},
        {"g (float x) => (float y) { y = Swish (x) }", "Swish"}, /* since opset 24 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Err err = {0};
        char line[1024];
        Model *model = test_model(rows[i][0]);
        assert_false(model_check(model, &test_arena, &err));
        err_format(&err, line, sizeof line);
        if (!strstr(line, rows[i][1])) fail_msg("'%s' lacks '%s'", line, rows[i][1]);
        assert_int_equal(err.code, ERR_MODEL);
        arena_free(&test_arena);
        model_free(model);
    }
}

TEST(test_accepted) {
    static const char *const accepted[] = {
        "g (float x) => (float y) { y = Clip (x, , x) }",
        /* a number that is not filled is 0, and a list without items empty */
        "g (float x) => (float y) { y = Flatten <axis: int = !> (x) }",
        "g (float x) => (float y) { y = Transpose <perm: ints = []> (x) }",
        "g (float x) => (uint8 y) { y = QuantizeLinear <output_dtype = 0> (x, x) }", /* none */
        "g (float x) => (float y) { y = Relu <__note: int = 1> (x) }",
        "g (float x) => (float y) { y = Clip (x, , ) }",
        "g (float x) => (float y) { y, = Dropout (x) }",
        "g (float x) => (float y) { y = com.x.Anything <what = \"ever\"> (x, , x) }",
        "g (float x) => (float y) { y = Rellu (x) }\n"
        "<domain: \"\", opset_import: [\"\" : 21]> Rellu (a) => (b) { b = Relu (a) }",
        "g (x) => (y) { y = Relu (x) }", /* nothing is known */
        "g (float x, int64[1] k) => (float y) { y = Expand (x, k) }",
        "g (float x) => (float y) { y = com.x.F <s = 2> (x) }\n"
        "<domain: \"com.x\", opset_import: [\"\" : 21]> F <s> (a) => (b) "
        "{ b = Concat <axis: int = @s> (a) }",
    };
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) check(accepted[i], NULL);
}

/* As many as one likes are more than any other count. */
TEST(test_many_inputs) {
    enum { MANY = 70000 };
    Err err = {0};
    Model *model = test_model("g (float[1] x) => (float[N] y) { y = Concat <axis = 0> (x) }");
    Node *node = model->graph->first;
    node_resize_inputs(node, MANY);
    for (uint32_t i = 1; i < MANY; i++) node_set_input(node, i, node->inputs[0].value);
    assert_true(model_check(model, &test_arena, &err));
    model_free(model);
}

/* In the words of readers and writers. */
TEST(test_graphs_in_each_other) {
    for (int depth = GRAPH_NESTING_MAX; depth <= GRAPH_NESTING_MAX + 1; depth++) {
        char text[8192];
        size_t size = (size_t)snprintf(text, sizeof text, "%sg (float x, bool c) => (float y0) {",
                                       TEST_HEADER);
        for (int i = 0; i < depth; i++)
            size +=
                (size_t)snprintf(text + size, sizeof text - size,
                                 " y%d = If (c) <then_branch = t () => (float y%d) {", i, i + 1);
        size += (size_t)snprintf(text + size, sizeof text - size, " y%d = Relu (x) ", depth);
        for (int i = 0; i < depth; i++)
            size +=
                (size_t)snprintf(text + size, sizeof text - size,
                                 "}, else_branch = e () => (float e%d) { e%d = Exp (x) }> ", i, i);
        size += (size_t)snprintf(text + size, sizeof text - size, "}");
        Err err = {0};
        Model *model = text_parse_model(text, size, &test_trap, &err);
        if (depth > GRAPH_NESTING_MAX) {
            assert_null(model);
            assert_string_equal(err.what, "graphs are nested more than 31 deep");
            assert_string_equal(err.node, "y0"); /* the outermost node */
            assert_string_equal(err.op_type, "If");
            break;
        }
        if (!model) fail_msg("%s", err.what);
        if (!model_check_form(model, &test_arena, &err)) fail_msg("%s", err.what);
        model->graph->parent = graph_new(model, NULL); /* as if all lay in one more */
        assert_false(model_check_form(model, &test_arena, &err));
        assert_string_equal(err.what, "graphs are nested more than 31 deep");
        assert_string_equal(err.node, "y0");
        arena_free(&test_arena);
        model_free(model);
    }
}
