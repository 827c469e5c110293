// SPDX-License-Identifier: Apache-2.0
/* Classes by policy, and each condition, on nodes that do and do not meet it. */
#define _POSIX_C_SOURCE 200809L
#include "test_model.h"

#include "op_class.h"
#include "op_condition.h"
#include "ops.h"
#include "test_locale.h"

TEST(test_lookup) {
    assert_int_equal(op_class_lookup("ai.onnx", "Conv", POLICY_FLOAT16), CLASS_LOW);
    assert_int_equal(op_class_lookup(NULL, "Softmax", POLICY_FLOAT16), CLASS_FP32);
    assert_int_equal(op_class_lookup("", "Softmax", POLICY_BFLOAT16), CLASS_FOLLOW);
    assert_int_equal(op_class_lookup("", "ReduceMean", POLICY_FAST), CLASS_FOLLOW);
    assert_int_equal(op_class_lookup("", "Add", POLICY_FAST), CLASS_WIDEST);
    assert_int_equal(op_class_lookup("", "conv", POLICY_FLOAT16), CLASS_NONE);
    assert_int_equal(op_class_lookup("", "", POLICY_FLOAT16), CLASS_NONE);
    assert_int_equal(op_class_lookup("com.x", "Conv", POLICY_FLOAT16), CLASS_NONE);
    assert_int_equal(op_class_lookup("", "And", POLICY_FLOAT16), CLASS_NONE);
    assert_string_equal(op_class_name(CLASS_NONE), "NONE");
    assert_string_equal(op_class_name(CLASS_LOW), "LOW");
    assert_string_equal(op_class_name(CLASS_FP32), "FP32");
    assert_string_equal(op_class_name(CLASS_FOLLOW), "FOLLOW");
    assert_string_equal(op_class_name(CLASS_WIDEST), "WIDEST");
}

/* Nodes whose class depends on what they are given. The node makes y; types are as declared. */
static const struct ConditionRow {
    const char *graph;
    OpClass classes[3]; /* by policy */
} condition_rows[] = {
#define ALL(c)                                                                                     \
    { CLASS_##c, CLASS_##c, CLASS_##c }
    {"g (float x) => (float y) <float e = {2}> { y = Pow (x, e) }",
     {CLASS_FP32, CLASS_FOLLOW, CLASS_FOLLOW}},
    {"g (float x) => (float y) <float[1] e = {2}> { y = Pow (x, e) }",
     {CLASS_FP32, CLASS_FOLLOW, CLASS_FOLLOW}},
    {"g (float x) => (float y) { e = Constant <value_float = 2.0> () y = Pow (x, e) }",
     {CLASS_FP32, CLASS_FOLLOW, CLASS_FOLLOW}},
    {"g (float x) => (float y) <float e = {0.5}> { y = Pow (x, e) }",
     {CLASS_FP32, CLASS_FP32, CLASS_FOLLOW}},
    {"g (float x) => (float y) <float e = {3}> { y = Pow (x, e) }",
     {CLASS_FP32, CLASS_FP32, CLASS_FOLLOW}},
    {"g (float x) => (float y) <float e = {-1}> { y = Pow (x, e) }", ALL(FP32)},
    {"g (float x) => (float y) <float[2] e = {2, 2}> { y = Pow (x, e) }", ALL(FP32)},
    {"g (float x, float e) => (float y) { y = Pow (x, e) }", ALL(FP32)},
    {"g (float x, float e = {2}) => (float y) { y = Pow (x, e) }", ALL(FP32)},
    {"g (float x, float z) => (float y) { y = Div (x, z) }", ALL(WIDEST)},
    {"g (float x) => (float y) <float w = {1}> { y = Div (x, w) }", ALL(WIDEST)},
    {"g (float x) => (float y) <float w = {1}> { y = Div (w, x) }", ALL(FP32)},
    {"g (float x, float w = {1}) => (float y) { y = Div (w, x) }", ALL(WIDEST)},
    {"g (float[3] x, int64[3] i) => (float[3] y) { y = ScatterElements (x, i, x) }", ALL(WIDEST)},
    {"g (float[3] x, int64[3] i) => (float[3] y) { y = ScatterElements <reduction = \"none\"> (x, "
     "i, "
     "x) }",
     ALL(WIDEST)},
    {"g (float[3] x, int64[3] i) => (float[3] y) { y = ScatterElements <reduction = \"max\"> (x, "
     "i, x)"
     " }",
     ALL(WIDEST)},
    {"g (float[3] x, int64[3] i) => (float[3] y) { y = ScatterElements <reduction = \"add\"> (x, "
     "i, x)"
     " }",
     {CLASS_FP32, CLASS_FP32, CLASS_WIDEST}},
    {"g (float[3] x, int64[3,1] i) => (float[3] y) { y = ScatterND <reduction = \"mul\"> (x, i, x) "
     "}",
     {CLASS_FP32, CLASS_FP32, CLASS_WIDEST}},
    {"g (float16 x) => (float y) { y = Cast <to = 1> (x) }", ALL(FOLLOW)},
    {"g (float x) => (float16 y) { y = Cast <to = 10> (x) }", ALL(FOLLOW)},
    {"g (float x) => (double y) { y = Cast <to = 11> (x) }", ALL(FOLLOW)},
    {"g (double x) => (float y) { y = Cast <to = 1> (x) }", ALL(FP32)},
    {"g (float x) => (int64 y) { y = Cast <to = 7> (x) }", ALL(FP32)},
    {"g (bool x) => (float y) { y = Cast <to = 1> (x) }", ALL(FP32)},
    {"g (float x) => (string y) { y = Cast <to = 8> (x) }", ALL(FP32)},
    {"g (int8 x, float s) => (float y) { y = DequantizeLinear (x, s) }", ALL(FOLLOW)},
    {"<ir_version: 8, opset_import: [\"\" : 18]> g (int8 x, float s) => (float y) { y = "
     "DequantizeLinear (x, s) }",
     ALL(FP32)},
    {"<ir_version: 8, opset_import: [\"\" : 18]> g (float x, float s) => (uint8 y) { y = "
     "QuantizeLinear (x, s) }",
     ALL(FP32)},
    {"g (float[1,2,3,4] x) => (float[1,2,3,4] y) { y = Attention (x, x, x) }", ALL(LOW)},
    {"g (float[1,2,3,4] x) => (float[1,2,3,4] y) { y = Attention <is_causal = 1> (x, x, x) }",
     ALL(LOW)},
    {"g (float[1,2,3,4] x) => (float[1,2,3,4] y, float[1,2,3,3] s) { y, , , s = Attention "
     "<is_causal "
     "= 1, qk_matmul_output_mode = 1> (x, x, x) }",
     ALL(FP32)},
    {"g (float[1,2,3,4] x, bool[3,3] m) => (float[1,2,3,4] y, float[1,2,3,3] s) { y, , , s = "
     "Attention"
     " <qk_matmul_output_mode = 2> (x, x, x, m) }",
     ALL(FP32)},
    {"g (float[1,2,3,4] x) => (float[1,2,3,4] y, float[1,2,3,3] s) { y, , , s = Attention "
     "<is_causal "
     "= 1, qk_matmul_output_mode = 3> (x, x, x) }",
     ALL(LOW)},
    {"g (float[1,2,3,4] x) => (float[1,2,3,4] y) { y, , , s = Attention <is_causal = 1, "
     "qk_matmul_output_mode = 1> (x, x, x) }",
     ALL(LOW)},
    {"g (float x) => (float y) { y = Mul (x, x) }", {CLASS_FP32, CLASS_WIDEST, CLASS_WIDEST}},
    {"g (float x, float z) => (float y) { y = Mul (x, z) }", ALL(WIDEST)},
    {"g (float x) => (float y) { y = com.x.Conv (x) }", ALL(NONE)},
    {"g (float x) => (float y) { y = ai.onnx.Sqrt (x) }", ALL(FOLLOW)},
};

TEST(test_conditions) {
    for (size_t i = 0; i < sizeof condition_rows / sizeof *condition_rows; i++) {
        Model *model = test_model(condition_rows[i].graph);
        const Node *node = test_node(model->graph, "y");
        const OpClassLists none = {0};
        for (int policy = POLICY_FLOAT16; policy <= POLICY_FAST; policy++) {
            const OpClasses *policy_classes =
                op_classes_new((Policy)policy, &none, &model->arena, NULL);
            OpClassAnswer answer = op_class_of(node, policy_classes);
            OpClass wanted = condition_rows[i].classes[policy];
            if (answer.op_class != wanted)
                fail_msg("%s: %s instead of %s (policy %d)", condition_rows[i].graph,
                         op_class_name(answer.op_class), op_class_name(wanted), policy);
            /* A phrase exactly where the node, not the table, decided. */
            OpClass row =
                op_class_lookup(sym_text(node->domain), sym_text(node->op_type), (Policy)policy);
            if (wanted != row || wanted == CLASS_NONE) assert_non_null(answer.why);
        }
        model_free(model);
    }
}

/* A condition's numbers have a decimal point, whatever locale a program has set. */
TEST(test_numbers_elsewhere) {
    static const char *when[] = {"LeakyRelu.alpha=0.25"};
    const OpClassLists lists = {.fp32_when = {when, 1}};
    Err err = {0};
    Model *model = test_model("g (float[2] x) => (float[2] y, float[2] z) { y = LeakyRelu "
                              "<alpha = 0.25> (x) z = LeakyRelu <alpha = 0.5> (x) }");
    test_locale_set(",");
    const OpConditions *conditions = op_conditions_new(&lists, &test_arena, &err);
    assert_non_null(conditions);
    assert_non_null(op_conditions_hold(conditions, test_node(model->graph, "y")));
    assert_null(op_conditions_hold(conditions, test_node(model->graph, "z")));
    test_locale_reset();
    model_free(model);
}
