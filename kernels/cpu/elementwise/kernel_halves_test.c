// SPDX-License-Identifier: Apache-2.0
/* Elementwise kernels and reductions on 16-bit floats: to the bit what the same kernels give of floats, rounded once. */
#include "kernel_case_test.h"

#include "kernel_convert.h"

static uint32_t seed = 1;
static int64_t random_below(int64_t end) {
    seed = seed * 1664525u + 1013904223u;
    return (int64_t)(((uint64_t)seed * (uint64_t)end) >> 32);
}

/* Shapes whose rows are pieces, parts of pieces, and many to a piece; the second operand's is broadcast
 * along some. */
typedef struct HalfShape {
    uint32_t rank;
    int64_t x[4], y[4], out[4];
} HalfShape;

static HalfShape half_shape(bool binary) {
    static const int64_t sizes[] = {1, 2, 3, 5, 16, 17, 33, 70, 1024, 1500};
    HalfShape s = {.rank = 1 + (uint32_t)random_below(3)};
    for (uint32_t i = 0; i < s.rank; i++) {
        const int64_t size = sizes[random_below(s.rank > 2 ? 7 : 10)];
        s.x[i] = binary && random_below(5) == 0 ? 1 : size;
        s.y[i] = random_below(3) == 0 ? 1 : size;
        s.out[i] = binary && s.x[i] == 1 ? s.y[i] : s.x[i];
    }
    return s;
}

/* Any bits, as half and as float. */
static void fill_halves(KernelTensor *half, KernelTensor *wide) {
    for (uint64_t k = 0; k < half->count; k++)
        ((uint16_t *)half->data)[k] =
            (uint16_t)(random_below(5) ? 0x3000 + random_below(0x2000) + 0x8000 * random_below(2)
                                       : random_below(1 << 16));
    kernel_convert(DTYPE_FLOAT, wide->data, half->dtype, half->data, half->count, NULL);
}

static void begin_half(KernelCase *c, const char *op, Dtype dtype, const HalfShape *s) {
    const bool truth = strcmp(op, "Less") == 0;
    case_begin(c, op, 20);
    case_in(c, dtype, s->rank, s->x, NULL);
    if (s->y[0]) case_in(c, dtype, s->rank, s->y, NULL);
    for (int i = 0; strcmp(op, "Clip") == 0 && i < 2; i++)
        case_in(c, dtype, 0, NULL, NULL); /* bounds */
    case_out(c, truth ? DTYPE_BOOL : dtype, s->rank, s->out);
}

static bool is_nan(Dtype dtype, uint16_t half) {
    return dtype_is_float(dtype) && (half & 0x7fff) > (dtype == DTYPE_FLOAT16 ? 0x7c00 : 0x7f80);
}

/* What halves give is what floats give, rounded once; a NaN is one, of any payload. */
static void compare_cases(const char *op, KernelCase *half, KernelCase *wide) {
    for (uint32_t i = 0; i < half->call.input_count; i++)
        fill_halves(&half->inputs[i], &wide->inputs[i]);
    if (!case_run(half)) fail_msg("%s: %s", op, half->err.what);
    if (!case_run(wide)) fail_msg("%s: %s", op, wide->err.what);
    const KernelTensor *got = &half->outputs[0], *want = &wide->outputs[0];
    const size_t size = kernel_element_size(got->dtype);
    char *rounded = arena_alloc(&wide->arena, want->count * size + 1);
    kernel_convert(got->dtype, rounded, want->dtype, want->data, want->count, NULL);
    for (uint64_t k = 0; k < want->count; k++) {
        uint16_t is = 0, wanted = 0;
        memcpy(&is, (const char *)got->data + k * size, size);
        memcpy(&wanted, rounded + k * size, size);
        if (is != wanted && !(is_nan(got->dtype, is) && is_nan(got->dtype, wanted)))
            fail_msg("%s of %s: %04x for %04x", op, dtype_name(half->inputs[0].dtype), is, wanted);
    }
    case_end(half);
    case_end(wide);
}

static void compare_halves(const char *op, bool binary, Dtype dtype) {
    HalfShape s = half_shape(binary);
    KernelCase half, wide;
    if (!binary) s.y[0] = 0;
    begin_half(&half, op, dtype, &s);
    begin_half(&wide, op, DTYPE_FLOAT, &s);
    compare_cases(op, &half, &wide);
}

TEST(test_halves) {
    static const char *const binary[] = {"Add", "Sub", "Mul", "Div", "Less", "PRelu"};
    static const char *const unary[] = {"Relu",      "Sigmoid", "Abs",  "Clip", "Erf",
                                        "HardSwish", "Neg",     "Gelu", "Tanh", "Reciprocal"};
    for (int i = 0; i < 600; i++) {
        const Dtype dtype = i & 1 ? DTYPE_BFLOAT16 : DTYPE_FLOAT16;
        compare_halves(binary[i / 2 % 6], true, dtype);
        compare_halves(unary[i / 2 % 10], false, dtype);
    }
}

static void begin_reduction(KernelCase *c, const char *op, Dtype dtype, const HalfShape *s,
                            const int64_t *axes, uint32_t count) {
    case_begin(c, op, 11);
    case_in(c, dtype, s->rank, s->x, NULL);
    case_attr(c, "axes", (PlainAttr){.kind = PLAIN_INTS, .count = count, .v.ints = axes});
    case_out(c, dtype, s->rank, s->out);
}

/* Of few columns, of rows longer than a piece, and so many elements to a result that they go in
 * chunks. Products are left out: whether they underflow before something infinite is their order's. */
TEST(test_reductions) {
    static const char *const ops[] = {"ReduceMean",      "ReduceSum",    "ReduceMax",
                                      "ReduceMin",       "ReduceL1",     "ReduceL2",
                                      "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"};
    static const int64_t large[][4] = {{3, 600000, 1, 1}, {40000, 33, 1, 1}, {20, 40000, 3, 1}};
    for (int i = 0; i < 600; i++) {
        HalfShape s = half_shape(false);
        int64_t axes[4];
        uint32_t count = 0;
        if (i % 100 == 7) {
            s.rank = 4;
            memcpy(s.x, large[i / 100 % 3], sizeof s.x);
        }
        memcpy(s.out, s.x, sizeof s.out);
        for (uint32_t axis = 0; axis < s.rank; axis++) {
            const bool longest = i % 100 == 7 && s.x[axis] >= 40000;
            if (!longest && (i % 100 == 7 || random_below(2))) continue;
            axes[count++] = axis;
            s.out[axis] = 1;
        }
        if (!count) continue;
        KernelCase half, wide;
        begin_reduction(&half, ops[i % 9], i & 1 ? DTYPE_BFLOAT16 : DTYPE_FLOAT16, &s, axes, count);
        begin_reduction(&wide, ops[i % 9], DTYPE_FLOAT, &s, axes, count);
        compare_cases(ops[i % 9], &half, &wide);
    }
}

/* demi's own Gelu reads one type and gives another. */
TEST(test_types_of_gelu) {
    static const Dtype types[] = {DTYPE_FLOAT, DTYPE_FLOAT16, DTYPE_BFLOAT16};
    float x[1500], want[1500];
    for (int k = 0; k < 1500; k++) x[k] = (float)(k - 700) / 128; /* exact in all of them */
    for (int i = 0; i < 9; i++) {
        KernelCase c;
        case_begin_in(&c, "demi.fused", "Gelu", 1);
        case_in(&c, types[i / 3], 1, CASE_DIMS(1500), NULL);
        case_out(&c, types[i % 3], 1, CASE_DIMS(1500));
        kernel_convert(types[i / 3], c.inputs[0].data, DTYPE_FLOAT, x, 1500, NULL);
        assert_true(case_run(&c));
        if (i == 0) memcpy(want, c.outputs[0].data, sizeof want);
        uint64_t rounded[1500];
        kernel_convert(types[i % 3], rounded, DTYPE_FLOAT, want, 1500, NULL);
        if (i / 3 != 2) /* of bfloat16 some were rounded before */
            assert_memory_equal(c.outputs[0].data, rounded,
                                1500 * kernel_element_size(types[i % 3]));
        case_end(&c);
    }
}
