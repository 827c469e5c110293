// SPDX-License-Identifier: Apache-2.0
/* The class table against the schemas: exactly one row for every operator that takes or gives
 * floats in any version, in order, none for others; and each condition, on nodes that do and do not
 * meet it. */
#define _POSIX_C_SOURCE 200809L
#include "test_model.h"

#include "op_class.h"
#include "op_condition.h"
#include "ops.h"
#include "test_locale.h"

static MemTrap trap;

typedef struct RowName {
    const char *domain, *name;
} RowName;

static const RowName row_names[] = {
#define X(domain, name, float16, bfloat16, fast, condition) {domain, name},
#include "op_class.def"
#undef X
};
enum { ROWS = sizeof row_names / sizeof *row_names };

static bool set_has_float(const TypeSet *set) {
    for (int kind = 0; kind < OPTYPE_COUNT; kind++)
        if (type_set_has(set, (OpTypeKind)kind, DTYPE_FLOAT)) return true;
    return false;
}

static bool schema_has_float(const OpSchema *schema) {
    for (size_t i = 0; i < schema->input_count; i++)
        if (set_has_float(op_param_types(schema, &schema->inputs[i]))) return true;
    for (size_t i = 0; i < schema->output_count; i++)
        if (set_has_float(op_param_types(schema, &schema->outputs[i]))) return true;
    return false;
}

static void test_every_float_operator(void **state) {
    (void)state;
    unsigned missing = 0, floats = 0;
    for (size_t i = 0; i < ops_count(); i++) {
        const OpSchema *schema = ops_at(i);
        if (!schema_has_float(schema)) continue;
        floats++;
        if (op_class_lookup(schema->domain, schema->name, POLICY_FLOAT16) != CLASS_NONE) continue;
        print_error("no row: \"%s\" %s since %d\n", schema->domain, schema->name,
                    (int)schema->since);
        missing++;
    }
    assert_int_equal(missing, 0);
    assert_true(floats > 300);
}

static void test_rows_are_sorted_and_known(void **state) {
    (void)state;
    unsigned useless = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if (i) {
            int order = strcmp(row_names[i - 1].domain, row_names[i].domain);
            if (!order) order = strcmp(row_names[i - 1].name, row_names[i].name);
            if (order >= 0)
                fail_msg("%s is not after %s", row_names[i].name, row_names[i - 1].name);
        }
        bool has_float = false;
        for (size_t k = 0; k < ops_count() && !has_float; k++)
            has_float = !strcmp(ops_at(k)->domain, row_names[i].domain) &&
                        !strcmp(ops_at(k)->name, row_names[i].name) && schema_has_float(ops_at(k));
        if (!has_float) {
            print_error("%s takes no floats\n", row_names[i].name);
            useless++;
        }
        for (int policy = POLICY_FLOAT16; policy <= POLICY_FAST; policy++)
            assert_int_not_equal(
                op_class_lookup(row_names[i].domain, row_names[i].name, (Policy)policy),
                CLASS_NONE);
    }
    assert_int_equal(useless, 0);
}

static void test_lookup(void **state) {
    (void)state;
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
    {"g (int8 x, float s) => (float y) { y = DequantizeLinear (x, s) }", ALL(FP32)},
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
    {"g (float x) => (float y) { y = Mul (x, x) }",
     {CLASS_FP32, CLASS_WIDEST, CLASS_WIDEST}},
    {"g (float x, float z) => (float y) { y = Mul (x, z) }", ALL(WIDEST)},
    {"g (float x) => (float y) { y = com.x.Conv (x) }", ALL(NONE)},
    {"g (float x) => (float y) { y = ai.onnx.Sqrt (x) }", ALL(FOLLOW)},
};

static void test_conditions(void **state) {
    (void)state;
    TEST_TRAP(&trap);
    for (size_t i = 0; i < sizeof condition_rows / sizeof *condition_rows; i++) {
        Model *model = test_model(&trap, condition_rows[i].graph);
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

/* Tables that name operators of the default domain: each name is one, in order. */
static void check_names(const char *table, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!ops_exists("", names[i])) fail_msg("%s: there is no %s", table, names[i]);
        if (i && strcmp(names[i - 1], names[i]) > 0)
            fail_msg("%s: %s is not after %s", table, names[i], names[i - 1]);
    }
}

static void test_other_tables(void **state) {
    (void)state;
    static const char *const precise[] = {
#define ASKS(name, operand, what) name,
#define CARRIES(name) name,
#define PRODUCT(name) name,
#define ENDS(name) name,
#include "precise_ops.def"
    };
    static const char *const magnitude[] = {
#undef X
#define X(name, rule) name,
#include "magnitude_ops.def"
#undef X
    };
    check_names("precise_ops.def", precise, sizeof precise / sizeof *precise);
    check_names("magnitude_ops.def", magnitude, sizeof magnitude / sizeof *magnitude);
}

/* A condition's numbers have a decimal point, whatever locale a program has set. */
static void test_numbers_elsewhere(void **state) {
    (void)state;
    static const char *when[] = {"LeakyRelu.alpha=0.25"};
    const OpClassLists lists = {.fp32_when = {when, 1}};
    Arena arena;
    Err err = {0};
    TEST_TRAP(&trap);
    arena_init(&arena, &trap);
    Model *model = test_model(&trap, "g (float[2] x) => (float[2] y, float[2] z) { y = LeakyRelu "
                                     "<alpha = 0.25> (x) z = LeakyRelu <alpha = 0.5> (x) }");
    test_locale_set(",");
    const OpConditions *conditions = op_conditions_new(&lists, &arena, &err);
    assert_non_null(conditions);
    assert_non_null(op_conditions_hold(conditions, test_node(model->graph, "y")));
    assert_null(op_conditions_hold(conditions, test_node(model->graph, "z")));
    test_locale_reset();
    model_free(model);
    arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_float_operator),
        cmocka_unit_test(test_rows_are_sorted_and_known),
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_other_tables),
        cmocka_unit_test(test_numbers_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
