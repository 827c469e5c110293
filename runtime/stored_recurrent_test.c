// SPDX-License-Identifier: Apache-2.0
/* An LSTM's weights of bfloat16 in the plan give what the same weights as float give, by any number of
 * threads and with little memory too: to float's rounding, and to the bit where numbers are infinite or
 * NaN. What is stored so may be multiplied as it is (split_product.h); with little memory, no layer's
 * weights are float while another one runs. */
#include "plan_make_test.h"

#include <float.h>
#include <math.h>

#include "attr_layout.h"
#include "demi_runtime.h"
#include "half.h"

enum {
    LENGTH = 24,
    INPUT = 20,
    HIDDEN = 16,
    WIDTH = 4 * HIDDEN,
    WAYS = 2,
    LAYERS = 5,
    COUNT = WAYS * WIDTH * INPUT,
    RECURRENT = WAYS * WIDTH * HIDDEN,
    RESULTS = LENGTH * WAYS * HIDDEN
};

static float x[LENGTH * INPUT], w[COUNT], r[RECURRENT], bias[WAYS * 2 * WIDTH];
static uint16_t narrow[COUNT];

static void fill(float *to, int count, float size) {
    static uint32_t state = 1;
    for (int i = 0; i < count; i++) {
        state = state * 1664525U + 1013904223U;
        to[i] = ((float)(state >> 8) / (float)(1 << 23) - 1) * size;
    }
}

static void fill_all(void) {
    fill(x, LENGTH * INPUT, 3);
    fill(w, COUNT, 0.5f);
    fill(r, RECURRENT, 0.25f);
    fill(bias, WAYS * 2 * WIDTH, 0.5f);
    bfloat_convert_from_float(narrow, w, COUNT);
    bfloat_convert_to_float(w, narrow, COUNT);
}

static uint32_t constant(PlanBuilder *b, const int64_t *dims, uint32_t rank, void *data,
                         size_t size) {
    const uint32_t value = add_value(b, "c", DTYPE_FLOAT, dims, rank);
    plan_set_data(b, value, size, read_memory, data);
    return value;
}

/* Layers of the same numbers, the first one's as float. */
static void build(PlanBuilder *b, void *data) {
    const int64_t x_dims[] = {LENGTH, 1, INPUT}, w_dims[] = {WAYS, WIDTH, INPUT};
    const int64_t r_dims[] = {WAYS, WIDTH, HIDDEN}, b_dims[] = {WAYS, 2 * WIDTH};
    const int64_t y_dims[] = {LENGTH, WAYS, 1, HIDDEN};
    (void)data;
    const uint32_t in = add_value(b, "x", DTYPE_FLOAT, x_dims, 3);
    const uint32_t rest[] = {constant(b, r_dims, 3, r, sizeof r),
                             constant(b, b_dims, 2, bias, sizeof bias)};
    uint32_t y[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        const uint32_t weights =
            i ? constant(b, w_dims, 3, narrow, sizeof narrow) : constant(b, w_dims, 3, w, sizeof w);
        const uint32_t operands[] = {in, weights, rest[0], rest[1]};
        if (i) b->values.items[weights].stored = DTYPE_BFLOAT16;
        const PlanAttr attrs[] = {
            {.name = plan_add_text(b, "direction", 9),
             .kind = PLAIN_TEXT,
             .value = plan_add_text(b, "bidirectional", 13)},
            {.name = plan_add_text(b, "hidden_size", 11), .kind = PLAIN_INT, .value = HIDDEN}};
        const PlanSpan span = {(uint32_t)b->attrs.count, 2};
        VEC_PUSH(b->arena, &b->attrs, attrs[0]);
        VEC_PUSH(b->arena, &b->attrs, attrs[1]);
        y[i] = add_value(b, "y", DTYPE_FLOAT, y_dims, 4);
        add_step(b, "LSTM", plan_add_operands(b, operands, 4), one(b, y[i]), span);
    }
    PlanGraph graph = {
        .inputs = one(b, in), .outputs = plan_add_operands(b, y, LAYERS), .steps = {0, LAYERS}};
    VEC_PUSH(b->arena, &b->graphs, graph);
}

static void compare(const float *want, const float *have) {
    double most = 0;
    for (int i = 0; i < RESULTS; i++) {
        const double off = fabs((double)want[i] - (double)have[i]);
        if (isnan(want[i]) != isnan(have[i])) fail_msg("%d: %g, not %g", i, have[i], want[i]);
        if (off > most) most = off;
    }
    if (most > 2e-6) fail_msg("off by %g", most);
}

static void run(void) {
    Image image = make_image(build, NULL);
    DemiError error = DEMI_ERROR_INIT;
    DemiPlan *plan = NULL;
    if (demi_plan_from_memory(image.data, image.size, &plan, &error) != DEMI_OK)
        fail_msg("%s", error.message);
    static const int64_t dims[] = {LENGTH, 1, INPUT};
    const DemiData input = DEMI_DATA_TENSOR(DEMI_FLOAT, 3, dims, x);
    uint64_t peaks[2];
    for (uint32_t k = 0; k < 6; k++) {
        DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
        DemiContext *context = NULL;
        options.threads = 1 + k / 2;
        options.small = k % 2;
        assert_int_equal(demi_context_new(plan, &options, &context, &error), DEMI_OK);
        assert_int_equal(demi_context_set_input(context, "x", &input, &error), DEMI_OK);
        for (int i = 0; i < 2; i++) {
            if (demi_context_run(context, &error) != DEMI_OK) fail_msg("%s", error.message);
            for (size_t y = 1; y < LAYERS; y++)
                compare(demi_context_output(context, 0)->data,
                        demi_context_output(context, y)->data);
        }
        peaks[k % 2] = demi_context_peak(context);
        demi_context_free(context);
        if (k % 2) assert_true(peaks[1] < peaks[0]);
    }
    demi_plan_free(plan);
    free(image.data);
}

TEST(test_numbers) {
    fill_all();
    run();
}

/* Inputs of few bits, whose further parts are 0, meet infinite weights; then they are infinite, and NaN. */
TEST(test_infinite) {
    fill_all();
    for (int i = 0; i < LENGTH * INPUT; i++) x[i] = (float)(i % 9) - 4.5f;
    for (int i = 7; i < COUNT; i += 131) w[i] = i % 2 ? INFINITY : -INFINITY;
    bfloat_convert_from_float(narrow, w, COUNT);
    run();
    fill_all();
    x[3] = INFINITY;
    x[INPUT + 5] = -FLT_MAX;
    x[2 * INPUT + 1] = NAN;
    x[3 * INPUT + 2] = FLT_MIN / 4;
    run();
}
