// SPDX-License-Identifier: Apache-2.0
/* Weights that are packed in the plan: results have the same bits for whatever instruction set they
 * are packed; those of this machine take no memory of their own; who reads elements, watches or has
 * other operands than declared sees the same numbers; and whatever a bit of such a plan says, it is
 * refused or runs within its memory (run under sanitizers). */
#define _GNU_SOURCE /* ftruncate, mkstemp */
#include "plan_make_test.h"

#include <stdio.h>
#include <unistd.h>

#include "demi_runtime.h"
#include "plan_own.h"
#include "work_progress.h"

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
    unsigned steps; /* watched */
    unsigned seen;  /* watched weights that were right */
} Results;

static void be_idle(void *user) {
    (void)user;
}

static void watch(void *user, const DemiStep *step) {
    Results *results = user;
    ProgressPiece pieces[PROGRESS_DEPTH];
    assert_int_equal(progress_pieces(pieces), 1);
    assert_string_equal(pieces[0].what, "running");
    assert_true(pieces[0].total == 6 && pieces[0].done == results->steps++);
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
    results->steps = 0;
    if (watches) progress_listen(be_idle, NULL);
    bool ok = demi_plan_from_memory(image->data, image->size, &plan, &error) == DEMI_OK &&
              demi_context_new(plan, &options, &context, &error) == DEMI_OK &&
              (!watches || demi_context_watch(context, watch, results, &error) == DEMI_OK) &&
              demi_context_set_input(context, "x", &x, &error) == DEMI_OK &&
              demi_context_set_input(context, "image", &pixels, &error) == DEMI_OK &&
              demi_context_run(context, &error) == DEMI_OK;
    progress_listen(NULL, NULL);
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

/* ---- constants that stay in a file ----------------------------------------------------------- */

enum { FILE_SIZE = 5 << 20, TABLE_ROWS = 600, TABLE_COLUMNS = 7 };

typedef struct Filed {
    const Source *source;
    uint64_t at;
    PlanRoom room;
} Filed;

static bool read_filed(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    const Filed *filed = data;
    return source_read(filed->source, filed->at + offset, buffer, size, err);
}

/* y = a table's rows i, the table being the file's bytes from `at` on. */
static void build_filed(PlanBuilder *b, Filed *filed) {
    const int64_t table[] = {TABLE_ROWS, TABLE_COLUMNS}, rows[] = {-1, TABLE_COLUMNS},
                  many[] = {-1};
    uint32_t i = add_value(b, "i", DTYPE_INT64, many, 1),
             y = add_value(b, "y", DTYPE_FLOAT, rows, 2);
    uint32_t w = add_value(b, "w", DTYPE_FLOAT, table, 2);
    plan_set_data(b, w, TABLE_ROWS * TABLE_COLUMNS * sizeof(float), read_filed, filed);
    plan_note_file(b, filed->source, filed->at);
    add_step(b, "Gather", plan_add_operands(b, (uint32_t[]){w, i}, 2), one(b, y), (PlanSpan){0});
    PlanGraph graph = {.inputs = one(b, i), .outputs = one(b, y), .steps = {0, 1}};
    Err err = {0};
    VEC_PUSH(b->arena, &b->graphs, graph);
    b->isa = PLAN_ISA_NONE;
    b->maps = true;
    assert_true(plan_pack(b, &err));
}

static bool write_filed(void *data, const void *bytes, size_t size, Err *err) {
    (void)err;
    return plan_room_write(&((Filed *)data)->room, bytes, size);
}

static void check_row(const DemiPlan *plan, const float *row, int64_t number) {
    DemiError error = DEMI_ERROR_INIT;
    DemiContext *context = NULL;
    const int64_t one_[] = {1};
    const DemiData i = DEMI_DATA_TENSOR(DEMI_INT64, 1, one_, &number);
    assert_int_equal(demi_context_new(plan, NULL, &context, &error), DEMI_OK);
    assert_int_equal(demi_context_set_input(context, "i", &i, &error), DEMI_OK);
    assert_int_equal(demi_context_run(context, &error), DEMI_OK);
    assert_memory_equal(demi_context_output(context, 0)->data, row, TABLE_COLUMNS * sizeof *row);
    demi_context_free(context);
}

/* Where elements are aligned the file is mapped, and read where it is; elsewhere they are copied. */
static void run_filed(Arena *arena, const Source *source, uint64_t at, const char *bytes) {
    Filed filed = {.source = source, .at = at};
    PlanBuilder b;
    Err err = {0};
    DemiError error = DEMI_ERROR_INIT;
    DemiPlan *plan = NULL;
    plan_builder_init(&b, arena);
    build_filed(&b, &filed);
    const bool stays = at % sizeof(float) == 0;
    assert_int_equal(b.files.count, stays);
    if (stays) assert_true(plan_room_map(&filed.room, plan_set_files(&b), b.files.items, 1, &err));
    assert_true(plan_write(&b, write_filed, &filed, &err));
    if (demi_plan_own(&filed.room, &plan, &error) != DEMI_OK) fail_msg("%s", error.message);
    assert_int_equal(demi_plan_verify(plan, &error), DEMI_OK);
    float row[TABLE_COLUMNS];
    memcpy(row, bytes + at + (size_t)(TABLE_ROWS - 1) * sizeof row, sizeof row);
    check_row(plan, row, TABLE_ROWS - 1);
    demi_plan_free(plan);
}

/* A value that reaches behind the last file, or lies where none is, is refused. */
static void refuse_filed(Arena *arena, const Source *source, uint64_t at, uint64_t move) {
    Filed filed = {.source = source, .at = at};
    PlanBuilder b;
    Err err = {0};
    DemiError error = DEMI_ERROR_INIT;
    DemiPlan *plan = NULL;
    plan_builder_init(&b, arena);
    build_filed(&b, &filed);
    assert_true(plan_room_map(&filed.room, plan_set_files(&b), b.files.items, 1, &err));
    for (size_t i = 0; i < b.values.count; i++)
        if (b.values.items[i].data != PLAN_NO_DATA) b.values.items[i].data += move;
    assert_true(plan_write(&b, write_filed, &filed, &err));
    assert_int_equal(demi_plan_own(&filed.room, &plan, &error), DEMI_ERR_MODEL);
    assert_null(plan);
}

TEST(test_files) {
    char path[512];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/demi-weights-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    char *bytes = malloc(FILE_SIZE);
    const uint64_t last = FILE_SIZE - TABLE_ROWS * TABLE_COLUMNS * sizeof(float);
    assert_true(fd >= 0 && bytes);
    for (size_t i = 0; i < FILE_SIZE; i++) bytes[i] = (char)(i * 37 >> 3 & 0x3f);
    assert_int_equal(write(fd, bytes, FILE_SIZE), FILE_SIZE);
    Arena arena;
    Err err = {0};
    arena_init(&arena, &test_trap);
    const Source *source = source_open(&arena, path, INT32_MAX, &err);
    assert_non_null(source);
    for (uint64_t at = 4000; at < 4008; at++) run_filed(&arena, source, at, bytes);
    run_filed(&arena, source, last, bytes);
    refuse_filed(&arena, source, last, 4);
    refuse_filed(&arena, source, 0, 2);
    refuse_filed(&arena, source, 0, (uint64_t)-4);
    assert_int_equal(ftruncate(fd, FILE_SIZE - 1), 0);
    const MappedFile gone = {source, PLAN_BLOCK};
    PlanRoom room = {.room = 0};
    assert_false(plan_room_map(&room, 100, &gone, 1, &err));
    assert_int_equal(err.code, ERR_MODEL);
    plan_file_close(&room.file);
    arena_free(&arena);
    free(bytes);
    close(fd);
    unlink(path);
}
