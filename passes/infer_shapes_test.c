// SPDX-License-Identifier: Apache-2.0
/* infer-shapes on small models: what is found, what stays declared, what stays unknown; subgraphs,
 * functions, hostile models; and that time grows with the model, not faster. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "passes.h"
#include "pass.h"
#include "text.h"
#include "unit_test.h"
#include "verify.h"

static const PassInfo *const table_rows[] = {&infer_shapes_pass};
static const PassTable table = {.passes = table_rows, .count = 1};

typedef struct Run {
    Arena arena, scratch;
    Model *model;
    PassCounts counts;
    uint64_t rewrites;
    Err err;
    bool ok;
} Run;

static void count_rewrites(void *data, const PassStep *step, const PassCounts *counts,
                           double seconds) {
    (void)step;
    (void)seconds;
    ((Run *)data)->rewrites = counts->rewrites;
}

static void run_again(Run *run, const char *text) {
    Pipeline pipeline;
    PassCtx ctx = {.model = run->model, .scratch = &run->scratch, .counts = &run->counts};
    PipelineOptions options = {.verify_each = true, .after = count_rewrites, .data = run};
    assert_true(pipeline_parse(&table, &run->arena, text, &pipeline, &run->err));
    run->ok = pipeline_run(&pipeline, &ctx, &options, &run->err);
}

static void run_open(Run *run) {
    arena_init(&run->arena, &test_trap);
    arena_init(&run->scratch, &test_trap);
}

static void run_pass(Run *run, const char *model, const char *pipeline) {
    run->model = text_parse_model(model, strlen(model), &test_trap, &run->err);
    if (!run->model) fail_msg("%s: %s", run->err.what, run->err.operand);
    run_again(run, pipeline);
}

static void run_close(Run *run) {
    model_free(run->model);
    arena_free(&run->scratch);
    arena_free(&run->arena);
}

static const Value *value_named(const Run *run, const char *name) {
    GraphList graphs = model_graphs(run->model, &run->model->arena);
    for (size_t g = 0; g < graphs.count; g++) {
        for (size_t i = 0; i < graphs.items[g]->inputs.count; i++)
            if (sym_equals(graphs.items[g]->inputs.items[i]->name, name))
                return graphs.items[g]->inputs.items[i];
        for (const Node *node = graphs.items[g]->first; node; node = node_after(node))
            for (uint32_t i = 0; i < node->output_count; i++)
                if (node->outputs[i] && sym_equals(node->outputs[i]->name, name))
                    return node->outputs[i];
    }
    fail_msg("no value %s", name);
    return NULL;
}

/* "2,N,?", "." for a scalar, "*" for an unknown rank; inside sequences, too. */
static void shape_text(const Type *type, char *buffer, size_t size) {
    size_t used = 0;
    while (type && (type->kind == TYPE_SEQUENCE || type->kind == TYPE_OPTIONAL)) type = type->elem;
    snprintf(buffer, size, "%s", !type || !type->has_shape ? "*" : type->rank ? "" : ".");
    for (uint32_t i = 0; type && type->has_shape && i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        const char *comma = i ? "," : "";
        if (dim->kind == DIM_KNOWN)
            used +=
                (size_t)snprintf(buffer + used, size - used, "%s%lld", comma, (long long)dim->size);
        else
            used += (size_t)snprintf(buffer + used, size - used, "%s%s", comma,
                                     dim->kind == DIM_SYMBOL ? dim->symbol->text : "?");
    }
}

static void expect(const Run *run, const char *name, const char *shape) {
    char got[256];
    shape_text(value_named(run, name)->type, got, sizeof got);
    if (strcmp(got, shape)) fail_msg("%s is %s, not %s", name, got, shape);
}

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17]>\n"

TEST(test_shape_arithmetic) {
    Run run = {0};
    run_open(&run);
    run_pass(&run,
             HEAD "g (float[N,3,4] x) => (float[a,b] y)\n"
                  "<int64[1] minus = {-1}, int64 zero = {0}>\n"
                  "{\n"
                  "  s = Shape(x)\n"
                  "  n = Gather(s, zero)\n"
                  "  axes = Constant <value_ints = [0]> ()\n"
                  "  n1 = Unsqueeze(n, axes)\n"
                  "  t = Concat <axis = 0> (n1, minus)\n"
                  "  r = Reshape(x, t)\n"
                  "  y = Relu(r)\n"
                  "}\n",
             "infer-shapes");
    assert_true(run.ok);
    expect(&run, "s", "3");
    expect(&run, "n", ".");
    expect(&run, "r", "N,12");
    expect(&run, "y", "a,12"); /* the declared name stays, the unknown becomes known */
    const Type *declared = run.model->graph->outputs.items[0]->decl->type;
    assert_int_equal(declared->dims[1].kind, DIM_SYMBOL); /* declarations are not touched */
    assert_true(run.rewrites > 0);
    run_again(&run, "infer-shapes");
    assert_int_equal(run.rewrites, 0);
    run_close(&run);
}

TEST(test_declared) {
    Run run = {0};
    run_open(&run);
    run_pass(&run,
             HEAD "g (float[2,3] x, float u) => (float[9,9] wrong, float[4,5] kept)\n"
                  "<float[2,M] named>\n"
                  "{\n"
                  "  named = Relu(x)\n"
                  "  wrong = Relu(named)\n"
                  "  c = NonZero(x)\n"
                  "  kept = com.example.Custom(x)\n"
                  "}\n",
             "infer-shapes");
    assert_true(run.ok);
    expect(&run, "named", "2,3");
    expect(&run, "wrong", "2,3"); /* the inferred known dim wins over a declared one */
    expect(&run, "c", "2,?");     /* no symbol is made up */
    expect(&run, "kept", "4,5");
    assert_int_equal(type_dtype(value_named(&run, "named")->type), DTYPE_FLOAT);
    run_close(&run);
}

TEST(test_if) {
    Run run = {0};
    run_open(&run);
    run_pass(&run,
             HEAD "g (bool c, float[N,3] x) => (float y)\n"
                  "{\n"
                  "  y = If (c) <\n"
                  "    then_branch = t () => (float a) { a = Concat <axis = 1> (x, x) },\n"
                  "    else_branch = e () => (float b) { b = Relu(x) }>\n"
                  "  z = Identity(y)\n"
                  "}\n",
             "infer-shapes");
    assert_true(run.ok);
    expect(&run, "a", "N,6");
    expect(&run, "b", "N,3");
    expect(&run, "z", "N,?");
    run_close(&run);
}

/* What both branches give is known: here one dim of a shape. */
TEST(test_if_contents) {
    Run run = {0};
    run_open(&run);
    run_pass(&run,
             HEAD
             "g (bool c, float[6] x) => (float y)\n"
             "{\n"
             "  s = If (c) <\n"
             "    then_branch = t () => (int64[2] a) { a = Constant <value_ints = [2, 3]> () },\n"
             "    else_branch = e () => (int64[2] b) { b = Constant <value_ints = [1, 3]> () }>\n"
             "  y = Reshape(x, s)\n"
             "}\n",
             "infer-shapes");
    assert_true(run.ok);
    expect(&run, "y", "?,3");
    run_close(&run);
}

TEST(test_loop) {
    Run run = {0};
    run_open(&run);
    run_pass(&run,
             HEAD "g (int64 m, bool c, float[N,3] fixed, float[1,3] grows) => (float y)\n"
                  "{\n"
                  "  f, h, parts = Loop (m, c, fixed, grows) <\n"
                  "    body = b (int64 i, bool k, float p, float q) => (bool kk, float pp, float "
                  "qq, float part) {\n"
                  "      kk = Identity(k)\n"
                  "      pp = Relu(p)\n"
                  "      qq = Concat <axis = 0> (q, q)\n"
                  "      part = Transpose(p)\n"
                  "    }>\n"
                  "  y = Identity(f)\n"
                  "}\n",
             "infer-shapes");
    assert_true(run.ok);
    expect(&run, "p", "N,3");
    expect(&run, "q", "?,3"); /* it differs from iteration to iteration */
    expect(&run, "i", ".");
    expect(&run, "f", "N,3");
    expect(&run, "h", "?,3");
    expect(&run, "parts", "?,3,N");
    run_close(&run);
}

TEST(test_scan) {
    Run run = {0};
    run_open(&run);
    run_pass(&run,
             HEAD "g (float[2] init, float[T,2] xs) => (float y, float z)\n"
                  "{\n"
                  "  y, z = Scan <num_scan_inputs = 1,\n"
                  "    body = b (float s, float e) => (float sn, float o) {\n"
                  "      sn = Add(s, e)\n"
                  "      o = Identity(sn)\n"
                  "    }> (init, xs)\n"
                  "}\n",
             "infer-shapes");
    assert_true(run.ok);
    expect(&run, "e", "2");
    expect(&run, "y", "2");
    expect(&run, "z", "T,2");
    run_close(&run);
}

TEST(test_overridable) {
    Run run = {0};
    run_open(&run);
    run_pass(&run,
             HEAD "g (float[6] x, int64[2] shape = {2, 3}) => (float y)\n"
                  "{ y = Reshape(x, shape) }\n",
             "infer-shapes");
    assert_true(run.ok);
    expect(&run, "y", "?,?"); /* callers may pass another shape */
    run_close(&run);
}

TEST(test_invalid) {
    static const char model[] = HEAD "g (float[2,3] x) => (float y) {\n"
                                     "  bad = Transpose <perm = [0, 7]> (x)\n"
                                     "  y = Relu(bad)\n"
                                     "}\n";
    Run run = {0}, strict = {0};
    run_open(&run);
    run_pass(&run, model, "infer-shapes");
    assert_true(run.ok);
    expect(&run, "bad", "*");
    run_close(&run);
    run_open(&strict);
    run_pass(&strict, model, "infer-shapes{strict=true}");
    assert_false(strict.ok);
    assert_int_equal(strict.err.code, ERR_MODEL);
    assert_string_equal(strict.err.op_type, "Transpose");
    run_close(&strict);
}

TEST(test_annotate) {
    Run run = {0};
    run_open(&run);
    run_pass(
        &run,
        HEAD
        "g (float[2,3] x) => (float y)\n<float a>\n{ a = Relu(x)\n b = Relu(a)\n y = Relu(b) }\n",
        "infer-shapes");
    assert_null(value_named(&run, "b")->info);
    Value *b = (Value *)value_named(&run, "b");
    value_set_type(b, type_with_dtype(&run.model->arena, b->type, DTYPE_FLOAT));
    run_again(&run, "infer-shapes{annotate=true}");
    assert_non_null(b->info);
    assert_int_equal(b->info->type->rank, 2);
    assert_null(value_named(&run, "y")->info); /* graph outputs have a declaration */
    run_again(&run, "infer-shapes{annotate=true}");
    assert_int_equal(run.rewrites, 0);
    run_close(&run);
}

/* A chain of n nodes: seconds the pass takes. */
static double seconds_for(uint32_t nodes) {
    Run run = {0};
    run_open(&run);
    run_pass(&run, HEAD "g (float[N,64] x) => (float y) { y = Relu(x) }\n", "infer-shapes");
    Graph *graph = run.model->graph;
    Value *last = graph->outputs.items[0]->use.value;
    for (uint32_t i = 0; i < nodes; i++) {
        char name[24];
        snprintf(name, sizeof name, "v%u", i);
        Node *node =
            node_new(graph, NULL, sym_intern_cstr(&run.model->syms, i % 2 ? "Add" : "Tanh"),
                     sym_intern_cstr(&run.model->syms, ""));
        node_resize_inputs(node, i % 2 ? 2 : 1);
        node_resize_outputs(node, 1);
        node_set_input(node, 0, last);
        if (i % 2) node_set_input(node, 1, last);
        last = value_new(graph, sym_intern_cstr(&run.model->syms, name));
        node_set_output(node, 0, last);
    }
    PassCtx ctx = {.model = run.model, .scratch = &run.scratch, .counts = &run.counts};
    const uint64_t options = 0;
    clock_t start = clock();
    assert_true(infer_shapes_pass.run(&ctx, &options, &run.err));
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    char got[64];
    shape_text(last->type, got, sizeof got);
    assert_string_equal(got, "N,64");
    run_close(&run);
    return seconds;
}

TEST(test_linear) {
    double seconds = seconds_for(80000); /* of the processor; quadratic would be 6 s and more */
    print_message("80,000 nodes %.1f ms\n", seconds * 1e3);
    assert_true(seconds < 1); /* with sanitizers 0.1 */
}
