// SPDX-License-Identifier: Apache-2.0
/* Conversions: the fast encoder of small floats against dtype.h's, ONNX's tables of what is past
 * the largest number, scales, integers of all widths, and that blocks do not show. */
#include <math.h>
#include <string.h>

#include "kernel_convert.h"
#include "unit_test.h"

static const Dtype small_floats[] = {
    DTYPE_FLOAT8E4M3FN, DTYPE_FLOAT8E4M3FNUZ, DTYPE_FLOAT8E5M2, DTYPE_FLOAT8E5M2FNUZ,
    DTYPE_FLOAT4E2M1,   DTYPE_FLOAT6E2M3,     DTYPE_FLOAT6E3M2,
};

static uint8_t encoded(Dtype dtype, float value, const ConvertRules *rules) {
    uint8_t byte = 0xaa;
    assert_true(kernel_convert(dtype, &byte, DTYPE_FLOAT, &value, 1, rules));
    return byte;
}

/* Every value half-way between two codes, its neighbors, and every code itself. */
TEST(test_small_floats) {
    for (size_t i = 0; i < sizeof small_floats / sizeof *small_floats; i++)
        for (uint64_t code = 0; code < 255; code++) {
            double a = NAN, b = NAN;
            dtype_to_double(small_floats[i], code, &a);
            dtype_to_double(small_floats[i], code + 1, &b);
            if (!isfinite(a) || !isfinite(b)) continue;
            float middle = (float)((a + b) / 2);
            float values[] = {(float)a, middle, nextafterf(middle, 0), nextafterf(middle, 1e9f)};
            for (int k = 0; k < 4; k++) {
                uint64_t want = 0;
                assert_true(dtype_from_double(small_floats[i], (double)values[k], &want));
                assert_int_equal(encoded(small_floats[i], values[k], NULL), want);
            }
        }
}

TEST(test_past_the_largest) {
    const ConvertRules overflow = {true, CONVERT_UP};
    static const struct {
        Dtype dtype;
        float last, past; /* the last that rounds to the largest, the next one */
        uint8_t largest, result, infinity;
    } rows[] = {
        {DTYPE_FLOAT8E4M3FN, 464, 464.001f, 0x7e, 0x7f, 0x7f},
        {DTYPE_FLOAT8E4M3FNUZ, 247.99f, 248, 0x7f, 0x80, 0x80},
        {DTYPE_FLOAT8E5M2, 61439, 61440, 0x7b, 0x7c, 0x7c},
        {DTYPE_FLOAT8E5M2FNUZ, 61439, 61440, 0x7f, 0x80, 0x80},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Dtype dtype = rows[i].dtype;
        assert_int_equal(encoded(dtype, rows[i].last, &overflow), rows[i].largest);
        assert_int_equal(encoded(dtype, rows[i].past, &overflow), rows[i].result);
        assert_int_equal(encoded(dtype, HUGE_VALF, &overflow), rows[i].infinity);
        assert_int_equal(encoded(dtype, rows[i].past, NULL), rows[i].largest);
        assert_int_equal(encoded(dtype, HUGE_VALF, NULL), rows[i].largest);
        assert_int_equal(encoded(dtype, -HUGE_VALF, NULL), rows[i].largest | 0x80);
    }
    assert_int_equal(encoded(DTYPE_FLOAT4E2M1, NAN, NULL), 0);
    assert_int_equal(encoded(DTYPE_FLOAT8E4M3FNUZ, -0.0f, NULL), 0);
    assert_int_equal(encoded(DTYPE_FLOAT8E4M3FN, -0.0f, NULL), 0x80);
}

TEST(test_scales) {
    static const struct {
        float value;
        uint8_t up, down, nearest;
    } rows[] = {{1, 127, 127, 127},     {1.25f, 128, 127, 127}, {1.5f, 128, 127, 128},
                {0.75f, 127, 126, 127}, {3e38f, 254, 254, 254}, {0x1p-127f, 0, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ConvertRules down = {false, CONVERT_DOWN}, nearest = {false, CONVERT_NEAREST};
        assert_int_equal(encoded(DTYPE_FLOAT8E8M0, rows[i].value, NULL), rows[i].up);
        assert_int_equal(encoded(DTYPE_FLOAT8E8M0, rows[i].value, &down), rows[i].down);
        assert_int_equal(encoded(DTYPE_FLOAT8E8M0, rows[i].value, &nearest), rows[i].nearest);
    }
    const ConvertRules past = {true, CONVERT_UP};
    assert_int_equal(encoded(DTYPE_FLOAT8E8M0, 3e38f, &past), 255);
    assert_int_equal(encoded(DTYPE_FLOAT8E8M0, 0, &past), 255);
    assert_int_equal(encoded(DTYPE_FLOAT8E8M0, HUGE_VALF, NULL), 254);
    assert_int_equal(encoded(DTYPE_FLOAT8E8M0, NAN, NULL), 255);
}

#define ONE(T, to, S, from, value, want)                                                           \
    do {                                                                                           \
        S source = (S)(value);                                                                     \
        T target;                                                                                  \
        assert_true(kernel_convert(DTYPE_##to, &target, DTYPE_##from, &source, 1, NULL));          \
        assert_true(target == (want));                                                             \
    } while (0)

TEST(test_integers) {
    ONE(int32_t, INT32, float, FLOAT, 1e20, INT32_MAX);
    ONE(int32_t, INT32, float, FLOAT, -HUGE_VALF, INT32_MIN);
    ONE(int64_t, INT64, float, FLOAT, NAN, 0);
    ONE(int64_t, INT64, float, FLOAT, 0x1p63f, INT64_MAX);
    ONE(uint64_t, UINT64, double, DOUBLE, 0x1p64, UINT64_MAX);
    ONE(uint8_t, UINT8, double, DOUBLE, -1.5, 0);
    ONE(int8_t, INT8, double, DOUBLE, -1.9, -1);
    ONE(int8_t, INT8, int16_t, INT16, 200, -56);
    ONE(uint8_t, INT4, int32_t, INT32, 24, 8);
    ONE(int32_t, INT32, uint8_t, INT4, 0xf8, -8); /* upper bits do not count */
    ONE(int32_t, INT32, uint8_t, UINT2, 0xff, 3);
    ONE(uint8_t, BOOL, float, FLOAT, NAN, 1);
    ONE(uint8_t, BOOL, double, DOUBLE, 1e-300, 1);
    ONE(float, FLOAT, uint64_t, UINT64, UINT64_MAX, 0x1p64f);
    ONE(float, FLOAT, int64_t, INT64, INT64_MIN, -0x1p63f);
    /* just past half-way between two bfloat16: by way of a double it would be a tie */
    ONE(uint16_t, BFLOAT16, int64_t, INT64, (INT64_C(1) << 62) + (INT64_C(1) << 54) + 1, 0x5e81);
    ONE(uint16_t, BFLOAT16, int64_t, INT64, (INT64_C(1) << 62) + (INT64_C(1) << 54), 0x5e80);
    ONE(uint16_t, BFLOAT16, uint64_t, UINT64, (UINT64_C(1) << 63) + (UINT64_C(1) << 55) + 1,
        0x5f01);
}

TEST(test_blocks) {
    enum { COUNT = 1000 };
    static double from[COUNT], back[COUNT];
    static uint16_t half[COUNT];
    static int16_t words[COUNT];
    for (int i = 0; i < COUNT; i++) from[i] = i - 500;
    assert_true(kernel_convert(DTYPE_FLOAT16, half, DTYPE_DOUBLE, from, COUNT, NULL));
    assert_true(kernel_convert(DTYPE_INT16, words, DTYPE_FLOAT16, half, COUNT, NULL));
    assert_true(kernel_convert(DTYPE_DOUBLE, back, DTYPE_INT16, words, COUNT, NULL));
    assert_memory_equal(from, back, sizeof from);
}

TEST(test_refusals) {
    uint64_t bytes[4] = {0};
    static const Dtype others[] = {DTYPE_STRING, DTYPE_COMPLEX64, DTYPE_UNDEFINED, (Dtype)99};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(kernel_convert(DTYPE_FLOAT, bytes, others[i], bytes + 2, 1, NULL));
        assert_false(kernel_convert(others[i], bytes, DTYPE_FLOAT, bytes + 2, 1, NULL));
    }
    assert_true(kernel_convert(DTYPE_FLOAT, NULL, DTYPE_INT8, NULL, 0, NULL));
}
