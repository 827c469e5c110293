// SPDX-License-Identifier: Apache-2.0
/* Where contents come from: constants, shapes, ranges, random numbers. */
#include "shape_case_test.h"

TEST(test_constant) {
    static const ShapeCase cases[] = {
        {"Constant", 13, "value=2,3", "", "2,3"},
        {"Constant", 13, "value==4,5", "", "=4,5"},
        {"Constant", 13, "value_ints=4,5", "", "=4,5"},
        {"Constant", 13, "value_int=7", "", "#7"},
        {"Constant", 13, "value_floats=1,2", "", "~1,2"},
        {"Constant", 13, "", "", "*"},
        {"ConstantOfShape", 20, "value==1", "=2", "=1,1"},
        {"ConstantOfShape", 20, "", "=2,N", "2,N"},
        {"ConstantOfShape", 20, "", "3", "?,?,?"},
        {"ConstantOfShape", 20, "", "=", "."},
        {"ConstantOfShape", 20, "", "=-1", "!"},
        {"ConstantOfShape", 20, "", "2,3", "!"},
        {"ConstantOfShape", 20, "", "7000000000", "!"},
    };
    CASE_RUN(cases);
}

TEST(test_shape) {
    static const ShapeCase cases[] = {
        {"Shape", 13, "", "N,3,?", "=N,3,?"},
        {"Shape", 15, "start=1", "N,3,4", "=3,4"},
        {"Shape", 15, "start=-1", "N,3,4", "=4"},
        {"Shape", 15, "end=-1", "N,3,4", "=N,3"},
        {"Shape", 15, "start=9", "N,3,4", "="},
        {"Shape", 15, "start=-9223372036854775808;end=9223372036854775807", "N", "=N"},
        {"Shape", 13, "", ".", "="},
        {"Shape", 13, "", "*", "?"},
        {"Size", 13, "", "2,3", "#6"},
        {"Size", 13, "", "N", "#N"},
        {"Size", 13, "", "N,2", "#?"},
        {"Size", 13, "", "N,0", "#0"},
        {"Size", 13, "", "*", "."},
    };
    CASE_RUN(cases);
}

TEST(test_range) {
    static const ShapeCase cases[] = {
        {"Range", 11, "", "#2 | #9 | #3", "=2,5,8"},
        {"Range", 11, "", "#9 | #2 | #-3", "=9,6,3"},
        {"Range", 11, "", "#0 | #N | #1", "N"},
        {"Range", 11, "", "#5 | #1 | #1", "="},
        {"Range", 11, "", "#0 | #1 | #0", "!"},
        {"Range", 11, "", "~0 | ~1 | ~0.25", "4"},
        {"Range", 11, "", "~0 | ~1 | ~0", "?"},
        {"Range", 11, "", "#-9223372036854775808 | #9223372036854775807 | #1", "?"},
        {"Range", 11, "", "#0 | #9223372036854775807 | #1", "9223372036854775807"},
        {"Range", 11, "", ". | . | .", "?"},
    };
    CASE_RUN(cases);
}

TEST(test_others) {
    static const ShapeCase cases[] = {
        {"RandomNormal", 1, "shape=2,3", "", "2,3"},
        {"RandomNormal", 1, "shape=2,-3", "", "!"},
        {"RandomNormal", 1, "", "", "!"},
        {"Multinomial", 7, "sample_size=4", "N,9", "N,4"},
        {"EyeLike", 9, "", "N,3", "N,3"},
        {"HannWindow", 17, "", "#10", "10"},
        {"HannWindow", 17, "", ".", "?"},
        {"MelWeightMatrix", 17, "", "#8 | #16 | . | . | .", "9,8"},
    };
    CASE_RUN(cases);
}
