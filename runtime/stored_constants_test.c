// SPDX-License-Identifier: Apache-2.0
/* Constants of float that are 16 bit in the plan: whoever reads one sees the same numbers, widened
 * once, at each call or never, and with little memory too; plans that say what can't be are
 * refused. */
#include "plan_make_test.h"

#include <stdio.h>

#include "demi_runtime.h"
#include "half.h"

enum { ROWS = 64, COLUMNS = 96, COUNT = ROWS * COLUMNS, OUTPUTS = 5 };

static uint16_t halves[2][COUNT]; /* float16, bfloat16 */
static float singles[2][COUNT];

static void fill_numbers(void) {
    for (int i = 0; i < COUNT; i++) singles[0][i] = singles[1][i] = (float)(i % 251 - 120) / 16;
    half_convert_from_float(halves[0], singles[0], COUNT);
    bfloat_convert_from_float(halves[1], singles[1], COUNT);
    half_convert_to_float(singles[0], halves[0], COUNT);
    bfloat_convert_to_float(singles[1], halves[1], COUNT);
}

/* Outputs: one row by w, three rows by w, w * s, w in another shape, and w itself. */
static void build(PlanBuilder *b, void *data) {
    const int which = *(const int *)data;
    const int64_t square[] = {ROWS, COLUMNS}, row[] = {1, ROWS}, three[] = {3, ROWS};
    const int64_t open[] = {-1, -1}, pair[] = {2};
    uint32_t x = add_value(b, "x", DTYPE_FLOAT, row, 2);
    uint32_t z = add_value(b, "z", DTYPE_FLOAT, three, 2);
    uint32_t s = add_value(b, "s", DTYPE_FLOAT, NULL, 0);
    uint32_t shape = add_value(b, "shape", DTYPE_INT64, pair, 1);
    uint32_t w[3], y[OUTPUTS - 1];
    for (int i = 0; i < 3; i++) {
        w[i] = add_value(b, "w", DTYPE_FLOAT, square, 2);
        b->values.items[w[i]].stored = which ? DTYPE_BFLOAT16 : DTYPE_FLOAT16;
        if (i)
            plan_share_data(b, w[i], w[0]);
        else
            plan_set_data(b, w[0], sizeof halves[0], read_memory, halves[which]);
    }
    for (int i = 0; i < OUTPUTS - 1; i++) y[i] = add_value(b, "y", DTYPE_FLOAT, open, 2);
    add_step(b, "MatMul", plan_add_operands(b, (uint32_t[]){x, w[0]}, 2), one(b, y[0]),
             (PlanSpan){0});
    add_step(b, "MatMul", plan_add_operands(b, (uint32_t[]){z, w[0]}, 2), one(b, y[1]),
             (PlanSpan){0});
    add_step(b, "Mul", plan_add_operands(b, (uint32_t[]){w[0], s}, 2), one(b, y[2]), (PlanSpan){0});
    add_step(b, "Reshape", plan_add_operands(b, (uint32_t[]){w[1], shape}, 2), one(b, y[3]),
             (PlanSpan){0});
    PlanGraph graph = {
        .inputs = plan_add_operands(b, (uint32_t[]){x, z, s, shape}, 4),
        .outputs = plan_add_operands(b, (uint32_t[]){y[0], y[1], y[2], y[3], w[2]}, OUTPUTS),
        .steps = {0, 4}};
    VEC_PUSH(b->arena, &b->graphs, graph);
}

/* ---- running it ------------------------------------------------------------------------------ */

static float input[3 * ROWS];

static void set_inputs(DemiContext *context) {
    static const int64_t one_row[] = {1, ROWS}, three[] = {3, ROWS}, pair[] = {2};
    static const int64_t shape[] = {COLUMNS, ROWS};
    static const float factor = 0.5f;
    DemiError error = DEMI_ERROR_INIT;
    const DemiData x = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, one_row, input);
    const DemiData z = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, three, input);
    const DemiData s = DEMI_DATA_TENSOR(DEMI_FLOAT, 0, NULL, &factor);
    const DemiData to = DEMI_DATA_TENSOR(DEMI_INT64, 1, pair, shape);
    assert_int_equal(demi_context_set_input(context, "x", &x, &error), DEMI_OK);
    assert_int_equal(demi_context_set_input(context, "z", &z, &error), DEMI_OK);
    assert_int_equal(demi_context_set_input(context, "s", &s, &error), DEMI_OK);
    assert_int_equal(demi_context_set_input(context, "shape", &to, &error), DEMI_OK);
}

static void check_product(const DemiData *y, const float *w) {
    const float *have = y->data;
    for (int64_t r = 0; r < y->dims[0]; r++)
        for (int c = 0; c < COLUMNS; c++) {
            double sum = 0;
            for (int k = 0; k < ROWS; k++)
                sum += (double)input[r * ROWS + k] * (double)w[k * COLUMNS + c];
            double off = sum - (double)have[r * COLUMNS + c];
            assert_true(off < 1e-3 && off > -1e-3);
        }
}

static void check_outputs(DemiContext *context, const float *w) {
    const float *scaled = demi_context_output(context, 2)->data;
    const DemiData *shaped = demi_context_output(context, 3),
                   *self = demi_context_output(context, 4);
    check_product(demi_context_output(context, 0), w);
    check_product(demi_context_output(context, 1), w);
    for (int i = 0; i < COUNT; i++) assert_true(scaled[i] == w[i] * 0.5f);
    assert_int_equal(shaped->dims[0], COLUMNS);
    assert_int_equal(self->dtype, DEMI_FLOAT);
    assert_memory_equal(shaped->data, w, sizeof singles[0]);
    assert_memory_equal(self->data, w, sizeof singles[0]);
}

SET_UP {
    fill_numbers();
    for (int i = 0; i < 3 * ROWS; i++) input[i] = (float)(i % 17 - 8) / 8;
}

TEST(test_readers) {
    for (int which = 0; which < 2; which++) {
        Image image = make_image(build, &which);
        DemiError error = DEMI_ERROR_INIT;
        DemiPlan *plan = NULL;
        assert_int_equal(demi_plan_from_memory(image.data, image.size, &plan, &error), DEMI_OK);
        for (int k = 0; k < 4; k++) {
            DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
            DemiContext *context = NULL;
            options.threads = 1;
            options.small = k & 1;
            options.kernels = k & 2 ? DEMI_KERNELS_OWN : DEMI_KERNELS_AUTO;
            assert_int_equal(demi_context_new(plan, &options, &context, &error), DEMI_OK);
            set_inputs(context);
            for (int i = 0; i < 2; i++) {
                if (demi_context_run(context, &error) != DEMI_OK) fail_msg("%s", error.message);
                check_outputs(context, singles[which]);
            }
            demi_context_free(context);
        }
        demi_plan_free(plan);
        free(image.data);
    }
}

/* ---- what memory it takes -------------------------------------------------------------------- */

static uint64_t peak_of(const DemiPlan *plan, bool small) {
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    DemiError error = DEMI_ERROR_INIT;
    DemiContext *context = NULL;
    options.threads = 1;
    options.small = small;
    options.kernels = DEMI_KERNELS_OWN;
    assert_int_equal(demi_context_new(plan, &options, &context, &error), DEMI_OK);
    set_inputs(context);
    assert_int_equal(demi_context_run(context, &error), DEMI_OK);
    uint64_t first = demi_context_peak(context);
    demi_context_free(context);
    return first;
}

/* Widened it counts against the budget; where memory comes first, it is missing between steps. */
TEST(test_memory) {
    int which = 0;
    Image image = make_image(build, &which);
    DemiError error = DEMI_ERROR_INIT;
    DemiPlan *plan = NULL;
    assert_int_equal(demi_plan_from_memory(image.data, image.size, &plan, &error), DEMI_OK);
    uint64_t small = peak_of(plan, true), large = peak_of(plan, false);
    printf("%llu bytes, small %llu\n", (unsigned long long)large, (unsigned long long)small);
    assert_true(large >= small + sizeof singles[0] / 2);
    demi_plan_free(plan);
    free(image.data);
}

/* ---- what is refused ------------------------------------------------------------------------- */

TEST(test_refused) {
    int which = 0;
    Image image = make_image(build, &which);
    const PlanHeader *header = (const void *)image.data;
    PlanValue *values = (void *)(image.data + header->sections[PLAN_VALUES].offset);
    uint32_t w = 0;
    while (!values[w].stored) w++;
    const PlanValue good = values[w];
    const PlanValue bad[] = {{.stored = DTYPE_FLOAT},
                             {.stored = DTYPE_INT8},
                             {.stored = DTYPE_INT16},
                             {.stored = 0},
                             {.stored = DTYPE_COUNT},
                             {.stored = 255},
                             {.stored = DTYPE_FLOAT16, .dtype = DTYPE_DOUBLE},
                             {.stored = DTYPE_FLOAT16, .dtype = DTYPE_FLOAT16},
                             {.stored = DTYPE_FLOAT16, .dtype = DTYPE_STRING}};
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        DemiError error = DEMI_ERROR_INIT;
        DemiPlan *plan = NULL;
        bool last = i == sizeof bad / sizeof *bad; /* of a value that is no constant */
        values[w] = good;
        values[0].stored = last ? DTYPE_FLOAT16 : 0;
        if (!last) values[w].stored = bad[i].stored;
        if (!last && bad[i].dtype) values[w].dtype = bad[i].dtype;
        assert_int_equal(demi_plan_from_memory(image.data, image.size, &plan, &error),
                         DEMI_ERR_MODEL);
    }
    free(image.data);
}
