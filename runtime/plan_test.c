// SPDX-License-Identifier: Apache-2.0
/* Plans are untrusted: whatever bit of one is flipped, and wherever it is cut, it is refused with a
 * reason or runs to an end without touching memory that is not its own (run under sanitizers). */
#include "plan_make_test.h"

#include "attr_layout.h"
#include "demi_runtime.h"

static PlanAttr graph_attr(PlanBuilder *b, const char *name, int64_t graph) {
    return (PlanAttr){
        .name = plan_add_text(b, name, strlen(name)), .kind = PLAIN_GRAPH, .value = graph};
}

/* main(float[2,3] x, bool c): s = Add(x, k); r = Reshape(s, {3, 2});
 * y = If(c) { Reshape(r, {6}) } else { r }; k is stored in 16 bit */
static void build(PlanBuilder *b, void *data) {
    int64_t *shapes = data;
    const int64_t two_three[] = {2, 3}, unknown[] = {-1}, length[] = {2}, single[] = {1};
    uint32_t x = add_value(b, "x", DTYPE_FLOAT, two_three, 2);
    uint32_t c = add_value(b, "c", DTYPE_BOOL, NULL, 0);
    uint32_t shape = add_value(b, "shape", DTYPE_INT64, length, 1);
    uint32_t flat = add_value(b, "flat", DTYPE_INT64, single, 1);
    uint32_t r = add_value(b, "r", DTYPE_FLOAT, unknown, 1);
    uint32_t k = add_value(b, "k", DTYPE_FLOAT, two_three, 2);
    uint32_t s = add_value(b, "s", DTYPE_FLOAT, unknown, 1);
    uint32_t y = add_value(b, "y", DTYPE_FLOAT, unknown, 1);
    uint32_t z = add_value(b, "z", DTYPE_FLOAT, unknown, 1);
    plan_set_data(b, shape, 16, read_memory, shapes);
    plan_set_data(b, flat, 8, read_memory, shapes + 2);
    plan_set_data(b, k, 12, read_memory, shapes);
    b->values.items[k].stored = DTYPE_BFLOAT16;
    uint32_t inputs[] = {x, c}, sum[] = {x, k}, first[] = {s, shape}, second[] = {r, flat};
    PlanGraph graphs[3] = {{.inputs = plan_add_operands(b, inputs, 2), .outputs = one(b, y)},
                           {.outputs = one(b, z), .steps = {0, 1}},
                           {.outputs = one(b, r)}};
    add_step(b, "Reshape", plan_add_operands(b, second, 2), one(b, z), (PlanSpan){0});
    add_step(b, "Add", plan_add_operands(b, sum, 2), one(b, s), (PlanSpan){0});
    add_step(b, "Reshape", plan_add_operands(b, first, 2), one(b, r), (PlanSpan){0});
    VEC_PUSH(b->arena, &b->attrs, graph_attr(b, "then_branch", 1));
    VEC_PUSH(b->arena, &b->attrs, graph_attr(b, "else_branch", 2));
    add_step(b, "If", one(b, c), one(b, y), (PlanSpan){0, 2});
    graphs[0].steps = (PlanSpan){1, 3};
    for (int i = 0; i < 3; i++) VEC_PUSH(b->arena, &b->graphs, graphs[i]);
}

static Image make(void) {
    static int64_t shapes[] = {3, 2, 6};
    return make_image(build, shapes);
}

/* The run's status; *rank is the output's where it succeeds. */
static DemiStatus run(const void *data, size_t size, bool condition, uint32_t *rank) {
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const int64_t dims[] = {2, 3};
    const uint8_t c = condition;
    DemiError error = DEMI_ERROR_INIT;
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    DemiData inputs[] = {DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, x),
                         DEMI_DATA_TENSOR(DEMI_BOOL, 0, NULL, &c)};
    DemiPlan *plan = NULL;
    DemiContext *context = NULL;
    options.memory_budget = 1 << 20;
    options.threads = 1;
    options.step_limit = 100;
    bool ok = demi_plan_from_memory(data, size, &plan, &error) == DEMI_OK &&
              demi_context_new(plan, &options, &context, &error) == DEMI_OK &&
              demi_context_set_input(context, "x", &inputs[0], &error) == DEMI_OK &&
              demi_context_set_input(context, "c", &inputs[1], &error) == DEMI_OK &&
              demi_context_run(context, &error) == DEMI_OK;
    if (ok && demi_context_output(context, 0)) *rank = demi_context_output(context, 0)->rank;
    if (!ok) assert_true(error.message[0]);
    demi_context_free(context);
    demi_plan_free(plan);
    return error.status;
}

TEST(test_runs) {
    Image bytes = make();
    uint32_t rank = 9;
    assert_int_equal(run(bytes.data, bytes.size, true, &rank), DEMI_OK);
    assert_int_equal(rank, 1);
    assert_int_equal(run(bytes.data, bytes.size, false, &rank), DEMI_OK);
    assert_int_equal(rank, 2);
    free(bytes.data);
}

/* A context made from the plan, and run. */
static DemiContext *ready(const DemiPlan *plan) {
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const int64_t dims[] = {2, 3};
    static const uint8_t c = true;
    const DemiData inputs[] = {DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, x),
                               DEMI_DATA_TENSOR(DEMI_BOOL, 0, NULL, &c)};
    DemiContext *context;
    assert_int_equal(demi_context_new(plan, NULL, &context, NULL), DEMI_OK);
    assert_int_equal(demi_context_set_input(context, "x", &inputs[0], NULL), DEMI_OK);
    assert_int_equal(demi_context_set_input(context, "c", &inputs[1], NULL), DEMI_OK);
    assert_int_equal(demi_context_run(context, NULL), DEMI_OK);
    return context;
}

/* A context holds its plan, and what was taken holds neither: sanitizers watch all orders. */
TEST(test_freed_in_any_order) {
    enum { PLAN, FIRST, SECOND, TAKEN, HANDLES };
    Image bytes = make();
    for (int order = 0; order < 1 << 2 * HANDLES; order++) {
        int at[HANDLES], seen = 0; /* a permutation, or skipped */
        for (int i = 0; i < HANDLES; i++) seen |= 1 << (at[i] = order >> 2 * i & 3);
        if (seen != (1 << HANDLES) - 1) continue;
        DemiPlan *plan;
        DemiData *taken;
        assert_int_equal(demi_plan_from_memory(bytes.data, bytes.size, &plan, NULL), DEMI_OK);
        DemiContext *contexts[] = {ready(plan), ready(plan)};
        assert_int_equal(demi_context_take_output(contexts[0], 0, &taken, NULL), DEMI_OK);
        bool left[HANDLES] = {true, true, true, true};
        for (int i = 0; i < HANDLES; i++) {
            left[at[i]] = false;
            if (at[i] == PLAN) demi_plan_free(plan);
            if (at[i] == FIRST || at[i] == SECOND) demi_context_free(contexts[at[i] - FIRST]);
            if (at[i] == TAKEN) demi_data_free(taken);
            for (int j = 0; j < 2; j++) { /* what is left works */
                if (!left[FIRST + j]) continue;
                assert_int_equal(demi_plan_input_count(demi_context_plan(contexts[j])), 2);
                assert_int_equal(demi_context_run(contexts[j], NULL), DEMI_OK);
            }
            if (left[TAKEN]) assert_int_equal(taken->dims[0], 6);
        }
    }
    free(bytes.data);
}

TEST(test_every_flipped_bit) {
    Image bytes = make();
    uint32_t rank, refused = 0;
    for (size_t i = 0; i < 8 * bytes.size; i++) {
        bytes.data[i / 8] ^= (unsigned char)(1u << i % 8);
        refused += run(bytes.data, bytes.size, i & 1, &rank) != DEMI_OK;
        bytes.data[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    assert_true(refused > bytes.size / 8); /* most of the rest is padding and text */
    free(bytes.data);
}

TEST(test_every_cut) {
    Image bytes = make();
    uint32_t rank;
    for (size_t size = 0; size < bytes.size; size++) {
        unsigned char *cut = aligned_alloc(64, (size + 64) / 64 * 64);
        memcpy(cut, bytes.data, size);
        assert_int_equal(run(cut, size, true, &rank), DEMI_ERR_MODEL);
        free(cut);
    }
    free(bytes.data);
}

TEST(test_every_word) {
    static const uint64_t words[] = {0,  1,          2,          3,          7,
                                     64, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    Image bytes = make();
    uint32_t rank;
    for (size_t at = 0; at + 8 <= bytes.size; at += 4)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
            unsigned char kept[4];
            uint32_t word = (uint32_t)words[k];
            memcpy(kept, bytes.data + at, 4);
            memcpy(bytes.data + at, &word, 4);
            run(bytes.data, bytes.size, k & 1, &rank);
            memcpy(bytes.data + at, kept, 4);
        }
    free(bytes.data);
}
