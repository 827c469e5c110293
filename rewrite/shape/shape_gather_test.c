// SPDX-License-Identifier: Apache-2.0
/* Picking by index or condition. */
#include "shape_case_test.h"

TEST(test_gather) {
    static const ShapeCase cases[] = {
        {"Gather", 13, "", "10,N | 2,3", "2,3,N"},
        {"Gather", 13, "axis=1", "10,N | .", "10"},
        {"Gather", 13, "axis=2", "10,N | .", "!"},
        {"Gather", 13, "", "* | 2", "*"},
        {"Gather", 13, "", "=4,N,6 | #1", "#N"},
        {"Gather", 13, "", "=4,N,6 | =-1,0", "=6,4"},
        {"Gather", 13, "", "=4 | #3", "!"},
        {"Gather", 13, "", "=4 | #-9223372036854775808", "!"},
        {"Gather", 13, "", ". | .", "!"},
        {"GatherElements", 13, "axis=1", "3,4 | 3,N", "3,N"},
        {"GatherElements", 13, "", "3,4 | 3", "!"},
        {"GatherND", 13, "", "2,3,4 | N,2", "N,4"},
        {"GatherND", 13, "batch_dims=1", "2,3,4 | 2,1", "2,4"},
        {"GatherND", 13, "", "2,3 | N,3", "!"},
        {"GatherND", 13, "batch_dims=-1", "2,3 | N,1", "!"},
        {"GatherND", 13, "batch_dims=2", "2,3 | N,1", "!"},
        {"GatherND", 13, "", "2,3 | N,?", "*"},
        {"ScatterND", 16, "", "N,3 | 2,1 | 2,3", "N,3"},
        {"ScatterElements", 16, "", "N,3 | 2,1 | 2,1", "N,3"},
    };
    CASE_RUN(cases);
}

TEST(test_select) {
    static const ShapeCase cases[] = {
        {"OneHot", 11, "", "N,3 | #5 | 2", "N,3,5"},
        {"OneHot", 11, "axis=0", "N | 1 | 2", "?,N"},
        {"OneHot", 11, "axis=2", "N | =5 | 2", "!"},
        {"OneHot", 11, "", "N | =-5 | 2", "!"},
        {"OneHot", 11, "", "N | ~3 | 2", "N,3"},
        {"Compress", 11, "axis=1", "2,N | ^1,0,1", "2,2"},
        {"Compress", 11, "", "2,N | 3", "?"},
        {"NonZero", 13, "", "N,3", "2,?"},
        {"NonZero", 13, "", "*", "?,?"},
        {"Unique", 11, "", "2,3", "? | ? | 6 | ?"},
        {"Unique", 11, "axis=0", "N,3", "?,3 | ? | N | ?"},
        {"NonMaxSuppression", 11, "", "1,N,4 | 1,2,N", "?,3"},
        {"GridSample", 16, "", "N,3,8,8 | N,5,6,2", "N,3,5,6"},
        {"GridSample", 16, "", "N,3,8,8 | N,5,6", "!"},
        {"AffineGrid", 20, "", "N,2,3 | =N,3,4,5", "N,4,5,2"},
        {"AffineGrid", 20, "", "N,2,3 | =1,2,3", "!"},
    };
    CASE_RUN(cases);
}
