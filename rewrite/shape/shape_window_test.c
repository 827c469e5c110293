// SPDX-License-Identifier: Apache-2.0
/* Convolutions, pools and their inverses, with attributes no model should have. */
#include "shape_case_test.h"

TEST(test_conv) {
    static const ShapeCase cases[] = {
        {"Conv", 11, "kernel_shape=3,3;pads=1,1,1,1;strides=2,2", "1,3,224,224 | 64,3,3,3 | 64",
         "1,64,112,112"},
        {"Conv", 11, "pads=1,1,1,1", "N,3,H,W | 64,3,3,3", "N,64,H,W"},
        {"Conv", 11, "strides=2,2", "N,3,H,W | 64,3,3,3", "N,64,?,?"},
        {"Conv", 11, "auto_pad=SAME_UPPER;strides=2,2", "1,3,5,6 | 8,3,3,3", "1,8,3,3"},
        {"Conv", 11, "auto_pad=SAME_LOWER", "1,3,H,? | 8,3,3,3", "1,8,H,?"},
        {"Conv", 11, "auto_pad=VALID;pads=9,9,9,9", "1,3,5,6 | 8,3,3,3", "1,8,3,4"},
        {"Conv", 11, "dilations=2", "1,1,10 | 1,1,3", "1,1,6"},
        {"Conv", 11, "", "1,3,8 | *", "1,?,?"},
        {"Conv", 11, "", "* | 8,3,3", "?,8,?"},
        {"Conv", 11, "", "* | *", "*"},
        {"Conv", 11, "", "0,3,8 | 4,3,3", "0,4,6"},
        {"Conv", 11, "strides=0,0", "1,3,8,8 | 4,3,3,3", "!"},
        {"Conv", 11, "pads=-1,0,0,0", "1,3,8,8 | 4,3,3,3", "!"},
        {"Conv", 11, "pads=1", "1,3,8,8 | 4,3,3,3", "!"},
        {"Conv", 11, "dilations=0,1", "1,3,8,8 | 4,3,3,3", "!"},
        {"Conv", 11, "auto_pad=MAYBE", "1,3,8,8 | 4,3,3,3", "!"},
        {"Conv", 11, "", "3 | 3", "!"},
        {"Conv", 11, "", "1,3,8,8 | 4,3,3", "!"},
        {"Conv", 11, "", "1,3,2 | 4,3,3", "!"},
        {"Conv", 11, "pads=9223372036854775807,9223372036854775807", "1,3,8 | 4,3,3", "1,4,?"},
        {"Conv", 11, "dilations=9223372036854775807", "1,3,8 | 4,3,3", "1,4,?"},
        {"Conv", 11, "strides=9223372036854775807", "1,3,8 | 4,3,3", "1,4,1"},
        {"QLinearConv", 10, "", "1,3,8 | . | . | 4,3,3 | . | . | . | .", "1,4,6"},
        {"ConvInteger", 10, "", "1,3,8 | 4,3,3", "1,4,6"},
    };
    CASE_RUN(cases);
}

TEST(test_pool) {
    static const ShapeCase cases[] = {
        {"MaxPool", 12, "kernel_shape=2,2;strides=2,2", "1,3,5,7", "1,3,2,3 | 1,3,2,3"},
        {"MaxPool", 12, "kernel_shape=2,2;strides=2,2;ceil_mode=1", "1,3,5,7", "1,3,3,4"},
        {"MaxPool", 12, "kernel_shape=1,1;strides=2,2;pads=0,0,0,0;ceil_mode=1", "1,1,2,2",
         "1,1,1,1"},
        {"AveragePool", 19, "kernel_shape=3;strides=2;pads=0,1;ceil_mode=1", "1,1,4", "1,1,2"},
        {"MaxPool", 12, "kernel_shape=4;strides=3;ceil_mode=1;auto_pad=VALID", "1,1,15", "1,1,5"},
        {"MaxPool", 12, "kernel_shape=1;strides=3;ceil_mode=1", "1,1,6", "1,1,2"},
        {"MaxPool", 12, "kernel_shape=3;pads=1,1", "N,C,L", "N,C,L"},
        {"MaxPool", 12, "", "1,3,8", "!"},
        {"MaxPool", 12, "kernel_shape=9", "1,3,8", "!"},
        {"MaxPool", 12, "kernel_shape=0", "1,3,8", "!"},
        {"LpPool", 18, "kernel_shape=2;dilations=3", "1,3,8", "1,3,5"},
        {"MaxPool", 12, "kernel_shape=2,2", "*", "*"},
        {"GlobalAveragePool", 1, "", "N,C,7,7", "N,C,1,1"},
        {"GlobalMaxPool", 1, "", "5", "!"},
    };
    CASE_RUN(cases);
}

TEST(test_inverse) {
    static const ShapeCase cases[] = {
        {"ConvTranspose", 11, "strides=2,2", "1,8,4,4 | 8,5,3,3", "1,5,9,9"},
        {"ConvTranspose", 11, "group=2;strides=2,2;pads=1,1,1,1;output_padding=1,1",
         "1,8,4,4 | 8,5,3,3", "1,10,8,8"},
        {"ConvTranspose", 11, "auto_pad=SAME_UPPER;strides=3", "1,1,4 | 1,2,3", "1,2,12"},
        {"ConvTranspose", 11, "auto_pad=SAME_UPPER;strides=3", "1,1,7 | 1,2,2", "1,2,20"},
        {"ConvTranspose", 11, "auto_pad=SAME_LOWER", "1,1,H | 1,2,2", "1,2,H"},
        {"ConvTranspose", 11, "output_shape=10,8", "1,1,3,3 | 1,2,3,3", "1,2,10,8"},
        {"ConvTranspose", 11, "output_shape=1,2,10,8", "1,1,3,3 | 1,2,3,3", "1,2,10,8"},
        {"ConvTranspose", 11, "output_shape=1", "1,1,3,3 | 1,2,3,3", "!"},
        {"ConvTranspose", 11, "group=0", "1,8,4 | 8,5,3", "!"},
        {"ConvTranspose", 11, "", "1,8,H | 8,5,3", "1,5,?"},
        {"ConvTranspose", 11, "pads=9,9", "1,8,4 | 8,5,3", "!"},
        {"ConvTranspose", 11, "strides=9223372036854775807", "1,8,4 | 8,5,3", "1,5,?"},
        {"ConvTranspose", 11, "", "1 | 8", "!"},
        {"MaxUnpool", 11, "kernel_shape=2,2;strides=2,2", "1,1,2,2 | 1,1,2,2", "1,1,4,4"},
        {"MaxUnpool", 11, "kernel_shape=2,2", "1,1,2,2 | 1,1,2,2 | =1,1,5,5", "1,1,5,5"},
        {"Col2Im", 18, "", "1,5,5 | =5,5 | =1,5", "1,1,5,5"},
        {"Col2Im", 18, "", "1,6,5 | =5,5 | =1,5", "!"},
        {"Col2Im", 18, "", "N,10,5 | 2 | =1,5", "N,2,?,?"},
        {"CausalConvWithState", 27, "", "N,8,L | 8,1,4 | - | -", "N,8,L | N,8,3"},
    };
    CASE_RUN(cases);
}

TEST(test_roi) {
    static const ShapeCase cases[] = {
        {"RoiAlign", 16, "output_height=7;output_width=5", "1,256,H,W | R,4 | R", "R,256,7,5"},
        {"RoiAlign", 16, "output_height=-7", "1,256,H,W | R,4 | R", "!"},
        {"MaxRoiPool", 1, "pooled_shape=2,3", "1,8,9,9 | 4,5", "4,8,2,3"},
        {"MaxRoiPool", 1, "pooled_shape=2", "1,8,9,9 | 4,5", "!"},
    };
    CASE_RUN(cases);
}
