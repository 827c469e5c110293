// SPDX-License-Identifier: Apache-2.0
/* gemm.h: every instruction set the machine has against sums in double, at sizes around the tiles';
 * the same bits for any number of threads; loops against plain C. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"
#include "unit_test.h"
static uint32_t state = 1;
static uint32_t random_bits(void) {
    return state = state * 1664525u + 1013904223u;
}
static float random_float(void) {
    return (float)(random_bits() >> 8) / 8388608.0f - 1;
}

typedef struct Case {
    uint64_t batches, m, n, k;
    bool a_transposed, b_transposed, add, bias;
} Case;

static float *floats(Arena *arena, uint64_t count) {
    float *items = ARENA_ARRAY(arena, float, count + 1);
    for (uint64_t i = 0; i < count; i++) items[i] = random_float();
    return items;
}

static GemmMatrix matrix(const float *data, bool transposed, uint64_t rows, uint64_t columns) {
    return (GemmMatrix){
        .data = data, .row = transposed ? 1 : columns, .column = transposed ? rows : 1};
}

static const uint64_t *offsets(Arena *arena, uint64_t count, uint64_t step) {
    uint64_t *items = ARENA_ARRAY(arena, uint64_t, count);
    for (uint64_t i = 0; i < count; i++) items[i] = i * step;
    return items;
}

static void check(const Case *c, const GemmMatrices *g, const float *before) {
    for (uint64_t b = 0; b < c->batches; b++)
        for (uint64_t i = 0; i < c->m; i += (uint64_t)case_step())
            for (uint64_t j = 0; j < c->n; j++) {
                uint64_t at = (b * c->m + i) * c->n + j;
                double sum = c->add ? before[at] : c->bias ? g->bias[b % 2 * c->m + i] : 0;
                double size = fabs(sum) + 1;
                for (uint64_t k = 0; k < c->k; k++) {
                    const float *rows = g->a.data, *columns = g->b.data;
                    double x = (double)rows[g->a.offsets[b] + i * g->a.row + k * g->a.column] *
                               columns[g->b.offsets[b] + k * g->b.row + j * g->b.column];
                    sum += x;
                    size += fabs(x);
                }
                if (fabs(sum - g->c[at]) > 1e-6 * size)
                    fail_msg("%llux%llux%llu at %llu,%llu: %g, expected %g",
                             (unsigned long long)c->m, (unsigned long long)c->n,
                             (unsigned long long)c->k, (unsigned long long)i, (unsigned long long)j,
                             (double)g->c[at], sum);
            }
}

static const IsaSet by_matrices = UINT32_MAX; /* gemm_matrices, by its own choice */

/* The epilogue on tiles gives the bits that it gives on the whole result. */
static void check_epilogue(KernelCall *call, const Gemm *gemm, const float *before, IsaSet cpu) {
    const uint64_t out = gemm->batches * gemm->m * gemm->n;
    const Epilogue epilogue = {.bias = floats(call->scratch, gemm->n),
                               .residual = floats(call->scratch, out),
                               .residual_row = gemm->n,
                               .activation = ACTIVATION_RELU};
    float *want = arena_copy(call->scratch, gemm->c, out * sizeof(float));
    const EpilogueBlock whole = {want, gemm->n, 0, 0, gemm->batches * gemm->m, gemm->n};
    epilogue_apply(&epilogue, &whole);
    Gemm fused = *gemm;
    fused.epilogue = &epilogue;
    fused.c = arena_copy(call->scratch, before, out * sizeof(float));
    if (cpu != by_matrices)
        assert_true(gemm_run_on(call, &fused, cpu));
    else {
        const GemmMatrices g = {.batches = gemm->batches,
                                .m = gemm->m,
                                .n = gemm->n,
                                .k = gemm->k,
                                .a = *gemm->a,
                                .b = *(const GemmMatrix *)gemm->b,
                                .c = fused.c,
                                .add = gemm->add,
                                .bias = gemm->bias,
                                .bias_batches = gemm->bias_batches,
                                .epilogue = &epilogue};
        gemm_matrices(call, &g);
    }
    assert_memory_equal(fused.c, want, out * sizeof(float));
}

/* The matrix with its elements rounded to 16 bits; *wide is the same widened again. */
static GemmMatrix narrowed(Arena *arena, const GemmMatrix *m, uint64_t count, Dtype dtype,
                           GemmMatrix *wide) {
    uint16_t *narrow = ARENA_ARRAY(arena, uint16_t, count + 1);
    float *again = ARENA_ARRAY(arena, float, count + 1);
    GemmMatrix made = *m;
    reduced_convert_from_float(dtype, narrow, m->data, count);
    made.data = narrow;
    made.narrow = dtype;
    gemm_widen(&made, again, narrow, count);
    *wide = *m;
    wide->data = again;
    return made;
}

static void run_at(KernelCall *call, const GemmMatrices *g, IsaSet cpu) {
    const Gemm gemm = {.kind = GEMM_FLOAT,
                       .batches = g->batches,
                       .m = g->m,
                       .n = g->n,
                       .k = g->k,
                       .pack_b = gemm_pack_columns,
                       .a = &g->a,
                       .b = &g->b,
                       .b_matrix = &g->b,
                       .c = g->c,
                       .add = g->add,
                       .bias = g->bias,
                       .bias_batches = g->bias_batches};
    if (cpu == by_matrices)
        assert_true(gemm_matrices(call, g));
    else
        gemm_run_on(call, &gemm, cpu);
}

/* Either matrix in 16 bits, or both: the bits of the product of widened ones. */
static void check_narrow(KernelCall *call, const GemmMatrices *given, const float *before) {
    const uint64_t out = given->batches * given->m * given->n;
    for (int dtype = 0; dtype < 2; dtype++) {
        GemmMatrices wide = *given;
        Dtype type = dtype ? DTYPE_FLOAT16 : DTYPE_BFLOAT16;
        GemmMatrix a =
            narrowed(call->scratch, &given->a, given->batches * given->m * given->k, type, &wide.a);
        GemmMatrix b =
            narrowed(call->scratch, &given->b, given->batches * given->k * given->n, type, &wide.b);
        for (unsigned isa = ISA_PORTABLE; isa <= ISA_COUNT; isa++) {
            const IsaSet cpu = isa < ISA_COUNT ? isa_needs((Isa)isa) : by_matrices;
            if (isa < ISA_COUNT && !isa_runs((Isa)isa, isa_here())) continue;
            wide.c = arena_copy(call->scratch, before, out * sizeof(float));
            run_at(call, &wide, cpu);
            for (unsigned which = 1; which < 4; which++) {
                GemmMatrices narrow = wide;
                if (which & 1) narrow.a = a;
                if (which & 2) narrow.b = b;
                narrow.c = arena_copy(call->scratch, before, out * sizeof(float));
                run_at(call, &narrow, cpu);
                assert_memory_equal(narrow.c, wide.c, out * sizeof(float));
            }
        }
    }
}

static void run_case(KernelCall *call, const Case *c) {
    Arena *arena = call->scratch;
    uint64_t out = c->batches * c->m * c->n;
    const float *a = floats(arena, c->batches * c->m * c->k);
    const float *b = floats(arena, c->batches * c->k * c->n);
    const float *before = floats(arena, out), *bias = floats(arena, 2 * c->m);
    GemmMatrices g = {.batches = c->batches,
                      .m = c->m,
                      .n = c->n,
                      .k = c->k,
                      .a = matrix(a, c->a_transposed, c->m, c->k),
                      .b = matrix(b, c->b_transposed, c->k, c->n),
                      .add = c->add,
                      .bias = c->bias ? bias : NULL,
                      .bias_batches = 2};
    g.a.offsets = offsets(arena, c->batches, c->m * c->k);
    g.b.offsets = offsets(arena, c->batches, c->k * c->n);
    g.c = arena_copy(arena, before, out * sizeof(float));
    gemm_matrices(call, &g);
    check(c, &g, before);
    const Gemm whole = {.batches = c->batches,
                        .m = c->m,
                        .n = c->n,
                        .k = c->k,
                        .a = &g.a,
                        .b = &g.b,
                        .c = g.c,
                        .add = g.add,
                        .bias = g.bias,
                        .bias_batches = 2};
    check_epilogue(call, &whole, before, by_matrices);
    check_narrow(call, &g, before);
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        g.c = arena_copy(arena, before, out * sizeof(float));
        const Gemm gemm = {.kind = GEMM_FLOAT,
                           .batches = c->batches,
                           .m = c->m,
                           .n = c->n,
                           .k = c->k,
                           .pack_b = gemm_pack_columns,
                           .a = &g.a,
                           .b = &g.b,
                           .c = g.c,
                           .add = g.add,
                           .bias = g.bias,
                           .bias_batches = 2};
        if (!isa_runs(isa, isa_here())) continue;
        assert_true(gemm_run_on(call, &gemm, isa_needs(isa)));
        check(c, &g, before);
        check_epilogue(call, &gemm, before, isa_needs(isa));
    }
}

TEST(test_sizes) {
    static const uint64_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 17, 31, 47, 49, 97};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    Arena arena, whole; /* of a case; of all */
    arena_init(&arena, &test_trap);
    arena_init(&whole, &test_trap);
    KernelCall call = {.workers = workers_new(&whole, 2), .scratch = &arena};
    for (int i = 0; i < 400; i += case_step()) {
        uint32_t bits = random_bits() >> 8;
        const Case c = {.batches = 1 + bits % 3,
                        .m = sizes[random_bits() / 7 % COUNT],
                        .n = sizes[random_bits() / 7 % COUNT],
                        .k = sizes[random_bits() / 7 % COUNT],
                        .a_transposed = bits & 8,
                        .b_transposed = bits & 16,
                        .add = bits & 32,
                        .bias = bits & 64};
        run_case(&call, &c);
        arena_free(&arena);
    }
    const Case large[] = {{1, 70, 801, 513, false, false, false, true},
                          {2, 129, 390, 257, true, true, true, false},
                          {1, 3, 5, 0, false, false, false, true}};
    for (int i = 0; i < 3; i++) run_case(&call, &large[i]);
    arena_free(&arena);
    arena_free(&whole);
}

TEST(test_threads) {
    const float *a = floats(&test_arena, 200 * 600), *b = floats(&test_arena, 600 * 100);
    float *one = floats(&test_arena, 200 * 100), *many = floats(&test_arena, 200 * 100);
    GemmMatrices g = {.batches = 1,
                      .m = 200,
                      .n = 100,
                      .k = 600,
                      .a = matrix(a, false, 200, 600),
                      .b = matrix(b, false, 600, 100),
                      .c = one};
    for (unsigned threads = 1; threads < 6; threads++) {
        KernelCall call = {.workers = workers_new(&test_arena, threads), .scratch = &test_arena};
        g.c = threads == 1 ? one : many;
        gemm_matrices(&call, &g);
        if (threads > 1) assert_memory_equal(one, many, 200 * 100 * sizeof(float));
    }
}

/* Rows of int16 pairs, one lane after the other. */
static void pack_pairs(const void *source, const GemmBlock *block, void *to) {
    const uint32_t *pairs = source;
    for (uint64_t j = 0; j < block->lanes; j++)
        for (uint64_t k = 0; k < block->depth; k++) {
            uint64_t panel = j / block->width * block->depth + k;
            ((uint32_t *)to)[panel * block->width + j % block->width] =
                pairs[(block->lane + j) * 300 + block->k + k];
        }
}

static uint32_t half_of(uint32_t pair, int i) {
    return (uint32_t)(int32_t)(int16_t)(pair >> 16 * i);
}

TEST(test_pairs) {
    enum { M = 21, N = 70, K = 300 };
    uint32_t *a = ARENA_ARRAY(&test_arena, uint32_t, M * K),
             *b = ARENA_ARRAY(&test_arena, uint32_t, N * K);
    uint32_t *c = ARENA_ARRAY(&test_arena, uint32_t, M * N);
    for (int i = 0; i < M * K; i++) a[i] = random_bits();
    for (int i = 0; i < N * K; i++) b[i] = random_bits();
    a[0] = b[0] = 0x80008000u; /* the one sum of two products that int32 lacks */
    KernelCall call = {.workers = workers_new(&test_arena, 2), .scratch = &test_arena};
    const Gemm g = {.kind = GEMM_PAIRS,
                    .batches = 1,
                    .m = M,
                    .n = N,
                    .k = K,
                    .a = &(GemmMatrix){.data = (const void *)a, .row = K, .column = 1},
                    .pack_b = pack_pairs,
                    .b = b,
                    .c = c};
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        memset(c, 1, M * N * sizeof *c);
        if (!isa_runs(isa, isa_here())) continue;
        assert_true(gemm_run_on(&call, &g, isa_needs(isa)));
        for (int i = 0; i < M * N; i++) {
            uint32_t sum = 0;
            for (int k = 0; k < K; k++) {
                uint32_t x = a[i / N * K + k], y = b[i % N * K + k];
                sum += half_of(x, 0) * half_of(y, 0) + half_of(x, 1) * half_of(y, 1);
            }
            assert_int_equal(c[i], sum);
        }
    }
}

/* One loop's results in plain C and by an instruction set. */
typedef struct Both {
    float from[8192], wide[8192], want[4096], got[4096], x[4096];
} Both;

static void compare(const Both *b) {
    for (int i = 0; i < 4096; i++) assert_true(fabsf(b->want[i] - b->got[i]) <= 1e-4f);
}

static void try_matrices(Both *b, const GemmLoops *loops, uint64_t n) {
    const GemmLoops *plain = gemm_loops(0);
    memset(b->want, 0, sizeof b->want);
    memset(b->got, 0, sizeof b->got);
    plain->transpose(b->want, 50, b->from, 70, n % 49 + 1, n);
    loops->transpose(b->got, 50, b->from, 70, n % 49 + 1, n);
    assert_memory_equal(b->want, b->got, sizeof b->want);
    plain->dots(b->want, b->from, 71, b->x, 5, n);
    loops->dots(b->got, b->from, 71, b->x, 5, n);
    plain->gemv(b->want, b->from, 70, b->x, n % 23, n);
    loops->gemv(b->got, b->from, 70, b->x, n % 23, n);
    compare(b);
}

/* Matrices of 16 bit give the bits that their elements as floats give; nothing past them is read. */
static void try_narrow(Both *b, const GemmLoops *loops, bool half, uint64_t n) {
    const uint64_t rows = n % 23, count = rows ? (rows - 1) * 71 + n : 0;
    uint16_t *from = malloc(count * sizeof *from + 1); /* whose ends the sanitizers know */
    assert_non_null(from);
    if (half) {
        half_convert_from_float(from, b->from, count);
        half_convert_to_float(b->wide, from, count);
    } else {
        bfloat_convert_from_float(from, b->from, count);
        bfloat_convert_to_float(b->wide, from, count);
    }
    memset(b->want, 0, sizeof b->want);
    memset(b->got, 0, sizeof b->got);
    loops->dots(b->want, b->wide, 71, b->x, rows, n);
    (half ? loops->half_dots : loops->bfloat_dots)(b->got, from, 71, b->x, rows, n);
    loops->gemv(b->want, b->wide, 71, b->x, rows, n);
    (half ? loops->half_gemv : loops->bfloat_gemv)(b->got, from, 71, b->x, rows, n);
    assert_memory_equal(b->want, b->got, sizeof b->want);
    free(from);
}

TEST(test_loops) {
    static Both b;
    for (int i = 0; i < 8192; i++) b.from[i] = random_float();
    for (int i = 0; i < 4096; i++) b.x[i] = random_float();
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        const GemmLoops *loops = isa_runs(isa, isa_here()) ? gemm_loops(isa_needs(isa)) : NULL;
        for (uint64_t n = 1; loops && n < 70; n++) {
            try_matrices(&b, loops, n);
            try_narrow(&b, loops, true, n);
            try_narrow(&b, loops, false, n);
        }
    }
}
