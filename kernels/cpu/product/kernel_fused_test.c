// SPDX-License-Identifier: Apache-2.0
/* The fused operators' kernels: what they compute on small numbers, and that a plan file that says
 * anything else than the passes do (shapes, activations, transposed operands) is refused. */
#include <math.h>

#include "kernel_case_test.h"

/* The own row of the operator: those before it are a library's, with something to release. */
static void begin(KernelCase *c, const char *op) {
    case_begin_in(c, "demi.fused", op, 1);
    while (c->call.row->prepare && c->call.row->prepare->release) c->call.row++;
    assert_int_equal(c->call.row->since, 1);
}

static void floats_attr(KernelCase *c, const char *name, const float *items, uint32_t count) {
    case_attr(c, name, (PlainAttr){.kind = PLAIN_FLOATS, .count = count, .v.floats = items});
}

static void expect(const KernelTensor *tensor, const float *wanted) {
    const float *have = tensor->data;
    for (uint64_t i = 0; i < tensor->count; i++)
        if (have[i] < wanted[i] - 1e-5f || have[i] > wanted[i] + 1e-5f)
            fail_msg("element %d is %g, not %g", (int)i, (double)have[i], (double)wanted[i]);
}

static const float two[] = {1, 2, 3, 4}, transposed[] = {1, 3, 2, 4};

/* ---- what they compute ----------------------------------------------------------------------- */

TEST(test_conv) {
    KernelCase c;
    const float x[] = {1, -2, 3, -4}, w[] = {2, -1}, b[] = {1, 2};
    const float z[] = {0, 0, 0, 10, 1, 1, 1, 1}, wanted[] = {3, 0, 6, 3, 2, 5, 0, 6};
    const float bounds[] = {0, 6};
    begin(&c, "Conv");
    case_text(&c, "activation", "Clip");
    floats_attr(&c, "activation_params", bounds, 2);
    case_in(&c, DTYPE_FLOAT, 4, CASE_DIMS(1, 1, 2, 2), x);
    case_in(&c, DTYPE_FLOAT, 4, CASE_DIMS(2, 1, 1, 1), w);
    case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(2), b);
    case_in(&c, DTYPE_FLOAT, 4, CASE_DIMS(1, 2, 2, 2), z);
    case_out(&c, DTYPE_FLOAT, 4, CASE_DIMS(1, 2, 2, 2));
    assert_true(case_run(&c));
    expect(&c.outputs[0], wanted);
    case_end(&c);
}

/* act(alpha A' B' + Bias + Z) for all of transposed and not. */
TEST(test_matmul) {
    const float bias[] = {1, -21.5f}, z[] = {0, 1, 2, 3}, wanted[] = {15, 0, 33, 25.5f};
    for (int trans = 0; trans < 4; trans++) {
        KernelCase c;
        begin(&c, "MatMul");
        case_text(&c, "activation", "Relu");
        case_float(&c, "alpha", 2);
        case_int(&c, "transA", trans & 1);
        case_int(&c, "transB", trans >> 1);
        case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2), trans & 1 ? transposed : two);
        case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2), trans >> 1 ? transposed : two);
        case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(1, 2), bias);
        case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2), z);
        case_out(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2));
        assert_true(case_run(&c));
        expect(&c.outputs[0], wanted);
        case_end(&c);
    }
}

TEST(test_layer_norm) {
    KernelCase c;
    const float skip[] = {0, 2, 1, 4}, scale[] = {2, 3}, bias[] = {1, 0};
    const float sums[] = {1, 4, 4, 8}, wanted[] = {-1, 3, -1, 3};
    begin(&c, "LayerNormalization");
    case_float(&c, "epsilon", 0);
    case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2), two);
    case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2), skip);
    case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(2), scale);
    case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(2), bias);
    case_out(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2));
    case_out(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2));
    assert_true(case_run(&c));
    expect(&c.outputs[0], wanted);
    expect(&c.outputs[1], sums);
    case_end(&c);
}

enum { NORM_ROWS = 3, NORM_MOST = 100 };

/* Element i of what that seed makes up. */
static float made_up(uint32_t seed, uint64_t i) {
    return (float)((seed * 7919u + (uint32_t)i * 104729u) % 1000u) / 250.0f - 1.5f;
}

/* y of a row of n sums, in double. */
static double norm_of(const float *x, uint64_t n, bool rms, uint64_t i) {
    double mean = 0, square = 0;
    for (uint64_t k = 0; !rms && k < n; k++) mean += (double)x[k] / (double)n;
    for (uint64_t k = 0; k < n; k++) square += ((double)x[k] - mean) * ((double)x[k] - mean);
    return ((double)x[i] - mean) / sqrt(square / (double)n + 1e-3);
}

/* Of all operands that may be absent, and root mean squares. */
static void try_norm(uint32_t seed) {
    const bool has_skip = seed % 2, has_sum = seed / 2 % 2 && has_skip, has_bias = seed / 4 % 2;
    const bool rms = seed / 8 % 2, has_low = seed / 16 % 2;
    const int64_t n = 1 + (int64_t)(seed * 31 % NORM_MOST), rows = NORM_ROWS;
    const int64_t dims[] = {rows, n}, columns[] = {n};
    float x[NORM_ROWS * NORM_MOST], skip[NORM_ROWS * NORM_MOST], sum[NORM_ROWS * NORM_MOST];
    float scale[NORM_MOST], bias[NORM_MOST];
    for (int64_t i = 0; i < rows * n; i++) {
        x[i] = made_up(seed, (uint64_t)i);
        skip[i] = made_up(seed + 1, (uint64_t)i);
        sum[i] = has_skip ? x[i] + skip[i] : x[i];
    }
    for (int64_t i = 0; i < n; i++) {
        scale[i] = made_up(seed + 2, (uint64_t)i);
        bias[i] = has_bias ? made_up(seed + 3, (uint64_t)i) : 0;
    }
    KernelCase c;
    begin(&c, "LayerNormalization");
    case_float(&c, "epsilon", 1e-3f);
    case_int(&c, "rms", rms);
    case_in(&c, DTYPE_FLOAT, 2, dims, x);
    if (has_skip)
        case_in(&c, DTYPE_FLOAT, 2, dims, skip);
    else
        case_omit(&c);
    case_in(&c, DTYPE_FLOAT, 1, columns, scale);
    if (has_bias) case_in(&c, DTYPE_FLOAT, 1, columns, bias);
    case_out(&c, DTYPE_FLOAT, 2, dims);
    if (has_sum || has_low) case_out(&c, DTYPE_FLOAT, 2, dims);
    if (!has_sum && has_low) c.outputs[1].present = false;
    if (has_low) case_out(&c, DTYPE_FLOAT, 2, dims);
    assert_true(case_run(&c));
    const float *y = c.outputs[0].data;
    for (int64_t i = 0; i < rows * n; i++) {
        const float *row = sum + i / n * n;
        const double wanted =
            norm_of(row, (uint64_t)n, rms, (uint64_t)(i % n)) * (double)scale[i % n] +
            (double)bias[i % n];
        assert_true(fabs((double)y[i] - wanted) < 1e-5 * (1 + fabs(wanted)));
        if (has_sum) assert_true(((const float *)c.outputs[1].data)[i] == sum[i]);
        if (has_low) assert_true(((const float *)c.outputs[2].data)[i] == y[i]);
    }
    case_end(&c);
}

TEST(test_norms) {
    for (uint32_t seed = 0; seed < 160; seed++) try_norm(seed);
}

/* ---- what they refuse ------------------------------------------------------------------------ */

typedef void (*Spoil)(KernelCase *c);

static void no_activation(KernelCase *c) {
    case_text(c, "activation", "Softmax");
}
static void many_params(KernelCase *c) {
    static const float numbers[3] = {1, 2, 3};
    case_text(c, "activation", "Clip");
    floats_attr(c, "activation_params", numbers, 3);
}
static void transposed_batches(KernelCase *c) {
    case_int(c, "transA", 1);
    c->inputs[0] = case_tensor(c, DTYPE_FLOAT, 3, CASE_DIMS(1, 2, 2), NULL);
}
static void transposed_vector(KernelCase *c) {
    case_int(c, "transB", 1);
    c->inputs[1] = case_tensor(c, DTYPE_FLOAT, 1, CASE_DIMS(2), NULL);
}
static void vector(KernelCase *c) {
    c->inputs[1] = case_tensor(c, DTYPE_FLOAT, 1, CASE_DIMS(2), NULL);
    c->outputs[0] = case_tensor(c, DTYPE_FLOAT, 1, CASE_DIMS(2), NULL);
}
static void long_bias(KernelCase *c) {
    c->inputs[2] = case_tensor(c, DTYPE_FLOAT, 1, CASE_DIMS(3), NULL);
}
static void column_bias(KernelCase *c) {
    c->inputs[2] = case_tensor(c, DTYPE_FLOAT, 2, CASE_DIMS(2, 1), NULL);
}
static void narrow_z(KernelCase *c) {
    c->inputs[3] = case_tensor(c, DTYPE_FLOAT, 2, CASE_DIMS(2, 1), NULL);
}
static void flat_z(KernelCase *c) {
    c->inputs[3] = case_tensor(c, DTYPE_FLOAT, 1, CASE_DIMS(4), NULL);
}
static void no_z(KernelCase *c) {
    c->inputs[3] = case_tensor(c, DTYPE_FLOAT, 2, CASE_DIMS(0, 2), NULL);
}

TEST(test_matmul_refuses) {
    const Spoil spoils[] = {no_activation, many_params, transposed_batches, transposed_vector,
                            vector,        long_bias,   column_bias,        narrow_z,
                            flat_z,        no_z};
    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
        KernelCase c;
        begin(&c, "MatMul");
        case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2), two);
        case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2), two);
        case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(2), two);
        case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2), two);
        case_out(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2));
        spoils[i](&c);
        if (case_run(&c)) fail_msg("spoilt case %d runs", (int)i);
        assert_true(c.err.what[0]);
        case_end(&c);
    }
}

TEST(test_conv_refuses) {
    const Spoil spoils[] = {no_activation, many_params, narrow_z, flat_z, no_z};
    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
        KernelCase c;
        begin(&c, "Conv");
        case_in(&c, DTYPE_FLOAT, 4, CASE_DIMS(1, 1, 2, 2), two);
        case_in(&c, DTYPE_FLOAT, 4, CASE_DIMS(1, 1, 1, 1), two);
        case_omit(&c);
        case_in(&c, DTYPE_FLOAT, 4, CASE_DIMS(1, 1, 2, 2), two);
        case_out(&c, DTYPE_FLOAT, 4, CASE_DIMS(1, 1, 2, 2));
        spoils[i](&c);
        if (case_run(&c)) fail_msg("spoilt case %d runs", (int)i);
        assert_true(c.err.what[0]);
        case_end(&c);
    }
}

TEST(test_layer_norm_refuses) {
    for (int i = 0; i < 5; i++) {
        KernelCase c;
        begin(&c, "LayerNormalization");
        if (i == 0) case_int(&c, "axis", 7);
        case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2), two);
        case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2), two);
        case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(2), two);
        case_out(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2));
        case_out(&c, DTYPE_FLOAT, 2, CASE_DIMS(2, 2));
        if (i == 1) c.inputs[1].present = false; /* a sum of nothing */
        if (i == 2) c.inputs[1] = case_tensor(&c, DTYPE_FLOAT, 1, CASE_DIMS(2), NULL);
        if (i == 3) c.outputs[1] = case_tensor(&c, DTYPE_FLOAT, 1, CASE_DIMS(2), NULL);
        if (i == 4) c.inputs[2].present = false;
        if (case_run(&c)) fail_msg("spoilt case %d runs", i);
        assert_true(c.err.what[0]);
        case_end(&c);
    }
}
