// SPDX-License-Identifier: Apache-2.0
/* igemm.h: every instruction set the machine has against sums in double, at sizes around those of
 * tiles, panels, blocks and pieces, rows anywhere in memory, with all that may follow; the same bits
 * for any number of threads and any way to cut the product. */
#include <math.h>
#include <string.h>

#include "half.h"
#include "igemm.h"
#include "unit_test.h"

static uint32_t state = 1;
static uint32_t random_below(uint32_t end) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * end) >> 32);
}
static float *random_floats(Arena *arena, uint64_t count) {
    float *items = ARENA_ARRAY(arena, float, count + 1);
    for (uint64_t i = 0; i < count; i++)
        items[i] = (float)random_below(1 << 20) / (float)(1 << 19) - 1;
    return items;
}

/* Rows that lie in a shuffled order, some of them more than once. */
typedef struct Places {
    const float *const *at; /* [rows][taps] */
    uint64_t taps;
} Places;

static void find(const void *source, uint64_t first, uint32_t count, const void **to) {
    const Places *places = source;
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t t = 0; t < places->taps; t++)
            to[t * count + i] = places->at[(first + i) * places->taps + t];
}

typedef struct Case {
    uint64_t rows, taps, depth, columns;
    bool bias, residual, by_channel;
    Activation activation;
    uint64_t outputs; /* of a line; 0: rows lie anyhow */
    IgemmSteps steps;
} Case;

/* Pixels that lines of outputs see: [line][row of taps][width], as everywhere in no order. */
typedef struct Pixels {
    Places places; /* first: what igemm_channels has as its source */
    const float **at;
    uint64_t outputs, rows, width, step; /* rows of taps */
    const float *beyond;
} Pixels;

static void find_line(const void *source, uint64_t first, uint32_t columns, const void **to) {
    const Pixels *p = source;
    const uint64_t place = first % p->outputs * p->step;
    for (uint64_t r = 0; r < p->rows; r++)
        for (uint64_t j = 0; j < columns; j++) {
            const float **row = p->at + (first / p->outputs * p->rows + r) * p->width;
            to[r * columns + j] = place + j < p->width ? row[place + j] : p->beyond;
        }
}

static double activate(const Case *c, double x) {
    if (c->activation == ACTIVATION_RELU) return x < 0 ? 0 : x;
    if (c->activation == ACTIVATION_CLIP) return fmin(fmax(x, -0.5), 0.75);
    return c->activation == ACTIVATION_SIGMOID ? 1 / (1 + exp(-x)) : x;
}

typedef struct Given {
    Arena *arena;
    Igemm g;
    Pixels pixels;
    IgemmLines lines;
    IgemmWeights weights;
    Epilogue epilogue;
} Given;

/* What rows in lines see, by tap. */
static void lines_make(Given *given, const Case *c, const float *data, uint64_t pool) {
    Pixels *p = &given->pixels;
    const uint64_t taps = c->steps.taps, lines = (c->rows + c->outputs - 1) / c->outputs;
    p->outputs = c->outputs;
    p->step = c->steps.step;
    p->rows = c->taps / taps;
    p->width = (c->outputs - 1) * p->step + taps;
    p->beyond = data;
    p->at = ARENA_ARRAY(given->arena, const float *, lines * p->rows * p->width);
    for (uint64_t i = 0; i < lines * p->rows * p->width; i++)
        p->at[i] = data + random_below((uint32_t)pool) * c->columns;
    const float **at = ARENA_ARRAY(given->arena, const float *, c->rows * c->taps);
    for (uint64_t i = 0; i < c->rows * c->taps; i++) {
        const uint64_t row = i / c->taps, tap = i % c->taps;
        const float **line = p->at + (row / c->outputs * p->rows + tap / taps) * p->width;
        at[i] = line[row % c->outputs * p->step + tap % taps];
    }
    p->places = (Places){at, c->taps};
    given->lines = (IgemmLines){c->outputs, c->steps, find_line};
    given->g.lines = &given->lines;
}

static void given_make(Given *given, const Case *c) {
    Arena *arena = given->arena;
    const uint64_t pool = c->rows + 3, depth = c->by_channel ? c->columns : c->depth;
    const float *data = random_floats(arena, pool * depth);
    const float **at = ARENA_ARRAY(arena, const float *, c->rows * c->taps);
    for (uint64_t i = 0; i < c->rows * c->taps; i++)
        at[i] = data + random_below((uint32_t)pool) * depth;
    given->pixels.places = (Places){at, c->taps};
    given->weights =
        (IgemmWeights){IGEMM_FLOAT,  random_floats(arena, c->taps * c->depth * c->columns),
                       c->taps,      c->depth,
                       c->columns,   c->depth * c->columns,
                       c->columns,   1,
                       IGEMM_BY_RULE};
    given->epilogue = (Epilogue){.activation = c->activation, .p = -0.5f, .q = 0.75f};
    if (c->bias) given->epilogue.bias = random_floats(arena, c->columns);
    if (c->residual) given->epilogue.residual = random_floats(arena, c->rows * c->columns);
    given->epilogue.residual_row = c->columns;
    given->g = (Igemm){.rows = c->rows,
                       .taps = c->taps,
                       .depth = c->depth,
                       .columns = c->columns,
                       .find = find,
                       .source = &given->pixels,
                       .y = ARENA_ARRAY(arena, float, c->rows * c->columns + 1),
                       .y_row = c->columns,
                       .epilogue = &given->epilogue};
    if (c->outputs) lines_make(given, c, data, pool);
}

static void check(const Given *given, const Case *c) {
    const float guard = ((const float *)given->g.y)[c->rows * c->columns];
    assert_true(guard == 17);
    for (uint64_t r = 0; r < c->rows; r++)
        for (uint64_t n = 0; n < c->columns; n++) {
            double sum = 0, size = 1;
            for (uint64_t t = 0; t < c->taps; t++)
                for (uint64_t k = 0; k < c->depth; k++) {
                    const float *x = given->pixels.places.at[r * c->taps + t];
                    const double term =
                        (double)x[c->by_channel ? n : k] *
                        ((const float *)given->weights.data)[(t * c->depth + k) * c->columns + n];
                    sum += term;
                    size += fabs(term);
                }
            if (c->bias) sum += given->epilogue.bias[n];
            if (c->residual) sum += given->epilogue.residual[r * c->columns + n];
            const double want = activate(c, sum),
                         got = ((const float *)given->g.y)[r * c->columns + n];
            if (!(fabs(want - got) <= 1e-6 * size))
                fail_msg("%llu rows, %llu x %llu, %llu columns: at %llu, %llu %g, expected %g",
                         (unsigned long long)c->rows, (unsigned long long)c->taps,
                         (unsigned long long)c->depth, (unsigned long long)c->columns,
                         (unsigned long long)r, (unsigned long long)n, got, want);
        }
}

static void run_case(const Case *c, IsaSet cpu) {
    Arena arena;
    Err err = {0};
    arena_init(&arena, &test_trap);
    Given given = {.arena = &arena};
    given_make(&given, c);
    void *first = NULL;
    const IgemmWay other = (IgemmWay)(1 + random_below(IGEMM_WAY_COUNT - 1));
    for (int i = 0; i < (c->by_channel ? 2 : 3); i++) { /* by the rule, and in another way */
        KernelCall call = {.scratch = &arena, .err = &err};
        call.workers = workers_new(&arena, i ? 3 : 1);
        given.weights.way = given.g.way = i < 2 ? IGEMM_BY_RULE : other;
        char *packed = arena_alloc(&arena, igemm_packed_size(&given.weights, cpu) + 64);
        packed += 64 - (uintptr_t)packed % 64;
        igemm_pack(packed, &given.weights, cpu);
        given.g.weights = c->by_channel ? given.weights.data : packed;
        memset(given.g.y, 0, c->rows * c->columns * sizeof(float));
        ((float *)given.g.y)[c->rows * c->columns] = 17;
        assert_true(c->by_channel ? igemm_channels(&call, &given.g, cpu)
                                  : igemm_run(&call, &given.g, cpu));
        if (!first) {
            check(&given, c);
            first = arena_copy(&arena, given.g.y, c->rows * c->columns * sizeof(float) + 1);
        }
        assert_memory_equal(first, given.g.y, c->rows * c->columns * sizeof(float));
    }
    arena_free(&arena);
}

static void run_levels(const Case *c) {
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        if (isa_runs(isa, isa_here())) run_case(c, isa_needs(isa));
}

TEST(test_tiles) {
    for (uint64_t rows = 1; rows <= 26; rows++)
        for (uint64_t columns = 1; columns <= 130; columns += columns < 20 ? 3 : 17)
            run_levels(&(Case){.rows = rows, .taps = 2, .depth = 5, .columns = columns});
}

TEST(test_epilogues) {
    static const Activation kinds[] = {ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_CLIP,
                                       ACTIVATION_SIGMOID};
    for (int i = 0; i < 160; i += case_step())
        run_levels(&(Case){.rows = 1 + random_below(30),
                           .taps = 1 + random_below(9),
                           .depth = i & 8 ? 1 : 1 + random_below(40),
                           .columns = 1 + random_below(100),
                           .bias = i & 1,
                           .residual = i & 2,
                           .by_channel = (i & 8) != 0,
                           .activation = kinds[i / 16 % 4]});
}

/* Outputs side by side: lines that begin and end within what is computed together, or are longer. */
TEST(test_lines) {
    static const IgemmSteps steps[] = {{3, 1}, {3, 2}, {5, 1}, {5, 2},
                                       {7, 1}, {7, 2}, {9, 1}, {9, 2}};
    for (int i = 0; i < 160; i += case_step()) {
        const IgemmSteps s = steps[random_below(8)];
        assert_true(igemm_has_lines(s));
        run_levels(&(Case){.rows = 1 + random_below(60),
                           .taps = s.taps * (1 + random_below(5)),
                           .depth = 1,
                           .columns = 1 + random_below(i & 16 ? 20 : 100),
                           .bias = i & 4,
                           .residual = i & 8,
                           .by_channel = true,
                           .activation = i & 32 ? ACTIVATION_CLIP : ACTIVATION_SIGMOID,
                           .outputs = 1 + random_below(i & 64 ? 8 : 30),
                           .steps = s});
    }
    assert_false(igemm_has_lines((IgemmSteps){4, 1}));
    assert_false(igemm_has_lines((IgemmSteps){3, 3}));
}

/* Panels that are deeper than a piece, within a tap and over several; more rows than a block. */
TEST(test_pieces) {
    run_levels(&(Case){.rows = 7, .taps = 1, .depth = 13000, .columns = 65, .bias = true});
    run_levels(&(Case){.rows = 60, .taps = 3, .depth = 2500, .columns = 64, .residual = true});
    run_levels(&(Case){.rows = 13, .taps = 9, .depth = 700, .columns = 100});
    run_levels(&(Case){
        .rows = 1500, .taps = 4, .depth = 12, .columns = 70, .activation = ACTIVATION_RELU});
    run_levels(&(Case){.rows = 900, .taps = 9, .depth = 1, .columns = 77, .by_channel = true});
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Rows are int8 widened, or uint8; depth is in elements. */
static void run_bytes(const Case *c, IgemmKind kind, IsaSet cpu, Dtype to) {
    Arena arena;
    Err err = {0};
    arena_init(&arena, &test_trap);
    const uint64_t words = igemm_words(kind, c->depth), each = kind == IGEMM_QUADS ? 4 : 2;
    const uint64_t pool = c->rows + 3, size = pool * words * each;
    uint8_t *quads = arena_alloc(&arena, size + 8);
    int16_t *pairs = ARENA_ARRAY(&arena, int16_t, size + 8);
    const void **at = ARENA_ARRAY(&arena, const void *, c->rows * c->taps);
    int8_t *w = arena_alloc(&arena, c->taps * c->depth * c->columns + 1);
    for (uint64_t i = 0; i < size; i++) {
        quads[i] = (uint8_t)random_below(256);
        pairs[i] = (int16_t)((int)random_below(511) - 255);
    }
    for (uint64_t i = 0; i < c->taps * c->depth * c->columns; i++)
        w[i] = (int8_t)((int)random_below(256) - 128);
    for (uint64_t i = 0; i < c->rows * c->taps; i++) {
        const uint64_t place = random_below((uint32_t)pool) * words * each;
        at[i] = each == 4 ? (void *)(quads + place) : (void *)(pairs + place);
    }
    const Places places = {(const float *const *)at, c->taps};
    const IgemmWeights weights = {kind,       w,          c->taps,
                                  c->depth,   c->columns, c->depth * c->columns,
                                  c->columns, 1,          (IgemmWay)random_below(IGEMM_WAY_COUNT)};
    char *packed = arena_alloc(&arena, igemm_packed_size(&weights, cpu) + 64);
    packed += 64 - (uintptr_t)packed % 64;
    igemm_pack(packed, &weights, cpu);
    float *factor = random_floats(&arena, c->columns), *shift = random_floats(&arena, c->columns);
    int32_t *offset = ARENA_ARRAY(&arena, int32_t, c->columns);
    for (uint64_t n = 0; n < c->columns; n++) {
        offset[n] = (int32_t)random_below(4000) - 2000;
        factor[n] /= (float)(c->depth * c->taps) * 20;
    }
    uint8_t *z = arena_alloc(&arena, c->rows * c->columns + 1);
    for (uint64_t i = 0; i < c->rows * c->columns; i++) z[i] = (uint8_t)random_below(256);
    const IgemmByteSum sum = {z,     c->columns, random_below(2),        0.7f, -0.3f,
                              11.5f, -33,        (float)random_below(70)};
    const bool adds = to != DTYPE_FLOAT && c->residual;
    const bool by_rows = to == DTYPE_FLOAT && c->residual, moves = by_rows && random_below(2);
    float *more = random_floats(&arena, c->columns);
    float *rows[2] = {random_floats(&arena, c->rows), random_floats(&arena, c->rows)};
    if (by_rows) rows[random_below(2)][random_below((uint32_t)c->rows)] = NAN;
    const IgemmScale scale = {.factor = factor,
                              .shift = shift,
                              .offset = offset,
                              .zero = to == DTYPE_UINT8 ? 117 : 3,
                              .to = to,
                              .sum = adds ? &sum : NULL,
                              .row_factor = by_rows ? rows[0] : NULL,
                              .row_shift = moves ? rows[1] : NULL,
                              .column_shift = moves ? more : NULL};
    const Epilogue bounds = {.activation = ACTIVATION_CLIP, .p = -40, .q = 90};
    const size_t element = to == DTYPE_FLOAT ? 4 : 1;
    unsigned char *y = arena_alloc(&arena, c->rows * c->columns * element + 1);
    y[c->rows * c->columns * element] = 17;
    KernelCall call = {.scratch = &arena, .err = &err};
    const Igemm g = {.kind = kind,
                     .rows = c->rows,
                     .taps = c->taps,
                     .depth = words,
                     .columns = c->columns,
                     .find = find,
                     .source = &places,
                     .weights = packed,
                     .y = y,
                     .y_row = c->columns,
                     .epilogue = &bounds,
                     .scale = &scale,
                     .way = weights.way};
    assert_true(igemm_run(&call, &g, cpu));
    assert_int_equal(y[c->rows * c->columns * element], 17);
    for (uint64_t r = 0; r < c->rows; r++)
        for (uint64_t n = 0; n < c->columns; n++) {
            int64_t total = offset[n];
            for (uint64_t t = 0; t < c->taps; t++)
                for (uint64_t k = 0; k < c->depth; k++) {
                    const void *x = at[r * c->taps + t];
                    total += (each == 4 ? ((const uint8_t *)x)[k] : ((const int16_t *)x)[k]) *
                             w[(t * c->depth + k) * c->columns + n];
                }
            double v = (double)total * (double)factor[n] + (double)shift[n];
            if (by_rows)
                v = (double)total * (double)factor[n] * (double)rows[0][r] + (double)shift[n];
            if (moves) v += (double)rows[1][r] * (double)more[n];
            double slack = 0.5001; /* ties and float's error may go either way */
            if (adds) {
                const uint64_t place = r * c->columns + n;
                const bool tie = fabs(v - floor(v) - 0.5) < 1e-4;
                v = rint(fmin(fmax(v, (double)sum.low), (double)sum.high));
                v = 0.7 * v + 11.5 - 0.3 * (sum.is_signed ? (int8_t)z[place] : z[place]);
                slack += tie ? 0.7 : 0;
            }
            const unsigned char *got = y + (r * c->columns + n) * element;
            if (isnan(v)) {
                assert_true(isnan(*(const float *)(const void *)got));
                continue;
            }
            v = fmin(fmax(v, -40), 90);
            if (to == DTYPE_FLOAT) {
                assert_true(fabs(*(const float *)(const void *)got - v) <= 1e-4);
                continue;
            }
            const double least = to == DTYPE_INT8 ? -128 : 0, most = least + 255;
            const double want = fmin(fmax(v + scale.zero, least), most);
            const int value = to == DTYPE_INT8 ? (int8_t)*got : *got;
            if (!(fabs(value - want) <= slack)) fail_msg("%d, expected %g", value, want);
        }
    arena_free(&arena);
}

static void run_byte_levels(const Case *c, Dtype to) {
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_runs(isa, isa_here())) continue;
        run_bytes(c, IGEMM_PAIRS, isa_needs(isa), to);
        if (igemm_bytes_kind(isa_needs(isa)) == IGEMM_QUADS)
            run_bytes(c, IGEMM_QUADS, isa_needs(isa), to);
    }
}

TEST(test_bytes) {
    static const Dtype results[] = {DTYPE_UINT8, DTYPE_INT8, DTYPE_FLOAT};
    for (int i = 0; i < 300; i += case_step())
        run_byte_levels(&(Case){.rows = 1 + random_below(30),
                                .taps = 1 + random_below(9),
                                .depth = 1 + random_below(40),
                                .columns = 1 + random_below(150),
                                .residual = random_below(2)},
                        results[i % 3]);
    run_byte_levels(&(Case){.rows = 14, .taps = 9, .depth = 3000, .columns = 100}, DTYPE_UINT8);
    run_byte_levels(&(Case){.rows = 3, .taps = 1, .depth = 50001, .columns = 65}, DTYPE_INT8);
}

/* ---- bfloats --------------------------------------------------------------------------------- */

static uint16_t *random_bfloats(Arena *arena, uint64_t count) {
    uint16_t *items = ARENA_ARRAY(arena, uint16_t, count + 1);
    bfloat_convert_from_float(items, random_floats(arena, count), count);
    return items;
}

/* Sums are of floats, of as many terms as `size` says; then results are rounded once. */
static void check_bfloat(uint16_t bits, double want, double size) {
    const double got = (double)bfloat_to_float(bits);
    if (!(fabs(got - want) <= fabs(want) / 256 + size * 1e-6))
        fail_msg("%g, expected %g", got, want);
}

/* Rows lie anyhow, or evenly apart by `step` elements, one behind the other. */
static void run_bfloats(const Case *c, IsaSet cpu, uint64_t step) {
    Arena arena;
    Err err = {0};
    arena_init(&arena, &test_trap);
    const uint64_t pool = c->rows + 3;
    const uint64_t room = step ? (c->rows + c->taps) * step + c->depth : pool * c->depth;
    const uint16_t *x = random_bfloats(&arena, room);
    const uint16_t *w = random_bfloats(&arena, c->taps * c->depth * c->columns);
    const uint16_t *z = c->residual ? random_bfloats(&arena, c->rows * c->columns) : NULL;
    const void **at = ARENA_ARRAY(&arena, const void *, c->rows * c->taps);
    for (uint64_t i = 0; i < c->rows * c->taps; i++)
        at[i] = x + (step ? (i / c->taps + i % c->taps) * step
                          : random_below((uint32_t)pool) * c->depth);
    const Places places = {(const float *const *)at, c->taps};
    const IgemmWeights weights = {
        IGEMM_BFLOATS, w,          c->taps,
        c->depth,      c->columns, c->depth * c->columns,
        c->columns,    1,          (IgemmWay)random_below(IGEMM_WAY_COUNT)};
    char *packed = arena_alloc(&arena, igemm_packed_size(&weights, cpu) + 64);
    packed += 64 - (uintptr_t)packed % 64;
    igemm_pack(packed, &weights, cpu);
    Epilogue epilogue = {.activation = c->activation, .p = -0.5f, .q = 0.75f};
    if (c->bias) epilogue.bias = random_floats(&arena, c->columns);
    uint16_t *y = ARENA_ARRAY(&arena, uint16_t, c->rows * c->columns + 1);
    y[c->rows * c->columns] = 17;
    float *floats = ARENA_ARRAY(&arena, float, c->rows * c->columns);
    KernelCall call = {.scratch = &arena, .err = &err};
    const bool wide = !z && random_below(2);
    const Igemm g = {.kind = IGEMM_BFLOATS,
                     .rows = c->rows,
                     .taps = c->taps,
                     .depth = igemm_words(IGEMM_BFLOATS, c->depth),
                     .columns = c->columns,
                     .find = find,
                     .source = &places,
                     .weights = packed,
                     .y = wide ? (void *)floats : y,
                     .y_row = c->columns,
                     .epilogue = &epilogue,
                     .way = weights.way,
                     .z = z,
                     .wide = wide};
    assert_true(igemm_run(&call, &g, cpu));
    assert_int_equal(y[c->rows * c->columns], 17);
    for (uint64_t r = 0; r < c->rows; r++)
        for (uint64_t n = 0; n < c->columns; n++) {
            double sum = c->bias ? (double)epilogue.bias[n] : 0, size = 1;
            for (uint64_t t = 0; t < c->taps; t++)
                for (uint64_t k = 0; k < c->depth; k++) {
                    const uint16_t *row = at[r * c->taps + t];
                    const double term =
                        (double)bfloat_to_float(row[k]) *
                        (double)bfloat_to_float(w[(t * c->depth + k) * c->columns + n]);
                    sum += term;
                    size += fabs(term);
                }
            if (z) sum += (double)bfloat_to_float(z[r * c->columns + n]);
            const uint64_t at_y = r * c->columns + n;
            if (wide)
                assert_true(fabs((double)floats[at_y] - activate(c, sum)) <= size * 1e-6);
            else
                check_bfloat(y[at_y], activate(c, sum), size);
        }
    arena_free(&arena);
}

TEST(test_bfloats) {
    static const Activation activations[] = {ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_CLIP,
                                             ACTIVATION_SIGMOID};
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_runs(isa, isa_here()) || !igemm_has_bfloats(isa_needs(isa))) continue;
        for (int i = 0; i < 300; i += case_step()) {
            const uint64_t depth = 2 * (1 + random_below(i % 2 ? 20 : 200));
            run_bfloats(&(Case){.rows = 1 + random_below(40),
                                .taps = 1 + random_below(9),
                                .depth = depth,
                                .columns = 1 + random_below(150),
                                .bias = i & 4,
                                .residual = i & 8,
                                .activation = activations[i / 16 % 4]},
                        isa_needs(isa), i % 3 ? 0 : depth + 2 * random_below(3));
        }
        for (uint32_t i = 0; i < 64; i++) /* two panels at once */
            run_bfloats(&(Case){.rows = 1 + i % 2,
                                .taps = 1 + random_below(3),
                                .depth = 2 + 2 * random_below(40),
                                .columns = 100 + random_below(200),
                                .bias = i & 4,
                                .residual = i & 8,
                                .activation = activations[i / 16]},
                        isa_needs(isa), 0);
        run_bfloats(&(Case){.rows = 33, .taps = 9, .depth = 1402, .columns = 100, .bias = true},
                    isa_needs(isa), 0);
        run_bfloats(&(Case){.rows = 40, .taps = 1, .depth = 9010, .columns = 65}, isa_needs(isa),
                    9010);
    }
}

/* A NaN stays one, and what is too large becomes Inf, whatever follows; subnormals are 0. */
TEST(test_bfloats_special) {
    if (!igemm_has_bfloats(isa_here())) return;
    float from[] = {NAN, INFINITY, -INFINITY, 3.4e38f, 1e-40f, -0.0f, 1.00390625f, 1.01171875f};
    uint16_t y[8], want[8];
    const IgemmNarrow rows = {y, 8, 1, 8, 8}; /* nothing lies behind them */
    igemm_round_rows(&rows, from);
    from[4] = 0;
    bfloat_convert_from_float(want, from, 8);
    assert_memory_equal(y, want, sizeof y);
}

static void run_nan(IsaSet cpu) {
    const float x[] = {NAN, -0.0f}, w = 1;
    const float *at[] = {&x[0], &x[1]};
    const Places places = {at, 1};
    const IgemmWeights weights = {IGEMM_FLOAT, &w, 1, 1, 1, 1, 1, 1, IGEMM_BY_RULE};
    const Epilogue relu = {.activation = ACTIVATION_RELU};
    Arena arena;
    Err err = {0};
    arena_init(&arena, &test_trap);
    char *packed = arena_alloc(&arena, igemm_packed_size(&weights, cpu) + 64);
    packed += 64 - (uintptr_t)packed % 64;
    igemm_pack(packed, &weights, cpu);
    float y[2] = {1, 1};
    KernelCall call = {.scratch = &arena, .err = &err};
    const Igemm g = {.rows = 2,
                     .taps = 1,
                     .depth = 1,
                     .columns = 1,
                     .find = find,
                     .source = &places,
                     .weights = packed,
                     .y = y,
                     .y_row = 1,
                     .epilogue = &relu};
    assert_true(igemm_run(&call, &g, cpu));
    assert_true(isnan(y[0]) && y[1] == 0);
    arena_free(&arena);
}

TEST(test_nan) {
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        if (isa_runs(isa, isa_here())) run_nan(isa_needs(isa));
}
