// SPDX-License-Identifier: Apache-2.0
/* One plan, 16 threads, each with a context of its own that computes with one to three threads:
 * every thread gets what a lone one got; with the kernels that are best, and with oneDNN's where it
 * can (one thread each). The preset `tsan` builds it with the
 * thread sanitizer, without suppressions. */
#define _DEFAULT_SOURCE /* pthread_barrier_t */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "demi.h"
#include "demi_runtime.h"

enum { THREADS = 16, RUNS = 30, SHAPES = 11, WIDTH = 8, OUTPUTS = 5, MOST_BYTES = 1 << 15 };

/* Weights in 16 bits, which all contexts widen once; shapes that depend on inputs; branches, a
 * loop, a sequence, strings, a random operator without a seed. */
static const char model_text[] =
    "<ir_version: 9, opset_import: [\"\" : 21]>\n"
    "g (float[n,8] x, int64[2] shape, string[n] names)\n"
    "  => (float[n,8] dense, float[a,b] other, float[c,8] looped, float[d,8] joined, string[n] "
    "twice)\n"
    "<float16[8,8] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,\n"
    "   8,7,6,5,4,3,2,1,8,7,6,5,4,3,2,1,8,7,6,5,4,3,2,1,8,7,6,5,4,3,2,1},\n"
    " float[8,1,3] k = {1,0,2,1,0,2,1,0,2,1,0,2,1,0,2,1,0,2,1,0,2,1,0,2}>\n"
    "{\n"
    "    half = Cast <to = 10> (x)\n"
    "    product = MatMul (half, w)\n"
    "    wide = Cast <to = 1> (product)\n"
    "    soft = Softmax (wide)\n"
    "    last = Constant <value_ints = [2]> ()\n"
    "    column = Unsqueeze (soft, last)\n"
    "    filtered = Conv <group = 8, pads = [1, 1]> (column, k)\n"
    "    flat = Squeeze (filtered, last)\n"
    "    dense = Add (flat, soft)\n"
    "    other = Reshape (dense, shape)\n"
    "    sum = ReduceSum <keepdims = 0> (x)\n"
    "    zero = Constant <value_float = 0.0> ()\n"
    "    up = Greater (sum, zero)\n"
    "    chosen = If (up) <then_branch = t () => (float[p,8] v) { v = Relu (dense) },\n"
    "                      else_branch = e () => (float[p,8] u) { u = Concat <axis = 0> (x, dense) "
    "}>\n"
    "    yes = Constant <value = bool {1}> ()\n"
    "    three = Constant <value_int = 3> ()\n"
    "    looped = Loop (three, yes, chosen)\n"
    "        <body = l (int64 i, bool go, float[q,8] s) => (bool on, float[q,8] r)\n"
    "          { on = Identity (go) m = Tanh (s) r = Concat <axis = 0> (m, x) }>\n"
    "    list = SequenceConstruct (soft, dense, x)\n"
    "    joined = ConcatFromSequence <axis = 0> (list)\n"
    "    twice = StringConcat (names, names)\n"
    "}\n";

typedef struct Image {
    unsigned char *bytes; /* 64-byte aligned */
    size_t size, room;
} Image;

static bool append(void *user, const void *bytes, size_t size) {
    Image *to = user;
    if (to->size + size > to->room) return false;
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
    return true;
}

/* Outputs one behind the other: dims and elements. */
typedef struct Result {
    size_t size;
    unsigned char bytes[MOST_BYTES];
} Result;

static void keep(Result *result, const void *bytes, size_t size) {
    if (size && result->size + size <= sizeof result->bytes)
        memcpy(result->bytes + result->size, bytes, size);
    result->size += size;
}

static void keep_output(Result *result, const DemiData *value) {
    size_t count = 1;
    for (uint32_t i = 0; i < value->rank; i++) count *= (size_t)value->dims[i];
    keep(result, value->dims, value->rank * sizeof *value->dims);
    const DemiString *strings = value->data;
    if (value->dtype != DEMI_STRING)
        keep(result, value->data, count * sizeof(float));
    else
        for (size_t i = 0; i < count; i++) keep(result, strings[i].text, strings[i].size);
}

/* Runs the context on inputs of kind `kind`; false on an error. */
static bool run(DemiContext *context, int kind, Result *result) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    float x[SHAPES * WIDTH];
    DemiString names[SHAPES];
    int64_t rows = 1 + kind, shape[2] = {kind % 2 ? rows : WIDTH, kind % 2 ? WIDTH : rows};
    const int64_t x_dims[] = {rows, WIDTH}, shape_dims[] = {2};
    for (int i = 0; i < rows * WIDTH; i++) x[i] = (float)((i * 5 + kind) % 7) - 3.1f;
    for (int i = 0; i < rows; i++) names[i] = (DemiString){(uint64_t)(i % 5), letters + kind};
    DemiData values[] = {DEMI_DATA_TENSOR(DEMI_FLOAT, 2, x_dims, x),
                         DEMI_DATA_TENSOR(DEMI_INT64, 1, shape_dims, shape),
                         DEMI_DATA_TENSOR(DEMI_STRING, 1, x_dims, names)};
    static const char *const inputs[] = {"x", "shape", "names"};
    for (int i = 0; i < 3; i++)
        if (demi_context_set_input(context, inputs[i], &values[i], NULL) != DEMI_OK) return false;
    if (demi_context_run(context, NULL) != DEMI_OK) return false;
    result->size = 0;
    for (size_t i = 0; i < OUTPUTS; i++) keep_output(result, demi_context_output(context, i));
    return result->size <= sizeof result->bytes;
}

typedef struct Caller {
    pthread_t thread;
    const DemiPlan *plan;
    const Result *expected; /* [SHAPES] */
    pthread_barrier_t *start;
    int number, wrong;
    DemiKernels kernels;
} Caller;

static DemiContext *new_context(const DemiPlan *plan, DemiKernels kernels, int number) {
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    DemiContext *context = NULL;
    options.threads = kernels == DEMI_KERNELS_ONEDNN ? 1 : 1 + (unsigned)number % 3;
    options.kernels = kernels;
    options.memory_budget = 64 << 20;
    return demi_context_new(plan, &options, &context, NULL) == DEMI_OK ? context : NULL;
}

static void *call(void *data) {
    Caller *caller = data;
    Result *result = malloc(sizeof *result);
    pthread_barrier_wait(caller->start);
    DemiContext *context = new_context(caller->plan, caller->kernels, caller->number);
    if (!context || !result) caller->wrong = 1;
    for (int i = 0; context && result && i < RUNS; i++) {
        int kind = (caller->number * 3 + i) % SHAPES;
        const Result *expected = &caller->expected[kind];
        bool same = run(context, kind, result) && result->size == expected->size &&
                    memcmp(result->bytes, expected->bytes, expected->size) == 0;
        caller->wrong += !same;
    }
    demi_context_free(context);
    free(result);
    return NULL;
}

static DemiPlan *compile(Image *image) {
    DemiError error = DEMI_ERROR_INIT;
    DemiModel *model = NULL;
    DemiPlan *plan = NULL;
    if (demi_load_memory(model_text, strlen(model_text), NULL, &model, &error) != DEMI_OK ||
        demi_compile(model, NULL, append, image, &error) != DEMI_OK ||
        demi_plan_from_memory(image->bytes, image->size, &plan, &error) != DEMI_OK)
        fail_msg("%s", error.message);
    demi_free(model);
    return plan;
}

static void test_kernels(DemiKernels kernels) {
    Image image = {.bytes = aligned_alloc(64, 1 << 20), .room = 1 << 20};
    Result *expected = calloc(SHAPES, sizeof *expected);
    Caller callers[THREADS];
    pthread_barrier_t start;
    assert_true(image.bytes && expected);
    DemiPlan *alone = compile(&image), *plan = NULL;
    DemiContext *context = new_context(alone, kernels, 0);
    assert_non_null(context);
    for (int i = 0; i < SHAPES; i++) assert_true(run(context, i, &expected[i]));
    demi_context_free(context);
    demi_plan_free(alone);
    /* anew, so that what contexts share is yet to be made */
    assert_int_equal(demi_plan_from_memory(image.bytes, image.size, &plan, NULL), DEMI_OK);
    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (Caller){
            .plan = plan, .expected = expected, .start = &start, .number = i, .kernels = kernels};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(callers[i].thread, NULL);
        if (callers[i].wrong) fail_msg("thread %d: %d runs differ", i, callers[i].wrong);
    }
    pthread_barrier_destroy(&start);
    demi_plan_free(plan);
    free(expected);
    free(image.bytes);
}

static void test_best(void **state) {
    (void)state;
    test_kernels(DEMI_KERNELS_AUTO);
}
static void test_onednn(void **state) {
    (void)state;
    test_kernels(DEMI_KERNELS_ONEDNN);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_best), cmocka_unit_test(test_onednn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
