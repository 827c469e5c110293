// SPDX-License-Identifier: Apache-2.0
/* A plan that is taken and written anew has the same bytes, whatever its constants are packed for;
 * with a choice that wants its weights otherwise it has them so, and their values stay. */
#include "plan_make_test.h"

#include "exec.h"

enum { DEPTH = 40, COLUMNS = 70, ROWS = 64 };

typedef struct Job {
    PlanIsa isa;
    const LoadedPlan *taken; /* NULL: the plan is made */
    PlanChoice choice;       /* .row 0: none */
} Job;

static void build(PlanBuilder *b, void *data) {
    static float w[DEPTH * COLUMNS], small[COLUMNS];
    const Job *job = data;
    const int64_t in[] = {ROWS, DEPTH}, matrix[] = {DEPTH, COLUMNS}, out[] = {ROWS, COLUMNS};
    Err err = {0};
    for (int i = 0; i < DEPTH * COLUMNS; i++) w[i] = (float)i;
    for (int i = 0; i < COLUMNS; i++) small[i] = (float)-i;
    if (job->taken) {
        plan_builder_take(b, job->taken);
    } else {
        const uint32_t x = add_value(b, "x", DTYPE_FLOAT, in, 2);
        const uint32_t bias = add_value(b, "bias", DTYPE_FLOAT, &matrix[1], 1);
        const uint32_t matrices[] = {add_value(b, "w", DTYPE_FLOAT, matrix, 2),
                                     add_value(b, "v", DTYPE_FLOAT, matrix, 2)};
        const uint32_t y = add_value(b, "y", DTYPE_FLOAT, out, 2);
        const uint32_t z = add_value(b, "z", DTYPE_FLOAT, out, 2);
        const uint32_t product[] = {x, matrices[0]}, sum[] = {y, bias};
        plan_set_data(b, bias, sizeof small, read_memory, small);
        plan_set_data(b, matrices[0], sizeof w, read_memory, w);
        plan_share_data(b, matrices[1], matrices[0]); /* which nothing reads */
        add_step(b, "MatMul", plan_add_operands(b, product, 2), one(b, y), (PlanSpan){0});
        add_step(b, "Add", plan_add_operands(b, sum, 2), one(b, z), (PlanSpan){0});
        PlanGraph graph = {.inputs = one(b, x), .outputs = one(b, z), .steps = {0, 2}};
        VEC_PUSH(b->arena, &b->graphs, graph);
        b->values.items[matrices[1]] = b->values.items[bias];
        b->isa = job->isa;
        b->source[1] = 17;
    }
    if (job->choice.row) {
        VEC_PUSH(b->arena, &b->choices, job->choice);
        b->tuned = plan_isa_here();
        b->threads = 1;
    }
    if (!plan_pack(b, &err)) fail_msg("%s", err.what);
}

static void load(LoadedPlan *loaded, const Image *image, Arena *arena) {
    Err err = {0};
    *loaded = (LoadedPlan){0};
    if (!plan_check(&loaded->plan, image->data, image->size, arena, &err) ||
        !plan_load(loaded, arena, &err))
        fail_msg("%s", err.what);
}

static void take_anew(PlanIsa isa) {
    Arena arena;
    LoadedPlan loaded;
    arena_init(&arena, &test_trap);
    Image image = make_image(build, &(Job){.isa = isa});
    load(&loaded, &image, &arena);
    assert_int_equal(loaded.plan.pack_count, isa != PLAN_ISA_NONE);
    Image again = make_image(build, &(Job){.taken = &loaded});
    assert_int_equal(image.size, again.size);
    assert_memory_equal(image.data, again.data, image.size);
    free(again.data);
    free(image.data);
    arena_free(&arena);
}

TEST(test_same_bytes) {
    for (int isa = PLAN_ISA_NONE; isa < PLAN_ISA_COUNT; isa++) take_anew((PlanIsa)isa);
}

/* Not packed: the own row of MatMul, by its first choice. */
TEST(test_choice_packs) {
    LoadedPlan loaded, chosen;
    Image image = make_image(build, &(Job){.isa = PLAN_ISA_PORTABLE});
    load(&loaded, &image, &test_arena);
    const Job job = {.taken = &loaded,
                     .choice = {.step = 0, /* the own row of float */
                                .row = 3,
                                .choice = 1,
                                .shapes = 5}};
    Image again = make_image(build, (void *)(uintptr_t)&job);
    load(&chosen, &again, &test_arena);
    assert_int_equal(chosen.plan.choice_count, 1);
    assert_int_equal(chosen.plan.header->threads, 1);
    assert_int_equal(loaded.plan.pack_count, 1);
    assert_int_equal(chosen.plan.pack_count, 0);
    const PlanValue *w = &chosen.plan.values[2];
    const float *data = (const void *)(chosen.plan.data + w->data);
    assert_int_equal(w->size, DEPTH * COLUMNS * sizeof(float));
    for (int i = 0; i < DEPTH * COLUMNS; i++) assert_true(data[i] == (float)i);
    free(again.data);
    free(image.data);
}
