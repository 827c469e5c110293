// SPDX-License-Identifier: Apache-2.0
/* Tuning: of a step whose ways the test makes slow or fast, the fast one is chosen, and nothing where
 * that is what the rules do; the plan that is written with it runs so for such shapes alone, and one
 * that asks for what there is not is refused. The steps are MatMuls with rows of the test's own, and
 * the clock is the test's, too: what else the machine does changes nothing. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "plan_make_test.h"

#include <time.h>

#include "context.h"
#include "exec_memory.h"
#include "plan_tune.h"
#include "step_choice.h"
#include "step_specialization.h"

enum { SIZE = 4, ROWS = 3, CHOICES = 2, CALLS_MOST = 4 };

/* Of each row and choice: seconds that a run takes, < 0: it declines; and how often it ran. */
static double slow[ROWS][CHOICES + 1];
static unsigned ran[ROWS][CHOICES + 1];

typedef struct Ready {
    uint32_t choice;
} Ready;

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t nanoseconds, noise = 1;

/* In place of the C library's: each look takes a microsecond. */
int clock_gettime(clockid_t clock, struct timespec *time) {
    (void)clock;
    nanoseconds += 1000;
    time->tv_sec = (time_t)(nanoseconds / 1000000000);
    time->tv_nsec = (long)(nanoseconds % 1000000000);
    return 0;
}

/* Work of so many seconds, and up to a half more: other work disturbs it. */
static void pass_time(double seconds) {
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    nanoseconds += (uint64_t)(seconds * 1e9 * (1 + (double)(noise >> 33) / (1ull << 32)));
}

/* ---- rows ------------------------------------------------------------------------------------ */

static KernelReady make(KernelCall *call, unsigned row) {
    if (slow[row][call->choice] < 0) return KERNEL_DECLINED;
    Ready *ready = call->prepared = kernel_keep(call, sizeof *ready);
    assert_non_null(ready);
    ready->choice = call->choice;
    return KERNEL_READY;
}

static bool run(KernelCall *call, unsigned row) {
    const Ready *ready = call->prepared;
    float *y = call->outputs[0].data;
    for (uint64_t i = 0; i < call->outputs[0].count; i++) y[i] = (float)i;
    pass_time(slow[row][ready->choice]);
    ran[row][ready->choice]++;
    return true;
}

#define ROW(number)                                                                                \
    static KernelReady make_##number(KernelCall *call) {                                           \
        return make(call, number);                                                                 \
    }                                                                                              \
    static bool run_##number(KernelCall *call) {                                                   \
        return run(call, number);                                                                  \
    }                                                                                              \
    static const KernelPrepare prepare_##number = {make_##number, NULL, CHOICES};
ROW(0)
ROW(1)
ROW(2)
#define ROW_ITEM(number)                                                                           \
    {                                                                                              \
        .since = 1, .run = run_##number, .types = KERNEL_TYPE(FLOAT), .name = "run",               \
        .prepare = &prepare_##number                                                               \
    }
static const KernelRow rows[ROWS] = {ROW_ITEM(0), ROW_ITEM(1), ROW_ITEM(2)};

/* ---- a context ------------------------------------------------------------------------------- */

typedef struct Bench {
    Image image;
    Arena arena;
    Err err;
    LoadedPlan loaded;
    Exec exec;
    int64_t count; /* rows of x */
} Bench;

static void build(PlanBuilder *b, void *data) {
    static float w[SIZE * SIZE];
    const int64_t open[] = {-1, SIZE}, square[] = {SIZE, SIZE};
    (void)data;
    const uint32_t x = add_value(b, "x", DTYPE_FLOAT, open, 2);
    const uint32_t weights = add_value(b, "w", DTYPE_FLOAT, square, 2);
    const uint32_t y = add_value(b, "y", DTYPE_FLOAT, open, 2);
    const uint32_t z = add_value(b, "z", DTYPE_FLOAT, open, 2);
    const uint32_t first[] = {x, weights}, second[] = {y, weights};
    plan_set_data(b, weights, sizeof w, read_memory, w);
    add_step(b, "MatMul", plan_add_operands(b, first, 2), one(b, y), (PlanSpan){0});
    add_step(b, "MatMul", plan_add_operands(b, second, 2), one(b, z), (PlanSpan){0});
    PlanGraph graph = {.inputs = one(b, x), .outputs = one(b, z), .steps = {0, 2}};
    VEC_PUSH(b->arena, &b->graphs, graph);
}

/* With threads of which the plan's choices know. */
static void begin(Bench *b, Image image) {
    memset(b, 0, sizeof *b);
    b->image = image;
    b->count = 3;
    arena_init(&b->arena, &test_trap);
    if (!plan_check(&b->loaded.plan, image.data, image.size, &b->arena, &b->err) ||
        !plan_load(&b->loaded, &b->arena, &b->err))
        fail_msg("%s", b->err.what);
    b->loaded.share = plan_share_new(NULL, b->loaded.plan.value_count);
    for (uint32_t i = 0; i < b->loaded.plan.step_count; i++) {
        b->loaded.steps[i].rows = rows;
        b->loaded.steps[i].row_count = ROWS;
    }
    assert_true(
        exec_init(&b->exec, &b->loaded, &(PoolFrom){.budget = 1 << 20}, &b->arena, &b->err));
    b->exec.options.tuned = true;
    memset(ran, 0, sizeof ran);
}

static void end(Bench *b) {
    exec_free(&b->exec);
    plan_share_free(b->loaded.share);
    arena_free(&b->arena);
    free(b->image.data);
}

static bool run_plan(void *data, Err *err) {
    Bench *b = data;
    Exec *exec = &b->exec;
    const int64_t dims[] = {b->count, SIZE};
    (void)err;
    rt_value_clear(&exec->values[0]);
    rt_value_clear(&exec->values[3]);
    RtTensor *x = rt_tensor_new(&exec->pool, DTYPE_FLOAT, 2, dims, &b->err);
    assert_non_null(x);
    memset(x->tensor.data, 0, x->tensor.count * sizeof(float));
    exec->values[0] = (RtValue){.state = RT_TENSOR, .tensor = x};
    exec_memory_begin(exec);
    const bool ok = exec_graph(exec, 0);
    exec_memory_end(exec, ok);
    return ok;
}

static void tune(Bench *b, double seconds, Tuning *tuning) {
    const TuneJob job = {&b->exec, run_plan, b, seconds};
    if (!plan_tune(&job, &b->arena, tuning, &b->err)) fail_msg("%s", b->err.what);
    assert_null(b->exec.options.chooser);
    assert_null(b->exec.options.after);
}

/* All take so long; row 0 declines by the rules. */
static void set_all(double seconds) {
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c <= CHOICES; c++) slow[r][c] = seconds;
    slow[0][0] = -1;
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(test_finds_fast) {
    static const struct Fast { unsigned row, choice; } fast[] = {{0, 1}, {1, 2}, {2, 0}, {2, 2}};
    for (size_t i = 0; i < sizeof fast / sizeof *fast; i++) {
        Bench b;
        Tuning tuning;
        set_all(200e-6);
        slow[1][1] = -1;
        slow[2][1] = 100e-6; /* faster than the rules, and not the fastest */
        slow[fast[i].row][fast[i].choice] = 50e-6;
        begin(&b, make_image(build, NULL));
        tune(&b, 3, &tuning);
        assert_int_equal(tuning.kinds, 1);
        assert_int_equal(tuning.changed, 1);
        assert_int_equal(tuning.choices.count, 2);
        assert_true(tuning.after < 0.7 * tuning.before);
        for (uint32_t k = 0; k < 2; k++) {
            const PlanChoice *choice = &tuning.choices.items[k];
            assert_int_equal(choice->step, k);
            assert_int_equal(choice->row, 1 + fast[i].row);
            assert_int_equal(choice->choice, fast[i].choice);
            assert_int_equal(choice->alone, 0);
        }
        end(&b);
    }
}

/* The rules' own way is the fastest: nothing is chosen, whatever the noise. */
TEST(test_keeps_rules) {
    for (int i = 0; i < 400; i++) {
        Bench b;
        Tuning tuning;
        set_all(i % 2 ? 200e-6 : 50e-6);
        slow[1][0] = 50e-6;
        begin(&b, make_image(build, NULL));
        tune(&b, 3, &tuning);
        assert_int_equal(tuning.kinds, 1);
        assert_int_equal(tuning.choices.count, 0);
        assert_true(tuning.after >= tuning.before);
        end(&b);
    }
}

TEST(test_no_time) {
    Bench b;
    Tuning tuning;
    set_all(2e-3);
    slow[2][0] = 1e-4;
    begin(&b, make_image(build, NULL));
    tune(&b, 1e-3, &tuning);
    assert_true(tuning.ended_early);
    assert_int_equal(tuning.choices.count, 0);
    end(&b);
}

static bool append_bytes(void *user, const void *bytes, size_t size) {
    Err err = {0};
    return append(user, bytes, size, &err);
}

/* What is faster in this context, by rows of the test's own, is not where the plans are files, whose
 * steps have MatMul's rows: then the plan is as it was. */
TEST(test_files_decide) {
    const int64_t dims[] = {3, SIZE};
    const float x[3 * SIZE] = {1};
    const DemiData value = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, x);
    const DemiTuneOptions options = {sizeof options, 3};
    DemiContextOptions how = DEMI_CONTEXT_OPTIONS_INIT;
    DemiTuned tuned = DEMI_TUNED_INIT;
    DemiPlan *plan = NULL;
    DemiContext *context = NULL;
    Image image = make_image(build, NULL), written = {.room = image.room};
    written.data = aligned_alloc(64, written.room);
    how.threads = 1;
    assert_int_equal(demi_plan_from_memory(image.data, image.size, &plan, NULL), DEMI_OK);
    assert_int_equal(demi_context_new(plan, &how, &context, NULL), DEMI_OK);
    for (uint32_t i = 0; i < plan->loaded.plan.step_count; i++) {
        plan->loaded.steps[i].rows = rows;
        plan->loaded.steps[i].row_count = ROWS; /* as many as MatMul has */
    }
    set_all(200e-6);
    slow[2][2] = 20e-6; /* which MatMul's row declines: it packs such matrices anyway */
    assert_int_equal(demi_context_set_input(context, "x", &value, NULL), DEMI_OK);
    assert_int_equal(demi_context_tune(context, &options, append_bytes, &written, &tuned, NULL),
                     DEMI_OK);
    assert_int_equal(tuned.kinds, 1);
    assert_false(tuned.ended_early);
    assert_true(tuned.before < 100e-6); /* of the files */
    assert_int_equal(tuned.changed, 0);
    assert_int_equal(written.size, image.size);
    assert_memory_equal(written.data, image.data, image.size);
    demi_context_free(context);
    demi_plan_free(plan);
    free(written.data);
    free(image.data);
}

/* ---- plans with choices ---------------------------------------------------------------------- */

typedef struct Chosen {
    PlanChoice choices[CALLS_MOST];
    uint32_t count;
    PlanIsa tuned;
    uint16_t threads;
} Chosen;

static void build_chosen(PlanBuilder *b, void *data) {
    const Chosen *chosen = data;
    build(b, NULL);
    for (uint32_t i = 0; i < chosen->count; i++)
        VEC_PUSH(b->arena, &b->choices, chosen->choices[i]);
    b->tuned = chosen->tuned;
    b->threads = chosen->threads;
}

/* The hash of a step's shapes with so many rows. */
static uint64_t shapes_of(int64_t count) {
    const int64_t dims[] = {count, SIZE}, square[] = {SIZE, SIZE};
    const KernelTensor x = {.present = true, .dtype = DTYPE_FLOAT, .rank = 2, .dims = dims};
    KernelTensor inputs[] = {x, x}, y = x;
    inputs[1].dims = square;
    const KernelCall call = {.inputs = inputs, .input_count = 2, .outputs = &y, .output_count = 1};
    return step_choice_shapes(&call);
}

TEST(test_runs_so) {
    Chosen chosen = {.choices = {{.step = 1, .row = 3, .choice = 2, .shapes = shapes_of(3)}},
                     .count = 1,
                     .tuned = plan_isa_here(),
                     .threads = 1};
    /* what the operator's own rows can be told is the plan's to say */
    for (int i = 0; i < 4; i++) {
        Bench b;
        set_all(0);
        slow[2][2] = i == 3 ? -1 : 0;
        begin(&b, make_image(build_chosen, &chosen));
        b.count = i == 1 ? 2 : 3;          /* another shape */
        b.exec.options.tuned = i != 2;     /* another machine */
        assert_true(run_plan(&b, &b.err)); /* i == 3: it declines */
        assert_int_equal(ran[1][0], i == 0 ? 1 : 2);
        assert_int_equal(ran[2][2], i == 0 ? 1 : 0);
        end(&b);
    }
}

/* Whether a plan with these choices can be loaded. */
static bool loads(const Chosen *chosen) {
    Image image = make_image(build_chosen, (void *)(uintptr_t)chosen);
    DemiPlan *plan = NULL;
    DemiError error = DEMI_ERROR_INIT;
    const bool ok = demi_plan_from_memory(image.data, image.size, &plan, &error) == DEMI_OK;
    if (!ok) assert_non_null(strstr(error.message, "the plan is damaged: choice"));
    demi_plan_free(plan);
    free(image.data);
    return ok;
}

TEST(test_refused) {
    const Chosen good = {.choices = {{.step = 0, .row = 3, .choice = 1, .shapes = 1},
                                     {.step = 0, .row = 0, .alone = 1, .shapes = 2},
                                     {.step = 1, .row = 3, .choice = 1, .shapes = 1}},
                         .count = 3,
                         .tuned = PLAN_ISA_AVX2,
                         .threads = 4};
    assert_true(loads(&good));
    for (int i = 0; i < 9; i++) {
        Chosen bad = good;
        if (i == 0) bad.choices[2].step = 2; /* there are two */
        if (i == 1) bad.choices[2].row = 4;  /* of MatMul's three */
        if (i == 2) bad.choices[2].choice = 200;
        if (i == 3) bad.choices[1].choice = 1; /* of no row */
        if (i == 4) bad.choices[1].alone = 2;
        if (i == 5) bad.choices[1].shapes = 1; /* twice */
        if (i == 6) bad.choices[1].step = 1, bad.choices[2].step = 0;
        if (i == 7) bad.tuned = PLAN_ISA_NONE;
        if (i == 8) bad.threads = 0;
        if (loads(&bad)) fail_msg("choice %d is taken", i);
    }
}
