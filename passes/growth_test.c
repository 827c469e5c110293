// SPDX-License-Identifier: Apache-2.0
/* The time of passes grows with the model and no faster: each takes a model of n parts and one of 4 n, of
 * which the second may cost six times as much. What is measured is processor time, the least of some runs,
 * so that what else a machine does counts for nothing. And weights of any size are quantized in the same
 * memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pass.h"
#include "passes.h"
#include "text.h"
#include "unit_test.h"

static const PassInfo *const table_rows[] = {
    &infer_dtypes_pass, &infer_shapes_pass, &insert_qdq_pass,     &fuse_casts_pass,
    &fold_affine_pass,  &strip_qdq_pass,    &choose_layouts_pass, &spell_out_pass};
static const PassTable table = {table_rows, sizeof table_rows / sizeof *table_rows};

enum { ROOM = 16 << 20, TRIES = 4 };
static const double MOST = 6, NOTHING = 5e-3; /* seconds that no clock can tell apart */

/* ---- models of n parts ----------------------------------------------------------------------- */

typedef struct Text {
    char *bytes;
    size_t size;
} Text;

static void put(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(Text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    t->size += (size_t)vsnprintf(t->bytes + t->size, ROOM - t->size, format, args);
    va_end(args);
    assert_true(t->size < ROOM);
}

#define EACH(i, n) for (unsigned i = 0; i < (n); i++)
#define HEADER                                                                                     \
    "<ir_version: 10, opset_import: [\"\" : 21, \"f\" : 1]>\ng (float[2,2] v0%s) => (float[2,2] "  \
    "v%u) <"

/* Each constant is taken out of its graph's list when its numbers come. */
static void put_weights(Text *t, unsigned n) {
    put(t, HEADER, "", n);
    EACH(i, n) put(t, "%sfloat[2,2] w%u = {1, 2, 3, 4}", i ? ", " : "", i);
    put(t, "> {\n");
    EACH(i, n) put(t, "v%u = MatMul (v%u, w%u)\n", i + 1, i, i);
    put(t, "}\n");
}

/* Each cast that changes nothing leaves an entry of value_info. */
static void put_casts(Text *t, unsigned n) {
    put(t, HEADER, "", n);
    EACH(i, n) put(t, "%sfloat[2,2] a%u", i ? ", " : "", i);
    put(t, "> {\n");
    EACH(i, n) put(t, "a%u = Cast <to = 1> (v%u)\nv%u = Relu (a%u)\n", i, i, i + 1, i);
    put(t, "}\n");
}

/* Each normalization's numbers go with it. */
static void put_norms(Text *t, unsigned n) {
    put(t,
        "<ir_version: 10, opset_import: [\"\" : 21]>\ng (float[1,2,2,2] v0) => (float[1,2,2,2] v%u)"
        " <",
        n);
    EACH(i, n)
    put(t,
        "%sfloat[2,2,1,1] w%u = {1, 2, 3, 4}, float[2] s%u = {1, 2}, float[2] b%u = {1, 2}, "
        "float[2] m%u = {1, 2}, float[2] d%u = {1, 2}, float[1,2,2,2] a%u",
        i ? ", " : "", i, i, i, i, i, i);
    put(t, "> {\n");
    EACH(i, n)
    put(t, "a%u = Conv (v%u, w%u)\nv%u = BatchNormalization (a%u, s%u, b%u, m%u, d%u)\n", i, i, i,
        i + 1, i, i, i, i, i);
    put(t, "}\n");
}

/* Weights that were quantized, to be floats again. */
static void put_quantized(Text *t, unsigned n) {
    put(t, HEADER, "", n);
    put(t, "float s = {0.5}, int8 z = {0}");
    EACH(i, n) put(t, ", int8[2,2] w%u = {1, 2, 3, 4}, float[2,2] a%u", i, i);
    put(t, "> {\n");
    EACH(i, n)
    put(t, "a%u = DequantizeLinear (w%u, s, z)\nv%u = MatMul (v%u, a%u)\n", i, i, i + 1, i, i);
    put(t, "}\n");
}

static void put_branches(Text *t, unsigned n) {
    put(t, HEADER, ", bool c", n);
    put(t, "> {\n");
    EACH(i, n)
    put(t,
        "v%u = If (c) <then_branch = t%u () => (float[2,2] p%u) { p%u = Relu (v%u) }, "
        "else_branch = e%u () => (float[2,2] q%u) { q%u = Exp (v%u) }>\n",
        i + 1, i, i, i, i, i, i, i, i);
    put(t, "}\n");
}

static void put_functions(Text *t, unsigned n) {
    put(t, HEADER, "", n);
    put(t, "> {\n");
    EACH(i, n) put(t, "v%u = f.F%u (v%u)\n", i + 1, i, i);
    put(t, "}\n");
    EACH(i, n)
    put(t, "<domain: \"f\", opset_import: [\"\" : 21]>\nF%u (x) => (y) { y = Relu (x) }\n", i);
}

static const struct Kind {
    const char *name, *passes;
    void (*put)(Text *t, unsigned n);
    unsigned n;
} kinds[] = {
    {"weights", "infer-dtypes,infer-shapes,insert-qdq{weights=int8}", put_weights, 4000},
    {"casts", "infer-dtypes,fuse-casts", put_casts, 5000},
    {"norms", "infer-dtypes,infer-shapes,fold-affine{store=true}", put_norms, 2000},
    {"quantized", "infer-dtypes,infer-shapes,strip-qdq{all=true}", put_quantized, 4000},
    {"branches", "infer-dtypes,infer-shapes,choose-layouts", put_branches, 1000},
    {"functions", "infer-dtypes,spell-out", put_functions, 2000},
};

/* ---- measuring ------------------------------------------------------------------------------- */

/* Of the last pass. */
static void take_seconds(void *data, const PassStep *step, const PassCounts *counts,
                         double seconds) {
    clock_t *began = data;
    (void)step;
    (void)counts;
    (void)seconds;
    began[0] = began[1];
    began[1] = clock();
}

static double seconds_of(const struct Kind *kind, const Text *text) {
    Arena arena, scratch;
    Err err = {0};
    Pipeline pipeline;
    PassCounts counts = {0};
    clock_t began[2] = {0};
    arena_init(&arena, &test_trap);
    arena_init(&scratch, &test_trap);
    Model *model = text_parse_model(text->bytes, text->size, &test_trap, &err);
    if (!model) fail_msg("%s: %s %s", kind->name, err.what, err.operand);
    PassCtx ctx = {.model = model, .scratch = &scratch, .counts = &counts};
    PipelineOptions options = {.after = take_seconds, .data = began};
    assert_true(pipeline_parse(&table, &arena, kind->passes, &pipeline, &err));
    if (!pipeline_run(&pipeline, &ctx, &options, &err)) fail_msg("%s: %s", kind->name, err.what);
    model_free(model);
    arena_free(&scratch);
    arena_free(&arena);
    return (double)(began[1] - began[0]) / CLOCKS_PER_SEC;
}

TEST(test_growth) {
    Text small = {.bytes = malloc(ROOM)}, large = {.bytes = malloc(ROOM)};
    assert_true(small.bytes && large.bytes);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const struct Kind *kind = &kinds[k];
        double few = 1e9, many = 1e9;
        small.size = large.size = 0;
        kind->put(&small, kind->n);
        kind->put(&large, 4 * kind->n);
        for (int i = 0; i < TRIES && (i == 0 || many > MOST * few + NOTHING); i++) {
            const double a = seconds_of(kind, &small), b = seconds_of(kind, &large);
            few = a < few ? a : few;
            many = b < many ? b : many;
        }
        if (getenv("DEMI_GROWTH"))
            printf("%s %.4f %.4f x%.1f\n", kind->name, few, many, many / few);
        if (many > MOST * few + NOTHING)
            fail_msg("%s: %s takes %.4f s of %u and %.4f s of %u", kind->name, kind->passes, few,
                     kind->n, many, 4 * kind->n);
    }
    free(small.bytes);
    free(large.bytes);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Weights that are nowhere: each is its number's last bits. */
static bool make_weights(void *user, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    float *to = buffer;
    (void)user;
    (void)err;
    for (uint64_t i = 0; i < size / sizeof *to; i++)
        to[i] = (float)((offset / sizeof *to + i) % 251) - 125;
    return true;
}

enum { SIDE = 4096 };

static const Tensor *new_weights(Arena *arena) {
    const int64_t dims[] = {SIDE, SIDE};
    Tensor *tensor = tensor_new_raw(arena, DTYPE_FLOAT, dims, 2, NULL, 0);
    tensor->bytes = NULL;
    tensor->size = (uint64_t)SIDE * SIDE * sizeof(float);
    tensor->source = source_from_maker(arena, make_weights, NULL, tensor->size, "weights");
    return tensor;
}

/* Bytes that the model has when the products' weights, 64 MiB each, were quantized. */
static uint64_t bytes_of(const char *passes, unsigned products) {
    Arena arena, scratch;
    Err err = {0};
    Pipeline pipeline;
    PassCounts counts = {0};
    Text text = {.bytes = malloc(ROOM)};
    assert_non_null(text.bytes);
    put_weights(&text, products);
    arena_init(&arena, &test_trap);
    arena_init(&scratch, &test_trap);
    Model *model = text_parse_model(text.bytes, text.size, &test_trap, &err);
    assert_non_null(model);
    for (Node *node = model->graph->first; node; node = node_after(node)) {
        const Tensor *tensor = new_weights(&model->arena);
        value_set_init(node->inputs[1].value, tensor);
        value_set_type(node->inputs[1].value, NULL);
    }
    PassCtx ctx = {.model = model, .scratch = &scratch, .counts = &counts};
    assert_true(pipeline_parse(&table, &arena, passes, &pipeline, &err));
    if (!pipeline_run(&pipeline, &ctx, &(PipelineOptions){0}, &err)) fail_msg("%s", err.what);
    assert_int_equal(model->graph->node_count, 2 * products);
    const uint64_t used = model->arena.used;
    model_free(model);
    arena_free(&scratch);
    arena_free(&arena);
    free(text.bytes);
    return used;
}

TEST(test_weights_are_not_held) {
    static const char *const passes[] = {"infer-dtypes,infer-shapes,insert-qdq{weights=int8}",
                                         "infer-dtypes,infer-shapes,insert-qdq{weights=int4}"};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        const uint64_t used = bytes_of(passes[i], 7);
        if (used > 40 << 20) fail_msg("%s: %llu bytes", passes[i], (unsigned long long)used);
    }
}
