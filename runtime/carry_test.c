// SPDX-License-Identifier: Apache-2.0
/* What goes from run to run is what the caller would have fed himself, whether it grows in place or
 * not, after cuts, new beginnings, failures and memory given back; and what can't be carried is refused. */
#include "plan_make_test.h"

#include "carry.h"
#include "context.h"
#include "demi_runtime.h"

enum { HEADS = 2, SIZE = 3, MOST = 200 };

static PlanAttr axis_attr(PlanBuilder *b) {
    return (PlanAttr){.name = plan_add_text(b, "axis", 4), .kind = PLAIN_INT, .value = 1};
}

/* present = Concat(past, x) along axis 1, whose shape alone is asked for; whole = Concat(read, x),
 * which Neg reads; next = Add(state, one); twice = Concat(self, self). */
static void build(PlanBuilder *b, void *data) {
    static const int64_t dims[] = {HEADS, -1, SIZE}, open[] = {-1}, row[] = {SIZE};
    uint32_t past = add_value(b, "past", DTYPE_FLOAT, dims, 3);
    uint32_t read = add_value(b, "read", DTYPE_FLOAT, dims, 3);
    uint32_t x = add_value(b, "x", DTYPE_FLOAT, dims, 3);
    uint32_t self = add_value(b, "self", DTYPE_FLOAT, dims, 3);
    uint32_t twice = add_value(b, "twice", DTYPE_FLOAT, dims, 3);
    uint32_t state = add_value(b, "state", DTYPE_FLOAT, row, 1);
    uint32_t one_ = add_value(b, "one", DTYPE_FLOAT, row, 1);
    uint32_t words = add_value(b, "words", DTYPE_STRING, open, 1);
    uint32_t present = add_value(b, "present", DTYPE_FLOAT, dims, 3);
    uint32_t shape = add_value(b, "shape", DTYPE_INT64, open, 1);
    uint32_t whole = add_value(b, "whole", DTYPE_FLOAT, dims, 3);
    uint32_t minus = add_value(b, "minus", DTYPE_FLOAT, dims, 3);
    uint32_t next = add_value(b, "next", DTYPE_FLOAT, row, 1);
    plan_set_data(b, one_, SIZE * sizeof(float), read_memory, data);
    VEC_PUSH(b->arena, &b->attrs, axis_attr(b));
    VEC_PUSH(b->arena, &b->attrs, axis_attr(b));
    add_step(b, "Concat", plan_add_operands(b, (uint32_t[]){past, x}, 2), one(b, present),
             (PlanSpan){0, 1});
    add_step(b, "Shape", one(b, present), one(b, shape), (PlanSpan){0});
    add_step(b, "Concat", plan_add_operands(b, (uint32_t[]){read, x}, 2), one(b, whole),
             (PlanSpan){1, 1});
    add_step(b, "Neg", one(b, whole), one(b, minus), (PlanSpan){0});
    add_step(b, "Add", plan_add_operands(b, (uint32_t[]){state, one_}, 2), one(b, next),
             (PlanSpan){0});
    add_step(b, "Concat", plan_add_operands(b, (uint32_t[]){self, self}, 2), one(b, twice),
             (PlanSpan){1, 1});
    PlanGraph graph = {
        .inputs = plan_add_operands(b, (uint32_t[]){past, read, x, state, words, self}, 6),
        .outputs =
            plan_add_operands(b, (uint32_t[]){present, shape, whole, minus, next, words, twice}, 7),
        .steps = {0, 6}};
    VEC_PUSH(b->arena, &b->graphs, graph);
}

typedef struct Fixture {
    Image image;
    DemiPlan *plan;
    DemiContext *context;
    float rows[HEADS][MOST][SIZE]; /* what `present` should be */
    int length;
    float number; /* of the next element of x */
    float state;
} Fixture;

static void set(Fixture *f, const char *name, int64_t length, const float *data) {
    const int64_t dims[] = {HEADS, length, SIZE};
    const DemiData value = DEMI_DATA_TENSOR(DEMI_FLOAT, 3, dims, data);
    DemiError error = DEMI_ERROR_INIT;
    assert_int_equal(demi_context_set_input(f->context, name, &value, &error), DEMI_OK);
}

/* Both caches and the state begin with nothing. */
static void begin(Fixture *f) {
    static const float zeros[SIZE];
    static const int64_t row[] = {SIZE}, none[] = {0};
    const DemiData state = DEMI_DATA_TENSOR(DEMI_FLOAT, 1, row, zeros);
    const DemiData words = DEMI_DATA_TENSOR(DEMI_STRING, 1, none, zeros);
    DemiError error = DEMI_ERROR_INIT;
    set(f, "past", 0, zeros);
    set(f, "read", 0, zeros);
    set(f, "self", 0, zeros);
    assert_int_equal(demi_context_set_input(f->context, "state", &state, &error), DEMI_OK);
    assert_int_equal(demi_context_set_input(f->context, "words", &words, &error), DEMI_OK);
    f->length = 0;
    f->state = 0;
}

static void open_context(Fixture *f, uint64_t budget) {
    static const char *const pairs[][2] = {
        {"present", "past"}, {"whole", "read"}, {"next", "state"}};
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    DemiError error = DEMI_ERROR_INIT;
    options.threads = 1;
    options.memory_budget = budget;
    assert_int_equal(demi_context_new(f->plan, &options, &f->context, &error), DEMI_OK);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(demi_context_carry(f->context, pairs[i][0], pairs[i][1], &error), DEMI_OK);
}

static int setup(void **state) {
    static float ones[] = {1, 1, 1};
    Fixture *f = calloc(1, sizeof *f);
    DemiError error = DEMI_ERROR_INIT;
    f->image = make_image(build, ones);
    assert_int_equal(demi_plan_from_memory(f->image.data, f->image.size, &f->plan, &error),
                     DEMI_OK);
    open_context(f, 0);
    begin(f);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    Fixture *f = *state;
    demi_context_free(f->context);
    demi_plan_free(f->plan);
    free(f->image.data);
    free(f);
    return 0;
}
TEST_FIXTURE(setup, teardown);

static void check_rows(const Fixture *f, size_t output) {
    const DemiData *value = demi_context_output(f->context, output);
    const float *have = value->data;
    assert_int_equal(value->dims[1], f->length);
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < f->length; i++, have += SIZE)
            assert_memory_equal(have, f->rows[h][i], sizeof f->rows[h][i]);
}

/* A run that adds so many rows. */
static void add(Fixture *f, int count) {
    static float x[HEADS * MOST * SIZE];
    DemiError error = DEMI_ERROR_INIT;
    for (int h = 0, at = 0; h < HEADS; h++)
        for (int i = 0; i < count; i++)
            for (int k = 0; k < SIZE; k++) x[at++] = f->rows[h][f->length + i][k] = ++f->number;
    set(f, "x", count, x);
    assert_int_equal(demi_context_run(f->context, &error), DEMI_OK);
    f->length += count;
    f->state++;
    assert_float_equal(*(const float *)demi_context_output(f->context, 4)->data, f->state, 0);
    assert_int_equal(((const int64_t *)demi_context_output(f->context, 1)->data)[1], f->length);
}

static void cut(Fixture *f, int length) {
    DemiError error = DEMI_ERROR_INIT;
    assert_int_equal(demi_context_cut(f->context, "past", 1, length, &error), DEMI_OK);
    assert_int_equal(demi_context_cut(f->context, "read", 1, length, &error), DEMI_OK);
    f->length = length;
}

static void check(const Fixture *f) {
    check_rows(f, 0);
    check_rows(f, 2);
}

TEST_WITH(test_grows, Fixture *f) {
    DemiError error = DEMI_ERROR_INIT;
    assert_int_equal(demi_context_carry(f->context, "twice", "self", &error), DEMI_OK);
    assert_false(f->context->carries.items.items[3].grows); /* what is added is what it was */
    assert_true(f->context->carries.items.items[0].grows);
    assert_false(f->context->carries.items.items[1].grows); /* Neg reads it */
    for (int i = 0; i < 60; i++) {
        add(f, i % 3);
        if (i % 4 == 0) check(f); /* also where nobody looked at it for some runs */
    }
    add(f, 100);
    check(f);
    check(f);
}

/* What is added in the usual case lies in the memory of the last run. */
TEST_WITH(test_in_place, Fixture *f) {
    add(f, 10);
    const Buffer *buffer = f->context->inputs[0].tensor->buffer;
    for (int i = 0; i < 20; i++) add(f, 1);
    assert_ptr_equal(f->context->inputs[0].tensor->buffer, buffer);
    check(f);
}

static void refuse_cut(Fixture *f, const char *input, uint32_t axis, int64_t length,
                       const char *message) {
    DemiError error = DEMI_ERROR_INIT;
    assert_int_equal(demi_context_cut(f->context, input, axis, length, &error), DEMI_ERR_USAGE);
    assert_string_equal(error.message, message);
}

TEST_WITH(test_cut, Fixture *f) {
    DemiError error = DEMI_ERROR_INIT;
    add(f, 8);
    cut(f, 5);
    add(f, 1);
    check(f);
    cut(f, 0);
    add(f, 2);
    check(f);
    cut(f, 2);
    check(f); /* the last run's outputs are still there */
    assert_int_equal(demi_context_cut(f->context, "past", 2, 1, &error), DEMI_OK);
    set(f, "x", 0, NULL);
    assert_int_equal(demi_context_run(f->context, &error), DEMI_ERR_USAGE);
    assert_non_null(strstr(error.message, "wrong shape: expected "));
    begin(f);
    add(f, 3);
    check(f);
    refuse_cut(f, "past", 1, 4, "input 'past': 4 slices of 3 are requested");
    refuse_cut(f, "past", 1, -1, "input 'past': -1 slices of 3 are requested");
    refuse_cut(f, "past", 3, 0, "input 'past': it has no axis 3");
    refuse_cut(f, "x", 1, 0, "input 'x': it is not an input with state");
}

/* What the last run gave stays as it was when the next one fails, and is there for another. */
TEST_WITH(test_failure, Fixture *f) {
    static const float x[HEADS * 4 * SIZE];
    const int64_t dims[] = {HEADS, 1, SIZE};
    DemiError error = DEMI_ERROR_INIT;
    demi_context_free(f->context);
    open_context(f, 46000);
    begin(f);
    add(f, 20);
    cut(f, 18);
    static float large[HEADS * MOST * SIZE];
    set(f, "read", MOST, large); /* this one's is too much */
    set(f, "x", 1, x);
    DemiStatus status = DEMI_OK;
    for (int i = 0; i < 100 && status == DEMI_OK; i++)
        status = demi_context_run(f->context, &error);
    assert_int_equal(status, DEMI_ERR_ENV);
    assert_null(demi_context_output(f->context, 0));
    const int64_t length = f->context->inputs[0].tensor->tensor.dims[1];
    assert_int_equal(demi_context_cut(f->context, "past", 1, 18, &error), DEMI_OK);
    assert_true(length >= 18);
    set(f, "read", 0, x);
    f->state = 0;
    const DemiData zero = DEMI_DATA_TENSOR(DEMI_FLOAT, 1, dims + 2, x);
    assert_int_equal(demi_context_set_input(f->context, "state", &zero, &error), DEMI_OK);
    add(f, 2);
    check_rows(f, 0);
}

/* Memory is given back between runs, and inputs that were set and carried stay; so it is where a smaller
 * budget than that of the last run comes and goes. */
TEST_WITH(test_trimmed, Fixture *f) {
    DemiError error = DEMI_ERROR_INIT;
    add(f, 50);
    for (int i = 0; i < 6; i++) {
        const uint64_t held = demi_context_held(f->context);
        demi_context_trim(f->context);
        demi_context_trim(f->context);
        assert_null(demi_context_output(f->context, 0));
        assert_true(demi_context_held(f->context) < held);
        add(f, i % 3);
        check(f);
    }
    const uint64_t budget = demi_context_budget(f->context);
    demi_context_set_budget(f->context, demi_context_held(f->context) + 100);
    demi_context_trim(f->context);
    static const float x[HEADS * MOST * SIZE];
    set(f, "x", 1, x);
    demi_context_set_budget(f->context, 1);
    assert_int_equal(demi_context_run(f->context, &error), DEMI_ERR_ENV);
    demi_context_set_budget(f->context, 0);
    assert_int_equal(demi_context_budget(f->context), budget);
    begin(f);
    add(f, 2);
    check(f);
}

TEST_WITH(test_refused, Fixture *f) {
    static const struct {
        const char *output, *input, *message;
    } cases[] = {
        {"present", "nobody", "input 'nobody': the model has no such input"},
        {"nothing", "past", "output 'nothing': the model has no such output"},
        {"present", "x", "output 'present': 'present' is already the state for 'past'"},
        {"minus", "past", "output 'minus': 'present' is already the state for 'past'"},
        {"shape", "x",
         "output 'shape': its type is not that of the input 'x': expected float, got "
         "int64"},
        {"words", "words", "output 'words': strings cannot be state"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DemiError error = DEMI_ERROR_INIT;
        DemiStatus status = demi_context_carry(f->context, cases[i].output, cases[i].input, &error);
        assert_int_equal(status, DEMI_ERR_USAGE);
        assert_string_equal(error.message, cases[i].message);
    }
}
