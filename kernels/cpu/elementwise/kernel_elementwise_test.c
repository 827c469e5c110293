// SPDX-License-Identifier: Apache-2.0
/* Elementwise, quantizing and generating kernels on what the backend tests do not have: attributes,
 * shapes and data of hostile models, and arithmetic without a defined result. */
#include "kernel_case_test.h"

#include <math.h>

#include "kernel_convert.h"
#include "kernel_random.h"

/* ---- integers -------------------------------------------------------------------------------- */

static int32_t divide(const char *op, int64_t to_zero, int32_t a, int32_t b) {
    KernelCase c;
    case_begin(&c, op, 14);
    if (to_zero) case_int(&c, "fmod", 1);
    case_in(&c, DTYPE_INT32, 0, NULL, &a);
    case_in(&c, DTYPE_INT32, 0, NULL, &b);
    case_out(&c, DTYPE_INT32, 0, NULL);
    assert_true(case_run(&c));
    int32_t result = *(int32_t *)c.outputs[0].data;
    case_end(&c);
    return result;
}

TEST(test_divisions) {
    assert_int_equal(divide("Div", 0, INT32_MIN, -1), INT32_MIN);
    assert_int_equal(divide("Div", 0, 5, 0), 0);
    assert_int_equal(divide("Div", 0, -7, 2), -3);
    assert_int_equal(divide("Mod", 0, INT32_MIN, -1), 0);
    assert_int_equal(divide("Mod", 0, 5, 0), 0);
    assert_int_equal(divide("Mod", 0, -7, 3), 2);
    assert_int_equal(divide("Mod", 0, 7, -3), -2);
    assert_int_equal(divide("Mod", 1, -7, 3), -1);
    assert_int_equal(divide("Mul", 0, INT32_MIN, -1), INT32_MIN);
    assert_int_equal(divide("Pow", 0, 3, -1), 0);
    assert_int_equal(divide("Pow", 0, -1, -3), -1);
    assert_int_equal(divide("Pow", 0, 0, -1), INT32_MAX);
    assert_int_equal(divide("Pow", 0, 2, 40), 0);
}

/* ---- powers --------------------------------------------------------------------------------- */

/* Square roots are taken where the exponent is 0.5: what C's pow says of it holds for these, too. */
TEST(test_roots) {
    static const double bases[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, -4, 6.25};
    enum { COUNT = sizeof bases / sizeof *bases };
    for (int is_double = 0; is_double < 2; is_double++) {
        KernelCase c;
        float singles[COUNT];
        for (size_t i = 0; i < COUNT; i++) singles[i] = (float)bases[i];
        case_begin(&c, "Pow", 15);
        case_in(&c, is_double ? DTYPE_DOUBLE : DTYPE_FLOAT, 1, (int64_t[]){COUNT},
                is_double ? (const void *)bases : singles);
        case_in(&c, DTYPE_FLOAT, 0, NULL, &(float){0.5f});
        case_out(&c, is_double ? DTYPE_DOUBLE : DTYPE_FLOAT, 1, (int64_t[]){COUNT});
        assert_true(case_run(&c));
        for (size_t i = 0; i < COUNT; i++) {
            double want = is_double ? pow(bases[i], 0.5) : powf(singles[i], 0.5f);
            const void *data = c.outputs[0].data;
            double got = is_double ? ((const double *)data)[i] : ((const float *)data)[i];
            assert_true(isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want));
        }
        case_end(&c);
    }
}

/* ---- attributes and operands that do not fit ------------------------------------------------- */

TEST(test_shift_direction) {
    KernelCase c;
    uint8_t x = 129, y = 1;
    case_begin(&c, "BitShift", 11);
    case_in(&c, DTYPE_UINT8, 0, NULL, &x);
    case_in(&c, DTYPE_UINT8, 0, NULL, &y);
    case_out(&c, DTYPE_UINT8, 0, NULL);
    assert_false(case_run(&c));
    case_text(&c, "direction", "left");
    assert_false(case_run(&c));
    case_text(&c, "direction", "LEFT");
    assert_true(case_run(&c));
    assert_int_equal(*(uint8_t *)c.outputs[0].data, 2);
    case_end(&c);
}

TEST(test_clip_bounds) {
    const float x[] = {-3, 0, 5, NAN}, low = 2, high = -2;
    KernelCase c;
    case_begin(&c, "Clip", 13);
    case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(4), x);
    case_in(&c, DTYPE_FLOAT, 0, NULL, &low);
    case_in(&c, DTYPE_FLOAT, 0, NULL, &high);
    case_out(&c, DTYPE_FLOAT, 1, CASE_DIMS(4));
    assert_true(case_run(&c));
    const float *out = c.outputs[0].data;
    assert_true(out[0] == -2 && out[1] == -2 && out[2] == -2 && isnan(out[3]));
    c.inputs[1] = case_tensor(&c, DTYPE_FLOAT, 1, CASE_DIMS(0), NULL); /* no bound in it */
    assert_false(case_run(&c));
    c.inputs[1] = case_tensor(&c, DTYPE_DOUBLE, 0, NULL, NULL);
    assert_false(case_run(&c));
    case_end(&c);
}

static float clip_infinity(int64_t opset) {
    const float inf = HUGE_VALF;
    KernelCase c;
    case_begin(&c, "Clip", opset);
    case_in(&c, DTYPE_FLOAT, 0, NULL, &inf);
    case_out(&c, DTYPE_FLOAT, 0, NULL);
    assert_true(case_run(&c));
    float result = *(float *)c.outputs[0].data;
    case_end(&c);
    return result;
}

TEST(test_clip_defaults) {
    assert_true(isinf(clip_infinity(1)));
    assert_true(clip_infinity(6) == 0x1.fffffep127f);
    assert_true(isinf(clip_infinity(13)));
}

static bool quantize(Dtype to, uint32_t scale_rank, const int64_t *scale_dims, int64_t axis,
                     int64_t block) {
    KernelCase c;
    case_begin(&c, "QuantizeLinear", 25);
    case_int(&c, "axis", axis);
    case_int(&c, "block_size", block);
    case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(3, 4), NULL);
    case_in(&c, DTYPE_FLOAT, scale_rank, scale_dims, NULL);
    case_out(&c, to, 2, CASE_DIMS(3, 4));
    bool ok = case_run(&c); /* all scales are 0, and 0 / 0 is NaN */
    case_end(&c);
    case_begin(&c, "DequantizeLinear", 25);
    case_int(&c, "axis", axis);
    case_int(&c, "block_size", block);
    case_in(&c, to, 2, CASE_DIMS(3, 4), NULL);
    case_in(&c, DTYPE_FLOAT, scale_rank, scale_dims, NULL);
    case_out(&c, DTYPE_FLOAT, 2, CASE_DIMS(3, 4));
    assert_int_equal(case_run(&c), ok);
    case_end(&c);
    return ok;
}

TEST(test_quantize_shapes) {
    const Dtype u8 = DTYPE_UINT8;
    assert_true(quantize(u8, 0, NULL, INT64_MAX, 0)); /* the axis means nothing */
    assert_true(quantize(u8, 1, CASE_DIMS(4), -1, 0));
    assert_true(quantize(u8, 1, CASE_DIMS(3), 0, 0));
    assert_false(quantize(u8, 1, CASE_DIMS(3), 1, 0));
    assert_false(quantize(u8, 1, CASE_DIMS(4), 2, 0));
    assert_false(quantize(u8, 1, CASE_DIMS(4), -3, 0));
    assert_false(quantize(u8, 1, CASE_DIMS(4), INT64_MIN, 0));
    assert_false(quantize(u8, 1, CASE_DIMS(0), 1, 0));
    assert_false(quantize(u8, 2, CASE_DIMS(3, 4), 1, 0));
    assert_true(quantize(u8, 2, CASE_DIMS(3, 2), 1, 3));
    assert_true(quantize(u8, 2, CASE_DIMS(3, 1), 1, INT64_MAX));
    assert_true(quantize(u8, 2, CASE_DIMS(1, 4), 0, 3));
    assert_false(quantize(u8, 2, CASE_DIMS(3, 2), 1, 4));
    assert_false(quantize(u8, 2, CASE_DIMS(3, 2), 0, 3));
    assert_false(quantize(u8, 2, CASE_DIMS(3, 2), 1, -3));
    assert_false(quantize(u8, 1, CASE_DIMS(2), 1, 2));
    assert_false(quantize(u8, 3, CASE_DIMS(3, 2, 5), 1, 3));
    assert_true(quantize(DTYPE_INT4, 0, NULL, 0, 0));
    assert_false(quantize(DTYPE_STRING, 0, NULL, 0, 0));
}

TEST(test_quantize_limits) {
    const float x[] = {NAN, HUGE_VALF, -HUGE_VALF, 2.5f, 3e38f, -3e38f}, scale = 1;
    const int8_t want[] = {-128, 127, -128, 2, 127, -128};
    KernelCase c;
    case_begin(&c, "QuantizeLinear", 13);
    case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(6), x);
    case_in(&c, DTYPE_FLOAT, 0, NULL, &scale);
    case_in(&c, DTYPE_INT8, 0, NULL, NULL);
    case_out(&c, DTYPE_INT8, 1, CASE_DIMS(6));
    assert_true(case_run(&c));
    assert_memory_equal(c.outputs[0].data, want, sizeof want);
    c.inputs[2].dtype = DTYPE_UINT8; /* not the result's type */
    assert_false(case_run(&c));
    c.inputs[2] = case_tensor(&c, DTYPE_INT8, 1, CASE_DIMS(6), NULL); /* more of them than scales */
    assert_false(case_run(&c));
    c.inputs[2] = case_tensor(&c, DTYPE_INT8, 1, CASE_DIMS(1), NULL);
    c.inputs[1] = case_tensor(&c, DTYPE_FLOAT, 1, CASE_DIMS(6), NULL);
    assert_false(case_run(&c));
    case_end(&c);
    const int32_t wide[] = {INT32_MAX, INT32_MIN, 9, -9, 1, 0}, one = 1;
    const uint8_t small[] = {7, 8, 7, 8, 1, 0}; /* int4: -8 is 8 */
    case_begin(&c, "QuantizeLinear", 23);
    case_in(&c, DTYPE_INT32, 1, CASE_DIMS(6), wide);
    case_in(&c, DTYPE_INT32, 0, NULL, &one);
    case_out(&c, DTYPE_INT4, 1, CASE_DIMS(6));
    assert_true(case_run(&c));
    assert_memory_equal(c.outputs[0].data, small, sizeof small);
    case_int(&c, "precision", DTYPE_STRING);
    assert_false(case_run(&c));
    case_end(&c);
}

static bool dropout(double ratio, uint8_t training) {
    KernelCase c;
    case_begin(&c, "Dropout", 22);
    case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(8), NULL);
    case_in(&c, DTYPE_DOUBLE, 0, NULL, &ratio);
    case_in(&c, DTYPE_BOOL, 0, NULL, &training);
    case_out(&c, DTYPE_FLOAT, 1, CASE_DIMS(8));
    bool ok = case_run(&c);
    case_end(&c);
    return ok;
}

TEST(test_dropout_ratio) {
    assert_true(dropout(0.5, 1));
    assert_true(dropout(2, 0));
    assert_false(dropout(1, 1));
    assert_false(dropout(-0.1, 1));
    assert_false(dropout((double)NAN, 1));
}

static int64_t range(double from, double to, double step) {
    KernelCase c;
    case_begin(&c, "Range", 11);
    case_in(&c, DTYPE_DOUBLE, 0, NULL, &from);
    case_in(&c, DTYPE_DOUBLE, 0, NULL, &to);
    case_in(&c, DTYPE_DOUBLE, 0, NULL, &step);
    c.outputs[c.call.output_count++] = (KernelTensor){.present = true, .dtype = DTYPE_DOUBLE};
    int64_t count = case_run(&c) ? (int64_t)c.outputs[0].count : -1;
    case_end(&c);
    return count;
}

static int64_t whole_range(int64_t from, int64_t to, int64_t step) {
    KernelCase c;
    case_begin(&c, "Range", 11);
    case_in(&c, DTYPE_INT64, 0, NULL, &from);
    case_in(&c, DTYPE_INT64, 0, NULL, &to);
    case_in(&c, DTYPE_INT64, 0, NULL, &step);
    c.outputs[c.call.output_count++] = (KernelTensor){.present = true, .dtype = DTYPE_INT64};
    int64_t count = case_run(&c) ? (int64_t)c.outputs[0].count : -1;
    case_end(&c);
    return count;
}

TEST(test_ranges) {
    assert_int_equal(range(0, 1, 0.3), 4);
    assert_int_equal(range(0, 1, -1), 0);
    assert_int_equal(range(0, 1, 0), -1);
    assert_int_equal(range(0, (double)NAN, 1), -1);
    assert_int_equal(range(0, HUGE_VAL, 1), -1);
    assert_int_equal(range(HUGE_VAL, HUGE_VAL, 1), -1);
    assert_int_equal(whole_range(10, 4, -2), 3);
    assert_int_equal(whole_range(INT64_MIN, INT64_MAX, INT64_MAX), 3);
    assert_int_equal(whole_range(INT64_MAX, INT64_MIN, INT64_MIN), 2);
    assert_int_equal(whole_range(INT64_MIN, INT64_MAX, 1), -1);
    assert_int_equal(whole_range(0, 1, 0), -1);
}

TEST(test_eye_diagonals) {
    static const int64_t diagonals[] = {0, 1, -1, 2, 3, -2, -3, INT64_MAX, INT64_MIN};
    static const int ones[] = {2, 2, 1, 1, 0, 0, 0, 0, 0};
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) {
        KernelCase c;
        case_begin(&c, "EyeLike", 22);
        case_int(&c, "k", diagonals[i]);
        case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 3), NULL);
        case_out(&c, DTYPE_UINT8, 2, CASE_DIMS(2, 3));
        assert_true(case_run(&c));
        int sum = 0;
        for (int k = 0; k < 6; k++) sum += ((uint8_t *)c.outputs[0].data)[k];
        assert_int_equal(sum, ones[i]);
        case_end(&c);
    }
}

static bool mel(int64_t bands, int64_t length, int64_t rate, float low, float high) {
    const int64_t dims[] = {length / 2 + 1, bands};
    KernelCase c;
    case_begin(&c, "MelWeightMatrix", 17);
    case_in(&c, DTYPE_INT64, 0, NULL, &bands);
    case_in(&c, DTYPE_INT64, 0, NULL, &length);
    case_in(&c, DTYPE_INT64, 0, NULL, &rate);
    case_in(&c, DTYPE_FLOAT, 0, NULL, &low);
    case_in(&c, DTYPE_FLOAT, 0, NULL, &high);
    case_out(&c, DTYPE_FLOAT, 2, dims);
    bool ok = case_run(&c);
    case_end(&c);
    return ok;
}

TEST(test_mel_edges) {
    assert_true(mel(8, 16, 8192, 0, 4096));
    assert_false(mel(8, 16, 0, 0, 4096));
    assert_false(mel(8, 16, 8192, 0, 1e9f));
    assert_false(mel(8, 16, 8192, -1000, 4096));
    assert_false(mel(8, 16, 8192, NAN, 4096));
    assert_false(mel(8, 16, -8192, 0, 4096));
}

TEST(test_text) {
    static const struct {
        const char *text;
        bool ok;
        int64_t value;
    } rows[] = {{"9223372036854775807", true, INT64_MAX},
                {"-9223372036854775808", true, INT64_MIN},
                {" 12 ", true, 12},
                {"1e3", true, 1000},
                {"2.9", true, 2},
                {"1e400", true, INT64_MAX},
                {"nan", true, 0},
                {"-INF", true, INT64_MIN},
                {"", false, 0},
                {"0x10", false, 0},
                {"1 2", false, 0},
                {"nan(3)", false, 0},
                {"+-1", false, 0},
                {"e", false, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        KernelCase c;
        KernelString string = {strlen(rows[i].text), rows[i].text};
        case_begin(&c, "Cast", 19);
        case_in(&c, DTYPE_STRING, 0, NULL, &string);
        case_out(&c, DTYPE_INT64, 0, NULL);
        assert_int_equal(case_run(&c), rows[i].ok);
        if (rows[i].ok) assert_true(*(int64_t *)c.outputs[0].data == rows[i].value);
        case_end(&c);
    }
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* The first numbers of numpy's RandomState(0), and of RandomState([1, 1]): a key of two words. */
TEST(test_generator) {
    Random random;
    kernel_random_seed(&random, 0);
    assert_true(kernel_random_real(&random) == 0.5488135039273248);
    assert_true(kernel_random_real(&random) == 0.7151893663724195);
    for (int i = 2; i < 1000; i++) kernel_random_real(&random);
    assert_true(kernel_random_real(&random) == 0.5928802707811576);
    kernel_random_seed(&random, 0);
    assert_true(fabs(kernel_random_normal(&random) - 1.764052345967664) < 1e-15);
    assert_true(fabs(kernel_random_normal(&random) - 0.4001572083672233) < 1e-15);
    kernel_random_seed(&random, UINT64_C(0x100000001));
    assert_true(kernel_random_real(&random) == 0.2309331037176915);
}

TEST(test_multinomial) {
    const float logs[] = {-HUGE_VALF, 0, -HUGE_VALF, NAN, NAN, NAN};
    KernelCase c;
    case_begin(&c, "Multinomial", 22);
    case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 3), logs);
    case_out(&c, DTYPE_INT32, 2, CASE_DIMS(2, 50));
    assert_true(case_run(&c));
    const int32_t *out = c.outputs[0].data;
    for (int i = 0; i < 50; i++) assert_int_equal(out[i], 1);
    for (int i = 50; i < 100; i++) assert_true(out[i] >= 0 && out[i] < 3);
    c.inputs[0] = case_tensor(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 0), NULL);
    assert_false(case_run(&c));
    case_end(&c);
}

/* ---- missing operands ------------------------------------------------------------------------ */

/* An error, never a crash. */
TEST(test_no_operands) {
    /* clang-format off */
    static const char *const operators[] = {
        "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "Bernoulli",
        "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor",
        "BlackmanWindow", "Cast", "CastLike", "Ceil", "Celu", "Clip", "ConstantOfShape", "Cos",
        "Cosh", "DequantizeLinear", "Div", "Dropout", "DynamicQuantizeLinear", "Elu", "Equal",
        "Erf", "Exp", "EyeLike", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HammingWindow",
        "HannWindow", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Less",
        "LessOrEqual", "Log", "Max", "Mean", "MelWeightMatrix", "Min", "Mish", "Mod", "Mul",
        "Multinomial", "Neg", "Not", "Or", "PRelu", "Pow", "QuantizeLinear", "RandomNormal",
        "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Range", "Reciprocal", "Relu",
        "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign",
        "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor",
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        for (int64_t opset = 1; opset <= 28; opset++) {
            size_t count;
            KernelCase c;
            if (!kernel_find("", operators[i], opset, &count)) continue;
            case_begin(&c, operators[i], opset);
            assert_false(case_run(&c));
            case_end(&c);
        }
}
