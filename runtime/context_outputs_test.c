// SPDX-License-Identifier: Apache-2.0
/* Outputs in the caller's memory, bound before or taken after, are what demi_context_output gives,
 * whatever made them; all memory can be the caller's; and a run ends where the caller says so. */
#include "plan_make_test.h"

#include "context.h"
#include "demi_runtime.h"

enum { SIZE = 6, MOST = 128 };
enum { MINUS, TWICE, FLAT, SAME, CONST, PRESENT, TEXT, SUM, COPY, OUTPUTS };
static const char *const names[] = {"minus", "twice",   "flat", "x",
                                    "const", "present", "text", "sum"};

/* minus = -x; twice = minus + minus; flat = Flatten(minus); x and const as they are;
 * present = Concat(past, x), carried; text = Concat(words, words); sum = x + x, given
 * twice. */
static void build(PlanBuilder *b, void *data) {
    static const int64_t dims[] = {-1, SIZE}, open[] = {-1}, row[] = {SIZE};
    const uint32_t x = add_value(b, "x", DTYPE_FLOAT, dims, 2);
    const uint32_t words = add_value(b, "words", DTYPE_STRING, open, 1);
    const uint32_t past = add_value(b, "past", DTYPE_FLOAT, dims, 2);
    const uint32_t constant = add_value(b, "const", DTYPE_FLOAT, row, 1);
    const uint32_t minus = add_value(b, "minus", DTYPE_FLOAT, dims, 2);
    const uint32_t twice = add_value(b, "twice", DTYPE_FLOAT, dims, 2);
    const uint32_t flat = add_value(b, "flat", DTYPE_FLOAT, dims, 2);
    const uint32_t present = add_value(b, "present", DTYPE_FLOAT, dims, 2);
    const uint32_t text = add_value(b, "text", DTYPE_STRING, open, 1);
    const uint32_t sum = add_value(b, "sum", DTYPE_FLOAT, dims, 2);
    plan_set_data(b, constant, SIZE * sizeof(float), read_memory, data);
    const PlanAttr axis = {.name = plan_add_text(b, "axis", 4), .kind = PLAIN_INT, .value = 0};
    VEC_PUSH(b->arena, &b->attrs, axis);
    add_step(b, "Neg", one(b, x), one(b, minus), (PlanSpan){0});
    add_step(b, "Add", plan_add_operands(b, (uint32_t[]){minus, minus}, 2), one(b, twice),
             (PlanSpan){0});
    add_step(b, "Flatten", one(b, minus), one(b, flat), (PlanSpan){0});
    add_step(b, "Concat", plan_add_operands(b, (uint32_t[]){past, x}, 2), one(b, present),
             (PlanSpan){0, 1});
    VEC_PUSH(b->arena, &b->attrs, axis);
    add_step(b, "Concat", plan_add_operands(b, (uint32_t[]){words, words}, 2), one(b, text),
             (PlanSpan){1, 1});
    add_step(b, "Add", plan_add_operands(b, (uint32_t[]){x, x}, 2), one(b, sum), (PlanSpan){0});
    PlanGraph graph = {
        .inputs = plan_add_operands(b, (uint32_t[]){x, words, past}, 3),
        .outputs = plan_add_operands(
            b, (uint32_t[]){minus, twice, flat, x, constant, present, text, sum, sum}, OUTPUTS),
        .steps = {0, 6}};
    VEC_PUSH(b->arena, &b->graphs, graph);
}

typedef struct Fixture {
    Image image;
    DemiPlan *plan;
    DemiContext *context;
    float x[MOST * SIZE], past[MOST * SIZE];
    int64_t rows, past_rows;
    bool copies; /* x is set, not borrowed */
} Fixture;

static float constant[SIZE] = {5, 6, 7, 8, 9, 10};

static int setup(void **state) {
    static float none[1];
    static const int64_t two[] = {2}, empty[] = {0, SIZE};
    static const DemiString words[] = {{3, "one"}, {0, NULL}};
    const DemiData text = DEMI_DATA_TENSOR(DEMI_STRING, 1, two, words);
    const DemiData past = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, empty, none);
    Fixture *f = calloc(1, sizeof *f);
    f->image = make_image(build, constant);
    assert_int_equal(demi_plan_from_memory(f->image.data, f->image.size, &f->plan, NULL), DEMI_OK);
    assert_int_equal(demi_context_new(f->plan, NULL, &f->context, NULL), DEMI_OK);
    assert_ptr_equal(demi_context_plan(f->context), f->plan);
    assert_int_equal(demi_context_set_input(f->context, "words", &text, NULL), DEMI_OK);
    assert_int_equal(demi_context_set_input(f->context, "past", &past, NULL), DEMI_OK);
    assert_int_equal(demi_context_carry(f->context, "present", "past", NULL), DEMI_OK);
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

static void run(Fixture *f, int64_t rows) {
    static float number;
    const int64_t dims[] = {rows, SIZE};
    const DemiData x = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, f->x);
    DemiError error = DEMI_ERROR_INIT;
    for (int64_t i = 0; i < rows * SIZE; i++) f->x[i] = ++number;
    memcpy(f->past + f->past_rows * SIZE, f->x, (size_t)rows * SIZE * sizeof *f->x);
    f->rows = rows;
    f->past_rows += rows;
    assert_int_equal(f->copies ? demi_context_set_input(f->context, "x", &x, &error)
                               : demi_context_borrow_input(f->context, "x", &x, &error),
                     DEMI_OK);
    assert_int_equal(demi_context_run(f->context, &error), DEMI_OK);
}

/* What output i should be, by element. */
static float wanted(const Fixture *f, size_t i, size_t element) {
    if (i == CONST) return constant[element];
    if (i == PRESENT) return f->past[element];
    if (i == SAME) return f->x[element];
    if (i == TWICE) return -2 * f->x[element];
    return i == SUM || i == COPY ? 2 * f->x[element] : -f->x[element];
}

static void check_data(const Fixture *f, size_t i, const DemiData *value) {
    if (i == TEXT) {
        const DemiString *words = value->data;
        assert_int_equal(value->dims[0], 4);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(words[k].size, k % 2 ? 0 : 3);
            assert_memory_equal(words[k].text, "one", words[k].size);
        }
        return;
    }
    const int64_t rows = i == CONST ? 1 : i == PRESENT ? f->past_rows : f->rows;
    int64_t count = 1;
    for (uint32_t k = 0; k < value->rank; k++) count *= value->dims[k];
    assert_int_equal(count, rows * SIZE);
    for (size_t k = 0; k < (size_t)count; k++)
        assert_float_equal(((const float *)value->data)[k], wanted(f, i, k), 0);
}

static void check(const Fixture *f) {
    for (size_t i = 0; i < OUTPUTS; i++) check_data(f, i, demi_context_output(f->context, i));
}

/* All kinds of outputs, in runs of several shapes, bound or not. */
TEST_WITH(test_bound, Fixture *f) {
    static float memory[OUTPUTS][2 * MOST * SIZE];
    DemiError error = DEMI_ERROR_INIT;
    static const int64_t rows[] = {3, 3, 3, 5, 1, 3, 0, 2, 5};
    run(f, 2);
    check(f);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const bool bind = k != 4;
        for (size_t i = 0; i < OUTPUTS; i++) {
            if (i == TEXT || i == COPY) continue; /* one is bound by its name: the first */
            float *to = memory[i] + (k % 2 ? MOST * SIZE : 0); /* elsewhere each time */
            assert_int_equal(demi_context_bind_output(f->context, names[i], bind ? to : NULL,
                                                      MOST * SIZE * sizeof(float), &error),
                             DEMI_OK);
        }
        memset(memory, 0x11, sizeof memory); /* numbers: NaN equals all, to cmocka */
        run(f, rows[k]);
        check(f);
        for (size_t i = 0; i < COPY; i++)
            if (i != TEXT && bind)
                assert_ptr_equal(demi_context_output(f->context, i)->data,
                                 memory[i] + (k % 2 ? MOST * SIZE : 0));
    }
}

/* A step writes to bound memory itself. */
TEST_WITH(test_no_copy, Fixture *f) {
    static float memory[MOST * SIZE];
    run(f, 4);
    assert_int_equal(demi_context_bind_output(f->context, "twice", memory, sizeof memory, NULL),
                     DEMI_OK);
    run(f, 4);
    assert_ptr_equal(
        f->context->exec.values[context_output_value(f->context, TWICE)].tensor->tensor.data,
        memory);
    check(f);
}

static void refuse_bind(Fixture *f, const char *name, void *data, const char *message) {
    DemiError error = DEMI_ERROR_INIT;
    assert_int_equal(demi_context_bind_output(f->context, name, data, 64, &error), DEMI_ERR_USAGE);
    assert_string_equal(error.message, message);
}

TEST_WITH(test_refused, Fixture *f) {
    static float memory[MOST * SIZE];
    DemiError error = DEMI_ERROR_INIT;
    refuse_bind(f, "nobody", memory, "output 'nobody': the model has no such output");
    refuse_bind(f, "text", memory, "output 'text': only numeric tensors can be bound");
    refuse_bind(f, "flat", (char *)memory + 2,
                "output 'flat': the memory is not aligned to the element size");
    run(f, 1);
    assert_int_equal(demi_context_bind_output(f->context, "minus", memory, 47, NULL), DEMI_OK);
    const int64_t dims[] = {2, SIZE};
    const DemiData x = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, f->x);
    assert_int_equal(demi_context_borrow_input(f->context, "x", &x, NULL), DEMI_OK);
    assert_int_equal(demi_context_run(f->context, &error), DEMI_ERR_USAGE);
    assert_string_equal(error.message, "output 'minus': it is larger than the memory that it is "
                                       "bound to: expected at most 47 bytes, got 48");
    assert_null(demi_context_output(f->context, 0));
    /* the failed run carried nothing on */
    assert_int_equal(demi_context_bind_output(f->context, "minus", NULL, 0, NULL), DEMI_OK);
    run(f, 2);
    check(f);
}

/* What was taken outlives runs and the context. */
TEST_WITH(test_taken, Fixture *f) {
    enum { RUNS = 4 };
    DemiData *taken[RUNS][OUTPUTS];
    Fixture *then = calloc(RUNS, sizeof *then);
    DemiError error = DEMI_ERROR_INIT;
    for (int k = 0; k < RUNS; k++) {
        run(f, 3 + k / 2);
        const void *own = demi_context_output(f->context, TWICE)->data;
        for (size_t i = 0; i < OUTPUTS; i++)
            assert_int_equal(demi_context_take_output(f->context, i, &taken[k][i], &error),
                             DEMI_OK);
        if (k) assert_ptr_equal(taken[k][TWICE]->data, own); /* nothing was copied */
        assert_true(k == 0 || !demi_context_output(f->context, TWICE));
        then[k] = *f;
    }
    DemiData *none = NULL;
    assert_int_equal(demi_context_take_output(f->context, TWICE, &none, &error), DEMI_ERR_USAGE);
    assert_string_equal(error.message, "there is no output 1 to take");
    assert_null(none);
    demi_context_free(f->context);
    f->context = NULL;
    for (int k = 0; k < RUNS; k++)
        for (size_t i = 0; i < OUTPUTS; i++) {
            check_data(&then[k], i, taken[k][i]);
            demi_data_free(taken[k][i]);
        }
    demi_data_free(NULL);
    free(then);
}

TEST_WITH(test_unset, Fixture *f) {
    DemiError error = DEMI_ERROR_INIT;
    run(f, 2);
    assert_int_equal(demi_context_unset_input(f->context, "y", &error), DEMI_ERR_USAGE);
    assert_string_equal(error.message, "input 'y': the model has no such input");
    assert_int_equal(demi_context_unset_input(f->context, "x", NULL), DEMI_OK);
    error = (DemiError)DEMI_ERROR_INIT;
    assert_int_equal(demi_context_run(f->context, &error), DEMI_ERR_USAGE);
    assert_string_equal(error.message, "input 'x': it is not set");
    run(f, 2);
    check(f);
}

/* What was taken is the caller's alone: written over and freed at once, it changes no other output, no
 * input, no carried cache and no later run. */
TEST_WITH(test_taken_alone, Fixture *f) {
    for (size_t k = 0; k < 4 * OUTPUTS; k++) {
        const size_t i = k % OUTPUTS;
        DemiData *taken;
        f->copies = k % 3 == 0;
        run(f, 1 + (int64_t)(k / OUTPUTS % 2));
        assert_int_equal(demi_context_take_output(f->context, i, &taken, NULL), DEMI_OK);
        check_data(f, i, taken);
        if (i != TEXT) {
            int64_t count = 1;
            for (uint32_t d = 0; d < taken->rank; d++) count *= taken->dims[d];
            memset((void *)(uintptr_t)taken->data, 0x11, (size_t)count * sizeof(float));
        }
        demi_data_free(taken);
        if (f->copies) { /* the context's own input is still what it was */
            memcpy(f->past + f->past_rows * SIZE, f->x, (size_t)f->rows * SIZE * sizeof *f->x);
            f->past_rows += f->rows;
            assert_int_equal(demi_context_run(f->context, NULL), DEMI_OK);
        }
        for (size_t other = 0; other < OUTPUTS; other++)
            if (other != i || demi_context_output(f->context, other))
                check_data(f, other, demi_context_output(f->context, other));
    }
}

/* ---- memory of the caller's ------------------------------------------------------------------ */

typedef struct Counter {
    size_t bytes, pieces, most; /* out now; the most bytes there ever were */
    size_t limit;
} Counter;

static void *count_allocate(void *user, size_t size, size_t align) {
    Counter *counter = user;
    assert_true(align >= 64 && (align & (align - 1)) == 0 && size % align == 0);
    if (size > counter->limit - counter->bytes) return NULL;
    counter->bytes += size;
    counter->pieces++;
    if (counter->bytes > counter->most) counter->most = counter->bytes;
    return memset(aligned_alloc(align, size), 0x11, size);
}

static void count_release(void *user, void *memory, size_t size) {
    Counter *counter = user;
    memset(memory, 0x11, size); /* all of it is there */
    counter->bytes -= size;
    counter->pieces--;
    free(memory);
}

static DemiStatus open_counted(Fixture *f, Counter *counter, DemiError *error) {
    static float none[1];
    static const int64_t zero[] = {0}, empty[] = {0, SIZE};
    const DemiData text = DEMI_DATA_TENSOR(DEMI_STRING, 1, zero, none);
    const DemiData past = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, empty, none);
    DemiAllocator allocator = DEMI_ALLOCATOR_INIT;
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    allocator.allocate = count_allocate;
    allocator.release = count_release;
    allocator.user = counter;
    options.allocator = &allocator;
    options.threads = 1;
    demi_context_free(f->context);
    DemiStatus status = demi_context_new(f->plan, &options, &f->context, error);
    if (status == DEMI_OK) status = demi_context_set_input(f->context, "words", &text, error);
    if (status == DEMI_OK) status = demi_context_set_input(f->context, "past", &past, error);
    return status;
}

/* Everything comes from the allocator, and all of it goes back, what was taken after the context. */
TEST_WITH(test_allocator, Fixture *f) {
    Counter counter = {.limit = SIZE_MAX};
    DemiData *taken[2];
    assert_int_equal(open_counted(f, &counter, NULL), DEMI_OK);
    for (int k = 0; k < 2; k++) {
        run(f, 20);
        check_data(f, TWICE, demi_context_output(f->context, TWICE));
        assert_int_equal(demi_context_take_output(f->context, TWICE, &taken[k], NULL), DEMI_OK);
    }
    assert_true(counter.most > 5 * 20 * SIZE * sizeof(float));
    demi_context_free(f->context);
    f->context = NULL;
    assert_int_equal(counter.pieces, 3); /* the second one's elements are a piece of their own */
    for (int k = 0; k < 2; k++) demi_data_free(taken[k]);
    assert_int_equal(counter.pieces, 0);
    assert_int_equal(counter.bytes, 0);
}

/* At whatever point there is no more, it is an error, and nothing is lost. */
TEST_WITH(test_allocator_fails, Fixture *f) {
    const int64_t dims[] = {20, SIZE};
    const DemiData x = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, f->x);
    bool done = false;
    for (size_t limit = 0; !done; limit += 512) {
        Counter counter = {.limit = limit};
        DemiError error = DEMI_ERROR_INIT;
        DemiStatus status = open_counted(f, &counter, &error);
        if (status == DEMI_OK) status = demi_context_set_input(f->context, "x", &x, &error);
        for (int k = 0; k < 3 && status == DEMI_OK; k++)
            status = demi_context_run(f->context, &error);
        assert_true(status == DEMI_OK || status == DEMI_ERR_ENV);
        done = status == DEMI_OK;
        demi_context_free(f->context);
        f->context = NULL;
        assert_int_equal(counter.pieces, 0);
        assert_int_equal(counter.bytes, 0);
    }
    DemiAllocator half = DEMI_ALLOCATOR_INIT;
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    half.allocate = count_allocate;
    options.allocator = &half;
    assert_int_equal(demi_context_new(f->plan, &options, &f->context, NULL), DEMI_ERR_USAGE);
}

/* ---- ending a run ---------------------------------------------------------------------------- */

TEST_WITH(test_cancel, Fixture *f) {
    DemiError error = DEMI_ERROR_INIT;
    run(f, 2);
    demi_context_cancel(f->context);
    assert_int_equal(demi_context_run(f->context, &error), DEMI_ERR_CANCELLED);
    assert_int_equal(error.status, DEMI_ERR_CANCELLED);
    assert_string_equal(error.what, "the run was cancelled");
    assert_null(demi_context_output(f->context, 0));
    run(f, 3); /* that was one run */
    check(f);
}

static bool refuse(void *user) {
    ++*(int *)user;
    return false;
}

/* The callback is not asked at once: a run of a moment is not ended by it. */
TEST_WITH(test_go_on, Fixture *f) {
    int asked = 0;
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    options.go_on = refuse;
    options.go_on_user = &asked;
    demi_context_free(f->context);
    assert_int_equal(demi_context_new(f->plan, &options, &f->context, NULL), DEMI_OK);
    f->context->end.asked = -1;
    assert_ptr_equal(f->context->exec.options.end, &f->context->end);
    Exec *exec = &f->context->exec;
    exec->err = &f->context->err;
    assert_false(exec_graph(exec, 0)); /* long after it was asked: the first step is not begun */
    assert_int_equal(asked, 1);
    assert_int_equal(exec->err->code, ERR_CANCELLED);
}
