// SPDX-License-Identifier: Apache-2.0
/* Blocks, threads and buffers of gemm.h.
 *
 * A thread's share are columns next to each other, or rows, of one batch or more: always the same
 * ones, so that what the step before left in its cache is where it is needed. It goes over them in
 * strips of columns, and over k in blocks of GEMM_DEPTH: B's block is packed once, then a few rows
 * of A after the other (they stay in the L1 cache) run against it; rows of an A that is transposed are
 * copied first. Buffers are made before the threads start; no two threads write one element of C.
 */
#include "gemm.h"

#include "kernel_parts.h"
#include "simd.h"

enum { STRIP = 192, ALIGN_ELEMENTS = 16 };
enum { CACHE_LINE = 64, AHEAD_LINES = 16 };

/* How many of a blocked product's multiply-adds take the time of one elsewhere. */
static const double BLOCKED_SPEED = 4;

#define SIMD_OFFERS gemm_floats
#include "simd_offers.inc"
#define SIMD_OFFERS gemm_pairs
#include "simd_offers.inc"
#define SIMD_OFFERS gemm_loops
#include "simd_offers.inc"

const GemmIsa *gemm_isa(GemmKind kind, IsaSet cpu) {
    return isa_pick(kind == GEMM_FLOAT ? gemm_floats_offers : gemm_pairs_offers, cpu);
}

const GemmLoops *gemm_loops(IsaSet cpu) {
    return isa_pick(gemm_loops_offers, cpu);
}

static uint64_t div_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}
static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static uint64_t aligned(uint64_t elements) {
    return div_up(elements, ALIGN_ELEMENTS) * ALIGN_ELEMENTS;
}

/* How a product is shared out: in units of a vector of columns or a tile's rows. */
typedef struct Partition {
    const Gemm *gemm;
    const GemmIsa *isa;
    const GemmLoops *loops;
    unsigned shares;
    bool by_rows;
    uint64_t unit, in_batch, units;     /* its columns or rows; units of a batch, and of all */
    uint32_t width;                     /* of B's panels */
    bool copies;                        /* A's rows are copied: they are transposed, or narrow */
    uint64_t a_size, rest_size, buffer; /* 4-byte elements of a thread's buffers, and of all */
    const KernelCall *call;
} Partition;

static void partition_units(Partition *part, bool by_rows) {
    const Gemm *g = part->gemm;
    part->by_rows = by_rows;
    part->unit = by_rows ? part->isa->rows : part->isa->lanes;
    part->in_batch = div_up(by_rows ? g->m : g->n, part->unit);
    part->units = part->in_batch * g->batches;
}

/* Rows times columns of the largest share; packing B costs as much as some rows do. */
static double partition_cost(const Partition *part, unsigned threads) {
    enum { PACK_ROWS = 6 };
    const Gemm *g = part->gemm;
    double largest = (double)div_up(part->units, threads) * (double)part->unit;
    if (!part->by_rows) return largest * (double)(g->m + PACK_ROWS);
    double packed = PACK_ROWS * (1 + largest / (double)g->m);
    return (largest + packed) * (double)g->n;
}

static Partition partition_make(const Gemm *g, IsaSet cpu, unsigned threads) {
    Partition part = {.gemm = g, .isa = gemm_isa(g->kind, cpu), .loops = gemm_loops(cpu)};
    part.width = part.isa->vecs * part.isa->lanes;
    partition_units(&part, true);
    double by_rows = partition_cost(&part, threads);
    partition_units(&part, false);
    if (by_rows < partition_cost(&part, threads)) partition_units(&part, true);
    part.shares = (unsigned)least(threads, part.units);
    uint64_t depth = least(g->k, GEMM_DEPTH);
    part.copies = (g->a->column != 1 && g->k > 1) || g->a->narrow;
    part.a_size = part.copies ? aligned(depth * part.isa->rows + GEMM_SLACK) : 0;
    part.rest_size = aligned(depth * part.isa->transposed_most + GEMM_SLACK);
    uint64_t strip = least(div_up(g->n, part.width) * part.width, STRIP);
    part.buffer = aligned(part.a_size + part.rest_size + depth * strip + GEMM_SLACK);
    return part;
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
    const Partition *part;
    uint64_t batch, row, row_end;
    uint64_t column, columns, column_end; /* of the strip; of the share, in this batch */
    uint32_t *a, *b, *last;               /* buffers */
    uint32_t rest;        /* columns of the last vector, transposed in `last`; 0: they are not */
    Ahead next_a, next_b; /* the next rows, and the next block */
    uint64_t lines;       /* of next_b for each panel of some rows */
    unsigned lane;
    uint64_t asked; /* multiply-adds since it was last asked whether the run has ended */
} Strip;

/* A panel of B and the columns of C that are its. A last vector of few columns has been transposed. */
static void run_panel(const Strip *strip, GemmTile *tile, bool last) {
    const GemmIsa *isa = strip->part->isa;
    uint32_t rest = last ? strip->rest : 0, columns = tile->columns - rest;
    tile->columns = columns;
    if (columns) isa->tiles[tile->rows - 1][(columns - 1) / isa->lanes](tile);
    if (!rest) return;
    tile->columns = rest;
    tile->b = strip->last;
    tile->b_column = tile->depth;
    tile->c = (uint32_t *)tile->c + columns;
    isa->transposed(tile);
}

/* The tile is changed in place: a copy of what was just written piece by piece would wait for it.
 */
static void run_panels(Strip *strip, GemmTile *tile) {
    const Partition *part = strip->part;
    uint32_t *c = tile->c;
    for (uint64_t j = 0; j < strip->columns; j += part->width) {
        tile->columns = (uint32_t)least(strip->columns - j, part->width);
        tile->b = strip->b + j * tile->depth;
        tile->c = c + j;
        run_panel(strip, tile, j + tile->columns == strip->columns);
        fetch_ahead(&strip->next_a, AHEAD_LINES);
        fetch_ahead(&strip->next_b, strip->lines);
    }
    tile->c = c;
}

/* B's next block: of the same strip, or the first of the strip behind it. */
static Ahead block_ahead(const Strip *strip, uint64_t k) {
    const Gemm *g = strip->part->gemm;
    const GemmMatrix *b = g->b_matrix;
    uint64_t column = strip->column, columns = strip->columns;
    if (!b || b->column != 1) return (Ahead){0};
    if (k == g->k) {
        k = 0;
        column += columns;
        columns = least(strip->column_end - column, columns);
    }
    if (!columns) return (Ahead){0};
    const size_t element = gemm_element(b);
    return (Ahead){.from = gemm_start(b, strip->batch) + (k * b->row + column) * element,
                   .row = b->row * element,
                   .rows = least(g->k - k, GEMM_DEPTH),
                   .size = columns * element};
}

/* What is to be fetched while the tiles of a block are computed: in parts of equal size. */
static void plan_ahead(Strip *strip, uint64_t k) {
    const Partition *part = strip->part;
    strip->next_b = block_ahead(strip, k);
    uint64_t lines = strip->next_b.rows * div_up(strip->next_b.size, CACHE_LINE);
    uint64_t tiles =
        div_up(strip->row_end - strip->row, part->isa->rows) * div_up(strip->columns, part->width);
    strip->lines = div_up(lines, tiles);
}

static void pack_b(Strip *strip, const GemmBlock *block) {
    const Partition *part = strip->part;
    const GemmIsa *isa = part->isa;
    part->gemm->pack_b(part->gemm->b, block, strip->b);
    uint64_t in_panel = (strip->columns - 1) % part->width;
    uint32_t rest = (uint32_t)(in_panel % isa->lanes + 1);
    strip->rest = rest <= isa->transposed_most ? rest : 0;
    if (!strip->rest) return;
    uint64_t panel = strip->columns - 1 - in_panel, lane = in_panel + 1 - rest;
    part->loops->transpose((float *)strip->last, block->depth,
                           (const float *)strip->b + panel * block->depth + lane, part->width,
                           block->depth, rest);
}

/* What is done to some rows of a strip when their sums are made. */
static void run_epilogue(const Strip *strip, uint64_t row, uint64_t rows, float *c) {
    const Gemm *g = strip->part->gemm;
    Epilogue epilogue = *g->epilogue;
    if (epilogue.residual) epilogue.residual += strip->batch * g->m * g->n;
    epilogue_apply(&epilogue, &(EpilogueBlock){.y = c,
                                               .y_row = g->n,
                                               .row = row,
                                               .column = strip->column,
                                               .rows = rows,
                                               .columns = strip->columns});
}

/* Behind so many multiply-adds, whether there is no more to do as the run has ended: asked every
 * millisecond or so. */
static bool ended_behind(Strip *strip, uint64_t work) {
    enum { WORK_BETWEEN = 1 << 24 };
    strip->asked += work;
    if (strip->asked < WORK_BETWEEN) return false;
    strip->asked = 0;
    return kernel_ended(strip->part->call, strip->lane);
}

/* False where the run has ended. */
static bool run_depth(Strip *strip, uint64_t k, uint64_t depth) {
    const Partition *part = strip->part;
    const Gemm *g = part->gemm;
    GemmBlock block = {.batch = strip->batch,
                       .k = k,
                       .depth = depth,
                       .lane = strip->column,
                       .lanes = strip->columns,
                       .width = part->width,
                       .loops = part->loops};
    pack_b(strip, &block);
    plan_ahead(strip, k + depth);
    const size_t element = gemm_element(g->a);
    const char *a = gemm_start(g->a, strip->batch) + k * element;
    for (uint64_t i = strip->row; i < strip->row_end; i += part->isa->rows) {
        uint32_t rows = (uint32_t)least(strip->row_end - i, part->isa->rows);
        GemmTile tile = {.depth = depth,
                         .a = a + i * g->a->row * element,
                         .a_row = g->a->row,
                         .c_row = g->n,
                         .rows = rows,
                         .add = g->add || k > 0};
        if (part->copies) {
            block.lane = i;
            block.lanes = rows;
            gemm_copy_rows(g->a, &block, (float *)strip->a);
            tile.a = strip->a;
            tile.a_row = depth;
        }
        if (g->bias)
            tile.bias = (const uint32_t *)g->bias + (strip->batch % g->bias_batches) * g->m + i;
        tile.c = (uint32_t *)g->c + (strip->batch * g->m + i) * g->n + strip->column;
        strip->next_a = (Ahead){.from = a + (i + rows) * g->a->row * element,
                                .row = g->a->row * element,
                                .rows = least(strip->row_end - i - rows, part->isa->rows),
                                .size = depth * element};
        run_panels(strip, &tile);
        if (g->epilogue && k + depth == g->k) run_epilogue(strip, i, rows, tile.c);
        if (ended_behind(strip, rows * strip->columns * depth)) return false;
    }
    return true;
}

/* Columns [column, column_end) of some rows of a batch, in strips of about one size each. */
static bool run_columns(Strip *s) {
    const Partition *part = s->part;
    const uint64_t depth = part->gemm->k;
    uint64_t panels = div_up(s->column_end - s->column, part->width);
    uint64_t strips = div_up(panels * part->width, STRIP);
    uint64_t strip = div_up(panels, strips) * part->width;
    for (; s->column < s->column_end; s->column += strip) {
        s->columns = least(s->column_end - s->column, strip);
        for (uint64_t k = 0; k < depth; k += GEMM_DEPTH)
            if (!run_depth(s, k, least(depth - k, GEMM_DEPTH))) return false;
    }
    return true;
}

static void run_share(const Partition *part, unsigned share, uint32_t *buffer, unsigned lane) {
    const Gemm *g = part->gemm;
    uint64_t first = part->units * share / part->shares,
             last = part->units * (share + 1) / part->shares;
    uint64_t count, asked = 0;
    for (; first < last; first += count) {
        uint64_t unit = first % part->in_batch;
        count = least(last - first, part->in_batch - unit);
        uint64_t from = unit * part->unit, to = (unit + count) * part->unit;
        Strip s = {.part = part,
                   .batch = first / part->in_batch,
                   .row_end = g->m,
                   .column_end = g->n,
                   .lane = lane,
                   .asked = asked};
        if (part->by_rows)
            s.row = from, s.row_end = least(to, g->m);
        else
            s.column = from, s.column_end = least(to, g->n);
        s.a = buffer;
        s.last = s.a + part->a_size;
        s.b = s.last + part->rest_size;
        if (!run_columns(&s)) return;
        asked = s.asked;
    }
}

typedef struct ShareJob {
    const Partition *part;
    uint32_t *buffers; /* one a share */
} ShareJob;

static void run_shares(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const ShareJob *job = data;
    for (uint64_t share = first; share < end; share++)
        run_share(job->part, (unsigned)share, job->buffers + job->part->buffer * share, lane);
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
        epilogue_apply(g->epilogue, &(EpilogueBlock){g->c, g->n, 0, 0, g->batches * g->m, g->n});
}

bool gemm_run_on(KernelCall *call, const Gemm *g, IsaSet cpu) {
    if (!g->batches || !g->m || !g->n) return true;
    if (!g->k) {
        fill_bias(g);
        return true;
    }
    double work = (double)g->batches * (double)g->m * (double)g->n * (double)g->k;
    unsigned threads = kernel_work_threads(call, work / BLOCKED_SPEED, UINT64_MAX);
    Partition part = partition_make(g, cpu, threads);
    part.call = call;
    uint32_t *buffers = kernel_workspace(call, part.buffer * part.shares * sizeof *buffers);
    if (!buffers) return false;
    const ShareJob job = {&part, buffers};
    kernel_run_parts(call->workers, (KernelCut){part.shares, 1, part.shares, 0, 0}, run_shares,
                     &job);
    return true;
}

bool gemm_run(KernelCall *call, const Gemm *gemm) {
    return gemm_run_on(call, gemm, isa_here());
}
