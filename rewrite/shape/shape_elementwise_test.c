// SPDX-License-Identifier: Apache-2.0
/* Elementwise operators: broadcasting rules, and contents computed on the way. */
#include "shape_case_test.h"

static void test_unary(void **state) {
    (void)state;
    static const ShapeCase cases[] = {
        {"Relu", 14, "", "2,N,?", "2,N,?"},
        {"Relu", 14, "", "*", "*"},
        {"Relu", 14, "", ".", "."},
        {"Softmax", 13, "", "2,0", "2,0"},
        {"Softmax", 13, "axis=2", "2,3", "2,3"},
        {"Softmax", 13, "axis=-3", "2,3", "!"},
        {"Neg", 13, "", "=3,-4,?", "=-3,4,?"},
        {"Neg", 13, "", "=-9223372036854775808", "=?"},
        {"Floor", 13, "", "~1.5,-1.5", "~1,-2"},
        {"Not", 1, "", "^1,0", "^0,1"},
        {"Identity", 16, "", "@2,3", "@2,3"},
        {"Dropout", 13, "", "2,N | - | -", "2,N | 2,N"},
        {"DynamicQuantizeLinear", 11, "", "2,N", "2,N | . | ."},
    };
    CASE_RUN(cases);
}

static void test_broadcast(void **state) {
    (void)state;
    static const ShapeCase cases[] = {
        {"Add", 14, "", "2,1,4 | 3,1", "2,3,4"},
        {"Add", 14, "", "N,1 | 1,N", "N,N"},
        {"Add", 14, "", "N | M", "?"},
        {"Add", 14, "", "N | 5", "5"},
        {"Add", 14, "", "? | 1", "?"},
        {"Add", 14, "", "? | 0", "0"},
        {"Add", 14, "", "1 | 0", "0"},
        {"Add", 14, "", "2 | 3", "!"},
        {"Add", 14, "", ". | 2,N", "2,N"},
        {"Add", 14, "", "* | 2", "*"},
        {"Max", 13, "", "2,1 | 1,3 | 4,1,1", "4,2,3"},
        {"Where", 16, "", "2,1 | 1,3 | .", "2,3"},
        {"Add", 6, "", "2,3 | 3", "2,3"},
        {"SwiGLU", 28, "", "N,3 | N,3", "N,3"},
    };
    CASE_RUN(cases);
}

static void test_contents(void **state) {
    (void)state;
    static const ShapeCase cases[] = {
        {"Add", 14, "", "=1,N,? | #2", "=3,?,?"},
        {"Add", 14, "", "=0,N | =5,0", "=5,N"},
        {"Add", 14, "", "=9223372036854775807 | #1", "=?"},
        {"Mul", 14, "", "=N,? | =1,0", "=N,0"},
        {"Sub", 14, "", "=N | =N", "=0"},
        {"Div", 14, "", "=7,-7,N | =2,2,1", "=3,-3,N"},
        {"Div", 14, "", "=7 | =0", "=?"},
        {"Div", 14, "", "=-9223372036854775808 | =-1", "=?"},
        {"Mod", 13, "", "=7,-7 | #3", "=1,?"},
        {"Equal", 19, "", "=N,N,-1,3,N | =N,-1,-1,4,3", "^1,0,1,0,?"},
        {"Min", 13, "", "=3,N | =2,N", "=2,N"},
        {"And", 7, "", "^1,0 | ^1,1", "^1,0"},
        {"Less", 13, "", "=1,5 | #3", "^1,0"},
        {"Where", 16, "", "^1,0,? | =1,2,3 | =4,N,3", "=1,N,3"},
        {"Mul", 14, "", "~1.5 | ~2", "~3"},
        {"Add", 14, "", "=1,2 | =1,2,3", "!"},
    };
    CASE_RUN(cases);
}

static void test_cast(void **state) {
    (void)state;
    static const ShapeCase cases[] = {
        {"Cast", 13, "to=7", "=3,N", "=3,N"},       {"Cast", 13, "to=1", "=3", "~3"},
        {"Cast", 13, "to=7", "~3.7,-3.7", "=3,-3"}, {"Cast", 13, "to=9", "=3,0,N", "^1,0,?"},
        {"Cast", 13, "to=99", "=3", "1"},           {"CastLike", 15, "", "=3 | ~1", "~3"},
    };
    CASE_RUN(cases);
}

static void test_expand(void **state) {
    (void)state;
    static const ShapeCase cases[] = {
        {"Expand", 13, "", "3,1 | =2,1,6", "2,3,6"}, {"Expand", 13, "", "N,1 | =1,M", "N,M"},
        {"Expand", 13, "", "3 | =?", "3"},           {"Expand", 13, "", "1 | =?", "?"},
        {"Expand", 13, "", "3 | 2", "?,3"},          {"Expand", 13, "", "3 | N", "*"},
        {"Expand", 13, "", "3 | =4", "!"},           {"Expand", 13, "", "1 | =-5", "!"},
        {"Expand", 13, "", "1 | 2000000000", "!"},   {"Expand", 13, "", "#7 | =3", "=7,7,7"},
    };
    CASE_RUN(cases);
}

UNIT_TESTS(shape_elementwise_test) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary),    cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_contents), cmocka_unit_test(test_cast),
        cmocka_unit_test(test_expand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
