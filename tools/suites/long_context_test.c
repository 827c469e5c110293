// SPDX-License-Identifier: Apache-2.0
/* Contexts that live long: a million times an input is set, a plan is run, a call fails, shapes
 * change, and the process gets no larger; text of strings counts in the memory budget, and that of
 * outputs stays until the next run. Fewer calls with `long_context_test CALLS`, and where
 * sanitizers make each slow, which also keep what was freed: there memory is not looked at. */
#define _DEFAULT_SOURCE /* sysconf */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "demi.h"
#include "demi_runtime.h"

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { BUDGET = 1 << 20, GROWTH = 256 << 10, LETTERS = 4096 };

static unsigned long calls = SANITIZED ? 20000 : 1000000;
static char letters[LETTERS]; /* what strings are cut out of */

typedef struct Image {
    unsigned char *bytes; /* 64-byte aligned */
    size_t size, room;
} Image;

/* A plan with its context. */
typedef struct Fixture {
    Image image;
    DemiPlan *plan;
    DemiContext *context;
} Fixture;

static bool append(void *user, const void *bytes, size_t size) {
    Image *to = user;
    if (to->size + size > to->room) return false;
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
    return true;
}

static DemiContext *new_context(const DemiPlan *plan) {
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    DemiError error = DEMI_ERROR_INIT;
    DemiContext *context = NULL;
    options.threads = 1;
    options.memory_budget = BUDGET;
    if (demi_context_new(plan, &options, &context, &error) != DEMI_OK)
        fail_msg("%s", error.message);
    return context;
}

static void begin(Fixture *f, const char *graph) {
    DemiError error = DEMI_ERROR_INIT;
    DemiModel *model = NULL;
    char text[2048];
    *f = (Fixture){.image = {.bytes = aligned_alloc(64, 1 << 16), .room = 1 << 16}};
    assert_non_null(f->image.bytes);
    snprintf(text, sizeof text, "<ir_version: 9, opset_import: [\"\" : 21]>\ng %s\n", graph);
    if (demi_load_memory(text, strlen(text), NULL, &model, &error) != DEMI_OK ||
        demi_compile(model, NULL, append, &f->image, &error) != DEMI_OK ||
        demi_plan_from_memory(f->image.bytes, f->image.size, &f->plan, &error) != DEMI_OK)
        fail_msg("%s", error.message);
    demi_free(model);
    f->context = new_context(f->plan);
}

static void finish(Fixture *f) {
    demi_context_free(f->context);
    demi_plan_free(f->plan);
    free(f->image.bytes);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static long resident(void) {
    long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2) pages = 0;
    if (file) fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* `call` so many times, in the later nine tenths of which the process may not grow. */
static void repeat(Fixture *f, unsigned long times, void (*call)(Fixture *f, unsigned long i)) {
    long before = 0;
    for (unsigned long i = 0; i < times; i++) {
        if (i == times / 10) before = resident();
        call(f, i);
    }
    long grown = resident() - before;
    if (!SANITIZED && grown > GROWTH) fail_msg("%lu calls made it %ld bytes larger", times, grown);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Cut where nobody expects it: sizes and places change from call to call. */
static void cut(DemiString *strings, unsigned count, unsigned long i) {
    for (unsigned k = 0; k < count; k++)
        strings[k] = (DemiString){(i * 7 + k * 13) % 120, letters + (i + 31 * k) % (LETTERS / 2)};
}

static void set(Fixture *f, const char *name, const DemiData *value) {
    DemiError error = DEMI_ERROR_INIT;
    if (demi_context_set_input(f->context, name, value, &error) != DEMI_OK)
        fail_msg("%s", error.message);
}

static void set_strings(Fixture *f, const char *name, unsigned long i) {
    DemiString strings[4];
    const int64_t dims[] = {4};
    cut(strings, 4, i);
    DemiData value = DEMI_DATA_TENSOR(DEMI_STRING, 1, dims, strings);
    set(f, name, &value);
}

static void run(Fixture *f) {
    DemiError error = DEMI_ERROR_INIT;
    if (demi_context_run(f->context, &error) != DEMI_OK) fail_msg("%s", error.message);
}

/* String k of output 0 is `count` times that of cut(…, i). */
static void expect(const Fixture *f, unsigned k, unsigned long i, unsigned count) {
    DemiString wanted[4];
    cut(wanted, 4, i);
    const DemiString *found = (const DemiString *)demi_context_output(f->context, 0)->data + k;
    assert_int_equal(found->size, count * wanted[k].size);
    for (unsigned c = 0; wanted[k].size && c < count; c++)
        assert_memory_equal(found->text + c * wanted[k].size, wanted[k].text, wanted[k].size);
}

/* ---- strings --------------------------------------------------------------------------------- */

static void set_alone(Fixture *f, unsigned long i) {
    set_strings(f, "x", i);
}

static void set_and_run(Fixture *f, unsigned long i) {
    set_strings(f, "x", i);
    run(f);
    expect(f, i % 4, i, 2);
}

static void test_strings(void **state) {
    (void)state;
    Fixture f;
    begin(&f, "(string[4] x) => (string[4] y) { y = StringConcat (x, x) }");
    repeat(&f, calls, set_alone);
    repeat(&f, calls / 2, set_and_run);
    finish(&f);
}

/* What a sequence and an optional hold. */
static void set_sequence(Fixture *f, unsigned long i) {
    DemiString strings[4];
    const int64_t dims[] = {2};
    cut(strings, 4, i);
    DemiData items[] = {DEMI_DATA_TENSOR(DEMI_STRING, 1, dims, strings),
                        DEMI_DATA_TENSOR(DEMI_STRING, 1, dims, strings + 2)};
    DemiData list = DEMI_DATA_SEQUENCE(2, items), none = DEMI_DATA_INIT;
    DemiData one = DEMI_DATA_TENSOR(DEMI_STRING, 1, dims, strings);
    set(f, "s", &list);
    set(f, "o", i % 3 ? &one : &none);
    if (i % 2) return;
    run(f);
    expect(f, i % 4, i, 1);
}

static void test_sequences(void **state) {
    (void)state;
    Fixture f;
    begin(&f, "(seq(string[2]) s, optional(string[2]) o) => (string[n] y, bool has, int64 n) {"
              " y = ConcatFromSequence <axis = 0> (s) has = OptionalHasElement (o)"
              " n = SequenceLength (s) }");
    repeat(&f, calls / 2, set_sequence);
    finish(&f);
}

/* An output that has an input's text has it until the next run. */
static void test_outputs_stay(void **state) {
    (void)state;
    Fixture f;
    begin(&f, "(string[4] x) => (string[4] y, string[4] z) { y = Identity (x)"
              " t = Identity (x) z = StringConcat (t, x) }");
    for (unsigned long i = 0; i < 100; i++) {
        set_strings(&f, "x", i);
        run(&f);
        for (unsigned long again = 1; again < 4; again++) {
            set_strings(&f, "x", i + again);
            for (unsigned k = 0; k < 4; k++) expect(&f, k, i, 1);
        }
    }
    finish(&f);
}

static void test_budget(void **state) {
    (void)state;
    enum { SIZE = BUDGET / 8 };
    Fixture f;
    DemiError error = DEMI_ERROR_INIT;
    char *text = calloc(2, BUDGET);
    assert_non_null(text);
    begin(&f, "(string[1] x) => (string[1] y) { y = StringConcat (x, x) }");
    DemiString string = {SIZE, text};
    const int64_t dims[] = {1};
    DemiData value = DEMI_DATA_TENSOR(DEMI_STRING, 1, dims, &string);
    set(&f, "x", &value);
    run(&f);
    assert_true(demi_context_peak(f.context) >= 3 * (uint64_t)SIZE);
    /* the input is as it was where it can't be set, and the context goes on */
    string.size = 2 * BUDGET;
    assert_int_equal(demi_context_set_input(f.context, "x", &value, &error), DEMI_ERR_ENV);
    string.size = UINT64_MAX;
    assert_int_equal(demi_context_set_input(f.context, "x", &value, &error), DEMI_ERR_ENV);
    run(&f);
    assert_int_equal(((const DemiString *)demi_context_output(f.context, 0)->data)->size, 2 * SIZE);
    /* what a run makes of it counts, too */
    string.size = BUDGET / 8 * 3;
    set(&f, "x", &value);
    assert_int_equal(demi_context_run(f.context, &error), DEMI_ERR_ENV);
    string.size = SIZE;
    set(&f, "x", &value);
    run(&f);
    finish(&f);
    free(text);
}

/* ---- failing calls --------------------------------------------------------------------------- */

/* Each call fails, in every way there is. */
static void fail_call(Fixture *f, unsigned long i) {
    DemiError error = DEMI_ERROR_INIT;
    float x[6] = {0};
    int64_t shape[2] = {2, 2}; /* of 6 elements */
    const int64_t dims[] = {6}, two[] = {2}, huge[] = {BUDGET};
    DemiData good = DEMI_DATA_TENSOR(DEMI_FLOAT, 1, dims, x);
    DemiData target = DEMI_DATA_TENSOR(DEMI_INT64, 1, two, shape);
    DemiData wrong = DEMI_DATA_TENSOR(DEMI_STRING, 1, dims, NULL);
    DemiData large = DEMI_DATA_TENSOR(DEMI_FLOAT, 1, huge, x);
    switch (i % 4) {
    case 0:
        assert_int_equal(demi_context_set_input(f->context, "x", &wrong, &error), DEMI_ERR_USAGE);
        return;
    case 1:
        assert_int_equal(demi_context_set_input(f->context, "x", &large, &error), DEMI_ERR_ENV);
        return;
    case 2:
        assert_int_equal(demi_context_set_input(f->context, "none", &good, &error), DEMI_ERR_USAGE);
        return;
    default: break;
    }
    set(f, "x", &good);
    set(f, "shape", &target);
    assert_int_equal(demi_context_run(f->context, &error), DEMI_ERR_MODEL);
}

static void test_errors(void **state) {
    (void)state;
    Fixture f;
    begin(&f, "(float[n] x, int64[2] shape) => (float[a,b] y, string[n] z) { t = Exp (x)"
              " z = Cast <to = 8> (t) y = Reshape (t, shape) }");
    repeat(&f, calls, fail_call);
    finish(&f);
}

/* ---- changing shapes ------------------------------------------------------------------------- */

static void change_shape(Fixture *f, unsigned long i) {
    static float x[64 * 8];
    const int64_t dims[] = {(int64_t)(1 + i * 7 % 61), 8};
    const DemiData value = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, x);
    DemiError error = DEMI_ERROR_INIT;
    if (i % 3)
        set(f, "x", &value);
    else if (demi_context_borrow_input(f->context, "x", &value, &error) != DEMI_OK)
        fail_msg("%s", error.message);
    run(f);
    assert_int_equal(demi_context_output(f->context, 0)->dims[0], dims[0]);
}

static void test_shapes(void **state) {
    (void)state;
    Fixture f;
    begin(&f, "(float[n,8] x) => (float[n,8] y) { t = Softmax (x) y = Add (t, x) }");
    repeat(&f, calls, change_shape);
    finish(&f);
}

/* Graphs in graphs, sequences, optionals, sizes that depend on data. */
static void test_values(void **state) {
    (void)state;
    Fixture f;
    begin(&f, "(float[n,8] x) => (float[a,b] y, seq(float[c,8]) s, string[d] names) {"
              " r = ReduceSum <keepdims = 0> (x) yes = Constant <value = bool {1}> ()"
              " zero = Constant <value_float = 0.0> () three = Constant <value_int = 3> ()"
              " up = Less (r, zero) y = If (up)"
              " <then_branch = t () => (float[p,8] v) { v = Relu (x) },"
              "  else_branch = e () => (float[p,8] u) { u = Concat <axis = 0> (x, x) }>"
              " z = Loop (three, yes, x) <body = l (int64 i, bool go, float[q,8] c) =>"
              "  (bool on, float[q,8] w) { on = Identity (go) w = Tanh (c) }>"
              " s = SequenceConstruct (x, z, y) h = NonZero (y) shape = Shape (h)"
              " names = Cast <to = 8> (shape) }");
    DemiError error = DEMI_ERROR_INIT;
    static float x[64 * 8];
    for (int i = 0; i < 64 * 8; i++) x[i] = 1;
    const int64_t dims[] = {64, 8};
    DemiData value = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, x);
    set(&f, "x", &value);
    if (demi_context_run(f.context, &error) != DEMI_OK) fail_msg("%s", error.message);
    assert_int_equal(demi_context_output(f.context, 1)->count, 3);
    demi_context_free(f.context);
    f.context = new_context(f.plan);
    long before = 0;
    for (unsigned long i = 0; i < calls / 20; i++) {
        const int64_t rows[] = {(int64_t)(1 + i * 7 % 61), 8};
        DemiData some = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, rows, x);
        set(&f, "x", &some);
        run(&f);
        if (i == calls / 200) before = resident();
    }
    long grown = resident() - before;
    if (!SANITIZED && grown > GROWTH) fail_msg("it is %ld bytes larger", grown);
    finish(&f);
}

/* ---- watching, and contexts themselves ------------------------------------------------------- */

static void see(void *user, const DemiStep *step) {
    *(unsigned long *)user += step->input_count;
}

static void watch(Fixture *f, unsigned long i) {
    unsigned long seen = 0;
    DemiError error = DEMI_ERROR_INIT;
    if (demi_context_watch(f->context, i % 2 ? see : NULL, &seen, &error) != DEMI_OK)
        fail_msg("%s", error.message);
    if (i % 8 < 2) change_shape(f, i);
    assert_int_equal(demi_context_watch(f->context, NULL, NULL, &error), DEMI_OK);
}

static void renew(Fixture *f, unsigned long i) {
    demi_context_free(f->context);
    if (i % 5 == 0) {
        demi_plan_free(f->plan);
        assert_int_equal(demi_plan_from_memory(f->image.bytes, f->image.size, &f->plan, NULL),
                         DEMI_OK);
    }
    f->context = new_context(f->plan);
    change_shape(f, i);
}

static void test_contexts(void **state) {
    (void)state;
    Fixture f;
    begin(&f, "(float[n,8] x) => (float[n,8] y) { t = Softmax (x) y = Add (t, x) }");
    repeat(&f, calls / 4, watch);
    repeat(&f, calls / 20, renew);
    finish(&f);
}

/* Bytes that are allocated, whatever the allocator keeps beside them; 0 where it does not say. */
static size_t allocated(void) {
#if defined __GLIBC__ && __GLIBC_PREREQ(2, 33)
    return mallinfo2().uordblks;
#else
    return 0;
#endif
}

/* Plans, each with a context that has run, which are there at one time. */
static void open_together(const Fixture *of) {
    enum { TOGETHER = SANITIZED ? 50 : 1000 };
    static Fixture all[TOGETHER];
    for (unsigned i = 0; i < TOGETHER; i++) {
        all[i].image.bytes = NULL;
        assert_int_equal(demi_plan_from_memory(of->image.bytes, of->image.size, &all[i].plan, NULL),
                         DEMI_OK);
        all[i].context = new_context(all[i].plan);
        change_shape(&all[i], i);
    }
    for (unsigned i = 0; i < TOGETHER; i++) finish(&all[i]);
}

/* What is left of a thousand sessions is the allocator's. */
static void test_together(void **state) {
    enum { LEFT = 8 << 10 }; /* bytes: blocks that a thread keeps for itself count, too */
    (void)state;
    Fixture f;
    begin(&f, "(float[n,8] x) => (float[n,8] y) { t = Softmax (x) y = Add (t, x) }");
    open_together(&f);
    const size_t before = allocated();
    for (int round = 0; round < 2; round++) open_together(&f);
    const size_t after = allocated();
    finish(&f);
    if (!SANITIZED && after > before + LEFT) fail_msg("%zu bytes were not freed", after - before);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings),      cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_outputs_stay), cmocka_unit_test(test_budget),
        cmocka_unit_test(test_errors),       cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_values),       cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_together),
    };
    for (int i = 0; i < LETTERS; i++) letters[i] = (char)('a' + i % 26);
    if (argc > 1) calls = strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
