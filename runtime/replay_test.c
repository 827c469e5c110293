// SPDX-License-Identifier: Apache-2.0
/* A replay gives the bits of a whole run with the same changes, on random graphs, whatever was kept,
 * and runs no step that nothing changed for and whose values are kept. */
#include "plan_make_test.h"

#include <stdio.h>

#include "replay.h"
#include "step_replace.h"

enum { COUNT = 6, STEPS = 40, OUTPUTS = 3, MODELS = 150, CHANGES = 3 };

static uint32_t state;

static uint32_t next(uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static const int64_t dims[] = {COUNT};
static float constants[COUNT] = {0.5f, -1, 2, 0.25f, -0.125f, 3};

static void build(PlanBuilder *b, void *data) {
    static const char *const binary[] = {"Add", "Mul", "Sub"};
    static const char *const unary[] = {"Neg", "Identity", "Relu", "RandomNormalLike", "Shape"};
    uint32_t values[STEPS + 3], count = 0, outputs[OUTPUTS];
    for (int i = 0; i < 2; i++)
        values[count++] = add_value(b, i ? "in1" : "in0", DTYPE_FLOAT, dims, 1);
    values[count] = add_value(b, "constant", DTYPE_FLOAT, dims, 1);
    plan_set_data(b, values[count++], sizeof constants, read_memory, data);
    for (int i = 0; i < STEPS; i++) {
        const int64_t one_dim[] = {1};
        char name[16];
        const uint32_t from = next(count), kind = next(8);
        const bool shape = kind == 4;
        snprintf(name, sizeof name, "v%d", i);
        uint32_t made =
            add_value(b, name, shape ? DTYPE_INT64 : DTYPE_FLOAT, shape ? one_dim : dims, 1);
        if (kind < 5)
            add_step(b, unary[kind], one(b, values[from]), one(b, made), (PlanSpan){0});
        else
            add_step(b, binary[kind - 5],
                     plan_add_operands(b, (uint32_t[]){values[from], values[next(count)]}, 2),
                     one(b, made), (PlanSpan){0});
        if (!shape) values[count++] = made;
    }
    for (uint32_t i = 0; i < OUTPUTS; i++)
        outputs[i] =
            values[3 + i * (count - 4) / (OUTPUTS - 1)]; /* the first and last among them */
    PlanGraph graph = {.inputs = plan_add_operands(b, values, 2),
                       .outputs = plan_add_operands(b, outputs, OUTPUTS),
                       .steps = {0, STEPS}};
    VEC_PUSH(b->arena, &b->graphs, graph);
}

/* What a change makes of a value. */
static void change(void *user, void *to, const void *from, uint64_t count) {
    const float *x = from, add = *(const float *)user;
    float *y = to;
    for (uint64_t i = 0; i < count; i++) y[i] = x[i] * 1.5f + add;
}

typedef struct Case {
    DemiPlan *plan;
    const char *const *names;
    ReplayChange changes[CHANGES];
    size_t count;
    float add[CHANGES], become[CHANGES][COUNT];
} Case;

static DemiContext *open_context(const Case *c, const ReplayChange *changes) {
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    DemiError error = DEMI_ERROR_INIT;
    DemiContext *context;
    options.threads = 1;
    options.seed = 7;
    assert_int_equal(demi_context_new(c->plan, &options, &context, &error), DEMI_OK);
    for (uint32_t i = 0; i < 2; i++) {
        float x[COUNT], changed[COUNT];
        for (int k = 0; k < COUNT; k++) x[k] = (float)(k * k) / 4 - (float)i;
        memcpy(changed, x, sizeof x);
        for (size_t k = 0; changes && k < c->count; k++) {
            if (strcmp(c->names[changes[k].value], i ? "in1" : "in0") != 0) continue;
            if (changes[k].become)
                memcpy(changed, changes[k].become, sizeof changed);
            else
                change(changes[k].user, changed, x, COUNT);
        }
        const DemiData input = DEMI_DATA_TENSOR(DEMI_FLOAT, 1, dims, changed);
        assert_int_equal(demi_context_set_input(context, i ? "in1" : "in0", &input, &error),
                         DEMI_OK);
    }
    return context;
}

typedef struct Whole {
    const Case *c;
    DemiContext *context;
} Whole;

static void replace(void *user, const DemiStep *step) {
    Whole *w = user;
    for (size_t i = 0; i < w->c->count; i++) {
        const ReplayChange *change_ = &w->c->changes[i];
        float changed[COUNT];
        Err err = {0};
        if (strcmp(w->c->names[change_->value], step->output_names[0]) != 0) continue;
        if (change_->become)
            memcpy(changed, change_->become, sizeof changed);
        else
            change(change_->user, changed, step->outputs[0].data, COUNT);
        const DemiData value = DEMI_DATA_TENSOR(DEMI_FLOAT, 1, dims, changed);
        assert_true(step_replace(w->context, 0, &value, &err));
        return;
    }
}

static void choose_changes(Case *c, uint32_t value_count) {
    c->count = next(CHANGES + 1);
    for (size_t i = 0; i < c->count; i++) {
        uint32_t value = next(value_count);
        bool fits = c->names[value] && c->plan->loaded.plan.values[value].dtype == DTYPE_FLOAT;
        for (size_t k = 0; k < i; k++) fits = fits && c->changes[k].value != value;
        if (!fits) {
            i--;
            continue;
        }
        c->add[i] = (float)next(9) - 4;
        for (int k = 0; k < COUNT; k++) c->become[i][k] = (float)next(100) / 8;
        c->changes[i] = (ReplayChange){.value = value, .change = change, .user = &c->add[i]};
        if (next(2)) c->changes[i].become = c->become[i];
    }
}

static void check_outputs(const DemiContext *a, const DemiContext *b) {
    for (size_t i = 0; i < OUTPUTS; i++) {
        const DemiData *x = demi_context_output(a, i), *y = demi_context_output(b, i);
        assert_memory_equal(x->data, y->data, COUNT * sizeof(float));
    }
}

static void check_case(Case *c, DemiContext *context, Replay *replay) {
    Err err = {0};
    DemiError error = DEMI_ERROR_INIT;
    Whole whole = {c, open_context(c, c->changes)};
    assert_int_equal(demi_context_watch(whole.context, replace, &whole, &error), DEMI_OK);
    assert_int_equal(demi_context_run(whole.context, &error), DEMI_OK);
    assert_true(replay_run(replay, c->changes, c->count, &err));
    check_outputs(context, whole.context);
    demi_context_free(whole.context);
}

/* A model and a context that ran it once. */
typedef struct Fixture {
    Image image;
    Arena arena;
    Case c;
    DemiContext *context;
    Replay *replay;
    uint32_t value_count;
} Fixture;

static void open_fixture(Fixture *f, uint32_t seed, uint64_t most) {
    Err err = {0};
    DemiError error = DEMI_ERROR_INIT;
    memset(f, 0, sizeof *f);
    state = seed;
    f->image = make_image(build, constants);
    assert_int_equal(demi_plan_from_memory(f->image.data, f->image.size, &f->c.plan, &error),
                     DEMI_OK);
    arena_init(&f->arena, &test_trap);
    f->c.names = replay_names(f->c.plan, &f->arena, &f->value_count);
    f->context = open_context(&f->c, NULL);
    assert_true(replay_record(f->context, most, &f->arena, &f->replay, &err));
    assert_true(replay_bytes(f->replay) <= most);
}

static void close_fixture(Fixture *f) {
    arena_free(&f->arena); /* ends the replay before the context */
    demi_context_free(f->context);
    demi_plan_free(f->c.plan);
    free(f->image.data);
}

/* Everything, some of it, or nothing is kept. */
TEST(test_replays_are_whole_runs) {
    static Fixture f;
    size_t run = 0, all = 0;
    for (uint32_t seed = 0; seed < MODELS; seed++) {
        const uint64_t most = seed % 3 == 0 ? UINT64_MAX : seed % 3 == 1 ? 24 * COUNT * 4 : 0;
        open_fixture(&f, seed, most);
        for (int i = 0; i < 20; i++) {
            choose_changes(&f.c, f.value_count);
            check_case(&f.c, f.context, f.replay);
            if (most != UINT64_MAX) continue;
            run += replay_steps_run(f.replay);
            all += replay_steps(f.replay);
            assert_true(f.c.count || replay_steps_run(f.replay) == 0);
        }
        close_fixture(&f);
    }
    assert_true(run > 0 && run < all / 4);
}

/* The context goes on as if nothing had been. */
TEST(test_context_runs_on) {
    static Fixture f;
    Err err = {0};
    DemiError error = DEMI_ERROR_INIT;
    open_fixture(&f, 3, UINT64_MAX);
    DemiContext *other = open_context(&f.c, NULL);
    choose_changes(&f.c, f.value_count);
    assert_true(replay_run(f.replay, f.c.changes, f.c.count, &err));
    replay_free(f.replay);
    for (int i = 0; i < 2; i++) assert_int_equal(demi_context_run(other, &error), DEMI_OK);
    assert_int_equal(demi_context_run(f.context, &error), DEMI_OK);
    check_outputs(f.context, other);
    demi_context_free(other);
    close_fixture(&f);
}
