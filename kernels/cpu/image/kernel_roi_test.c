// SPDX-License-Identifier: Apache-2.0
/* RoiAlign with as many samples as an attribute may ask for: it ends soon, with a message. */
#include "kernel_case_test.h"

static bool align(int64_t ratio, Err *err) {
    const float region[] = {0, 0, 1, 1}, map[] = {1, 2, 3, 4};
    const int64_t image[] = {0};
    KernelCase c;
    case_begin(&c, "RoiAlign", 16);
    case_int(&c, "output_height", 8);
    case_int(&c, "output_width", 8);
    case_int(&c, "sampling_ratio", ratio);
    case_in(&c, DTYPE_FLOAT, 4, CASE_DIMS(1, 1, 2, 2), map);
    case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(1, 4), region);
    case_in(&c, DTYPE_INT64, 1, CASE_DIMS(1), image);
    case_out(&c, DTYPE_FLOAT, 4, CASE_DIMS(1, 1, 8, 8));
    bool ok = case_run(&c);
    *err = c.err;
    case_end(&c);
    return ok;
}

TEST(test_samples) {
    const int64_t few[] = {0, 1, 2, 16, 200}, many[] = {1 << 14, 1 << 19, INT64_MAX};
    Err err;
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) assert_true(align(few[i], &err));
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        assert_false(align(many[i], &err));
        assert_non_null(strstr(err.what, "samples"));
    }
}
