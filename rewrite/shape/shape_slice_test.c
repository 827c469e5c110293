// SPDX-License-Identifier: Apache-2.0
/* Cutting, joining, repeating, padding; vectors of dims follow. */
#include "shape_case_test.h"

static void test_concat(void **state) {
    (void)state;
    static const ShapeCase cases[] = {
        {"Concat", 13, "axis=1", "N,3,4 | N,5,4", "N,8,4"},
        {"Concat", 13, "axis=-1", "2,N | 2,0", "2,N"},
        {"Concat", 13, "axis=0", "2,3 | *", "?,3"},
        {"Concat", 13, "axis=0", "2,3 | 4,5", "!"},
        {"Concat", 13, "axis=0", "2,3 | 4", "!"},
        {"Concat", 13, "axis=2", "2,3", "!"},
        {"Concat", 13, "", "2,3", "!"},
        {"Concat", 13, "axis=0", ". | .", "!"},
        {"Concat", 13, "axis=0", "9223372036854775807 | 5", "?"},
        {"Concat", 13, "axis=0", "=1,N | =-1", "=1,N,-1"},
        {"Concat", 13, "axis=0", "=1 | 2", "=1,?,?"},
        {"Concat", 3, "", "2,3 | 2,4", "2,7"},
    };
    CASE_RUN(cases);
}

static void test_split(void **state) {
    (void)state;
    static const ShapeCase cases[] = {
        {"Split", 13, "axis=1", "2,6", "2,3 | 2,3"},
        {"Split", 13, "axis=-1", "2,N | =2,3", "2,2 | 2,3"},
        {"Split", 13, "", "5,2", "5,2"},
        {"Split", 18, "num_outputs=3", "7", "3 | 3 | 1"},
        {"Split", 18, "num_outputs=2", "7", "!"},
        {"Split", 17, "", "7", "! | !"},
        {"Split", 11, "split=1,2", "3", "1 | 2"},
        {"Split", 11, "split=1,3", "3", "!"},
        {"Split", 13, "", "7 | =-1,8", "! | !"},
        {"Split", 13, "", "N", "? | ?"},
        {"Split", 13, "", "N", "N"},
        {"Split", 13, "", "=1,2,N", "=1 | =2 | =N"},
        {"Split", 13, "axis=1", "5", "!"},
        {"Split", 13, "", "* | =1", "*"},
    };
    CASE_RUN(cases);
}

static void test_slice(void **state) {
    (void)state;
    static const ShapeCase cases[] = {
        {"Slice", 13, "", "10,N | =1 | =4", "3,N"},
        {"Slice", 13, "", "10,N | =0 | =9223372036854775807 | =1", "10,N"},
        {"Slice", 13, "", "10,N | =1 | =9223372036854775807 | =1", "10,?"},
        {"Slice", 13, "", "10 | =-1 | =-9223372036854775808 | =0 | =-1", "10"},
        {"Slice", 13, "", "N | =-1 | =-9223372036854775808 | =0 | =-1", "N"},
        {"Slice", 13, "", "10 | =8 | =1 | =0 | =-3", "3"},
        {"Slice", 13, "", "10 | =5 | =2", "0"},
        {"Slice", 13, "", "10 | =0 | =10 | =0 | =9223372036854775807", "1"},
        {"Slice", 13, "", "10 | =9 | =-11 | =0 | =-9223372036854775808", "1"},
        {"Slice", 13, "", "10,20 | =-3 | =-1 | =-1", "10,2"},
        {"Slice", 13, "", "10 | =0 | =1 | =0 | =0", "!"},
        {"Slice", 13, "", "10 | =0 | =1 | =1", "!"},
        {"Slice", 13, "", "10 | =0,0 | =1,1", "!"},
        {"Slice", 13, "", "10,N | 1 | 1 | =1", "10,?"},
        {"Slice", 13, "", "10,N | 1 | 1 | 1", "?,?"},
        {"Slice", 13, "", "0,3 | =0 | =5", "0,3"},
        {"Slice", 13, "", "=1,N,3,4 | =1 | =3", "=N,3"},
        {"Slice", 13, "", "=1,N,3 | =-1 | =-9 | =0 | =-1", "=3,N,1"},
        {"Slice", 13, "", "*  | =1 | =3", "*"},
        {"Slice", 9, "starts=1;ends=1000;axes=1", "2,9", "2,8"},
        {"Slice", 9, "starts=1,1;ends=2", "2,9", "!"},
    };
    CASE_RUN(cases);
}

static void test_tile_pad(void **state) {
    (void)state;
    static const ShapeCase cases[] = {
        {"Tile", 13, "", "2,N,3 | =2,1,0", "4,N,0"},
        {"Tile", 13, "", "2 | =-1", "!"},
        {"Tile", 13, "", "2 | =1,2", "!"},
        {"Tile", 13, "", "9 | =9223372036854775807", "?"},
        {"Tile", 13, "", "* | 3", "?,?,?"},
        {"Tile", 13, "", "2,N | *", "?,?"},
        {"Tile", 1, "", "2,3 | ~3 | ~1", "2,9"},
        {"Tile", 1, "", "2,3 | ~nan | ~1", "2,?"},
        {"Tile", 1, "", "2,3 | =2 | =2", "!"},
        {"Pad", 13, "", "2,N | =0,0,1,0", "3,N"},
        {"Pad", 13, "", "2,N | =0,0,1", "!"},
        {"Pad", 18, "", "2,N | =1,2 | - | =-1", "2,?"},
        {"Pad", 18, "", "2,5 | =1,2 | - | =-1", "2,8"},
        {"Pad", 13, "", "2 | =-1,-2", "!"},
        {"Pad", 13, "", "2 | =-1,0", "1"},
        {"Pad", 2, "pads=1,1", "2", "4"},
        {"Pad", 13, "", "2,N | 4", "?,?"},
        {"CenterCropPad", 18, "axes=1", "2,N | =7", "2,7"},
        {"CenterCropPad", 18, "axes=2", "2,N | =7", "!"},
    };
    CASE_RUN(cases);
}

UNIT_TESTS(shape_slice_test) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_concat),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_tile_pad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
