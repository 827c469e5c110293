// SPDX-License-Identifier: Apache-2.0
/* Reductions, norms, losses. */
#include "shape_case_test.h"

TEST(test_reduce) {
    static const ShapeCase cases[] = {
        {"ReduceMean", 13, "axes=1,-1", "2,3,N", "2,1,1"},
        {"ReduceMean", 13, "axes=1;keepdims=0", "2,3,N", "2,N"},
        {"ReduceMean", 13, "keepdims=0", "2,3", "."},
        {"ReduceMean", 18, "", "2,N | =1", "2,1"},
        {"ReduceMean", 18, "keepdims=0", "2,N | 1", "?"},
        {"ReduceMean", 18, "keepdims=0", "2,N | *", "*"},
        {"ReduceMean", 18, "", "2,N | *", "?,?"},
        {"ReduceSum", 13, "noop_with_empty_axes=1", "2,N | =", "2,N"},
        {"ReduceSum", 13, "", "2,N | =", "1,1"},
        {"ReduceSum", 13, "", "2,N | -", "1,1"},
        {"ReduceMax", 13, "axes=2", "2,N", "!"},
        {"ReduceMax", 13, "axes=-3", "2,N", "!"},
        {"ReduceMax", 13, "axes=9223372036854775807", "2,N", "!"},
        {"ReduceProd", 13, "keepdims=0", "=2,3,4", "#24"},
        {"ReduceProd", 13, "keepdims=0", "=9223372036854775807,2", "#?"},
        {"ReduceSum", 13, "keepdims=0", "=2,?", "#?"},
        {"ReduceSum", 13, "", "* | =1", "*"},
        {"ReduceMin", 13, "", "0,3", "1,1"},
    };
    CASE_RUN(cases);
}

TEST(test_arg) {
    static const ShapeCase cases[] = {
        {"ArgMax", 13, "axis=-1", "2,N,4", "2,N,1"},
        {"ArgMax", 13, "keepdims=0", "2,N,4", "N,4"},
        {"ArgMin", 13, "axis=3", "2,N,4", "!"},
        {"TopK", 11, "axis=1", "2,9 | =4", "2,4 | 2,4"},
        {"TopK", 11, "", "2,9 | 1", "2,? | 2,?"},
        {"TopK", 1, "k=3", "2,N", "2,3 | 2,3"},
        {"TopK", 11, "", "2,9 | =10", "!"},
        {"TopK", 11, "", "2,N | =-1", "!"},
    };
    CASE_RUN(cases);
}

TEST(test_norms) {
    static const ShapeCase cases[] = {
        {"BatchNormalization", 9, "", "N,C,H,W | 8 | 8 | 8 | 8", "N,C,H,W | 8 | 8"},
        {"LayerNormalization", 17, "axis=-2", "2,N,3,4 | 3,4", "2,N,3,4 | 2,N,1,1 | 2,N,1,1"},
        {"LayerNormalization", 17, "axis=4", "2,N,3,4 | 4", "!"},
        {"LpNormalization", 1, "axis=9", "2,3", "!"},
    };
    CASE_RUN(cases);
}

TEST(test_losses) {
    static const ShapeCase cases[] = {
        {"NegativeLogLikelihoodLoss", 13, "reduction=none", "N,5,6 | N,6", "N,6"},
        {"NegativeLogLikelihoodLoss", 13, "", "N,5,6 | N,6", "."},
        {"SoftmaxCrossEntropyLoss", 13, "reduction=none", "3,5,6,7 | *", "3,6,7 | 3,5,6,7"},
        {"SoftmaxCrossEntropyLoss", 13, "reduction=none", "3,5 | 4", "!"},
        {"SoftmaxCrossEntropyLoss", 13, "reduction=some", "3,5 | 3", "!"},
    };
    CASE_RUN(cases);
}
