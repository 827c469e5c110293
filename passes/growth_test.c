// SPDX-License-Identifier: Apache-2.0
/* The time of passes grows with the model and no faster: each takes a model of n parts and one of 4 n, of
 * which the second may cost six times as much. What is measured is processor time, in one of a few looks,
 * so that what else a machine does counts for little. And weights of any size are quantized in the same
 * memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pass.h"
#include "passes.h"
#include "plugin.h"
#include "repair.h"
#include "text.h"
#include "unit_test.h"

/* What plug-ins do that take nodes away. */
static bool drop_identities(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    for (DemiNode *node = api->graph_first(graph), *next; node; node = next) {
        next = api->node_next(node);
        if (strcmp(api->node_op_type(node), "Identity") != 0) continue;
        if (!api->value_replace(run, api->node_output(node, 0), api->node_input(node, 0)) ||
            !api->node_remove(run, node))
            return false;
    }
    return true;
}

static PluginPass plugin = {.info = {.name = "drop-identities", .run = plugin_pass_run},
                            .scope = DEMI_SCOPE_MODEL,
                            .file = "",
                            .run = drop_identities};

/* What commands do with a model whose declarations are wrong. */
static bool run_repair(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    return repair_model(ctx, "for this") || err_set(err, ERR_MODEL, "not repaired");
}

static const PassInfo repair = {.name = "repair", .run = run_repair};

static const PassInfo *const table_rows[] = {
    &infer_dtypes_pass,   &infer_shapes_pass,    &insert_qdq_pass,
    &fuse_casts_pass,     &fold_batch_norm_pass, &strip_qdq_pass,
    &choose_layouts_pass, &decompose_pass,       &insert_casts_pass,
    &strip_casts_pass,    &expand_gradient_pass, &make_training_pass,
    &set_shapes_pass,     &freeze_inputs_pass,   &repair,
    &plugin.info};
static const PassTable table = {.passes = table_rows,
                                .count = sizeof table_rows / sizeof *table_rows};

enum { ROOM = 16 << 20, TRIES = 6 };
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

/* Outputs that casts gave their names to, and that had two entries of value_info each. */
static void put_repeats(Text *t, unsigned n) {
    put(t, "<ir_version: 10, opset_import: [\"\" : 21]>\ng (float[2] x) => (");
    EACH(i, n) put(t, "%sfloat[2] y%u", i ? ", " : "", i);
    put(t, ") <");
    EACH(i, n) put(t, "%sfloat[2] a%u, float[2] y%u", i ? ", " : "", i, i);
    put(t, "> {\n");
    EACH(i, n)
    put(t,
        "a%u = Relu (x)\ny%u = Cast <to = 1> (a%u) @meta[\"demi.inserted\": "
        "\"cast\"]\n",
        i, i, i);
    put(t, "}\n");
}

/* Functions whose imports demi changed. */
static void put_imports(Text *t, unsigned n) {
    put(t, "<ir_version: 10, opset_import: [\"\" : 21, \"f\" : 1],\n"
           "metadata_props: [\"demi.was\": \"constants\"]>\ng (float[2] v0) => (float[2] ");
    put(t, "v%u) {\n", n);
    EACH(i, n) put(t, "v%u = f.F%u (v%u)\n", i + 1, i, i);
    put(t, "}\n");
    EACH(i, n)
    put(t,
        "<domain: \"f\", opset_import: [\"\" : 21],\nmetadata_props: [\"demi.was\": "
        "\"opset_import=12\"]>\nF%u (x) => (y) { y = Tan (x) }\n",
        i);
}

static void put_chain(Text *t, unsigned n) {
    put(t, HEADER, "", n);
    put(t, "> {\n");
    EACH(i, n) put(t, "[n%u] v%u = Relu (v%u)\n", i, i + 1, i);
    put(t, "}\n");
}

/* Half of the nodes by their names, a quarter by what they give. */
static void put_keep(Text *t, unsigned n) {
    put(t, "infer-dtypes,insert-casts{to=float16,keep=[");
    for (unsigned i = 0; i < n; i += 4)
        put(t, "%sn%u,name:n%u,out:v%u", i ? "," : "", i, i + 1, i + 2);
    put(t, "]}");
}

static void put_inputs(Text *t, unsigned n) {
    put(t, "<ir_version: 3, opset_import: [\"\" : 9]>\ng (");
    EACH(i, n) put(t, "%sfloat[N%u] x%u", i ? ", " : "", i, i);
    put(t, ") => (");
    EACH(i, n) put(t, "%sfloat[N%u] y%u", i ? ", " : "", i, i);
    put(t, ") <");
    EACH(i, n) put(t, "%sfloat[1] x%u = {1}", i ? ", " : "", i);
    put(t, "> {\n");
    EACH(i, n) put(t, "y%u = Relu (x%u)\n", i, i);
    put(t, "}\n");
}

static void put_names(Text *t, const char *before, const char *format, unsigned n) {
    put(t, "%s", before);
    EACH(i, n) {
        char name[32];
        snprintf(name, sizeof name, format, i, i % 9 + 1);
        put(t, "%s%s", i ? "," : "", name);
    }
    put(t, "]}");
}

static void put_fed(Text *t, unsigned n) {
    put_names(t, "freeze-inputs{fed=[", "x%u", n);
}

static void put_low(Text *t, unsigned n) {
    put_names(t, "infer-dtypes,insert-casts{to=float16,low-inputs=[", "x%u", n);
}

static void put_dims(Text *t, unsigned n) {
    put_names(t, "set-shapes{dims=[", "\"N%u=%u\"", n);
}

static void put_shapes(Text *t, unsigned n) {
    put_names(t, "set-shapes{shapes=[", "\"x%u=%u\"", n);
}

/* One node that names all inputs. */
static void put_gradient(Text *t, unsigned n) {
    put(t, "<ir_version: 10, opset_import: [\"\" : 21, \"ai.onnx.preview.training\" : 1]>\ng (");
    put(t, "float[2] v0");
    EACH(i, n) put(t, ", float[2] x%u", i);
    put(t, ") => (float[2] v%u) {\n", n);
    EACH(i, n) put(t, "v%u = Add (v%u, x%u)\n", i + 1, i, i);
    EACH(i, n) put(t, "%sd%u", i ? ", " : "", i);
    put(t, " = ai.onnx.preview.training.Gradient <xs = [");
    EACH(i, n) put(t, "%s\"x%u\"", i ? ", " : "", i);
    put(t, "], y = \"v%u\"> (", n);
    EACH(i, n) put(t, "%sx%u", i ? ", " : "", i);
    put(t, ")\n}\n");
}

/* Parameters in a branch. */
static void put_parameters(Text *t, unsigned n) {
    put(t, "<ir_version: 10, opset_import: [\"\" : 21]>\n"
           "g (float[2,2] v0, bool c) => (float[2,2] y) {\n"
           "y = If (c) <then_branch = t () => (float[2,2] ");
    put(t, "v%u) <", n);
    EACH(i, n) put(t, "%sfloat[2,2] w%u = {1, 2, 3, 4}", i ? ", " : "", i);
    put(t, "> {\n");
    EACH(i, n) put(t, "v%u = MatMul (v%u, w%u)\n", i + 1, i, i);
    put(t, "}, else_branch = e () => (float[2,2] q) { q = Relu (v0) }>\n}\n");
}

/* Entries of a branch for values around it, which have other shapes. */
static void put_mentions(Text *t, unsigned n) {
    put(t, "<ir_version: 10, opset_import: [\"\" : 21]>\n"
           "g (float[2] v0, bool c) => (float[2] y) {\n");
    EACH(i, n) put(t, "v%u = Relu (v%u)\n", i + 1, i);
    put(t, "y = If (c) <then_branch = t () => (float[2] p) <");
    EACH(i, n) put(t, "%sfloat[3] v%u", i ? ", " : "", i + 1);
    put(t, "> { p = Relu (v%u) }, else_branch = e () => (float[2] q) { q = Relu (v0) }>\n}\n", n);
}

static void put_identities(Text *t, unsigned n) {
    put(t, HEADER, "", n);
    EACH(i, n) put(t, "%sfloat[2,2] a%u", i ? ", " : "", i);
    put(t, "> {\n");
    EACH(i, n) put(t, "a%u = Identity (v%u)\nv%u = Relu (a%u)\n", i, i, i + 1, i);
    put(t, "}\n");
}

static const struct Kind {
    const char *name, *passes; /* the last is measured; NULL where its text grows, too */
    void (*put)(Text *t, unsigned n);
    unsigned n;
    void (*put_passes)(Text *t, unsigned n);
} kinds[] = {
    {"weights", "infer-dtypes,infer-shapes,insert-qdq{weights=int8}", put_weights, 4000, NULL},
    {"casts", "infer-dtypes,fuse-casts", put_casts, 5000, NULL},
    {"norms", "infer-dtypes,infer-shapes,fold-batch-norm{store=true}", put_norms, 2000, NULL},
    {"quantized", "infer-dtypes,infer-shapes,strip-qdq{all=true}", put_quantized, 4000, NULL},
    {"branches", "infer-dtypes,infer-shapes,choose-layouts", put_branches, 1000, NULL},
    {"functions", "infer-dtypes,decompose", put_functions, 2000, NULL},
    {"repeats", "infer-dtypes,strip-casts", put_repeats, 4000, NULL},
    {"imports", "infer-dtypes,strip-casts", put_imports, 1000, NULL},
    {"patterns", NULL, put_chain, 4000, put_keep},
    {"fed inputs", NULL, put_inputs, 4000, put_fed},
    {"low inputs", NULL, put_inputs, 4000, put_low},
    {"dims", NULL, put_inputs, 4000, put_dims},
    {"shapes", NULL, put_inputs, 4000, put_shapes},
    {"gradient", "infer-dtypes,infer-shapes,expand-gradient", put_gradient, 4000, NULL},
    {"parameters", "infer-dtypes,infer-shapes,make-training{loss=mse}", put_parameters, 2000, NULL},
    {"mentions", "infer-dtypes,infer-shapes,repair", put_mentions, 4000, NULL},
    {"plug-in", "infer-dtypes,drop-identities", put_identities, 4000, NULL},
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

static double seconds_of(const struct Kind *kind, const Text *text, const char *passes) {
    Arena arena, scratch;
    Err err = {0};
    Pipeline pipeline;
    PassCounts counts = {0};
    clock_t began[2] = {0};
    arena_init(&arena, &test_trap);
    arena_init(&scratch, &test_trap);
    Model *model = text_parse_model(text->bytes, text->size, &test_trap, &err);
    if (!model) fail_msg("%s: %s %s", kind->name, err.what, err.operand);
    PassCtx ctx = {.model = model,
                   .scratch = &scratch,
                   .counts = &counts,
                   .statistics = statistics_memo_new(&arena)};
    PipelineOptions options = {.after = take_seconds, .data = began};
    plugin.api = plugin_api_new(&arena);
    began[1] = clock();
    if (!pipeline_parse(&table, &arena, passes, &pipeline, &err) ||
        !pipeline_run(&pipeline, &ctx, &options, &err))
        fail_msg("%s: %s", kind->name, err.what);
    model_free(model);
    arena_free(&scratch);
    arena_free(&arena);
    return (double)(began[1] - began[0]) / CLOCKS_PER_SEC;
}

/* A kind at some size. */
typedef struct Sized {
    const struct Kind *kind;
    Text model, passes;
    double seconds; /* of the last look */
} Sized;

static void make(Sized *sized, unsigned n) {
    const struct Kind *kind = sized->kind;
    sized->model.size = sized->passes.size = 0;
    kind->put(&sized->model, n);
    if (kind->put_passes)
        kind->put_passes(&sized->passes, n);
    else
        put(&sized->passes, "%s", kind->passes);
}

/* Of two that follow each other: what other processes do to caches lasts longer. */
static bool grows_as_it_may(Sized *few, Sized *many) {
    few->seconds = seconds_of(few->kind, &few->model, few->passes.bytes);
    many->seconds = seconds_of(many->kind, &many->model, many->passes.bytes);
    return many->seconds <= MOST * few->seconds + NOTHING;
}

static void test_kind(const struct Kind *kind, Sized *few, Sized *many) {
    bool holds = false;
    few->kind = many->kind = kind;
    make(few, kind->n);
    make(many, 4 * kind->n);
    for (int i = 0; i < TRIES && !holds; i++) holds = grows_as_it_may(few, many);
    if (getenv("DEMI_GROWTH"))
        printf("%-10s %.4f %.4f x%.1f\n", kind->name, few->seconds, many->seconds,
               many->seconds / few->seconds);
    if (!holds)
        fail_msg("%s: it takes %.4f s of %u and %.4f s of %u", kind->name, few->seconds, kind->n,
                 many->seconds, 4 * kind->n);
}

static Text text_new(void) {
    Text text = {.bytes = malloc(ROOM)};
    assert_non_null(text.bytes);
    return text;
}

TEST(test_growth) {
    Sized few = {.model = text_new(), .passes = text_new()};
    Sized many = {.model = text_new(), .passes = text_new()};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) test_kind(&kinds[k], &few, &many);
    free(few.model.bytes);
    free(few.passes.bytes);
    free(many.model.bytes);
    free(many.passes.bytes);
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
    const uint64_t used = model->arena.used + model->parts.used;
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
