// SPDX-License-Identifier: Apache-2.0
/* Forms of a step: made once for each kind of operands and bounded in number; rows that get ready,
 * share, decline, fail or run out of memory; all that was prepared is released. The step is a
 * MatMul with rows of the test's own. */
#include "plan_make_test.h"

#include "exec_memory.h"
#include "step_specialization.h"

enum { SIZE = 4 };

static struct Counts { unsigned declined, made, packed, ran, released, live; } counts;
static enum { MAKE, FAIL, JUMP } behavior;

typedef struct Ready {
    const float *packed; /* twice the weights */
} Ready;

/* ---- rows ------------------------------------------------------------------------------------ */

static void release(void *prepared) {
    assert_non_null(prepared);
    counts.released++;
    counts.live--;
}

static KernelReady decline(KernelCall *call) {
    call->prepared = kernel_keep(call, 100);
    if (!call->prepared) return KERNEL_DECLINED;
    counts.declined++;
    counts.live++;
    return KERNEL_DECLINED;
}

static bool pack(KernelCall *call, const KernelPackJob *job) {
    assert_int_equal(job->variant, 7);
    assert_int_equal(job->size, SIZE * SIZE * sizeof(float));
    assert_int_equal(job->from->dtype, DTYPE_FLOAT);
    if (!kernel_workspace(call, 100)) return false;
    for (int i = 0; i < SIZE * SIZE; i++)
        ((float *)job->to)[i] = 2 * ((const float *)job->from->data)[i];
    counts.packed++;
    return true;
}

static KernelReady make(KernelCall *call) {
    assert_null(call->inputs[0].data);
    assert_null(call->inputs[1].data);
    assert_null(call->outputs[0].data);
    assert_int_equal(call->inputs[0].dtype, DTYPE_FLOAT);
    assert_int_equal(call->outputs[0].dims[0], call->inputs[0].dims[0]);
    assert_null(kernel_constant(call, 0));
    const KernelTensor *weights = kernel_constant(call, 1);
    if (!weights) return KERNEL_FAILED;
    assert_true(((const float *)weights->data)[5] == 5);
    Ready *ready = call->prepared = kernel_keep(call, sizeof *ready);
    if (!ready) return KERNEL_DECLINED;
    counts.live++;
    counts.made++;
    if (behavior == JUMP) arena_exhausted(call->scratch);
    if (behavior == FAIL) return kernel_fail(call, "as asked") ? KERNEL_READY : KERNEL_FAILED;
    ready->packed = kernel_share(call, 1, pack, 7, SIZE * SIZE * sizeof(float));
    if (!ready->packed) return KERNEL_DECLINED;
    kernel_set_unread(call, 1);
    return KERNEL_READY;
}

static bool run(KernelCall *call) {
    const Ready *ready = call->prepared;
    const float *x = call->inputs[0].data;
    float *y = call->outputs[0].data;
    for (int64_t r = 0; r < call->outputs[0].dims[0]; r++)
        for (int c = 0; c < SIZE; c++) {
            y[r * SIZE + c] = 0;
            for (int k = 0; k < SIZE; k++)
                y[r * SIZE + c] += x[r * SIZE + k] * ready->packed[k * SIZE + c];
        }
    counts.ran++;
    return true;
}

static bool never(KernelCall *call) {
    return kernel_fail(call, "this row declines");
}

static const KernelPrepare declining = {decline, release, 0}, making = {make, release, 0};
static const KernelRow rows[] = {
    {.since = 1, .run = never, .types = KERNEL_TYPE(FLOAT), .name = "never", .prepare = &declining},
    {.since = 1, .run = run, .types = KERNEL_TYPE(FLOAT), .name = "run", .prepare = &making},
};

/* ---- a context ------------------------------------------------------------------------------- */

typedef struct Bench {
    Image image;
    Arena arena;
    Err err;
    LoadedPlan loaded;
    Exec exec;
    Dtype dtype;
} Bench;

static void build(PlanBuilder *b, void *data) {
    static float singles[SIZE * SIZE];
    static uint16_t halves[SIZE * SIZE];
    Dtype dtype = *(const Dtype *)data;
    const int64_t open[] = {-1, SIZE}, square[] = {SIZE, SIZE};
    for (int i = 0; i < SIZE * SIZE; i++) {
        uint64_t bits;
        singles[i] = (float)i;
        dtype_from_double(DTYPE_FLOAT16, i, &bits);
        halves[i] = (uint16_t)bits;
    }
    bool half = dtype == DTYPE_FLOAT16;
    uint32_t pair[] = {add_value(b, "x", dtype, open, 2), add_value(b, "w", dtype, square, 2)};
    uint32_t y = add_value(b, "y", dtype, open, 2);
    plan_set_data(b, pair[1], half ? sizeof halves : sizeof singles, read_memory,
                  half ? (void *)halves : singles);
    add_step(b, "MatMul", plan_add_operands(b, pair, 2), one(b, y), (PlanSpan){0});
    PlanGraph graph = {.inputs = one(b, pair[0]), .outputs = one(b, y), .steps = {0, 1}};
    VEC_PUSH(b->arena, &b->graphs, graph);
}

static void begin(Bench *b, Dtype dtype, uint64_t budget) {
    memset(b, 0, sizeof *b);
    memset(&counts, 0, sizeof counts);
    behavior = MAKE;
    b->dtype = dtype;
    b->image = make_image(build, &b->dtype);
    arena_init(&b->arena, &test_trap);
    if (!plan_check(&b->loaded.plan, b->image.data, b->image.size, &b->arena, &b->err) ||
        !plan_load(&b->loaded, &b->arena, &b->err))
        fail_msg("%s", b->err.what);
    b->loaded.share = plan_share_new(NULL, b->loaded.plan.value_count);
    b->loaded.steps[0].rows = rows;
    b->loaded.steps[0].row_count = 2;
    assert_true(exec_init(&b->exec, &b->loaded, &(PoolFrom){.budget = budget}, &b->arena, &b->err));
}

/* Runs on `count` rows of ones; true where every column's sum is right. */
static bool run_once(Bench *b, int64_t count) {
    Exec *exec = &b->exec;
    const int64_t dims[] = {count, SIZE};
    rt_value_clear(&exec->values[0]);
    rt_value_clear(&exec->values[2]);
    RtTensor *x = rt_tensor_new(&exec->pool, b->dtype, 2, dims, &b->err);
    assert_non_null(x);
    for (uint64_t i = 0; i < x->tensor.count; i++) kernel_set_real(&x->tensor, i, 1);
    exec->values[0] = (RtValue){.state = RT_TENSOR, .tensor = x};
    exec_memory_begin(exec);
    bool ok = exec_graph(exec, 0);
    exec_memory_end(exec, ok);
    if (!ok) return false;
    const KernelTensor *y = &exec->values[2].tensor->tensor;
    assert_int_equal(y->dtype, b->dtype);
    assert_int_equal(y->dims[0], count);
    for (uint64_t i = 0; i < y->count; i++) /* 2 (c + (4 + c) + (8 + c) + (12 + c)) */
        assert_true(kernel_real(y, i) == 2 * (24 + 4 * (double)(i % SIZE)));
    return true;
}

static void end(Bench *b) {
    exec_free(&b->exec);
    plan_share_free(b->loaded.share);
    arena_free(&b->arena);
    free(b->image.data);
    assert_int_equal(counts.live, 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(test_made_once) {
    const Dtype dtypes[] = {DTYPE_FLOAT, DTYPE_FLOAT16};
    for (int k = 0; k < 2; k++) {
        Bench b;
        begin(&b, dtypes[k], 1 << 20);
        for (int i = 0; i < 5; i++) assert_true(run_once(&b, 3));
        assert_int_equal(counts.made, 1);
        assert_int_equal(counts.declined, 1);
        assert_int_equal(counts.packed, 1);
        assert_int_equal(counts.ran, 5);
        for (int64_t rows_of = 1; rows_of <= STEP_SPECIALIZATION_LIMIT; rows_of++)
            for (int i = 0; i < 2; i++) assert_true(run_once(&b, rows_of));
        assert_int_equal(counts.made, STEP_SPECIALIZATION_LIMIT);
        assert_int_equal(counts.packed, 1);
        assert_int_equal(counts.live, STEP_SPECIALIZATION_LIMIT);
        assert_int_equal(b.exec.forms.shared, SIZE * SIZE * sizeof(float)); /* it counts once */
        end(&b);
    }
}

/* What only saves time takes no more than half the budget: the row declines, and there is no
 * other. */
TEST(test_half_the_budget) {
    Bench b;
    begin(&b, DTYPE_FLOAT, 1 << 20);
    b.exec.forms.shared = b.exec.pool.budget / 2 - SIZE * SIZE * sizeof(float) + 1;
    assert_false(run_once(&b, 3));
    assert_int_equal(counts.packed, 0);
    b.exec.forms.shared--;
    b.err = (Err){0};
    b.exec.progress.depth = 0;
    assert_true(run_once(&b, 3));
    assert_int_equal(counts.packed, 1);
    end(&b);
}

TEST(test_bounded) {
    Bench b;
    begin(&b, DTYPE_FLOAT16, 1 << 20);
    uint64_t used = 0;
    for (int64_t i = 0; i < 500; i++) {
        assert_true(run_once(&b, 1 + i % 40));
        assert_true(counts.live <= STEP_SPECIALIZATION_LIMIT);
        if (i % 40 == 39 && used) assert_int_equal(b.exec.pool.used, used);
        if (i % 40 == 39) used = b.exec.pool.used;
    }
    assert_int_equal(counts.made, 500);
    assert_int_equal(counts.packed, 1);
    end(&b);
}

TEST(test_fails) {
    Bench b;
    begin(&b, DTYPE_FLOAT, 1 << 20);
    behavior = FAIL;
    assert_false(run_once(&b, 2));
    assert_string_equal(b.err.what, "as asked");
    assert_int_equal(counts.live, 0);
    b.err = (Err){0};
    behavior = MAKE;
    assert_true(run_once(&b, 2));
    end(&b);
}

TEST(test_jumps) {
    static Bench b;
    begin(&b, DTYPE_FLOAT, 1 << 20);
    uint64_t used = b.exec.pool.used;
    behavior = JUMP;
    if (!setjmp(test_trap.env)) {
        run_once(&b, 2);
        fail_msg("it did not jump");
    }
    step_specialization_drop(&b.exec);
    exec_drop_results(&b.exec);
    exec_memory_end(&b.exec, false);
    arena_free(&b.exec.scratch);
    assert_int_equal(counts.live, 0);
    assert_true(b.exec.pool.used <= used + 1024); /* the input, and what was noted of its shape */
    if (setjmp(test_trap.env)) fail_msg("out of memory");
    b.exec.progress.depth = 0;
    behavior = MAKE;
    assert_true(run_once(&b, 2));
    end(&b);
}

/* As much as is needed for shapes and operands, but for what is shared: the row declines. */
TEST(test_budget) {
    unsigned fits = 0, refused = 0;
    for (uint64_t budget = 512; budget < 4096; budget += 64) {
        Bench b;
        begin(&b, DTYPE_FLOAT16, 1 << 20);
        b.exec.pool.budget = b.exec.pool.used + budget;
        bool ok = run_once(&b, 1);
        assert_true(b.exec.pool.peak <= b.exec.pool.budget);
        assert_true(ok || b.err.what[0]);
        fits += ok;
        refused += !ok;
        b.exec.pool.budget = UINT64_MAX;
        end(&b);
    }
    assert_true(fits > 5 && refused > 5);
}
