// SPDX-License-Identifier: Apache-2.0
/* weight_product.h: every instruction set the machine has against sums in double: sizes around those
 * of vectors, panels, words and blocks, blocks longer than the depth, few rows and many, zero
 * points, scales that are no numbers; the same bits for any number of threads. And MatMulBits with
 * weights that are constant or not, and what it refuses. */
#include "weight_bytes.h"
#include "weight_product.h"

#include <math.h>

#include "kernel_case_test.h"

enum { BLOCKS_MOST = 700 };

static uint32_t state = 1;
static uint32_t random_below(uint32_t end) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * end) >> 32);
}
static float random_float(void) {
    return (float)random_below(1 << 20) / (float)(1 << 19) - 1;
}

typedef struct Given {
    WeightShape shape;
    uint64_t rows, bytes; /* bytes: of a block */
    uint8_t *weights;
    float *scales, *zeros, *x, *bias, *residual; /* zeros to residual may be NULL */
    float *rounded;                              /* x by way of int8; NULL: x is not rounded */
    int32_t *order;                              /* g_idx; NULL: none */
} Given;

static float *floats(Arena *arena, uint64_t count) {
    float *items = ARENA_ARRAY(arena, float, count + 1);
    for (uint64_t i = 0; i < count; i++) items[i] = random_float();
    return items;
}

static Given given_make(Arena *arena, const WeightShape *sizes, uint64_t rows) {
    Given g = {.shape = *sizes, .rows = rows};
    WeightShape *shape = &g.shape;
    if (!shape->stored) shape->stored = shape->bits;
    shape->blocks = shape->k / shape->block + (shape->k % shape->block != 0);
    g.bytes = (shape->block * shape->stored + 7) / 8;
    const uint64_t factors = shape->n * shape->blocks, count = factors * g.bytes;
    g.weights = ARENA_ARRAY(arena, uint8_t, count + 1);
    for (uint64_t i = 0; i < count; i++) g.weights[i] = (uint8_t)random_below(256);
    g.scales = floats(arena, factors);
    g.x = floats(arena, rows * shape->k);
    if (random_below(2)) g.bias = floats(arena, shape->n);
    if (random_below(2)) g.residual = floats(arena, rows * shape->n);
    if (random_below(2)) {
        g.zeros = floats(arena, factors);
        for (uint64_t i = 0; i < factors; i++)
            g.zeros[i] = (float)random_below(1u << shape->stored);
        if (factors && !random_below(4)) g.zeros[random_below((uint32_t)factors)] -= 0.25F;
    }
    return g;
}

/* x, each part of a block as int8 of its own scale. */
static void given_round(Arena *arena, Given *g) {
    const WeightShape *shape = &g->shape;
    g->rounded = ARENA_ARRAY(arena, float, g->rows * shape->k + 1);
    for (uint64_t r = 0; r < g->rows; r++)
        for (uint64_t first = 0, end; first < shape->k; first = end) {
            const float *x = g->x + r * shape->k;
            const uint64_t begin = first / shape->block * shape->block;
            const uint64_t part = begin + ((first - begin) / WEIGHT_PART + 1) * WEIGHT_PART;
            end = part < begin + shape->block ? part : begin + shape->block;
            end = end < shape->k ? end : shape->k;
            float peak = 0, nothing = 0;
            for (uint64_t k = first; k < end; k++) {
                peak = fabsf(x[k]) > peak ? fabsf(x[k]) : peak;
                nothing += 0 * x[k];
            }
            for (uint64_t k = first; k < end; k++)
                g->rounded[r * shape->k + k] = isnan(nothing) ? NAN
                                               : peak > 0
                                                   ? rintf(x[k] * (127 / peak)) * (peak / 127)
                                                   : 0;
        }
}

/* Of its scale and zero point. */
static uint64_t factor_of(const Given *g, uint64_t k, uint64_t n) {
    const WeightShape *shape = &g->shape;
    return n * shape->blocks + (g->order ? (uint64_t)g->order[k] : k / shape->block);
}

static double weight_of(const Given *g, uint64_t k, uint64_t n) {
    const WeightShape *shape = &g->shape;
    const uint64_t factor = factor_of(g, k, n), at = k % shape->block, each = 8 / shape->stored;
    const uint8_t *block = g->weights + (n * shape->blocks + k / shape->block) * g->bytes;
    const int item = block[at / each] >> at % each * shape->stored & ((1 << shape->stored) - 1);
    const double middle = weight_middle(shape->stored);
    return (item - (g->zeros ? (double)g->zeros[factor] : middle));
}

static void check_one(const Given *g, uint64_t r, uint64_t n, double got) {
    const WeightShape *shape = &g->shape;
    const float *x = (g->rounded ? g->rounded : g->x) + r * shape->k;
    double sum = 0, size = 1;
    double parts[BLOCKS_MOST] = {0}; /* of blocks, as a scale may be infinite */
    assert_true(shape->blocks <= BLOCKS_MOST);
    for (uint64_t k = 0; k < shape->k; k++) {
        const uint64_t factor = factor_of(g, k, n);
        const double term = weight_of(g, k, n) * (double)x[k];
        parts[factor - n * shape->blocks] += term;
        size += fabs(term * (double)g->scales[factor]);
    }
    for (uint64_t b = 0; b < shape->blocks; b++)
        sum += parts[b] * (double)g->scales[n * shape->blocks + b];
    if (g->bias) sum += (double)g->bias[n];
    if (g->residual) sum += (double)g->residual[r * shape->n + n];
    if (isnan(sum)   ? !isnan(got)
        : isinf(sum) ? !isinf(got) && !isnan(got)
                     : !(fabs(sum - got) <= 1e-6 * size))
        fail_msg("%u bits, %llu rows of %llu, blocks of %llu, %llu columns: at %llu, %llu %g, "
                 "expected %g",
                 shape->bits, (unsigned long long)g->rows, (unsigned long long)shape->k,
                 (unsigned long long)shape->block, (unsigned long long)shape->n,
                 (unsigned long long)r, (unsigned long long)n, got, sum);
}

static void check(const Given *g, const float *y) {
    for (uint64_t r = 0; r < g->rows; r++)
        for (uint64_t n = 0; n < g->shape.n; n++) check_one(g, r, n, (double)y[r * g->shape.n + n]);
}

/* ---- instruction sets ------------------------------------------------------------------------ */

static void *aligned(Arena *arena, uint64_t size) {
    char *memory = arena_alloc(arena, size + 64);
    return memory + (64 - (uintptr_t)memory % 64);
}

static void run_on(const Given *g, IsaSet cpu) {
    Arena arena;
    Err err = {0};
    arena_init(&arena, &test_trap);
    uint64_t panel, size, factors;
    assert_true(weight_packed_size(&g->shape, &panel, &size));
    assert_true(weight_factors_count(&g->shape, &factors));
    void *data = aligned(&arena, size);
    float *scales = aligned(&arena, factors * sizeof *scales), *zeros = NULL;
    weight_pack(&g->shape, g->weights, data);
    weight_pack_factors(&g->shape, g->scales, 0, scales);
    if (g->zeros) zeros = aligned(&arena, factors * sizeof *zeros);
    if (zeros) weight_pack_factors(&g->shape, g->zeros, g->shape.bits == 4 ? 8 : 128, zeros);
    uint8_t *zero_bytes = g->zeros && random_below(2) ? aligned(&arena, factors) : NULL;
    if (zero_bytes && !weight_pack_zeros(&g->shape, g->zeros, zero_bytes)) zero_bytes = NULL;
    const Epilogue epilogue = {
        .bias = g->bias, .residual = g->residual, .residual_row = g->shape.n};
    const uint64_t count = g->rows * g->shape.n;
    float *first = NULL;
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        KernelCall call = {.scratch = &arena, .err = &err};
        call.workers = workers_new(&arena, threads);
        float *y = ARENA_ARRAY(&arena, float, count + 1);
        y[count] = 17;
        const WeightProduct p = {.shape = g->shape,
                                 .cpu = cpu,
                                 .data = data,
                                 .factors = {.scales = scales,
                                             .zeros = zero_bytes ? NULL : zeros,
                                             .zero_bytes = zero_bytes},
                                 .x = g->x,
                                 .rows = g->rows,
                                 .bytes = g->rounded != NULL,
                                 .y = y,
                                 .epilogue = &epilogue};
        if (!weight_product_run(&call, &p)) fail_msg("%s", err.what);
        assert_true(y[count] == 17);
        check(g, y);
        if (first) assert_memory_equal(first, y, count * sizeof *y);
        first = y;
    }
    arena_free(&arena);
}

static uint64_t random_size(void) {
    static const uint64_t sizes[] = {1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 128, 130, 257};
    return sizes[random_below(sizeof sizes / sizeof *sizes)];
}

/* A part of nothing but zeros; an element that is no number. */
static void spoil(Given *g, int i) {
    const uint64_t at = random_below((uint32_t)g->rows) * g->shape.k;
    for (uint64_t k = 0; k < g->shape.k && k < g->shape.block; k++) g->x[at + k] = 0;
    if (i % 9 == 0) g->x[random_below((uint32_t)(g->rows * g->shape.k))] = i % 2 ? NAN : HUGE_VALF;
}

static void try_all(int i) {
    static const uint64_t blocks[] = {1, 3, 8, 12, 16, 32, 64, 128, 200, 300};
    Arena arena;
    arena_init(&arena, &test_trap);
    const WeightShape shape = {.bits = random_below(2) ? 4 : 8,
                               /* gemm.h's blocks of depth begin within those of weights, too */
                               .k = i < 2        ? 0
                                    : i % 8 == 3 ? 500 + random_below(100)
                                                 : random_size(),
                               .n = random_size(),
                               .block = blocks[random_below(10)]};
    const uint64_t rows = i == 2 ? 0 : random_below(4) ? 1 + random_below(10) : random_size();
    Given g = given_make(&arena, &shape, i % 8 == 3 ? 20 + random_below(40) : rows);
    if (shape.k && i % 10 == 5) g.scales[random_below((uint32_t)(shape.n * g.shape.blocks))] = NAN;
    if (shape.k && i % 10 == 6)
        g.scales[random_below((uint32_t)(shape.n * g.shape.blocks))] = HUGE_VALF;
    if (i % 3 == 0 && g.rows && g.shape.k) spoil(&g, i);
    if (i % 2 || random_below(4) == 0) given_round(&arena, &g);
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        if (isa_runs(isa, isa_here())) run_on(&g, isa_needs(isa));
    arena_free(&arena);
}

TEST(test_all) {
    for (int i = 0; i < 240; i++) try_all(i);
}

/* ---- the operator ---------------------------------------------------------------------------- */

static KernelCase c;

/* An input or the result, of dims that live as long as the case. */
static const int64_t *dims3(int64_t first, int64_t second, int64_t third) {
    return arena_copy(&c.arena, CASE_DIMS(first, second, third), 3 * sizeof first);
}
static void add_input(uint32_t rank, const int64_t *dims, const float *data) {
    if (data)
        case_in(&c, DTYPE_FLOAT, rank, dims, data);
    else
        case_omit(&c);
}

static void begin(const Given *g, const bool *constant) {
    const WeightShape *shape = &g->shape;
    const int64_t n = (int64_t)shape->n, blocks = (int64_t)shape->blocks, rows = (int64_t)g->rows;
    case_begin_in(&c, "demi.fused", "MatMulBits", 1);
    add_input(2, dims3(rows, (int64_t)shape->k, 0), g->x);
    case_in(&c, DTYPE_UINT8, 3, dims3(n, blocks, (int64_t)g->bytes), g->weights);
    add_input(1, dims3(n, 0, 0), g->bias);
    add_input(2, dims3(rows, n, 0), g->residual);
    add_input(2, dims3(n, blocks, 0), g->scales);
    add_input(2, dims3(n, blocks, 0), g->zeros);
    case_out(&c, DTYPE_FLOAT, 2, dims3(rows, n, 0));
    case_int(&c, "K", (int64_t)shape->k);
    case_int(&c, "bits", shape->bits);
    case_int(&c, "block_size", (int64_t)shape->block);
    c.call.constant = constant;
}

static void try_operator(int i) {
    Arena arena;
    arena_init(&arena, &test_trap);
    const WeightShape shape = {.bits = random_below(2) ? 4 : 8,
                               .k = i % 20 ? random_size() : 0,
                               .n = random_size(),
                               .block = 1 + random_below(40)};
    const Given g = given_make(&arena, &shape, 1 + random_below(4));
    const bool all = random_below(2);
    const bool constant[6] = {false, random_below(2), all, false, random_below(2), all};
    begin(&g, constant);
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    check(&g, c.outputs[0].data);
    case_end(&c);
    arena_free(&arena);
}

TEST(test_operator) {
    for (int i = 0; i < 60; i++) try_operator(i);
}

/* com.microsoft's: zero points packed, or floats, or none; lists of factors or matrices. */
static void begin_nbits(Given *g, bool lists, bool packed) {
    const WeightShape *shape = &g->shape;
    const int64_t n = (int64_t)shape->n, blocks = (int64_t)shape->blocks, rows = (int64_t)g->rows;
    const int64_t each = 8 / shape->stored, bytes = (blocks + each - 1) / each;
    case_begin_in(&c, "com.microsoft", "MatMulNBits", 1);
    add_input(2, dims3(rows, (int64_t)shape->k, 0), g->x);
    case_in(&c, DTYPE_UINT8, 3, dims3(n, blocks, (int64_t)g->bytes), g->weights);
    add_input(lists ? 1 : 2, lists ? dims3(n * blocks, 0, 0) : dims3(n, blocks, 0), g->scales);
    if (g->zeros && packed) {
        uint8_t *zeros = ARENA_ARRAY(&c.arena, uint8_t, (uint64_t)(n * bytes) + 1);
        for (int64_t i = 0; i < n * blocks; i++) {
            const int number = (int)g->zeros[i], at = (int)(i % blocks);
            zeros[i / blocks * bytes + at / each] |=
                (uint8_t)(number << at % each * (int)shape->stored);
        }
        case_in(&c, DTYPE_UINT8, lists ? 1 : 2, lists ? dims3(n * bytes, 0, 0) : dims3(n, bytes, 0),
                zeros);
    } else {
        add_input(lists ? 1 : 2, lists ? dims3(n * blocks, 0, 0) : dims3(n, blocks, 0), g->zeros);
    }
    if (g->order)
        case_in(&c, DTYPE_INT32, 1, dims3((int64_t)shape->k, 0, 0), g->order);
    else
        case_omit(&c);
    add_input(1, dims3(n, 0, 0), g->bias);
    case_out(&c, DTYPE_FLOAT, 2, dims3(rows, n, 0));
    case_int(&c, "K", (int64_t)shape->k);
    case_int(&c, "N", n);
    case_int(&c, "bits", shape->stored);
    case_int(&c, "block_size", (int64_t)shape->block);
}

/* Each depth to a block that has room. */
static void shuffle(Arena *arena, Given *g) {
    const WeightShape *shape = &g->shape;
    g->order = ARENA_ARRAY(arena, int32_t, shape->k + 1);
    for (uint64_t k = 0; k < shape->k; k++) g->order[k] = (int32_t)(k / shape->block);
    for (uint64_t k = 0; k + 1 < shape->k; k++) {
        const uint64_t other = k + random_below((uint32_t)(shape->k - k));
        const int32_t was = g->order[k];
        g->order[k] = g->order[other];
        g->order[other] = was;
    }
}

static void try_nbits(int i) {
    Arena arena;
    arena_init(&arena, &test_trap);
    const uint32_t stored = 2u << random_below(3);
    const WeightShape shape = {.bits = stored == 8 ? 8 : 4,
                               .stored = stored,
                               .k = random_size(),
                               .n = random_size(),
                               .block = 16u << random_below(5)};
    Given g = given_make(&arena, &shape, 1 + random_below(4));
    const bool constant[6] = {false, i % 2, i % 3, i % 5, true, false};
    const int64_t level = random_below(5);
    g.residual = NULL;
    const bool packed = random_below(2);
    for (uint64_t b = 0; packed && g.zeros && b < shape.n * g.shape.blocks; b++)
        g.zeros[b] = floorf(g.zeros[b]) > 0 ? floorf(g.zeros[b]) : 0;
    if (random_below(3) == 0) shuffle(&arena, &g);
    begin_nbits(&g, random_below(2), packed);
    case_int(&c, "accuracy_level", g.order ? 0 : level);
    c.call.faithful = random_below(2);
    if (level == 4 && !c.call.faithful && !g.order) given_round(&arena, &g);
    c.call.constant = constant;
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    check(&g, c.outputs[0].data);
    case_end(&c);
    arena_free(&arena);
}

static void refuses_nbits(Given *g, uint32_t input, const char *attr, const char *says) {
    begin_nbits(g, false, true);
    if (attr) case_int(&c, attr, 7);
    if (input)
        c.inputs[input] =
            case_tensor(&c, input == 4 ? DTYPE_INT32 : DTYPE_UINT8, 1, dims3(3, 0, 0), NULL);
    assert_false(case_run(&c));
    if (!strstr(c.err.what, says)) fail_msg("%s", c.err.what);
    case_end(&c);
}

TEST(test_nbits) {
    for (int i = 0; i < 120; i++) try_nbits(i);
    const WeightShape shape = {.bits = 4, .k = 40, .n = 6, .block = 16};
    Given g = given_make(&test_arena, &shape, 2);
    refuses_nbits(&g, 4, NULL, "g_idx is not constant");
    refuses_nbits(&g, 3, NULL, "do not have 3 blocks");
    refuses_nbits(&g, 0, "N", "does not have N columns");
    refuses_nbits(&g, 0, "weight_prepacked", "weight_prepacked");
}

static void refuses(const Given *g, const char *attr, int64_t value, const char *says) {
    begin(g, NULL);
    case_int(&c, attr, value);
    assert_false(case_run(&c));
    assert_non_null(strstr(c.err.what, says));
    case_end(&c);
}

TEST(test_refusals) {
    const WeightShape shape = {.bits = 4, .k = 20, .n = 6, .block = 8};
    const Given g = given_make(&test_arena, &shape, 2);
    refuses(&g, "bits", 3, "weights of 3 bits");
    refuses(&g, "bits", 8, "do not have 3 blocks");
    refuses(&g, "block_size", 0, "blocks of 0 weights");
    refuses(&g, "block_size", INT64_MIN, "blocks of -");
    refuses(&g, "block_size", 10, "do not have 2 blocks");
    refuses(&g, "K", 21, "do not have K elements");
    refuses(&g, "K", -1, "do not have K elements");
    begin(&g, NULL);
    c.inputs[4].dims = dims3(3, 6, 0);
    assert_false(case_run(&c));
    case_end(&c);
}
