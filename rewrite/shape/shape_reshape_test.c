// SPDX-License-Identifier: Apache-2.0
/* Reshape and its kin: symbols, zero and -1, hostile targets; contents pass through. */
#include "shape_case_test.h"

TEST(test_reshape) {
    static const ShapeCase cases[] = {
        {"Reshape", 14, "", "2,3,4 | =6,4", "6,4"},
        {"Reshape", 14, "", "2,3,4 | =-1,4", "6,4"},
        {"Reshape", 14, "", "N,3,4 | =0,-1", "N,12"},
        {"Reshape", 14, "", "N,3,4 | =-1,12", "N,12"},
        {"Reshape", 14, "", "N,3,4 | =-1,6", "?,6"},
        {"Reshape", 14, "", "?,3,4 | =0,-1", "?,12"},
        {"Reshape", 14, "", "N,M,4 | =N,-1", "N,?"},
        {"Reshape", 14, "", "N,M,4 | =0,-1,4", "N,M,4"},
        {"Reshape", 14, "", "N,M,4 | =4,-1", "4,?"},
        {"Reshape", 14, "", "N,4 | =N,N,-1", "N,N,?"},
        {"Reshape", 14, "", "N,6 | =N,2,-1", "N,2,3"},
        {"Reshape", 14, "", "0,3 | =0,3", "0,3"},
        {"Reshape", 14, "allowzero=1", "0,3 | =3,0", "3,0"},
        {"Reshape", 14, "", "0,3 | =-1,3", "0,3"},
        {"Reshape", 14, "", "0,3 | =0,-1", "0,?"},
        {"Reshape", 14, "", "* | =2,-1", "2,?"},
        {"Reshape", 14, "", "2,3 | 2", "?,?"},
        {"Reshape", 14, "", "2,3 | N", "*"},
        {"Reshape", 14, "", "2,3 | *", "*"},
        {"Reshape", 14, "", "2,3 | =?,3", "?,3"},
        {"Reshape", 14, "", "1 | =", "."},
        {"Reshape", 14, "", ". | =1,1", "1,1"},
        {"Reshape", 14, "", "2,3 | =4,-1", "!"},
        {"Reshape", 14, "", "2,3 | =-1,-1", "!"},
        {"Reshape", 14, "", "2,3 | =7", "!"},
        {"Reshape", 14, "", "2,3 | =-2,3", "!"},
        {"Reshape", 14, "", "2,3 | =1,1,0", "!"},
        {"Reshape", 14, "", "2,3 | #6", "!"},
        {"Reshape", 14, "", "2,3 | 99999999999", "!"},
        {"Reshape", 14, "", "9223372036854775807,9223372036854775807 | =-1", "?"},
        {"Reshape", 14, "", "2,3 | =9223372036854775807,9223372036854775807,-1",
         "9223372036854775807,9223372036854775807,?"},
        {"Reshape", 14, "", "=2,N | =1,2", "1,2"},
        {"Reshape", 14, "", "=2,N | =-1", "=2,N"},
        {"Reshape", 14, "", "=2 | =", "#2"},
        {"Reshape", 1, "shape=3,-1", "2,6", "3,4"},
    };
    CASE_RUN(cases);
}

TEST(test_flatten) {
    static const ShapeCase cases[] = {
        {"Flatten", 13, "", "N,3,4", "N,12"},       {"Flatten", 13, "axis=0", "2,3", "1,6"},
        {"Flatten", 13, "axis=-1", "2,3,4", "6,4"}, {"Flatten", 13, "axis=3", "2,3,4", "24,1"},
        {"Flatten", 13, "axis=4", "2,3,4", "!"},    {"Flatten", 13, "", "*", "?,?"},
        {"Flatten", 13, "", "N,M,4", "N,?"},        {"Flatten", 13, "", "0,?", "0,?"},
    };
    CASE_RUN(cases);
}

TEST(test_squeeze) {
    static const ShapeCase cases[] = {
        {"Squeeze", 13, "", "1,N,1 | =0,-1", "N"},
        {"Squeeze", 13, "", "1,3,1", "3"},
        {"Squeeze", 13, "", "1,N", "*"},
        {"Squeeze", 11, "axes=0", "1,N", "N"},
        {"Squeeze", 13, "", "1,N | 1", "?"},
        {"Squeeze", 13, "", "2,N | =0", "!"},
        {"Squeeze", 13, "", "1,N | =2", "!"},
        {"Squeeze", 13, "", "1,1 | =0,0", "!"},
        {"Squeeze", 13, "", "=5 | =0", "#5"},
        {"Unsqueeze", 13, "", "N | =0,2", "1,N,1"},
        {"Unsqueeze", 11, "axes=-1", "2,N", "2,N,1"},
        {"Unsqueeze", 13, "", "2 | 2", "?,?,?"},
        {"Unsqueeze", 13, "", "2 | =5", "!"},
        {"Unsqueeze", 13, "", "2 | =0,-3", "!"},
        {"Unsqueeze", 13, "", "#5 | =0", "=5"},
        {"Unsqueeze", 13, "", "2 | 5000000000", "!"},
    };
    CASE_RUN(cases);
}

TEST(test_transpose) {
    static const ShapeCase cases[] = {
        {"Transpose", 13, "perm=2,0,1", "2,N,4", "4,2,N"},
        {"Transpose", 13, "", "2,N,4", "4,N,2"},
        {"Transpose", 13, "perm=0,0", "2,3", "!"},
        {"Transpose", 13, "perm=0", "2,3", "!"},
        {"Transpose", 13, "perm=0,7", "2,3", "!"},
        {"Transpose", 13, "perm=1,0", "*", "?,?"},
        {"Transpose", 13, "", ".", "."},
    };
    CASE_RUN(cases);
}

TEST(test_blocks) {
    static const ShapeCase cases[] = {
        {"DepthToSpace", 13, "blocksize=2", "N,8,3,W", "N,2,6,?"},
        {"DepthToSpace", 13, "blocksize=3", "N,8,3,W", "!"},
        {"DepthToSpace", 13, "blocksize=0", "N,8,3,W", "!"},
        {"DepthToSpace", 13, "blocksize=9999999999", "N,8,3,W", "!"},
        {"DepthToSpace", 13, "", "N,8,3,W", "!"},
        {"SpaceToDepth", 13, "blocksize=2", "N,2,6,8", "N,8,3,4"},
        {"SpaceToDepth", 13, "blocksize=2", "N,2,6", "!"},
    };
    CASE_RUN(cases);
}
