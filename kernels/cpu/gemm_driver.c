// SPDX-License-Identifier: Apache-2.0
/* Blocks, threads and buffers of gemm.h.
 *
 * A task is a strip of columns of one batch, and of its rows all or a part. It goes over k in
 * blocks of GEMM_DEPTH: B's block is packed once, then panel after panel of A is packed (it stays
 * in the L1 cache) and run against it. Buffers are made before the threads start, as scratch memory
 * is not to be touched within parallel regions; a task writes elements of C that no other one does.
 */
#include <omp.h>

#include "gemm.h"

enum { STRIP = 384, ROWS_LEAST = 32, ALIGN_ELEMENTS = 16 };

static const double WORK_PER_THREAD =
    60000; /* multiply-adds; starting threads costs microseconds */

/* The level's kernels use instructions that its name does not promise. */
static IsaLevel usable(IsaLevel level) {
#if defined(__x86_64__) || defined(__i386__)
    bool fma = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
    if (level == ISA_AVX512 && fma && __builtin_cpu_supports("bmi2")) return ISA_AVX512;
    if ((level == ISA_AVX512 || level == ISA_AVX2) && fma) return ISA_AVX2;
#else
    (void)level;
#endif
    return ISA_PORTABLE;
}

const GemmIsa *gemm_isa(GemmKind kind, IsaLevel level) {
    if (!isa_supported(level)) return NULL;
    level = usable(level);
    if (level == ISA_AVX512) return gemm_isa_avx512(kind);
    return level == ISA_AVX2 ? gemm_isa_avx2(kind) : gemm_isa_portable(kind);
}

const GemmLoops *gemm_loops(IsaLevel level) {
    if (!isa_supported(level)) return NULL;
    level = usable(level);
    if (level == ISA_AVX512) return gemm_loops_avx512();
    return level == ISA_AVX2 ? gemm_loops_avx2() : gemm_loops_portable();
}

unsigned gemm_threads(const KernelCall *call, double work, uint64_t tasks) {
    double most = work / WORK_PER_THREAD;
    unsigned threads = call->threads ? call->threads : 1;
    if (threads > most) threads = most < 1 ? 1 : (unsigned)most;
    return threads > tasks ? (tasks ? (unsigned)tasks : 1) : threads;
}

/* How a product is cut into tasks. */
typedef struct Cut {
    const Gemm *gemm;
    const GemmIsa *isa;
    const GemmLoops *loops;
    uint64_t strip, strips; /* columns of one, and how many */
    uint64_t rows, parts;   /* rows of one part, and how many */
    uint64_t tasks;
    uint32_t width;  /* of B's panels */
    uint64_t buffer; /* 4-byte elements of a thread's buffers */
} Cut;

static uint64_t div_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}
static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void cut_rows(Cut *cut, unsigned threads) {
    const Gemm *g = cut->gemm;
    uint64_t wanted = 4 * (uint64_t)threads;
    uint64_t have = cut->strips * g->batches, most = div_up(g->m, ROWS_LEAST);
    cut->parts = 1;
    if (threads > 1 && have < wanted) cut->parts = least(div_up(wanted, have), most);
    cut->rows = div_up(div_up(g->m, cut->parts), cut->isa->rows) * cut->isa->rows;
    cut->parts = div_up(g->m, cut->rows);
}

static Cut cut_make(const Gemm *g, IsaLevel level, unsigned threads) {
    Cut cut = {.gemm = g, .isa = gemm_isa(g->kind, level), .loops = gemm_loops(level)};
    cut.width = cut.isa->vecs * cut.isa->lanes;
    uint64_t panels = div_up(g->n, cut.width);
    uint64_t strips = div_up(panels * cut.width, STRIP); /* of about one size each */
    cut.strip = div_up(panels, strips) * cut.width;
    cut.strips = div_up(g->n, cut.strip);
    cut_rows(&cut, threads);
    cut.tasks = g->batches * cut.strips * cut.parts;
    uint64_t depth = least(g->k, GEMM_DEPTH);
    cut.buffer = depth * (cut.strip + cut.isa->rows) + 2 * GEMM_SLACK + 2 * ALIGN_ELEMENTS;
    return cut;
}

typedef struct Strip {
    const Cut *cut;
    uint64_t batch, column, columns, row, row_end;
    uint32_t *a, *b; /* buffers */
} Strip;

/* A panel of B and the columns of C that are its; `last` says that C ends with it. A last vector of
 * few columns is turned where the instruction set has that. */
static void run_panel(const Strip *strip, GemmTile *tile, bool last) {
    const GemmIsa *isa = strip->cut->isa;
    uint32_t vecs = (tile->columns - 1) / isa->lanes, rest = tile->columns - vecs * isa->lanes;
    if (!last || rest > isa->turned_most) {
        isa->tiles[tile->rows - 1][vecs](tile);
        return;
    }
    tile->columns = vecs * isa->lanes;
    if (vecs) isa->tiles[tile->rows - 1][vecs - 1](tile);
    tile->columns = rest;
    tile->b = (const uint32_t *)tile->b + vecs * isa->lanes;
    tile->c = (uint32_t *)tile->c + vecs * isa->lanes;
    isa->turned(tile);
}

static void run_panels(const Strip *strip, const GemmTile *base) {
    const Cut *cut = strip->cut;
    for (uint64_t j = 0; j < strip->columns; j += cut->width) {
        GemmTile tile = *base;
        tile.columns = (uint32_t)least(strip->columns - j, cut->width);
        tile.b = strip->b + j * base->depth;
        tile.c = (uint32_t *)base->c + j;
        run_panel(strip, &tile, strip->column + j + tile.columns == cut->gemm->n);
    }
}

static void run_depth(const Strip *strip, uint64_t k, uint64_t depth) {
    const Cut *cut = strip->cut;
    const Gemm *g = cut->gemm;
    GemmBlock block = {.batch = strip->batch,
                       .k = k,
                       .depth = depth,
                       .lane = strip->column,
                       .lanes = strip->columns,
                       .width = cut->width,
                       .loops = cut->loops};
    g->pack_b(g->b, &block, strip->b);
    block.width = cut->isa->rows;
    for (uint64_t i = strip->row; i < strip->row_end; i += block.width) {
        uint32_t rows = (uint32_t)least(strip->row_end - i, block.width);
        block.lane = i;
        block.lanes = rows;
        g->pack_a(g->a, &block, strip->a);
        GemmTile tile = {
            .depth = depth, .a = strip->a, .c_row = g->n, .rows = rows, .add = g->add || k > 0};
        if (g->bias)
            tile.bias = (const uint32_t *)g->bias + (strip->batch % g->bias_batches) * g->m + i;
        tile.c = (uint32_t *)g->c + (strip->batch * g->m + i) * g->n + strip->column;
        run_panels(strip, &tile);
    }
}

static void run_task(const Cut *cut, uint64_t task, uint32_t *buffer) {
    const Gemm *g = cut->gemm;
    uint64_t part = task % cut->parts, strip = task / cut->parts % cut->strips;
    Strip s = {.cut = cut,
               .batch = task / cut->parts / cut->strips,
               .row = part * cut->rows,
               .column = strip * cut->strip};
    s.columns = least(g->n - s.column, cut->strip);
    s.row_end = least(s.row + cut->rows, g->m);
    uintptr_t misaligned = (uintptr_t)buffer % 64 / 4;
    s.a = buffer + (misaligned ? ALIGN_ELEMENTS - misaligned : 0);
    s.b = s.a + div_up(least(g->k, GEMM_DEPTH) * cut->isa->rows + GEMM_SLACK, ALIGN_ELEMENTS) *
                    ALIGN_ELEMENTS;
    for (uint64_t k = 0; k < g->k; k += GEMM_DEPTH) run_depth(&s, k, least(g->k - k, GEMM_DEPTH));
}

/* k == 0: the sum of nothing. */
static void fill_bias(const Gemm *g) {
    uint32_t *c = g->c;
    for (uint64_t i = 0; !g->add && i < g->batches * g->m; i++)
        for (uint64_t j = 0; j < g->n; j++) {
            uint64_t at = i / g->m % (g->bias ? g->bias_batches : 1) * g->m + i % g->m;
            c[i * g->n + j] = g->bias ? ((const uint32_t *)g->bias)[at] : 0;
        }
}

bool gemm_run_level(KernelCall *call, const Gemm *g, IsaLevel level) {
    if (!gemm_isa(g->kind, level)) return false;
    if (!g->batches || !g->m || !g->n) return true;
    if (!g->k) {
        fill_bias(g);
        return true;
    }
    double work = (double)g->batches * (double)g->m * (double)g->n * (double)g->k;
    unsigned threads = gemm_threads(call, work, UINT64_MAX);
    const Cut cut = cut_make(g, level, threads);
    if (threads > cut.tasks) threads = (unsigned)cut.tasks;
    uint32_t *buffers = ARENA_ARRAY(call->scratch, uint32_t, cut.buffer * threads);
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
    for (uint64_t task = 0; task < cut.tasks; task++)
        run_task(&cut, task, buffers + cut.buffer * (unsigned)omp_get_thread_num());
    return true;
}

void gemm_run(KernelCall *call, const Gemm *gemm) {
    gemm_run_level(call, gemm, isa_best());
}
