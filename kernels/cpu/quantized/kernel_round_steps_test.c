// SPDX-License-Identifier: Apache-2.0
/* demi.fused's RoundSteps beside QuantizeLinear and DequantizeLinear one after the other, bit by bit,
 * of every integer type that it stands for; and what it refuses. */
#include <math.h>

#include "kernel_case_test.h"

enum { COUNT = 1037 };

static KernelCase c;
static uint32_t state = 1;
static float random_float(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (float)(1 << 23) - 1;
}

static const int64_t all[] = {COUNT};

/* From well inside of the range to far outside, with ties, zeros and what is no number. */
static float *make_input(float step) {
    static const float special[] = {0,    -0.0f, 0.5f,     -0.5f,     1.5f,
                                    2.5f, -1.5f, INFINITY, -INFINITY, NAN};
    float *x = ARENA_ARRAY(&c.arena, float, COUNT);
    for (int i = 0; i < COUNT; i++)
        x[i] = i < 10 ? special[i] * step : random_float() * ldexpf(step, i % 20);
    return x;
}

static float *one(float number) {
    float *item = ARENA_ARRAY(&c.arena, float, 1);
    *item = number;
    return item;
}

/* A zero point in the type's bytes. */
static void *zero_of(Dtype dtype, int32_t zero) {
    int16_t *words = ARENA_ARRAY(&c.arena, int16_t, 1);
    int8_t *bytes = (int8_t *)words;
    if (dtype == DTYPE_INT8 || dtype == DTYPE_UINT8)
        *bytes = (int8_t)zero;
    else
        *words = (int16_t)zero;
    return words;
}

static void by_parts(Dtype dtype, float step, int32_t zero, float *want) {
    static uint16_t integers[COUNT];
    case_begin(&c, "QuantizeLinear", 21);
    case_in(&c, DTYPE_FLOAT, 1, all, make_input(step));
    case_in(&c, DTYPE_FLOAT, 0, NULL, one(step));
    case_in(&c, dtype, 0, NULL, zero_of(dtype, zero));
    case_out(&c, dtype, 1, all);
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    memcpy(integers, c.outputs[0].data, COUNT * (size_t)dtype_bits(dtype) / 8);
    case_end(&c);
    case_begin(&c, "DequantizeLinear", 21);
    case_in(&c, dtype, 1, all, integers);
    case_in(&c, DTYPE_FLOAT, 0, NULL, one(step));
    case_in(&c, dtype, 0, NULL, zero_of(dtype, zero));
    case_out(&c, DTYPE_FLOAT, 1, all);
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    memcpy(want, c.outputs[0].data, COUNT * sizeof *want);
    case_end(&c);
}

static void in_one(float step, float low, float high, float *have) {
    uint32_t before = state;
    case_begin_in(&c, "demi.fused", "RoundSteps", 1);
    case_in(&c, DTYPE_FLOAT, 1, all, make_input(step));
    case_in(&c, DTYPE_FLOAT, 0, NULL, one(step));
    case_in(&c, DTYPE_FLOAT, 0, NULL, one(low));
    case_in(&c, DTYPE_FLOAT, 0, NULL, one(high));
    case_out(&c, DTYPE_FLOAT, 1, all);
    const bool ok = case_run(&c);
    if (have && !ok) fail_msg("%s", c.err.what);
    if (!have) assert_false(ok);
    if (have) memcpy(have, c.outputs[0].data, COUNT * sizeof *have);
    case_end(&c);
    state = before;
}

TEST(test_values) {
    static const Dtype types[] = {DTYPE_INT8, DTYPE_UINT8, DTYPE_INT16, DTYPE_UINT16};
    static float want[COUNT], have[COUNT];
    for (int i = 0; i < 200; i++) {
        const Dtype dtype = types[i % 4];
        const uint32_t bits = dtype_bits(dtype);
        const bool is_signed = dtype == DTYPE_INT8 || dtype == DTYPE_INT16;
        const int32_t least = is_signed ? -(1 << (bits - 1)) : 0, most = least + (1 << bits) - 1;
        const int32_t zero = least + (int32_t)((float)(most - least) * fabsf(random_float()));
        const float step = fabsf(random_float()) + 0x1p-20f;
        const uint32_t before = state;
        by_parts(dtype, step, zero, want);
        state = before;
        in_one(step, (float)(least - zero), (float)(most - zero), have);
        assert_memory_equal(have, want, sizeof want);
        random_float();
    }
}

TEST(test_refusals) {
    in_one(0, -128, 127, NULL);
    in_one(NAN, -128, 127, NULL);
    in_one(1, -1e9f, 0, NULL);
    in_one(1, NAN, 0, NULL);
}
