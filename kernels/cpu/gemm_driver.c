// SPDX-License-Identifier: Apache-2.0
/* Blocks, threads and buffers of gemm.h.
 *
 * A task is a strip of columns of one batch, and of its rows all or a part. It goes over k in
 * blocks of GEMM_DEPTH: B's block is packed once, then a few rows of A after the other (they stay in
 * the L1 cache) run against it; rows of an A that is turned are copied first. Buffers are made before
 * the threads start, as scratch memory is not to be touched within parallel regions; a task writes
 * elements of C that no other one does.
 */
#include <omp.h>

#include "gemm.h"

enum { STRIP = 192, STRIP_LEAST = 96, ROWS_LEAST = 64, ALIGN_ELEMENTS = 16 };
enum { CACHE_LINE = 64, AHEAD_LINES = 16 };

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
    bool copies;     /* A's rows are copied: they are turned */
    uint64_t a_size, rest_size, buffer; /* 4-byte elements of a thread's buffers, and of all */
} Cut;

static uint64_t div_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}
static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Narrower strips first: more parts of the rows pack the same of B again. */
static void cut_tasks(Cut *cut, unsigned threads) {
    const Gemm *g = cut->gemm;
    uint64_t panels = div_up(g->n, cut->width), columns = panels * cut->width;
    uint64_t wanted = threads > 1 ? 4 * (uint64_t)threads : 1;
    uint64_t strips = least(div_up(wanted, g->batches), div_up(columns, STRIP_LEAST));
    uint64_t fewest = div_up(columns, STRIP);
    if (strips < fewest) strips = fewest;
    cut->strip = div_up(panels, strips) * cut->width; /* of about one size each */
    cut->strips = div_up(g->n, cut->strip);
    uint64_t have = cut->strips * g->batches, most = div_up(g->m, ROWS_LEAST);
    cut->parts = have < wanted ? least(div_up(wanted / 2, have), most) : 1;
    if (!cut->parts) cut->parts = 1;
    cut->rows = div_up(div_up(g->m, cut->parts), cut->isa->rows) * cut->isa->rows;
    cut->parts = div_up(g->m, cut->rows);
    cut->tasks = g->batches * cut->strips * cut->parts;
}

static uint64_t aligned(uint64_t elements) {
    return div_up(elements, ALIGN_ELEMENTS) * ALIGN_ELEMENTS;
}

static Cut cut_make(const Gemm *g, IsaLevel level, unsigned threads) {
    Cut cut = {.gemm = g, .isa = gemm_isa(g->kind, level), .loops = gemm_loops(level)};
    cut.width = cut.isa->vecs * cut.isa->lanes;
    cut_tasks(&cut, threads);
    uint64_t depth = least(g->k, GEMM_DEPTH);
    cut.copies = g->a->column != 1 && g->k > 1;
    cut.a_size = cut.copies ? aligned(depth * cut.isa->rows + GEMM_SLACK) : 0;
    cut.rest_size = aligned(depth * cut.isa->turned_most + GEMM_SLACK);
    cut.buffer = cut.a_size + cut.rest_size + depth * cut.strip + GEMM_SLACK + ALIGN_ELEMENTS;
    return cut;
}

/* Memory that is wanted next, fetched a few cache lines at a time while sums are made. */
typedef struct Ahead {
    const char *from;
    uint64_t row, rows; /* bytes between rows; rows left */
    uint64_t size, at;  /* bytes of a row, and how many of the first have been fetched */
} Ahead;

static void fetch_ahead(Ahead *ahead, uint64_t lines) {
    for (; lines && ahead->rows; lines--) {
        __builtin_prefetch(ahead->from + ahead->at, 0, 2);
        ahead->at += CACHE_LINE;
        if (ahead->at < ahead->size) continue;
        ahead->at = 0;
        ahead->from += ahead->row;
        ahead->rows--;
    }
}

typedef struct Strip {
    const Cut *cut;
    uint64_t batch, column, columns, row, row_end;
    uint32_t *a, *b, *last; /* buffers */
    uint32_t rest;          /* columns of the last vector, turned in `last`; 0: they are not */
    Ahead next_a, next_b;   /* the next rows, and the next block */
    uint64_t lines;         /* of next_b for each panel of some rows */
} Strip;

/* A panel of B and the columns of C that are its. A last vector of few columns has been turned. */
static void run_panel(const Strip *strip, GemmTile *tile, bool last) {
    const GemmIsa *isa = strip->cut->isa;
    uint32_t rest = last ? strip->rest : 0, columns = tile->columns - rest;
    tile->columns = columns;
    if (columns) isa->tiles[tile->rows - 1][(columns - 1) / isa->lanes](tile);
    if (!rest) return;
    tile->columns = rest;
    tile->b = strip->last;
    tile->b_column = tile->depth;
    tile->c = (uint32_t *)tile->c + columns;
    isa->turned(tile);
}

static void run_panels(Strip *strip, const GemmTile *base) {
    const Cut *cut = strip->cut;
    for (uint64_t j = 0; j < strip->columns; j += cut->width) {
        GemmTile tile = *base;
        tile.columns = (uint32_t)least(strip->columns - j, cut->width);
        tile.b = strip->b + j * base->depth;
        tile.c = (uint32_t *)base->c + j;
        run_panel(strip, &tile, j + tile.columns == strip->columns);
        fetch_ahead(&strip->next_a, AHEAD_LINES);
        fetch_ahead(&strip->next_b, strip->lines);
    }
}

/* B's next block: of the same strip, or the first of the strip behind it. */
static Ahead block_ahead(const Strip *strip, uint64_t k) {
    const Gemm *g = strip->cut->gemm;
    const GemmMatrix *b = g->b_matrix;
    uint64_t column = strip->column, columns = strip->columns;
    if (!b || b->column != 1) return (Ahead){0};
    if (k == g->k) {
        k = 0;
        column += strip->cut->strip;
        columns = column < g->n ? least(g->n - column, strip->cut->strip) : 0;
    }
    if (!columns) return (Ahead){0};
    const float *from = b->data + (b->offsets ? b->offsets[strip->batch] : 0) + k * b->row + column;
    return (Ahead){.from = (const char *)from,
                   .row = b->row * sizeof *from,
                   .rows = least(g->k - k, GEMM_DEPTH),
                   .size = columns * sizeof *from};
}

/* What is to be fetched while the tiles of a block are computed: in parts of equal size. */
static void plan_ahead(Strip *strip, uint64_t k) {
    const Cut *cut = strip->cut;
    strip->next_b = block_ahead(strip, k);
    uint64_t lines = strip->next_b.rows * div_up(strip->next_b.size, CACHE_LINE);
    uint64_t tiles = div_up(strip->row_end - strip->row, cut->isa->rows) *
                     div_up(strip->columns, cut->width);
    strip->lines = div_up(lines, tiles);
}

static void pack_b(Strip *strip, const GemmBlock *block) {
    const Cut *cut = strip->cut;
    const GemmIsa *isa = cut->isa;
    cut->gemm->pack_b(cut->gemm->b, block, strip->b);
    uint64_t in_panel = (strip->columns - 1) % cut->width;
    uint32_t rest = (uint32_t)(in_panel % isa->lanes + 1);
    strip->rest = rest <= isa->turned_most ? rest : 0;
    if (!strip->rest) return;
    uint64_t panel = strip->columns - 1 - in_panel, lane = in_panel + 1 - rest;
    cut->loops->transpose((float *)strip->last, block->depth,
                          (const float *)strip->b + panel * block->depth + lane, cut->width,
                          block->depth, rest);
}

/* What is done to some rows of a strip when their sums are made. */
static void run_epilogue(const Strip *strip, uint64_t row, uint64_t rows, float *c) {
    const Gemm *g = strip->cut->gemm;
    Epilogue epilogue = *g->epilogue;
    if (epilogue.residual) epilogue.residual += strip->batch * g->m * g->n;
    epilogue_apply(&epilogue, &(EpilogueBlock){.y = c,
                                               .y_row = g->n,
                                               .row = row,
                                               .column = strip->column,
                                               .rows = rows,
                                               .columns = strip->columns});
}

static void run_depth(Strip *strip, uint64_t k, uint64_t depth) {
    const Cut *cut = strip->cut;
    const Gemm *g = cut->gemm;
    GemmBlock block = {.batch = strip->batch,
                       .k = k,
                       .depth = depth,
                       .lane = strip->column,
                       .lanes = strip->columns,
                       .width = cut->width,
                       .loops = cut->loops};
    pack_b(strip, &block);
    plan_ahead(strip, k + depth);
    const float *a = g->a->data + (g->a->offsets ? g->a->offsets[strip->batch] : 0) + k;
    for (uint64_t i = strip->row; i < strip->row_end; i += cut->isa->rows) {
        uint32_t rows = (uint32_t)least(strip->row_end - i, cut->isa->rows);
        GemmTile tile = {.depth = depth,
                         .a = a + i * g->a->row,
                         .a_row = g->a->row,
                         .c_row = g->n,
                         .rows = rows,
                         .add = g->add || k > 0};
        if (cut->copies) {
            block.lane = i;
            block.lanes = rows;
            gemm_copy_rows(g->a, &block, (float *)strip->a);
            tile.a = strip->a;
            tile.a_row = depth;
        }
        if (g->bias)
            tile.bias = (const uint32_t *)g->bias + (strip->batch % g->bias_batches) * g->m + i;
        tile.c = (uint32_t *)g->c + (strip->batch * g->m + i) * g->n + strip->column;
        strip->next_a = (Ahead){.from = (const char *)(a + (i + rows) * g->a->row),
                                .row = g->a->row * sizeof *a,
                                .rows = least(strip->row_end - i - rows, cut->isa->rows),
                                .size = depth * sizeof *a};
        run_panels(strip, &tile);
        if (g->epilogue && k + depth == g->k) run_epilogue(strip, i, rows, tile.c);
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
    s.last = s.a + cut->a_size;
    s.b = s.last + cut->rest_size;
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
    if (g->epilogue)
        epilogue_apply(g->epilogue,
                       &(EpilogueBlock){g->c, g->n, 0, 0, g->batches * g->m, g->n});
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
