// SPDX-License-Identifier: Apache-2.0
/* Resize and Upsample. */
#include "shape_case_test.h"

TEST(test_resize) {
    static const ShapeCase cases[] = {
        {"Resize", 13, "", "1,3,N,5 | - | ~1,1,2,2", "1,3,?,10"},
        {"Resize", 13, "", "1,3,N,5 | - | ~1,1,1,0.5", "1,3,N,2"},
        {"Resize", 13, "", "1,3,N,5 | - | - | =1,3,H,7", "1,3,H,7"},
        {"Resize", 11, "", "1,3,N,5 | = | ~1,1,1,2 | -", "1,3,N,10"},
        {"Resize", 11, "", "1,3,N,5 | = | = | =1,3,8,9", "1,3,8,9"},
        {"Resize", 18, "axes=2,3", "1,3,4,5 | - | ~2,2", "1,3,8,10"},
        {"Resize", 18, "axes=2,3;keep_aspect_ratio_policy=not_larger", "1,1,2,4 | - | - | =7,8",
         "1,1,4,8"},
        {"Resize", 18, "axes=2,3;keep_aspect_ratio_policy=not_smaller", "1,1,2,4 | - | - | =7,8",
         "1,1,7,14"},
        {"Resize", 18, "axes=2,3;keep_aspect_ratio_policy=not_larger", "1,1,H,4 | - | - | =7,8",
         "1,1,?,?"},
        {"Resize", 13, "", "1,3 | - | ~1", "!"},
        {"Resize", 13, "", "1,3 | - | ~0,1", "!"},
        {"Resize", 13, "", "1,3 | - | ~-1,1", "!"},
        {"Resize", 13, "", "1,3 | - | ~nan,1", "!"},
        {"Resize", 13, "", "1,3 | - | ~1e30,1", "?,3"},
        {"Resize", 18, "axes=5", "1,3 | - | ~1", "!"},
        {"Resize", 13, "", "1,3 | - | 2", "?,?"},
        {"Resize", 13, "coordinate_transformation_mode=tf_crop_and_resize", "4 | ~0,0.5 | ~2", "?"},
        {"Resize", 13, "coordinate_transformation_mode=tf_crop_and_resize", "4 | ~0,1 | ~2", "8"},
        {"Resize", 10, "", "4 | ~1.5", "6"},
        {"Upsample", 9, "", "1,1,2,2 | ~1,1,2,3", "1,1,4,6"},
        {"Upsample", 7, "scales=1,1,2,3", "1,1,2,2", "1,1,4,6"},
        {"Upsample", 1, "height_scale=2;width_scale=3", "1,1,2,N", "1,1,4,?"},
        {"Upsample", 7, "scales=1", "1,1,2,2", "!"},
    };
    CASE_RUN(cases);
}
