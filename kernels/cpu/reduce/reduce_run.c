// SPDX-License-Identifier: Apache-2.0
/* See reduce_run.h. Results are spread over threads. Where there are few, of many elements each,
 * the elements are: they make chunks, whose sums are put together in their order. What is
 * reduced as another type is widened a piece at a time, and results are rounded once. */
#include "reduce_run.h"

#include "half_pieces.h"
#include "kernel_parts.h"

enum {
    CHUNKS = 16,
    FEW = 16, /* blocks of results */
    EACH = 4, /* blocks that each thread has at least, if they have so many columns */
    LEAST_COLUMNS = 64,
    CHUNK_LEAST = 1 << 15, /* elements of a result's chunk */
};

typedef struct ReduceJob {
    const ReduceKind *kind;
    const ReduceLoops *loops;
    const char *x;
    char *out, *partial;      /* partial: [CHUNKS][results] accumulators */
    size_t element, result;   /* bytes of one */
    Dtype half;               /* 16-bit floats, for a kind of floats; else 0 */
    uint64_t blocks, columns; /* blocks of so many columns, at most REDUCE_BLOCK */
} ReduceJob;

/* Runs [first, end), and of their elements [from, to), where rows are reduced. */
typedef struct ReduceSpan {
    uint64_t first, end, from, to;
} ReduceSpan;

/* How many places of the walk from `index` on, before `end`, are a stride apart; and the stride. */
static uint64_t regular(const ReduceWalk *walk, uint64_t index, uint64_t end, uint64_t *stride) {
    *stride = walk->rank ? walk->strides[walk->rank - 1] : 0;
    uint64_t size = walk->rank ? walk->sizes[walk->rank - 1] : 1;
    uint64_t left = size - index % size;
    return left < end - index ? left : end - index;
}

static const char *at(const ReduceJob *job, uint64_t element) {
    return job->x + element * job->element;
}

typedef union ReducePiece {
    float floats[HALF_PIECE];
    double doubles[HALF_PIECE];
} ReducePiece;

static void widen_runs(const ReduceJob *job, const ReduceTile *from, ReducePiece *to) {
    if (job->half) {
        half_widen(to->floats, job->half,
                   (HalfRows){(void *)(uintptr_t)from->x, from->count, from->length, from->stride});
        return;
    }
    const bool whole = from->stride == from->length; /* one run behind the other */
    const uint64_t runs = whole ? 1 : from->count,
                   length = whole ? from->count * from->length : from->length;
    for (uint64_t r = 0; r < runs; r++)
        job->kind->widen(to->doubles + r * length,
                         (const char *)from->x + r * from->stride * job->element, length);
}

/* The widened runs of a tile, one behind the other; those of rows that are longer in parts. */
static void add_widened(const ReduceJob *job, const ReduceTile *tile, bool columns, void *sums) {
    ReducePiece piece;
    const uint64_t part = tile->length < HALF_PIECE ? tile->length : HALF_PIECE;
    const uint64_t most = part ? HALF_PIECE / part : tile->count;
    for (uint64_t r = 0, count; r < tile->count; r += count) {
        char *sum = (char *)sums + (columns ? 0 : r * job->kind->size);
        count = tile->count - r < most ? tile->count - r : most;
        for (uint64_t i = 0, length; i < tile->length; i += length) {
            length = tile->length - i < part ? tile->length - i : part;
            const uint64_t first = r * tile->stride + i;
            const ReduceTile part_of = {(const char *)tile->x + first * job->element, count,
                                        tile->stride, length};
            widen_runs(job, &part_of, &piece);
            const ReduceTile wide = {&piece, count, length, length};
            if (columns)
                job->kind->columns(sum, &wide);
            else
                job->kind->rows(sum, &wide);
        }
    }
}

static void add_tile(const ReduceJob *job, const ReduceTile *tile, bool columns, void *sums) {
    if (job->half || job->kind->widen)
        add_widened(job, tile, columns, sums);
    else if (columns)
        job->kind->columns(sums, tile);
    else
        job->kind->rows(sums, tile);
}

/* Results [first, first + count), of at most REDUCE_BLOCK. */
static void end_results(const ReduceJob *job, uint64_t first, const void *sums, uint64_t count) {
    char *out = job->out + first * job->result;
    if (!job->half) {
        job->kind->end(out, sums, count, job->loops->reduced);
        return;
    }
    float wide[REDUCE_BLOCK];
    job->kind->end(wide, sums, count, job->loops->reduced);
    half_narrow((HalfRows){out, 1, count, 0}, job->half, wide);
}

/* Results o, o + 1, … of rows, as many as are regular and fit `end`: their number. */
static uint64_t add_rows(const ReduceJob *job, uint64_t o, uint64_t end, const ReduceSpan *span,
                         void *sums) {
    const ReduceLoops *loops = job->loops;
    ReduceTile tile = {.length = span->to - span->from};
    tile.count = regular(&loops->outer, o, end, &tile.stride);
    if (tile.count > REDUCE_BLOCK) tile.count = REDUCE_BLOCK;
    uint64_t start = reduce_offset(&loops->outer, o) + span->from;
    for (uint64_t r = span->first; r < span->end; r++) {
        tile.x = at(job, start + reduce_offset(&loops->runs, r));
        add_tile(job, &tile, false, sums);
    }
    return tile.count;
}

/* Columns [column, column + count) of step o of the outer walk. */
static void add_columns(const ReduceJob *job, uint64_t o, uint64_t column, uint64_t count,
                        const ReduceSpan *span, void *sums) {
    const ReduceLoops *loops = job->loops;
    ReduceTile tile = {.length = count};
    uint64_t start = reduce_offset(&loops->outer, o) + column;
    for (uint64_t r = span->first; r < span->end; r += tile.count) {
        tile.count = regular(&loops->runs, r, span->end, &tile.stride);
        tile.x = at(job, start + reduce_offset(&loops->runs, r));
        add_tile(job, &tile, true, sums);
    }
}

static uint64_t block_columns(const ReduceJob *job, uint64_t column) {
    uint64_t left = job->loops->width - column;
    return left < job->columns ? left : job->columns;
}

/* ---- results --------------------------------------------------------------------------------- */

typedef union ReduceSums {
    uint64_t aligned;
    char bytes[REDUCE_BLOCK * REDUCE_LARGEST];
} ReduceSums;

static void row_results(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const ReduceJob *job = data;
    const ReduceLoops *loops = job->loops;
    const ReduceSpan all = {0, loops->run_count, 0, loops->length};
    ReduceSums sums;
    (void)lane;
    for (uint64_t o = first, count; o < end; o += count) {
        uint64_t most = end - o < REDUCE_BLOCK ? end - o : REDUCE_BLOCK;
        job->kind->clear(&sums, most);
        count = add_rows(job, o, o + most, &all, &sums);
        end_results(job, o, &sums, count);
    }
}

static void column_results(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const ReduceJob *job = data;
    const ReduceLoops *loops = job->loops;
    const ReduceSpan all = {0, loops->run_count, 0, 1};
    ReduceSums sums;
    (void)lane;
    for (uint64_t b = first; b < end; b++) {
        uint64_t o = b / job->blocks, column = b % job->blocks * job->columns;
        uint64_t count = block_columns(job, column);
        job->kind->clear(&sums, count);
        add_columns(job, o, column, count, &all, &sums);
        end_results(job, o * loops->width + column, &sums, count);
    }
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Chunk c has its part of the runs, or where they are few, of each run's elements. */
static ReduceSpan span_of(const ReduceLoops *loops, unsigned c) {
    if (loops->run_count >= CHUNKS || loops->width > 1)
        return (ReduceSpan){kernel_part_begin(loops->run_count, 1, c, CHUNKS),
                            kernel_part_begin(loops->run_count, 1, c + 1, CHUNKS), 0,
                            loops->length};
    return (ReduceSpan){0, loops->run_count, kernel_part_begin(loops->length, 64, c, CHUNKS),
                        kernel_part_begin(loops->length, 64, c + 1, CHUNKS)};
}

static void chunk_sums(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const ReduceJob *job = data;
    const ReduceLoops *loops = job->loops;
    (void)lane;
    for (uint64_t c = first; c < end; c++) {
        char *sums = job->partial + c * loops->results * job->kind->size;
        const ReduceSpan span = span_of(loops, (unsigned)c);
        job->kind->clear(sums, loops->results);
        for (uint64_t o = 0; loops->width == 1 && o < loops->outer_count;)
            o += add_rows(job, o, loops->outer_count, &span, sums + o * job->kind->size);
        for (uint64_t b = 0; loops->width > 1 && b < loops->outer_count * job->blocks; b++) {
            uint64_t o = b / job->blocks, column = b % job->blocks * job->columns;
            add_columns(job, o, column, block_columns(job, column), &span,
                        sums + (o * loops->width + column) * job->kind->size);
        }
    }
}

static bool by_chunks(KernelCall *call, ReduceJob *job, unsigned threads) {
    const ReduceLoops *loops = job->loops;
    uint64_t size = loops->results * job->kind->size;
    job->partial = kernel_workspace(call, CHUNKS * size);
    if (!job->partial) return false;
    const KernelCut cut = {CHUNKS, 1, threads < CHUNKS ? threads : CHUNKS, 1, 0};
    kernel_run_parts(call->workers, cut, chunk_sums, job);
    for (unsigned c = 1; c < CHUNKS; c++)
        job->kind->merge(job->partial, job->partial + c * size, loops->results);
    for (uint64_t i = 0; i < loops->results; i += REDUCE_BLOCK) {
        const uint64_t left = loops->results - i;
        end_results(job, i, job->partial + i * job->kind->size,
                    left < REDUCE_BLOCK ? left : REDUCE_BLOCK);
    }
    return true;
}

static void cut_columns(ReduceJob *job, uint64_t columns) {
    const uint64_t width = job->loops->width;
    job->columns = columns < REDUCE_BLOCK ? columns : REDUCE_BLOCK;
    job->blocks = width / job->columns + (width % job->columns != 0);
}

bool reduce_run(KernelCall *call, const ReduceKind *kind, const ReduceLoops *loops,
                const KernelTensor *x, void *out) {
    ReduceJob job = {.kind = kind, .loops = loops, .x = x->data, .out = out};
    job.element = kernel_element_size(x->dtype);
    job.half = half_is(x->dtype) ? x->dtype : 0;
    job.result = job.half ? job.element : kind->result;
    cut_columns(&job, REDUCE_BLOCK);
    bool rows = loops->width == 1;
    uint64_t tasks = rows ? loops->outer_count : loops->outer_count * job.blocks;
    unsigned threads = kernel_parts(kernel_threads(call), x->count, 1);
    bool divides = rows ? loops->reduced >= CHUNKS * CHUNK_LEAST
                        : loops->run_count / CHUNKS * loops->width >= CHUNK_LEAST;
    if (tasks < FEW && divides) return by_chunks(call, &job, threads);
    /* which part of a row a block is tells nothing of its sums */
    if (!rows && threads > 1 && tasks < EACH * threads) {
        const uint64_t each = loops->outer_count * loops->width / (EACH * threads);
        cut_columns(&job, each / LEAST_COLUMNS * LEAST_COLUMNS + LEAST_COLUMNS);
        tasks = loops->outer_count * job.blocks;
    }
    const KernelCut cut = kernel_element_cut(tasks, 1, threads, x->count);
    kernel_run_parts(call->workers, cut, rows ? row_results : column_results, &job);
    return true;
}
