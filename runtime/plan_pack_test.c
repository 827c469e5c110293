// SPDX-License-Identifier: Apache-2.0
/* Weights that are packed in the plan: results have the same bits for whatever instruction set they
 * are packed; those of this machine take no memory of their own; who reads elements, watches or has
 * other operands than declared sees the same numbers; and whatever a bit of such a plan says, it is
 * refused or runs within its memory (run under sanitizers). */
#include "plan_make_test.h"

#include "demi_runtime.h"

enum {
    ROWS = 3,
    DEPTH = 40,
    COLUMNS = 50,
    COUNT = DEPTH * COLUMNS,
    PRODUCTS = 3,
    OUTPUTS = PRODUCTS + 1,
    SIDE = 10, /* of an image, and of what a convolution makes of it */
    SMALLER = SIDE - 2,
    CHANNELS = 32,
};

static float weights[PRODUCTS][COUNT], input[ROWS * DEPTH];
static float picture[SIDE * SIDE * CHANNELS], taps[CHANNELS * CHANNELS * 9];
static const int64_t taps_dims[] = {CHANNELS, CHANNELS, 3, 3};

static void fill_numbers(void) {
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < PRODUCTS; k++) weights[k][i] = (float)((i * 7 + k) % 251 - 120) / 64;
    for (int i = 0; i < ROWS * DEPTH; i++) input[i] = (float)(i % 19 - 9) / 4;
    for (int i = 0; i < SIDE * SIDE * CHANNELS; i++) picture[i] = (float)(i % 23 - 11) / 8;
    for (int i = 0; i < CHANNELS * CHANNELS * 9; i++) taps[i] = (float)(i % 29 - 14) / 32;
}

/* A convolution by tiles: its weights are there packed and as points. */
static void add_convolution(PlanBuilder *b, uint32_t x, uint32_t y) {
    uint32_t w = add_value(b, "taps", DTYPE_FLOAT, taps_dims, 4);
    plan_set_data(b, w, sizeof taps, read_memory, taps);
    const PlanStep step = {.op = plan_add_op(b, "demi.fused", "ConvLast", 1),
                           .name = plan_add_text(b, "conv", 4),
                           .inputs = plan_add_operands(b, (uint32_t[]){x, w}, 2),
                           .outputs = one(b, y)};
    VEC_PUSH(b->arena, &b->steps, step);
}

/* y0 = x w0, y1 = x w1 + w1's first row, y2 = x w2, y3 = taps over the image: w1 is read by Gather as
 * well, so that it stays as it is. */
static void build(PlanBuilder *b, void *data) {
    static const int64_t first = 0;
    const int64_t square[] = {DEPTH, COLUMNS}, rows[] = {-1, DEPTH}, open[] = {-1, -1};
    const int64_t sides[] = {1, SIDE, SIDE, CHANNELS}, fewer[] = {1, SMALLER, SMALLER, CHANNELS};
    uint32_t x = add_value(b, "x", DTYPE_FLOAT, rows, 2), w[PRODUCTS], y[OUTPUTS];
    uint32_t pixels = add_value(b, "image", DTYPE_FLOAT, sides, 4);
    uint32_t zero = add_value(b, "zero", DTYPE_INT64, NULL, 0);
    uint32_t row = add_value(b, "row", DTYPE_FLOAT, open, 1);
    uint32_t product = add_value(b, "product", DTYPE_FLOAT, open, 2);
    plan_set_data(b, zero, sizeof first, read_memory, (void *)(uintptr_t)&first);
    for (int i = 0; i < PRODUCTS; i++) {
        w[i] = add_value(b, "w", DTYPE_FLOAT, square, 2);
        plan_set_data(b, w[i], sizeof weights[i], read_memory, weights[i]);
        y[i] = add_value(b, "y", DTYPE_FLOAT, open, 2);
    }
    add_step(b, "MatMul", plan_add_operands(b, (uint32_t[]){x, w[0]}, 2), one(b, y[0]),
             (PlanSpan){0});
    add_step(b, "MatMul", plan_add_operands(b, (uint32_t[]){x, w[1]}, 2), one(b, product),
             (PlanSpan){0});
    add_step(b, "Gather", plan_add_operands(b, (uint32_t[]){w[1], zero}, 2), one(b, row),
             (PlanSpan){0});
    add_step(b, "Add", plan_add_operands(b, (uint32_t[]){product, row}, 2), one(b, y[1]),
             (PlanSpan){0});
    add_step(b, "MatMul", plan_add_operands(b, (uint32_t[]){x, w[2]}, 2), one(b, y[2]),
             (PlanSpan){0});
    y[3] = add_value(b, "smaller", DTYPE_FLOAT, fewer, 4);
    add_convolution(b, pixels, y[3]);
    PlanGraph graph = {.inputs = plan_add_operands(b, (uint32_t[]){x, pixels}, 2),
                       .outputs = plan_add_operands(b, y, OUTPUTS),
                       .steps = {0, 6}};
    Err err = {0};
    VEC_PUSH(b->arena, &b->graphs, graph);
    b->isa = *(const PlanIsa *)data;
    assert_true(plan_pack(b, &err));
}

static Image make(PlanIsa isa) {
    return make_image(build, &isa);
}

typedef struct Results {
    float y[PRODUCTS][ROWS * COLUMNS], smaller[SMALLER * SMALLER * CHANNELS];
    uint64_t peak;
    unsigned seen; /* watched weights that were right */
} Results;

static void watch(void *user, const DemiStep *step) {
    Results *results = user;
    for (size_t i = 0; i < step->input_count; i++)
        results->seen += step->inputs[i].rank == 4 && step->inputs[i].dims[0] == CHANNELS &&
                         memcmp(step->inputs[i].data, taps, sizeof taps) == 0;
    for (size_t i = 0; i < step->input_count; i++)
        for (int k = 0; k < PRODUCTS; k++)
            results->seen += step->inputs[i].rank == 2 && step->inputs[i].dims[0] == DEPTH &&
                             memcmp(step->inputs[i].data, weights[k], sizeof weights[k]) == 0;
}

/* False where the plan is refused or does not run. */
static bool run(const Image *image, int64_t rows, bool watches, Results *results) {
    DemiError error = DEMI_ERROR_INIT;
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    DemiPlan *plan = NULL;
    DemiContext *context = NULL;
    const int64_t dims[] = {rows, DEPTH}, sides[] = {1, SIDE, SIDE, CHANNELS};
    const DemiData x = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, input);
    const DemiData pixels = DEMI_DATA_TENSOR(DEMI_FLOAT, 4, sides, picture);
    options.memory_budget = 1 << 21;
    options.threads = 1;
    options.step_limit = 100;
    bool ok = demi_plan_from_memory(image->data, image->size, &plan, &error) == DEMI_OK &&
              demi_context_new(plan, &options, &context, &error) == DEMI_OK &&
              (!watches || demi_context_watch(context, watch, results, &error) == DEMI_OK) &&
              demi_context_set_input(context, "x", &x, &error) == DEMI_OK &&
              demi_context_set_input(context, "image", &pixels, &error) == DEMI_OK &&
              demi_context_run(context, &error) == DEMI_OK;
    const DemiData *smaller = ok ? demi_context_output(context, PRODUCTS) : NULL;
    const int64_t want[] = {1, SMALLER, SMALLER, CHANNELS};
    if (smaller && smaller->dtype == DEMI_FLOAT && smaller->rank == 4 &&
        memcmp(smaller->dims, want, sizeof want) == 0)
        memcpy(results->smaller, smaller->data, sizeof results->smaller);
    for (size_t i = 0; ok && i < PRODUCTS; i++) {
        const DemiData *y = demi_context_output(context, i);
        if (y && y->dtype == DEMI_FLOAT && y->rank == 2 && y->dims[0] == rows &&
            y->dims[1] == COLUMNS)
            memcpy(results->y[i], y->data, (size_t)rows * COLUMNS * sizeof(float));
    }
    if (ok) results->peak = demi_context_peak(context);
    if (!ok) assert_true(error.message[0]);
    demi_context_free(context);
    demi_plan_free(plan);
    return ok;
}

static const PlanHeader *header_of(const Image *image) {
    return (const void *)image->data;
}

SET_UP {
    fill_numbers();
}

TEST(test_same_bits) {
    Image plain = make(PLAN_ISA_NONE);
    Results want = {.peak = 0};
    assert_int_equal(header_of(&plain)->sections[PLAN_PACKS].count, 0);
    assert_true(run(&plain, ROWS, false, &want));
    for (int isa = PLAN_ISA_PORTABLE; isa < PLAN_ISA_COUNT; isa++) {
        Image image = make((PlanIsa)isa);
        Results have = {.peak = 0};
        assert_int_equal(header_of(&image)->isa, isa);
        assert_int_equal(header_of(&image)->sections[PLAN_PACKS].count, 4);
        assert_true(run(&image, ROWS, false, &have));
        assert_memory_equal(want.y, have.y, sizeof want.y);
        assert_memory_equal(want.smaller, have.smaller, sizeof want.smaller);
        if (isa == (int)plan_isa_here()) /* two of three weights are read in place, and points */
            assert_true(have.peak + 2 * sizeof weights[0] + sizeof taps / 9 * 36 <= want.peak);
        free(image.data);
    }
    free(plain.data);
}

/* A single row, too, is multiplied by what is stored; of another layout the elements are made. */
TEST(test_single_row) {
    uint64_t peaks[PLAN_ISA_COUNT];
    for (int isa = PLAN_ISA_NONE; isa < PLAN_ISA_COUNT; isa++) {
        Image image = make((PlanIsa)isa);
        Results have = {.peak = 0};
        assert_true(run(&image, 1, false, &have));
        peaks[isa] = have.peak;
        for (int y = 0; y < PRODUCTS; y++)
            for (int n = 0; n < COLUMNS; n++) {
                double sum = y == 1 ? (double)weights[1][n] : 0;
                for (int k = 0; k < DEPTH; k++)
                    sum += (double)input[k] * (double)weights[y][k * COLUMNS + n];
                const double off = sum - (double)have.y[y][n];
                assert_true(off < 1e-3 && off > -1e-3);
            }
        free(image.data);
    }
    for (int isa = PLAN_ISA_PORTABLE; isa < PLAN_ISA_COUNT; isa++)
        if (isa != (int)plan_isa_here())
            assert_true(peaks[plan_isa_here()] + sizeof weights[0] <= peaks[isa]);
}

TEST(test_watched) {
    for (int isa = PLAN_ISA_NONE; isa < PLAN_ISA_COUNT; isa++) {
        Image image = make((PlanIsa)isa);
        Results have = {.peak = 0};
        assert_true(run(&image, ROWS, true, &have));
        assert_int_equal(have.seen, 5);
        free(image.data);
    }
}

/* Bytes of the header, values and packs, each bit of which may be another. */
TEST(test_flipped) {
    static const PlanSectionKind kinds[] = {PLAN_VALUES, PLAN_PACKS};
    Image image = make(plan_isa_here());
    Results ignored;
    unsigned refused = 0, tried = 0;
    for (int k = -1; k < 2; k++) {
        const PlanSection section = header_of(&image)->sections[k < 0 ? 0 : kinds[k]];
        const uint64_t item = k == 1 ? sizeof(PlanPack) : sizeof(PlanValue);
        const uint64_t from = k < 0 ? 0 : section.offset;
        const uint64_t end = k < 0 ? sizeof(PlanHeader) : from + section.count * item;
        for (uint64_t i = 8 * from; i < 8 * end; i++, tried++) {
            image.data[i / 8] ^= (unsigned char)(1u << i % 8);
            refused += !run(&image, ROWS, i & 1, &ignored);
            image.data[i / 8] ^= (unsigned char)(1u << i % 8);
        }
    }
    assert_true(refused > tried / 2);
    free(image.data);
}

/* Packs that are another value's, in another order, or too many; points in the constant's place, and
 * packed weights beside it. */
TEST(test_wrong_packs) {
    Image image = make(plan_isa_here());
    Results ignored;
    PlanPack *packs = (void *)(image.data + header_of(&image)->sections[PLAN_PACKS].offset);
    PlanValue *values = (void *)(image.data + header_of(&image)->sections[PLAN_VALUES].offset);
    const PlanPack kept[] = {packs[0], packs[1]};
    PlanValue *second = &values[packs[1].value];
    assert_true(run(&image, ROWS, false, &ignored));
    packs[0] = kept[1];
    assert_false(run(&image, ROWS, false, &ignored));
    packs[1] = kept[0];
    assert_false(run(&image, ROWS, false, &ignored));
    packs[0] = kept[0];
    packs[1] = kept[1];
    second->packed = 0;
    assert_false(run(&image, ROWS, false, &ignored));
    second->packed = 1;
    second->data = values[packs[0].value].data; /* two packs of the same bytes */
    assert_false(run(&image, ROWS, false, &ignored));
    second->data = packs[1].data;
    assert_true(run(&image, ROWS, false, &ignored));
    const PlanPack last[] = {packs[2], packs[3]};
    assert_int_equal(last[0].value, last[1].value);
    packs[3].data = last[0].data;
    assert_false(run(&image, ROWS, false, &ignored));
    packs[3] = last[1];
    packs[3].layout = last[0].layout;
    assert_false(run(&image, ROWS, false, &ignored));
    packs[3] = last[1];
    packs[2].layout = last[1].layout;
    assert_false(run(&image, ROWS, false, &ignored));
    packs[2] = last[0];
    packs[3].data = header_of(&image)->sections[PLAN_DATA].count;
    assert_false(run(&image, ROWS, false, &ignored));
    packs[3] = last[1];
    assert_true(run(&image, ROWS, false, &ignored));
    free(image.data);
}
