// SPDX-License-Identifier: Apache-2.0
/* Convolutions, pools, products of matrices and Einsum under attributes and shapes that no exporter
 * writes: each call must fail with a message or stay inside its tensors (run it with the
 * sanitizers), and must end soon. Output dims are given directly, so the kernels' own checks are
 * what is tested.
 */
#include <math.h>
#include <string.h>

#include "kernel.h"
#include "unit_test.h"

enum { OPERANDS = 9, RANK = 5, ELEMENTS = 4096 };

/* A call in the making. Tensors' data are exactly as large as their dims say. */
typedef struct Bench {
    Arena arena;
    Err err;
    KernelTensor inputs[OPERANDS], outputs[2];
    uint32_t input_count;
    PlainAttr attrs[8];
    uint32_t attr_count;
} Bench;

static void bench_begin(Bench *b) {
    memset(b, 0, sizeof *b);
    arena_init(&b->arena, &test_trap);
}

static KernelTensor tensor(Bench *b, Dtype dtype, uint32_t rank, const int64_t *dims) {
    KernelTensor t = {.present = true, .dtype = dtype, .rank = rank, .count = 1};
    t.dims = arena_copy(&b->arena, dims, rank * sizeof *dims);
    for (uint32_t i = 0; i < rank; i++) t.count *= (uint64_t)dims[i];
    assert_true(t.count <= ELEMENTS);
    t.data = arena_array(&b->arena, t.count + 1, kernel_element_size(dtype));
    return t;
}

#define DIMS(...)                                                                                  \
    (sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]) {                                    \
        __VA_ARGS__                                                                                \
    }

static void input(Bench *b, Dtype dtype, size_t rank, const int64_t *dims) {
    b->inputs[b->input_count++] = tensor(b, dtype, (uint32_t)rank, dims);
}
static void output(Bench *b, Dtype dtype, size_t rank, const int64_t *dims) {
    b->outputs[b->outputs[0].present] = tensor(b, dtype, (uint32_t)rank, dims);
}

static PlainAttr *attr(Bench *b, const char *name, PlainAttrKind kind) {
    PlainAttr *a = &b->attrs[b->attr_count++];
    *a = (PlainAttr){.name = {true, (uint32_t)strlen(name), name}, .kind = kind};
    return a;
}
static void ints(Bench *b, const char *name, size_t count, const int64_t *items) {
    PlainAttr *a = attr(b, name, PLAIN_INTS);
    a->count = (uint32_t)count;
    a->v.ints = arena_copy(&b->arena, items, count * sizeof *items);
}
static void integer(Bench *b, const char *name, int64_t value) {
    attr(b, name, PLAIN_INT)->v.i = value;
}
static void text(Bench *b, const char *name, const char *value) {
    attr(b, name, PLAIN_TEXT)->v.text = (AttrText){true, (uint32_t)strlen(value), value};
}

/* Runs and ends the call; a failure has said why. */
static bool run(Bench *b, const char *op) {
    size_t rows = 0;
    const KernelRow *row = kernel_find("", op, 22, &rows);
    assert_non_null(row);
    void *attrs = attr_layout_new(row->layout, &b->arena);
    for (uint32_t i = 0; i < b->attr_count; i++) {
        const AttrText *name = &b->attrs[i].name;
        const AttrField *field = attr_layout_find(row->layout, name->text, name->size);
        if (field) attr_layout_fill(attrs, field, &b->attrs[i], &b->arena);
    }
    KernelCall call = {.row = row,
                       .attrs = attrs,
                       .inputs = b->inputs,
                       .outputs = b->outputs,
                       .input_count = b->input_count,
                       .output_count = b->outputs[1].present ? 2 : 1,
                       .opset = 22,
                       .workers = workers_new(&b->arena, 2),
                       .scratch = &b->arena,
                       .err = &b->err};
    Err other = {.code = ERR_NONE};
    KernelCall by_onednn = call;
    by_onednn.provider = KERNEL_PROVIDER_ONEDNN;
    by_onednn.err = &other;
    call.provider = KERNEL_PROVIDER_OWN;
    const char *types = kernel_signature_find("", op, 22);
    bool ok = kernel_run_once(&call, types);
    assert_true(ok || b->err.what[0]);
    assert_int_equal(ok, kernel_run_once(&by_onednn, types));
    arena_free(&b->arena);
    return ok;
}

static const int64_t hostile[] = {
    0, -1, 1, INT64_C(1) << 31, INT64_C(1) << 40, INT64_C(1) << 61, INT64_MAX, INT64_MIN};
enum { HOSTILE = sizeof hostile / sizeof *hostile };
static const char *const lists[] = {"strides",      "dilations",      "pads",
                                    "kernel_shape", "output_padding", "output_shape"};
static const char *const modes[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "NONE"};

/* One attribute of one operator set to hostile numbers, under each mode of padding. */
static void try_list(const char *op, const char *list, int64_t value, const char *mode) {
    MemTrap trap;
    Bench b;
    bench_begin(&b);
    b.arena.trap = &trap;
    if (setjmp(trap.env)) {
        arena_free(&b.arena);
        return;
    }
    b.arena.budget = 1 << 24;
    bool pool = strstr(op, "Pool") != NULL, integers = strstr(op, "Integer") != NULL;
    Dtype dtype = integers ? DTYPE_UINT8 : DTYPE_FLOAT;
    input(&b, dtype, DIMS(1, 2, 5, 6));
    if (!pool) input(&b, dtype, DIMS(2, 2, 3, 2));
    if (strcmp(op, "DeformConv") == 0) input(&b, dtype, DIMS(1, 12, 3, 5));
    output(&b, integers ? DTYPE_INT32 : DTYPE_FLOAT, DIMS(1, 2, 3, 5));
    if (strcmp(op, "MaxPool") == 0) output(&b, DTYPE_INT64, DIMS(1, 2, 3, 5));
    if (strcmp(list, "kernel_shape") != 0) ints(&b, "kernel_shape", DIMS(3, 2));
    bool pads = strcmp(list, "pads") == 0;
    ints(&b, list, pads ? 4 : 2, (int64_t[]){value, 1, 1, value});
    text(&b, "auto_pad", mode);
    run(&b, op);
}

TEST(test_lists) {
    static const char *const ops[] = {"Conv",    "ConvInteger", "ConvTranspose", "DeformConv",
                                      "MaxPool", "AveragePool", "LpPool"};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
            for (int v = 0; v < HOSTILE; v++)
                for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
                    try_list(ops[o], lists[l], hostile[v], modes[m]);
}

/* Groups, list lengths and ranks that do not fit are refused. */
TEST(test_misfits) {
    Bench b;
    for (int v = 0; v < HOSTILE; v++) {
        if (hostile[v] == 1) continue;
        bench_begin(&b);
        input(&b, DTYPE_FLOAT, DIMS(1, 4, 5, 5));
        input(&b, DTYPE_FLOAT, DIMS(4, 4, 1, 1));
        output(&b, DTYPE_FLOAT, DIMS(1, 4, 5, 5));
        integer(&b, "group", hostile[v]);
        assert_false(run(&b, v % 2 ? "Conv" : "ConvTranspose"));
    }
    bench_begin(&b);
    input(&b, DTYPE_FLOAT, DIMS(1, 4, 5, 5));
    input(&b, DTYPE_FLOAT, DIMS(4, 4, 1, 1));
    input(&b, DTYPE_FLOAT, DIMS(3)); /* bias for four */
    output(&b, DTYPE_FLOAT, DIMS(1, 4, 5, 5));
    assert_false(run(&b, "Conv"));
    bench_begin(&b);
    input(&b, DTYPE_FLOAT, DIMS(1, 4, 5, 5));
    input(&b, DTYPE_FLOAT, DIMS(4, 4, 1));
    output(&b, DTYPE_FLOAT, DIMS(1, 4, 5, 5));
    assert_false(run(&b, "Conv"));
    bench_begin(&b);
    input(&b, DTYPE_FLOAT, DIMS(3, 4));
    input(&b, DTYPE_FLOAT, DIMS(5, 2));
    output(&b, DTYPE_FLOAT, DIMS(3, 2));
    assert_false(run(&b, "MatMul"));
    bench_begin(&b);
    input(&b, DTYPE_FLOAT, DIMS(3, 4));
    input(&b, DTYPE_FLOAT, DIMS(4, 2));
    input(&b, DTYPE_FLOAT, DIMS(2, 1)); /* C for two rows of three */
    output(&b, DTYPE_FLOAT, DIMS(3, 2));
    assert_false(run(&b, "Gemm"));
}

/* Nothing to sum: the bias alone, or zeros. */
TEST(test_empty) {
    Bench b;
    bench_begin(&b);
    input(&b, DTYPE_FLOAT, DIMS(1, 0, 5, 5));
    input(&b, DTYPE_FLOAT, DIMS(2, 0, 3, 3));
    output(&b, DTYPE_FLOAT, DIMS(1, 2, 3, 3));
    assert_true(run(&b, "Conv"));
    bench_begin(&b);
    input(&b, DTYPE_FLOAT, DIMS(3, 0));
    input(&b, DTYPE_FLOAT, DIMS(0, 2));
    output(&b, DTYPE_FLOAT, DIMS(3, 2));
    assert_true(run(&b, "MatMul"));
    bench_begin(&b);
    input(&b, DTYPE_FLOAT, DIMS(0, 2, 5, 5));
    output(&b, DTYPE_FLOAT, DIMS(0, 2, 4, 4));
    ints(&b, "kernel_shape", DIMS(2, 2));
    assert_true(run(&b, "AveragePool"));
}

/* Zero points that are per row, per column, and of no matrix. */
static void try_zero_points(int64_t of_a, int64_t of_b) {
    Bench b;
    bench_begin(&b);
    input(&b, DTYPE_UINT8, DIMS(2, 3, 4));
    input(&b, DTYPE_INT8, DIMS(4, 7));
    input(&b, DTYPE_UINT8, DIMS(of_a));
    input(&b, DTYPE_INT8, DIMS(of_b));
    output(&b, DTYPE_INT32, DIMS(2, 3, 7));
    bool fits = (of_a == 1 || of_a == 3) && (of_b == 1 || of_b == 7);
    assert_int_equal(run(&b, "MatMulInteger"), fits);
}

TEST(test_zero_points) {
    static const int64_t sizes[] = {0, 1, 2, 3, 4, 6, 7};
    for (int i = 0; i < 49; i++) try_zero_points(sizes[i % 7], sizes[i / 7]);
}

TEST(test_equations) {
    static const char *const bad[] = {"",
                                      ",",
                                      "->",
                                      "ij",
                                      "ij,jk->ii",
                                      "ij,jk->iz",
                                      "ij,jk,kl->il",
                                      "i...j...,jk->ik",
                                      "ij,jk->ik->",
                                      "ij;jk",
                                      "ij,j.k",
                                      "ijk,jk",
                                      "ij,jk->...k...",
                                      "i,jk",
                                      "ij,jk-",
                                      "ij,ij->ij",
                                      "..,jk"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Bench b;
        bench_begin(&b);
        input(&b, DTYPE_FLOAT, DIMS(2, 3));
        input(&b, DTYPE_FLOAT, DIMS(3, 4));
        output(&b, DTYPE_FLOAT, DIMS(2, 4));
        text(&b, "equation", bad[i]);
        assert_false(run(&b, "Einsum"));
    }
}

/* Offsets that are not places: what lies outside is 0, and NaN is outside. */
TEST(test_offsets) {
    static const float places[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 1e10f};
    for (volatile size_t i = 0; i < sizeof places / sizeof *places; i = i + 1) {
        Bench b;
        bench_begin(&b);
        input(&b, DTYPE_FLOAT, DIMS(1, 1, 3, 3));
        input(&b, DTYPE_FLOAT, DIMS(1, 1, 1, 1));
        input(&b, DTYPE_FLOAT, DIMS(1, 2, 3, 3));
        output(&b, DTYPE_FLOAT, DIMS(1, 1, 3, 3));
        for (int k = 0; k < 18; k++) ((float *)b.inputs[2].data)[k] = places[i];
        assert_true(run(&b, "DeformConv"));
    }
}

/* Indices are places in the input whatever it holds, and NaN is the largest. */
TEST(test_nan_indices) {
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        Bench b;
        bench_begin(&b);
        input(&b, DTYPE_FLOAT, DIMS(1, 1, 4, 4));
        output(&b, DTYPE_FLOAT, DIMS(1, 1, 3, 3));
        output(&b, DTYPE_INT64, DIMS(1, 1, 3, 3));
        ints(&b, "kernel_shape", DIMS(2, 2));
        for (int k = 0; k < 16; k++) ((float *)b.inputs[0].data)[k] = values[i];
        float *y = b.outputs[0].data;
        int64_t *where = b.outputs[1].data, kept[9];
        float best[9];
        size_t rows = 0;
        const KernelRow *row = kernel_find("", "MaxPool", 22, &rows);
        void *attrs = attr_layout_new(row->layout, &b.arena);
        attr_layout_fill(attrs, attr_layout_find(row->layout, "kernel_shape", 12), &b.attrs[0],
                         &b.arena);
        KernelCall call = {.row = row,
                           .attrs = attrs,
                           .inputs = b.inputs,
                           .outputs = b.outputs,
                           .input_count = 1,
                           .output_count = 2,
                           .opset = 22,
                           .scratch = &b.arena,
                           .err = &b.err};
        assert_true(kernel_run_once(&call, kernel_signature_find("", "MaxPool", 22)));
        memcpy(kept, where, sizeof kept);
        memcpy(best, y, sizeof best);
        for (int k = 0; k < 9; k++) assert_true(kept[k] >= 0 && kept[k] < 16);
        for (int k = 0; k < 9; k++) assert_true(i == 0 ? isnan(best[k]) : best[k] == values[i]);
        arena_free(&b.arena);
    }
}
