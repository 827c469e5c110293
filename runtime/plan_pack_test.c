// SPDX-License-Identifier: Apache-2.0
/* Weights that are packed in the plan: results have the same bits for whatever instruction set they
 * are packed; those of this machine take no memory of their own; who reads elements, watches or has
 * other operands than declared sees the same numbers; and whatever a bit of such a plan says, it is
 * refused or runs within its memory (run under sanitizers). */
#include "plan_make_test.h"

#include "demi_runtime.h"

enum { ROWS = 3, DEPTH = 40, COLUMNS = 50, COUNT = DEPTH * COLUMNS, OUTPUTS = 3 };

static float weights[3][COUNT], input[ROWS * DEPTH];

static void fill_numbers(void) {
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < 3; k++) weights[k][i] = (float)((i * 7 + k) % 251 - 120) / 64;
    for (int i = 0; i < ROWS * DEPTH; i++) input[i] = (float)(i % 19 - 9) / 4;
}

/* y0 = x w0, y1 = x w1 + w1's first row, y2 = x w2: w1 is read by Gather as well, so that it stays as
 * it is. */
static void build(PlanBuilder *b, void *data) {
    static const int64_t first = 0;
    const int64_t square[] = {DEPTH, COLUMNS}, rows[] = {-1, DEPTH}, open[] = {-1, -1};
    uint32_t x = add_value(b, "x", DTYPE_FLOAT, rows, 2), w[3], y[OUTPUTS];
    uint32_t zero = add_value(b, "zero", DTYPE_INT64, NULL, 0);
    uint32_t row = add_value(b, "row", DTYPE_FLOAT, open, 1);
    uint32_t product = add_value(b, "product", DTYPE_FLOAT, open, 2);
    plan_set_data(b, zero, sizeof first, read_memory, (void *)(uintptr_t)&first);
    for (int i = 0; i < 3; i++) {
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
    PlanGraph graph = {
        .inputs = one(b, x), .outputs = plan_add_operands(b, y, OUTPUTS), .steps = {0, 5}};
    Err err = {0};
    VEC_PUSH(b->arena, &b->graphs, graph);
    b->isa = *(const PlanIsa *)data;
    assert_true(plan_pack(b, &err));
}

static Image make(PlanIsa isa) {
    return make_image(build, &isa);
}

typedef struct Results {
    float y[OUTPUTS][ROWS * COLUMNS];
    uint64_t peak;
    unsigned seen; /* watched weights that were right */
} Results;

static void watch(void *user, const DemiStep *step) {
    Results *results = user;
    for (size_t i = 0; i < step->input_count; i++)
        for (int k = 0; k < 3; k++)
            results->seen += step->inputs[i].rank == 2 && step->inputs[i].dims[0] == DEPTH &&
                             memcmp(step->inputs[i].data, weights[k], sizeof weights[k]) == 0;
}

/* False where the plan is refused or does not run. */
static bool run(const Image *image, int64_t rows, bool watches, Results *results) {
    DemiError error = DEMI_ERROR_INIT;
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    DemiPlan *plan = NULL;
    DemiContext *context = NULL;
    const int64_t dims[] = {rows, DEPTH};
    const DemiData x = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, input);
    options.memory_budget = 1 << 20;
    options.threads = 1;
    options.step_limit = 100;
    bool ok = demi_plan_from_memory(image->data, image->size, &plan, &error) == DEMI_OK &&
              demi_context_new(plan, &options, &context, &error) == DEMI_OK &&
              (!watches || demi_context_watch(context, watch, results, &error) == DEMI_OK) &&
              demi_context_set_input(context, "x", &x, &error) == DEMI_OK &&
              demi_context_run(context, &error) == DEMI_OK;
    for (size_t i = 0; ok && i < OUTPUTS; i++) {
        const DemiData *y = demi_context_output(context, i);
        if (y && y->rank == 2 && y->dims[0] == rows && y->dims[1] == COLUMNS)
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

static void test_same_bits(void **state) {
    (void)state;
    Image plain = make(PLAN_ISA_NONE);
    Results want = {.peak = 0};
    assert_int_equal(header_of(&plain)->sections[PLAN_PACKS].count, 0);
    assert_true(run(&plain, ROWS, false, &want));
    for (int isa = PLAN_ISA_PORTABLE; isa < PLAN_ISA_COUNT; isa++) {
        Image image = make((PlanIsa)isa);
        Results have = {.peak = 0};
        assert_int_equal(header_of(&image)->isa, isa);
        assert_int_equal(header_of(&image)->sections[PLAN_PACKS].count, 2);
        assert_true(run(&image, ROWS, false, &have));
        assert_memory_equal(want.y, have.y, sizeof want.y);
        if (isa == (int)plan_isa_here()) /* two of three weights are read in place */
            assert_true(have.peak + 2 * sizeof weights[0] <= want.peak);
        free(image.data);
    }
    free(plain.data);
}

/* A single row, too, is multiplied by what is stored; of another layout the elements are made. */
static void test_single_row(void **state) {
    (void)state;
    uint64_t peaks[PLAN_ISA_COUNT];
    for (int isa = PLAN_ISA_NONE; isa < PLAN_ISA_COUNT; isa++) {
        Image image = make((PlanIsa)isa);
        Results have = {.peak = 0};
        assert_true(run(&image, 1, false, &have));
        peaks[isa] = have.peak;
        for (int y = 0; y < OUTPUTS; y++)
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

static void test_watched(void **state) {
    (void)state;
    for (int isa = PLAN_ISA_NONE; isa < PLAN_ISA_COUNT; isa++) {
        Image image = make((PlanIsa)isa);
        Results have = {.peak = 0};
        assert_true(run(&image, ROWS, true, &have));
        assert_int_equal(have.seen, 4);
        free(image.data);
    }
}

/* Bytes of the header, values and packs, each bit of which may be another. */
static void test_flipped(void **state) {
    static const PlanSectionKind kinds[] = {PLAN_VALUES, PLAN_PACKS};
    (void)state;
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

/* Packs that are another value's, in another order, or too many. */
static void test_wrong_packs(void **state) {
    (void)state;
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
    free(image.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),   cmocka_unit_test(test_single_row),
        cmocka_unit_test(test_watched),     cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_wrong_packs),
    };
    fill_numbers();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
