// SPDX-License-Identifier: Apache-2.0
/* Rows of oneDNN's against demi's own over random operands: shapes, strides, pads, dilations,
 * groups, constant and other weights, one to four threads.
 *
 * Float and bfloat16 results are compared with the own row's in double. Of float they may be off by
 * what rounding each of depth + 2 sums can do, 2^-23 of the sum of magnitudes each; of bfloat16 by
 * half a step more, 2^-9 of the result. Fused rows are compared with the own ones in float, which
 * may be off as far: three times that, as activations stretch errors by less than 1.5. Sums of
 * bytes, and what is rounded from them, are the same.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fused_operands.h"
#include "kernel_functions.h"
#include "onednn.h"
#include "unit_test.h"

enum { OPERANDS = 9, CASES = 200 };

typedef struct Bench {
    Arena arena;
    Err err;
    uint32_t random;
    void *attrs;
    const KernelRow *rows; /* oneDNN's, then the own one */
    KernelTensor inputs[OPERANDS], output;
    bool constant[OPERANDS];
    uint32_t input_count;
    unsigned threads;
    unsigned runs, declined;
} Bench;

static uint32_t bits(Bench *b) {
    b->random = b->random * 1664525u + 1013904223u;
    return b->random >> 8;
}
static int64_t below(Bench *b, int64_t limit) {
    return bits(b) % limit;
}
static bool chance(Bench *b) {
    return below(b, 2);
}

static void begin_of(Bench *b, const char *domain, const char *op) {
    size_t count = 0;
    b->err = (Err){.code = ERR_NONE};
    b->input_count = 0;
    memset(b->inputs, 0, sizeof b->inputs);
    memset(b->constant, 0, sizeof b->constant);
    b->rows = kernel_find(domain, op, 22, &count);
    assert_non_null(b->rows);
    if (count == 3) b->rows++, count--; /* behind demi's own of bfloat16 */
    assert_int_equal(count, 2);
    b->attrs = attr_layout_new(b->rows->layout, &b->arena);
    b->threads = (unsigned)(1 + below(b, 4));
}

static void begin(Bench *b, const char *op) {
    begin_of(b, "", op);
}

static void attr(Bench *b, const char *name, PlainAttr value) {
    const AttrField *field = attr_layout_find(b->rows->layout, name, strlen(name));
    assert_non_null(field);
    attr_layout_fill(b->attrs, field, &value, &b->arena);
}
static void attr_int(Bench *b, const char *name, int64_t value) {
    attr(b, name, (PlainAttr){.kind = PLAIN_INT, .v.i = value});
}
static void attr_ints(Bench *b, const char *name, uint32_t count, const int64_t *items) {
    const int64_t *kept = arena_copy(&b->arena, items, count * sizeof *items);
    attr(b, name, (PlainAttr){.kind = PLAIN_INTS, .count = count, .v.ints = kept});
}

static KernelTensor tensor(Bench *b, Dtype dtype, uint32_t rank, const int64_t *dims) {
    KernelTensor t = {.present = true, .dtype = dtype, .rank = rank};
    int64_t *kept = ARENA_ARRAY(&b->arena, int64_t, rank + 1);
    for (uint32_t i = 0; i < rank; i++) kept[i] = dims[i];
    t.dims = kept;
    t.count = kernel_span(&t, 0, rank);
    char *data = arena_array(&b->arena, t.count * kernel_element_size(dtype) + 128, 1);
    t.data = data + (64 - (uintptr_t)data % 64) % 64;
    return t;
}

/* Floats within -1 and 1, some of them 0; bytes of any value, often an extreme one. */
static void fill(Bench *b, KernelTensor *t) {
    bool extreme = chance(b);
    for (uint64_t i = 0; i < t->count; i++) {
        double real = below(b, 9) ? (double)bits(b) / 8388608.0 - 1 : 0;
        uint8_t byte = (uint8_t)(extreme && below(b, 4) ? (chance(b) ? 127 : 255) : bits(b) >> 4);
        if (kernel_element_size(t->dtype) == 1)
            ((uint8_t *)t->data)[i] = byte;
        else if (t->dtype == DTYPE_INT32)
            ((int32_t *)t->data)[i] = (int32_t)(bits(b) << 8) / 16;
        else
            kernel_set_real(t, i, real);
    }
}

static KernelTensor *input(Bench *b, Dtype dtype, uint32_t rank, const int64_t *dims) {
    KernelTensor *t = &b->inputs[b->input_count++];
    *t = tensor(b, dtype, rank, dims);
    fill(b, t);
    return t;
}
static void omit(Bench *b) {
    b->input_count++;
}

/* Runs one row on these operands. */
static KernelReady run(Bench *b, const KernelRow *row, KernelTensor *inputs, KernelTensor *output) {
    KernelCall call = {.row = row,
                       .attrs = b->attrs,
                       .inputs = inputs,
                       .outputs = output,
                       .input_count = b->input_count,
                       .output_count = 1,
                       .opset = 22,
                       .workers = workers_new(&b->arena, b->threads),
                       .provider = KERNEL_PROVIDER_ONEDNN,
                       .constant = b->constant,
                       .scratch = &b->arena,
                       .err = &b->err};
    KernelReady ready = row->prepare ? row->prepare->make(&call) : KERNEL_READY;
    for (int again = 0; again < 2 && ready == KERNEL_READY; again++) /* as a step does */
        if (!row->run(&call)) ready = KERNEL_FAILED;
    if (row->prepare && row->prepare->release && call.prepared)
        row->prepare->release(call.prepared);
    return ready;
}

/* The operands in double, or their magnitudes. */
static void widen(Bench *b, KernelTensor *to, const KernelTensor *from, bool magnitudes) {
    *to = *from;
    if (!from->present) return;
    *to = tensor(b, DTYPE_DOUBLE, from->rank, from->dims);
    for (uint64_t i = 0; i < from->count; i++) {
        double value = kernel_real(from, i);
        ((double *)to->data)[i] = magnitudes ? fabs(value) : value;
    }
}

static void check_reals(Bench *b, uint64_t depth) {
    KernelTensor wide[OPERANDS], sums = tensor(b, DTYPE_DOUBLE, b->output.rank, b->output.dims);
    KernelTensor sizes = tensor(b, DTYPE_DOUBLE, b->output.rank, b->output.dims);
    KernelReady ready = run(b, b->rows, b->inputs, &b->output);
    if (ready == KERNEL_DECLINED) b->declined++;
    assert_int_not_equal(ready, KERNEL_FAILED);
    if (ready != KERNEL_READY) return;
    b->runs++;
    for (uint32_t i = 0; i < b->input_count; i++) widen(b, &wide[i], &b->inputs[i], false);
    assert_int_equal(run(b, b->rows + 1, wide, &sums), KERNEL_READY);
    for (uint32_t i = 0; i < b->input_count; i++) widen(b, &wide[i], &b->inputs[i], true);
    assert_int_equal(run(b, b->rows + 1, wide, &sizes), KERNEL_READY);
    for (uint64_t i = 0; i < sums.count; i++) {
        double expected = kernel_real(&sums, i), got = kernel_real(&b->output, i);
        double most = ldexp((double)(depth + 2) * kernel_real(&sizes, i), -23);
        if (b->output.dtype == DTYPE_BFLOAT16) most += ldexp(fabs(expected) + most, -8);
        if (!(fabs(got - expected) <= most))
            fail_msg("element %llu: %.9g, expected %.9g, may differ by %.3g", (unsigned long long)i,
                     got, expected, most);
    }
}

/* The operands in float, or their magnitudes. */
static void floats(Bench *b, KernelTensor *to, bool magnitudes) {
    for (uint32_t i = 0; i < b->input_count; i++) {
        const KernelTensor *from = &b->inputs[i];
        to[i] = *from;
        if (!from->present) continue;
        to[i] = tensor(b, DTYPE_FLOAT, from->rank, from->dims);
        for (uint64_t k = 0; k < from->count; k++) {
            float value = (float)kernel_real(from, k);
            ((float *)to[i].data)[k] = magnitudes ? fabsf(value) : value;
        }
    }
}

/* `act` is within b->attrs. */
static void check_fused(Bench *b, uint64_t depth, ActivationChoice *act) {
    KernelTensor wide[OPERANDS], sums = tensor(b, DTYPE_FLOAT, b->output.rank, b->output.dims);
    KernelTensor sizes = tensor(b, DTYPE_FLOAT, b->output.rank, b->output.dims);
    KernelReady ready = run(b, b->rows, b->inputs, &b->output);
    if (ready == KERNEL_DECLINED) b->declined++;
    assert_int_not_equal(ready, KERNEL_FAILED);
    if (ready != KERNEL_READY) return;
    b->runs++;
    floats(b, wide, false);
    assert_int_equal(run(b, b->rows + 1, wide, &sums), KERNEL_READY);
    act->activation = ACTIVATION_NONE;
    floats(b, wide, true);
    assert_int_equal(run(b, b->rows + 1, wide, &sizes), KERNEL_READY);
    for (uint64_t i = 0; i < sums.count; i++) {
        double expected = kernel_real(&sums, i), got = kernel_real(&b->output, i);
        double most = 3 * ldexp((double)(depth + 4) * kernel_real(&sizes, i), -23);
        if (b->output.dtype == DTYPE_BFLOAT16) most += ldexp(fabs(expected) + most, -8);
        if (!(fabs(got - expected) <= most))
            fail_msg("element %llu: %.9g, expected %.9g, may differ by %.3g", (unsigned long long)i,
                     got, expected, most);
    }
}

static void check_bytes(Bench *b) {
    KernelTensor expected = tensor(b, b->output.dtype, b->output.rank, b->output.dims);
    KernelReady ready = run(b, b->rows, b->inputs, &b->output);
    if (ready == KERNEL_DECLINED) b->declined++;
    assert_int_not_equal(ready, KERNEL_FAILED);
    if (ready != KERNEL_READY) return;
    b->runs++;
    assert_int_equal(run(b, b->rows + 1, b->inputs, &expected), KERNEL_READY);
    assert_memory_equal(b->output.data, expected.data,
                        expected.count * kernel_element_size(expected.dtype));
}

/* ---- convolutions ---------------------------------------------------------------------------- */

typedef struct ConvCase {
    uint32_t rank; /* of x */
    int64_t groups, x[5], w[5], y[5];
    uint64_t depth;
} ConvCase;

/* Sizes and attributes of a convolution of the operator that was begun. */
static void random_conv(Bench *b, ConvCase *c) {
    int64_t strides[3], dilations[3], pads[6];
    bool plain = below(b, 4) == 0, deep = below(b, 6) == 0;
    uint32_t axes = 1 + (uint32_t)below(b, 3);
    c->rank = axes + 2;
    c->groups = below(b, 3) ? 1 : 1 + below(b, 4);
    int64_t channels = deep ? 200 : 1 + below(b, below(b, 2) ? 4 : 33);
    int64_t filters = below(b, 5) ? 1 + below(b, 40) : 1;
    c->x[0] = c->y[0] = 1 + below(b, 2);
    c->x[1] = c->groups * channels;
    c->w[0] = c->y[1] = c->groups * filters;
    c->w[1] = channels;
    c->depth = (uint64_t)channels;
    for (uint32_t i = 0; i < axes; i++) {
        strides[i] = plain ? 1 : 1 + below(b, 3);
        dilations[i] = plain ? 1 : 1 + below(b, 3);
        c->w[i + 2] = plain ? 1 : 1 + below(b, 4);
        pads[i] = plain ? 0 : below(b, 4);
        pads[i + axes] = plain ? 0 : below(b, 4);
        int64_t span = (c->w[i + 2] - 1) * dilations[i] + 1;
        int64_t least = span - pads[i] - pads[i + axes];
        c->x[i + 2] = (least > 1 ? least : 1) + below(b, axes == 3 ? 7 : 15);
        c->y[i + 2] = (c->x[i + 2] + pads[i] + pads[i + axes] - span) / strides[i] + 1;
        c->depth *= (uint64_t)c->w[i + 2];
    }
    attr_int(b, "group", c->groups);
    attr_ints(b, "strides", axes, strides);
    attr_ints(b, "dilations", axes, dilations);
    attr_ints(b, "pads", 2 * axes, pads);
}

static Dtype byte_type(Bench *b) {
    return chance(b) ? DTYPE_INT8 : DTYPE_UINT8;
}

static void conv_reals(Bench *b) {
    ConvCase c;
    Dtype dtype = chance(b) ? DTYPE_FLOAT : DTYPE_BFLOAT16;
    begin(b, "Conv");
    random_conv(b, &c);
    input(b, dtype, c.rank, c.x);
    b->constant[1] = chance(b);
    input(b, dtype, c.rank, c.w);
    if (chance(b)) input(b, dtype, 1, &c.w[0]);
    b->output = tensor(b, dtype, c.rank, c.y);
    check_reals(b, c.depth + 1);
}

/* From a convolution's result back to its input, which is longer than what it read: output_padding. */
static void transposed_reals(Bench *b) {
    ConvCase c;
    int64_t extra[3];
    Dtype dtype = chance(b) ? DTYPE_FLOAT : DTYPE_BFLOAT16;
    begin(b, "ConvTranspose");
    random_conv(b, &c);
    const WindowAttrs *attrs = b->attrs;
    const uint32_t axes = c.rank - 2;
    uint64_t depth = (uint64_t)(c.w[0] / c.groups);
    for (uint32_t i = 0; i < axes; i++) {
        const int64_t span = (c.w[i + 2] - 1) * attrs->dilations.items[i] + 1;
        const int64_t pads = attrs->pads.items[i] + attrs->pads.items[i + axes];
        extra[i] = c.x[i + 2] - ((c.y[i + 2] - 1) * attrs->strides.items[i] + span - pads);
        depth *= (uint64_t)c.w[i + 2];
    }
    attr_ints(b, "output_padding", axes, extra);
    input(b, dtype, c.rank, c.y);
    b->constant[1] = chance(b);
    input(b, dtype, c.rank, c.w);
    if (chance(b)) input(b, dtype, 1, &c.x[1]);
    b->output = tensor(b, dtype, c.rank, c.x);
    check_reals(b, depth + 1);
}

static Dtype real_type(Bench *b) {
    return chance(b) ? DTYPE_FLOAT : DTYPE_BFLOAT16;
}

static void fused_conv(Bench *b) {
    ConvCase c;
    Dtype dtype = real_type(b);
    begin_of(b, "demi.fused", "Conv");
    random_conv(b, &c);
    WindowAttrs *attrs = b->attrs;
    attrs->act.activation = below(b, ACTIVATION_COUNT);
    input(b, dtype, c.rank, c.x);
    b->constant[1] = chance(b);
    input(b, dtype, c.rank, c.w);
    if (chance(b))
        input(b, real_type(b), 1, &c.w[0]);
    else
        omit(b);
    if (chance(b)) input(b, real_type(b), c.rank, c.y);
    b->output = tensor(b, real_type(b), c.rank, c.y);
    check_fused(b, c.depth, &attrs->act);
}

/* A zero point that most weights less it fit int8 with. */
static void weight_zeros(Bench *b, Dtype dtype, int64_t filters) {
    int64_t one = 1;
    KernelTensor *zeros = input(b, dtype, 1, chance(b) ? &filters : &one);
    for (uint64_t i = 0; i < zeros->count; i++)
        ((uint8_t *)zeros->data)[i] = dtype == DTYPE_UINT8 ? 128 : 0;
}

static void conv_integer(Bench *b) {
    ConvCase c;
    int64_t one = 1;
    begin(b, "ConvInteger");
    random_conv(b, &c);
    Dtype x = byte_type(b), w = byte_type(b);
    input(b, x, c.rank, c.x);
    b->constant[1] = below(b, 8);
    input(b, w, c.rank, c.w);
    if (chance(b))
        input(b, x, chance(b), &one);
    else
        omit(b);
    b->constant[3] = true;
    if (w == DTYPE_UINT8 || chance(b)) weight_zeros(b, w, c.w[0]);
    b->output = tensor(b, DTYPE_INT32, c.rank, c.y);
    check_bytes(b);
}

static KernelTensor *scale(Bench *b, int64_t count) {
    KernelTensor *t = input(b, DTYPE_FLOAT, 1, &count);
    for (uint64_t i = 0; i < t->count; i++)
        ((float *)t->data)[i] = (float)(1 + below(b, 1000)) / 4096;
    return t;
}

static void qlinear_conv(Bench *b) {
    ConvCase c;
    int64_t one = 1;
    begin(b, "QLinearConv");
    random_conv(b, &c);
    Dtype x = byte_type(b), w = byte_type(b), y = byte_type(b);
    input(b, x, c.rank, c.x);
    scale(b, 1);
    input(b, x, 0, &one);
    b->constant[3] = b->constant[5] = true;
    input(b, w, c.rank, c.w);
    scale(b, chance(b) ? c.w[0] : 1);
    weight_zeros(b, w, c.w[0]);
    *((float *)scale(b, 1)->data) *= 64;
    input(b, y, 0, &one);
    if (chance(b)) input(b, DTYPE_INT32, 1, &c.w[0]);
    b->output = tensor(b, y, c.rank, c.y);
    check_bytes(b);
}

/* ---- matrices -------------------------------------------------------------------------------- */

typedef struct MatmulCase {
    uint32_t a_rank, b_rank, y_rank;
    int64_t a[4], b[4], y[4], m, n, k;
} MatmulCase;

static void random_matmul(Bench *b, MatmulCase *c) {
    uint32_t batch = (uint32_t)below(b, 3);
    bool shared = chance(b); /* b is one matrix for all batches */
    c->m = below(b, 3) ? 1 + below(b, 40) : 1;
    c->n = below(b, 5) ? 1 + below(b, 70) : 1;
    c->k = below(b, 8) ? 1 + below(b, 90) : 1500;
    c->a_rank = c->y_rank = batch + 2;
    c->b_rank = shared ? 2 : batch + 2;
    for (uint32_t i = 0; i < batch; i++) {
        c->a[i] = c->b[i] = c->y[i] = 1 + below(b, 3);
        if (!shared && !below(b, 6)) c->b[i] = 1;
    }
    c->a[batch] = c->y[batch] = c->m;
    c->a[batch + 1] = c->b[c->b_rank - 2] = c->k;
    c->b[c->b_rank - 1] = c->y[batch + 1] = c->n;
    if (batch == 0 && !below(b, 6)) { /* a vector by a matrix */
        c->a_rank = c->y_rank = 1;
        c->a[0] = c->k;
        c->y[0] = c->n;
        c->m = 1;
    }
}

static void matmul_reals(Bench *b) {
    MatmulCase c;
    Dtype dtype = chance(b) ? DTYPE_FLOAT : DTYPE_BFLOAT16;
    begin(b, "MatMul");
    random_matmul(b, &c);
    b->constant[1] = chance(b);
    input(b, dtype, c.a_rank, c.a);
    input(b, dtype, c.b_rank, c.b);
    b->output = tensor(b, dtype, c.y_rank, c.y);
    check_reals(b, (uint64_t)c.k);
}

static void gemm_reals(Bench *b) {
    Dtype dtype = chance(b) ? DTYPE_FLOAT : DTYPE_BFLOAT16;
    int64_t m = 1 + below(b, 40), n = 1 + below(b, 70), k = 1 + below(b, 90);
    bool ta = chance(b), tb = chance(b);
    begin(b, "Gemm");
    attr_int(b, "transA", ta);
    attr_int(b, "transB", tb);
    b->constant[1] = chance(b);
    input(b, dtype, 2, ta ? (int64_t[]){k, m} : (int64_t[]){m, k});
    input(b, dtype, 2, tb ? (int64_t[]){n, k} : (int64_t[]){k, n});
    const int64_t addends[][2] = {{1, n}, {m, n}, {m, 1}, {1, 1}};
    if (chance(b)) input(b, dtype, 2, addends[below(b, 4)]);
    b->output = tensor(b, dtype, 2, (int64_t[]){m, n});
    check_reals(b, (uint64_t)k + 1);
}

static void fused_matmul(Bench *b) {
    MatmulCase c;
    Dtype dtype = real_type(b);
    begin_of(b, "demi.fused", "MatMul");
    random_matmul(b, &c);
    GemmAttrs *attrs = b->attrs;
    attrs->act.activation = below(b, ACTIVATION_COUNT);
    attrs->trans_a = c.a_rank == 2 && chance(b);
    attrs->trans_b = c.b_rank == 2 && chance(b);
    b->constant[1] = chance(b);
    input(b, dtype, c.a_rank, attrs->trans_a ? (int64_t[]){c.k, c.m} : c.a);
    input(b, dtype, c.b_rank, attrs->trans_b ? (int64_t[]){c.n, c.k} : c.b);
    if (chance(b))
        input(b, real_type(b), 1, &c.n);
    else
        omit(b);
    if (chance(b)) input(b, real_type(b), c.y_rank, c.y);
    b->output = tensor(b, real_type(b), c.y_rank, c.y);
    check_fused(b, (uint64_t)c.k, &attrs->act);
}

static void matmul_integer(Bench *b) {
    MatmulCase c;
    begin(b, "MatMulInteger");
    random_matmul(b, &c);
    Dtype a = byte_type(b), w = byte_type(b);
    b->constant[1] = chance(b);
    input(b, a, c.a_rank, c.a);
    input(b, w, c.b_rank, c.b);
    if (chance(b))
        input(b, a, 1, c.a_rank > 1 && chance(b) ? &c.m : (int64_t[]){1});
    else
        omit(b);
    if (chance(b)) input(b, w, 1, chance(b) ? &c.n : (int64_t[]){1});
    b->output = tensor(b, DTYPE_INT32, c.y_rank, c.y);
    check_bytes(b);
}

static void qlinear_matmul(Bench *b) {
    MatmulCase c;
    begin(b, "QLinearMatMul");
    random_matmul(b, &c);
    Dtype a = byte_type(b), w = byte_type(b), y = byte_type(b);
    b->constant[3] = chance(b);
    input(b, a, c.a_rank, c.a);
    scale(b, 1);
    input(b, a, 0, &c.m);
    input(b, w, c.b_rank, c.b);
    scale(b, chance(b) ? c.n : 1);
    input(b, w, 0, &c.m);
    *((float *)scale(b, 1)->data) *= 64;
    input(b, y, 0, &c.m);
    b->output = tensor(b, y, c.y_rank, c.y);
    check_bytes(b);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* What a processor must have for all rows; others decline there. */
static bool has_all(void) {
#if defined(__x86_64__)
    const IsaSet both = CPU_AVX512_VNNI | CPU_AVX512_BF16;
    return (isa_here() & both) == both;
#else
    return false;
#endif
}

static void repeat(void (*one)(Bench *b)) {
    Bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    if (!onednn_built_with()) { /* then there is nothing to test */
        free(b);
        skip();
    }
    assert_string_equal(onednn_problem(), "");
    for (int i = 0; i < CASES; i++) {
        arena_init(&b->arena, &test_trap);
        b->random = 77777u * (uint32_t)(i + 1);
        for (int k = 0; k < 8; k++) bits(b);
        one(b);
        arena_free(&b->arena);
    }
    print_message("%u run by oneDNN, %u declined\n", b->runs, b->declined);
    if (has_all()) assert_true(b->runs > CASES / 3);
    free(b);
}

TEST(test_conv) {
    repeat(conv_reals);
}
TEST(test_conv_transpose) {
    repeat(transposed_reals);
}
TEST(test_conv_integer) {
    repeat(conv_integer);
}
TEST(test_qlinear_conv) {
    repeat(qlinear_conv);
}
TEST(test_matmul) {
    repeat(matmul_reals);
}
TEST(test_gemm) {
    repeat(gemm_reals);
}
TEST(test_fused_conv) {
    repeat(fused_conv);
}
TEST(test_fused_matmul) {
    repeat(fused_matmul);
}
TEST(test_matmul_integer) {
    repeat(matmul_integer);
}
TEST(test_qlinear_matmul) {
    repeat(qlinear_matmul);
}
