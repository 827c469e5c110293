// SPDX-License-Identifier: Apache-2.0
/* Packed weights that are larger than a batch of what plans are written in (plan_stream.c): side by side
 * and with small constants between them, they come out as they would unpacked, and the sum holds. */
#include "plan_make_test.h"

#include "demi_runtime.h"

enum { WIDE = 2304, NARROW = 1024, WEIGHTS = 3, ROWS = 2, ROOM = 48 << 20 }; /* 9.4 MB each */

static float weights[WEIGHTS][WIDE * NARROW], bias[NARROW], input[ROWS * NARROW];

SET_UP {
    for (int i = 0; i < WIDE * NARROW; i++)
        for (int k = 0; k < WEIGHTS; k++) weights[k][i] = (float)((i * 7 + k) % 251 - 125) / 4096;
    for (int i = 0; i < NARROW; i++) bias[i] = (float)(i % 17 - 8) / 8;
    for (int i = 0; i < ROWS * NARROW; i++) input[i] = (float)(i % 19 - 9) / 4;
}

/* y = ((x w0) w1 + bias) w2 */
static void build(PlanBuilder *b, void *data) {
    const int64_t narrow[] = {ROWS, NARROW}, wide[] = {ROWS, WIDE}, up[] = {NARROW, WIDE},
                  down[] = {WIDE, NARROW}, row[] = {NARROW};
    uint32_t x = add_value(b, "x", DTYPE_FLOAT, narrow, 2), w[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) {
        w[i] = add_value(b, "w", DTYPE_FLOAT, i == 1 ? down : up, 2);
        plan_set_data(b, w[i], sizeof weights[i], read_memory, weights[i]);
        if (i != 1) continue;
        const uint32_t added = add_value(b, "bias", DTYPE_FLOAT, row, 1);
        plan_set_data(b, added, sizeof bias, read_memory, bias);
    }
    const uint32_t a = add_value(b, "a", DTYPE_FLOAT, wide, 2),
                   c = add_value(b, "c", DTYPE_FLOAT, narrow, 2),
                   d = add_value(b, "d", DTYPE_FLOAT, narrow, 2),
                   y = add_value(b, "y", DTYPE_FLOAT, wide, 2);
    const PlanSpan none = {0};
    add_step(b, "MatMul", plan_add_operands(b, (uint32_t[]){x, w[0]}, 2), one(b, a), none);
    add_step(b, "MatMul", plan_add_operands(b, (uint32_t[]){a, w[1]}, 2), one(b, c), none);
    add_step(b, "Add", plan_add_operands(b, (uint32_t[]){c, w[1] + 1}, 2), one(b, d), none);
    add_step(b, "MatMul", plan_add_operands(b, (uint32_t[]){d, w[2]}, 2), one(b, y), none);
    const PlanGraph graph = {.inputs = one(b, x), .outputs = one(b, y), .steps = {0, 4}};
    Err err = {0};
    VEC_PUSH(b->arena, &b->graphs, graph);
    b->isa = *(const PlanIsa *)data;
    assert_true(plan_pack(b, &err));
    assert_int_equal(b->packs.count, b->isa == PLAN_ISA_NONE ? 0 : WEIGHTS);
}

static void run(PlanIsa isa, float *y) {
    const int64_t dims[] = {ROWS, NARROW};
    const DemiData x = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, input);
    DemiError error = DEMI_ERROR_INIT;
    DemiPlan *plan = NULL;
    DemiContext *context = NULL;
    Image image = make_image_in(ROOM, build, &isa);
    assert_int_equal(demi_plan_from_memory(image.data, image.size, &plan, &error), DEMI_OK);
    assert_int_equal(demi_plan_verify(plan, &error), DEMI_OK);
    assert_int_equal(demi_context_new(plan, NULL, &context, &error), DEMI_OK);
    assert_int_equal(demi_context_set_input(context, "x", &x, &error), DEMI_OK);
    assert_int_equal(demi_context_run(context, &error), DEMI_OK);
    memcpy(y, demi_context_output(context, 0)->data, ROWS * WIDE * sizeof *y);
    demi_context_free(context);
    demi_plan_free(plan);
    free(image.data);
}

TEST(test_large_weights) {
    static float want[ROWS * WIDE], have[ROWS * WIDE];
    run(PLAN_ISA_NONE, want);
    for (int isa = PLAN_ISA_PORTABLE; isa < PLAN_ISA_COUNT; isa++) {
        run((PlanIsa)isa, have);
        assert_memory_equal(want, have, sizeof want);
    }
}
