// SPDX-License-Identifier: Apache-2.0
/* Panels, blocks and threads of igemm.h.
 *
 * A thread's share are some rows or some panels, whichever costs less. It goes over its rows in
 * blocks whose elements stay in the second-level cache, and for each block over its panels: all
 * tiles of a block run against a panel before the next one comes, a row or two against two panels
 * at once. A panel that is deeper than that cache would like goes in pieces, sums waiting in a
 * buffer meanwhile.
 */
#include "igemm.h"

#include <math.h>
#include <string.h>

#include "kernel_parts.h"

enum {
    BLOCK_BYTES = 256 << 10, /* of rows' elements that stay in a cache */
    PIECE_BYTES = 384 << 10, /* of a panel */
    BLOCK_ROWS = 384,        /* most rows of a block: their addresses are in a table */
    ALIGN = 64,
    WORD = 4,        /* bytes */
    PIECE_UNIT = 16, /* words of pieces, but of the last one */
    WIDTH_MOST = 64, /* columns of a panel, where lanes are 16 */
};

/* How many of these multiply-adds take the time of one elsewhere (kernel_parts.h). */
enum { SPEED = 4 };

static uint64_t div_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}
static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static uint64_t aligned(uint64_t bytes) {
    return div_up(bytes, ALIGN) * ALIGN;
}

/* Bytes of one of y's. */
static size_t element_of(const Igemm *g) {
    if (g->kind == IGEMM_BFLOATS) return g->wide ? sizeof(float) : sizeof(uint16_t);
    return g->scale && g->scale->to != DTYPE_FLOAT ? 1 : sizeof(float);
}

/* Elements from row to row of what is added. */
static uint64_t residual_row(const Igemm *g) {
    if (g->z) return g->y_row;
    return g->epilogue ? g->epilogue->residual_row : 0;
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* Columns as panels: their vectors are shared out evenly, so that none is much narrower than the
 * others. */
typedef struct Panels {
    uint32_t lanes, vecs; /* at most so many vectors each */
    uint64_t vectors, count;
} Panels;

static uint32_t vecs_of(const IgemmIsa *isa, IgemmWay way) {
    return way == IGEMM_NARROW && isa->vecs > 1 ? isa->vecs / 2 : isa->vecs;
}

static Panels panels_of(const IgemmIsa *isa, IgemmWay way, uint64_t columns) {
    const uint64_t vectors = div_up(columns, isa->lanes);
    const uint32_t vecs = vecs_of(isa, way);
    return (Panels){isa->lanes, vecs, vectors, div_up(vectors, vecs)};
}

/* The vector that panel `panel` begins with; that of panel `count` is the end. */
static uint64_t panel_begin(const Panels *panels, uint64_t panel) {
    const uint64_t base = panels->vectors / panels->count, rest = panels->vectors % panels->count;
    return base * panel + least(panel, rest);
}

uint64_t igemm_words(IgemmKind kind, uint64_t depth) {
    return kind == IGEMM_FLOAT ? depth : div_up(depth, kind == IGEMM_QUADS ? 4 : 2);
}

/* AMX takes 16 rows at once, or as long for fewer, which is what so many rows take without: processors
 * that have it do AVX512_BF16's products at half the rate of float's. Packed weights are the same. */
const IgemmIsa *igemm_isa_for(IgemmKind kind, IsaSet cpu, uint64_t rows) {
    static const uint64_t amx_rows[IGEMM_KIND_COUNT] = {[IGEMM_QUADS] = 8, [IGEMM_BFLOATS] = 3};
    const bool by_tiles = amx_rows[kind] && rows >= amx_rows[kind] && isa_runs(ISA_AMX, cpu);
    const IgemmIsa *amx = by_tiles ? igemm_isa_by_tiles(kind) : NULL;
    return amx ? amx : igemm_isa_by_vectors(kind, cpu);
}

WeightLayout igemm_layout(const IgemmWeights *w, IsaSet cpu) {
    static const WeightWord words[IGEMM_KIND_COUNT] = {[IGEMM_FLOAT] = WEIGHT_FLOATS,
                                                       [IGEMM_QUADS] = WEIGHT_QUADS,
                                                       [IGEMM_PAIRS] = WEIGHT_PAIRS,
                                                       [IGEMM_BFLOATS] = WEIGHT_BFLOATS};
    const IgemmIsa *isa = igemm_isa_by_vectors(w->kind, cpu);
    return (WeightLayout){.word = words[w->kind],
                          .lanes = isa->lanes,
                          .vecs = vecs_of(isa, w->way),
                          .groups = 1,
                          .taps = w->taps,
                          .depth = w->depth,
                          .inner = w->depth,
                          .columns = w->columns,
                          .tap = w->tap,
                          .row = w->row,
                          .column = w->column};
}

WeightLayout igemm_channels_layout(uint64_t taps, uint64_t channels) {
    return (WeightLayout){.word = WEIGHT_FLOATS,
                          .lanes = 1,
                          .vecs = channels < UINT32_MAX ? (uint32_t)channels : UINT32_MAX,
                          .groups = 1,
                          .taps = taps,
                          .depth = 1,
                          .inner = 1,
                          .columns = channels,
                          .tap = 1,
                          .column = taps};
}

uint64_t igemm_packed_size(const IgemmWeights *w, IsaSet cpu) {
    const WeightLayout layout = igemm_layout(w, cpu);
    return weight_layout_size(&layout);
}

void igemm_pack(void *to, const IgemmWeights *w, IsaSet cpu) {
    const WeightLayout layout = igemm_layout(w, cpu);
    weight_layout_pack(&layout, w->data, to);
}

/* ---- shares ---------------------------------------------------------------------------------- */

typedef struct Job {
    const Igemm *g;
    const KernelCall *call; /* that may end between blocks; NULL: it does not */
    const IgemmIsa *isa;
    Panels panels;
    uint64_t groups;
    bool by_rows;
    unsigned shares;
    uint64_t block;         /* rows of a block */
    uint64_t table, buffer; /* bytes of a share's table of addresses, and of all its memory */
    EpilogueBounds bounds;  /* part of the micro-kernels; what else there may be follows */
    bool swish;             /* part of them, too, and no more of bounds.rest */
    size_t element;         /* bytes of one of y's */
    char *buffers;
} Job;

/* As few tiles as possible for `rows` rows, whose sizes differ by one at most. */
static uint64_t tile_count(const IgemmIsa *isa, uint64_t vecs, uint64_t rows) {
    return div_up(rows, isa->most[vecs - 1]);
}

/* The cost of a share of so many rows and panels: multiply-adds of whole vectors, and memory, whose
 * bytes count as a few of them. */
static double share_cost(const Igemm *g, double rows, double vectors) {
    const double ROW_BYTE = 4, WEIGHT_BYTE = 4, depth = (double)g->taps * (double)g->depth;
    return rows * vectors * depth + rows * depth / (double)g->taps * ROW_BYTE / 16 +
           vectors * depth * WEIGHT_BYTE;
}

/* Bytes of weights that each thread's second-level cache holds beside rows. */
enum { CLOSE_WEIGHTS = 512 << 10 };

/* By rows where there are enough of them and weights are few: so do steps around it, by channel or element
 * by element, and a thread finds in its own caches what it reads. */
static void share_out(Job *job, unsigned threads) {
    const Igemm *g = job->g;
    const uint64_t most = job->isa->most[least(job->panels.vectors, job->panels.vecs) - 1];
    const double vectors = (double)job->panels.vectors, rows = (double)g->rows;
    const double each = vectors / (double)job->panels.count;
    const double rows_each = (double)(div_up(div_up(g->rows, most), threads) * most);
    const double by_rows = share_cost(g, rows_each < rows ? rows_each : rows, vectors);
    const double by_panels = share_cost(g, rows, (double)div_up(job->panels.count, threads) * each);
    const bool close =
        g->rows >= 3 * most * threads && g->columns * g->taps * g->depth * WORD <= CLOSE_WEIGHTS;
    job->by_rows =
        job->groups > 1 || (close || by_rows < by_panels) != (g->way == IGEMM_OTHER_SHARES);
    const uint64_t units = job->by_rows ? div_up(g->rows, most) : job->panels.count;
    job->shares = (unsigned)least(threads, units);
}

/* Shares of as many rows each, if they take no more tiles than those that begin with a tile: so do steps
 * around it that know no tiles. */
static KernelCut cut_of(const Job *job, double work) {
    const uint64_t rows = job->g->rows;
    const uint64_t panels = job->panels.count, pair = rows <= IGEMM_TWIN_ROWS ? 2 : 1;
    if (!job->by_rows) {
        KernelCut cut = kernel_cut(panels, pair, job->shares, work);
        cut.grain = 1;
        return cut;
    }
    const uint64_t most = job->isa->most[least(job->panels.vectors, job->panels.vecs) - 1];
    const uint64_t even = div_up(div_up(rows, job->shares), most);
    const uint64_t grain = even > div_up(div_up(rows, most), job->shares) ? most : 1;
    KernelCut cut = kernel_cut(rows, most, job->shares, work);
    cut.grain = grain;
    return cut;
}

/* What is rounded fits the type. */
static void bound_bytes(EpilogueBounds *bounds, const IgemmScale *scale) {
    const bool is_signed = scale->to == DTYPE_INT8;
    const float least_value = (float)((is_signed ? INT8_MIN : 0) - scale->zero);
    const float most_value = (float)((is_signed ? INT8_MAX : UINT8_MAX) - scale->zero);
    bounds->low = fminf(fmaxf(bounds->low, least_value), most_value);
    bounds->high = fmaxf(fminf(bounds->high, most_value), least_value);
}

void igemm_bounds(const Igemm *g, float *low, float *high) {
    EpilogueBounds bounds = epilogue_bounds(g->epilogue);
    if (g->scale && g->scale->to != DTYPE_FLOAT) bound_bytes(&bounds, g->scale);
    *low = bounds.low;
    *high = bounds.high;
}

/* What micro-kernels of floats and bfloats do beside bounds; what is left is *bounds'. */
static bool takes_swish(const Igemm *g, EpilogueBounds *bounds) {
    const bool floats = g->kind == IGEMM_FLOAT || g->kind == IGEMM_BFLOATS;
    if (!floats || bounds->rest.activation != ACTIVATION_HARD_SWISH) return false;
    bounds->rest = (Epilogue){.activation = ACTIVATION_NONE};
    return true;
}

static void run_rest(const EpilogueBounds *bounds, const EpilogueBlock *block) {
    if (bounds->rest.activation != ACTIVATION_NONE) epilogue_apply(&bounds->rest, block);
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct Block {
    const Job *job;
    uint64_t group, row, rows;
    const void **table;
    float *sums;
} Block;

/* One pass of a tile over a piece of a panel: whole taps, or a part of one's depth. */
typedef struct Piece {
    uint64_t tap, taps, skip, depth;
} Piece;

/* The next piece of a panel, of so many words at most; false after the last one. */
static bool next_piece(const Igemm *g, uint64_t most, Piece *piece) {
    const uint64_t depth = least(g->depth, most), taps = g->repeats ? 1 : g->taps;
    piece->skip += piece->depth;
    if (piece->skip >= g->depth || !piece->depth) {
        piece->skip = 0;
        piece->tap += piece->taps;
    }
    if (piece->tap >= g->taps) return false;
    piece->depth = least(depth, g->depth - piece->skip);
    piece->taps = 1;
    if (depth == g->depth) piece->taps = least(taps, least(g->taps - piece->tap, most / depth));
    return true;
}

static IgemmScale scale_at(const IgemmScale *scale, uint64_t column) {
    if (!scale) return (IgemmScale){.to = DTYPE_FLOAT};
    IgemmScale at = *scale;
    at.factor += column;
    at.shift += column;
    at.offset += column;
    if (at.column_shift) at.column_shift += column;
    return at;
}

static const char *z_bytes_at(const IgemmScale *scale, uint64_t row, uint64_t column) {
    const IgemmByteSum *sum = scale ? scale->sum : NULL;
    return sum ? (const char *)sum->z + row * sum->z_row + column : NULL;
}

/* What is the same for all tiles of a block against a panel or two, whose first column of y that is. */
static IgemmTile panel_tile(const Block *block, uint64_t column, uint64_t width) {
    const Job *job = block->job;
    const Igemm *g = job->g;
    const Epilogue *e = g->epilogue;
    return (IgemmTile){.row_step = block->rows,
                       .columns = (uint32_t)least(width, (block->group + 1) * g->columns - column),
                       .y_row = g->y_row,
                       .scale = scale_at(g->scale, column),
                       .bias = e && e->bias ? e->bias + column : NULL,
                       .z_row = residual_row(g),
                       .narrow = g->kind == IGEMM_BFLOATS && !g->wide,
                       .low = job->bounds.low,
                       .high = job->bounds.high,
                       .swish = job->swish};
}

/* The end of a tile of bfloats with an activation that is not the micro-kernel's: what that is of has
 * not been rounded yet. */
static void run_narrow(const Job *job, const IgemmTile *narrow, uint64_t width,
                       IgemmTileFunction *run, uint64_t rows) {
    float block[IGEMM_ROWS_MOST * WIDTH_MOST];
    IgemmTile tile = *narrow;
    tile.narrow = false;
    tile.y = block;
    tile.y_row = width;
    run(&tile);
    const EpilogueBlock done = {.y = block, .y_row = width, .rows = rows, .columns = tile.columns};
    run_rest(&job->bounds, &done);
    const IgemmNarrow to = {narrow->y, narrow->y_row, (uint32_t)rows, tile.columns,
                            (uint32_t)width};
    igemm_round_rows(&to, block);
}

/* Whether this panel and the next are computed at once. */
static bool is_twin(const Block *block, uint64_t panel, uint64_t end) {
    const IgemmIsa *isa = block->job->isa;
    const Panels *panels = &block->job->panels;
    return isa->twins && !block->job->g->repeats && block->rows <= IGEMM_TWIN_ROWS &&
           panel + 2 <= end &&
           panel_begin(panels, panel + 2) - panel_begin(panels, panel) == 2 * (uint64_t)isa->vecs;
}

/* All tiles of a block against a panel, or the only one against two. */
static void run_panel(const Block *block, uint64_t panel, uint64_t tiles, bool twin) {
    const Job *job = block->job;
    const Igemm *g = job->g;
    const Epilogue *e = g->epilogue;
    const uint64_t first = panel_begin(&job->panels, panel), lanes = job->panels.lanes;
    const uint64_t vecs = panel_begin(&job->panels, panel + 1) - first, width = vecs * lanes;
    const uint64_t column = block->group * g->columns + first * lanes;
    const uint64_t base = block->rows / tiles, rest = block->rows % tiles;
    const char *weights = (const char *)g->weights + block->group * g->group_weights +
                          first * lanes * (g->repeats ? 1 : g->taps) * g->depth * WORD;
    IgemmTileFunction *const *functions = twin ? job->isa->twins : job->isa->tiles[vecs - 1];
    const uint64_t columns = twin ? 2 * width : width;
    const uint64_t most =
        twin ? UINT64_MAX : PIECE_BYTES / (width * WORD) / PIECE_UNIT * PIECE_UNIT;
    IgemmTile tile = panel_tile(block, column, columns);
    tile.twin = weights + g->taps * g->depth * width * WORD;
    for (Piece piece = {0}; next_piece(g, most, &piece);) {
        const uint64_t done = piece.tap * g->depth + piece.skip, depth = piece.taps * piece.depth;
        tile.taps = piece.taps;
        tile.depth = piece.depth;
        tile.skip = block->group * g->depth + piece.skip;
        tile.weights = weights + (g->repeats ? piece.skip : done) * width * WORD;
        tile.ahead = (const char *)tile.weights + depth * width * WORD;
        /* of tiles that take no time, what is read again is there */
        tile.ahead_step = job->isa->whole && g->rows > job->block ? 0 : width * WORD / tiles;
        tile.goes_on = done > 0;
        tile.ends = done + depth == g->taps * g->depth;
        for (uint64_t i = 0, r = 0, rows; i < tiles; i++, r += rows) {
            const uint64_t row = block->row + r;
            rows = job->isa->whole ? least(block->rows - r, job->isa->most[vecs - 1])
                                   : base + (i < rest);
            tile.rows = block->table + piece.tap * block->rows + r;
            tile.sums = block->sums + r * width;
            tile.y = (char *)g->y + (row * g->y_row + column) * job->element;
            tile.z_bytes = z_bytes_at(g->scale, row, column);
            if (tile.scale.row_factor) tile.scale.row_factor = g->scale->row_factor + row;
            if (tile.scale.row_shift) tile.scale.row_shift = g->scale->row_shift + row;
            tile.z = e && e->residual ? e->residual + row * e->residual_row + column : NULL;
            tile.z_bfloats = g->z ? g->z + row * g->y_row + column : NULL;
            if (tile.narrow && tile.ends && job->bounds.rest.activation != ACTIVATION_NONE) {
                run_narrow(job, &tile, columns, functions[rows - 1], rows);
                tile.ahead += depth * tile.ahead_step;
                continue;
            }
            functions[rows - 1](&tile);
            tile.ahead += depth * tile.ahead_step;
            const EpilogueBlock block_done = {
                .y = tile.y, .y_row = tile.y_row, .rows = rows, .columns = tile.columns};
            if (tile.ends) run_rest(&job->bounds, &block_done);
        }
    }
}

static void run_block(Block *block, uint64_t first, uint64_t end) {
    const Igemm *g = block->job->g;
    const Panels *panels = &block->job->panels;
    g->find(g->source, block->row, (uint32_t)block->rows, block->table);
    for (block->group = 0; block->group < block->job->groups; block->group++)
        for (uint64_t panel = first, count; panel < end; panel += count) {
            const uint64_t vecs = panel_begin(panels, panel + 1) - panel_begin(panels, panel);
            const bool twin = is_twin(block, panel, end);
            count = twin ? 2 : 1;
            run_panel(block, panel, tile_count(block->job->isa, vecs, block->rows), twin);
        }
}

/* Rows, or panels, that a thread has. */
static void run_share(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Job *job = data;
    const Igemm *g = job->g;
    const uint64_t row = job->by_rows ? first : 0, row_end = job->by_rows ? end : g->rows;
    char *buffer = job->buffers + lane * job->buffer;
    Block block = {
        .job = job, .table = (const void **)buffer, .sums = (float *)(void *)(buffer + job->table)};
    if (job->isa->begin) job->isa->begin(g->depth);
    for (block.row = row; block.row < row_end; block.row += block.rows) {
        const uint64_t left = row_end - block.row;
        block.rows = div_up(left, div_up(left, job->block));
        if (job->by_rows)
            run_block(&block, 0, job->panels.count);
        else
            run_block(&block, first, end);
        /* few panels with many rows are a long part */
        if (block.row + block.rows < row_end && job->call && kernel_ended(job->call, lane)) break;
    }
    if (job->isa->end) job->isa->end();
}

/* Rows of a block, of so many words each. */
static uint64_t block_rows(IgemmWay way, uint64_t depth) {
    const uint64_t least_rows = 4 * IGEMM_ROWS_MOST;
    const uint64_t rows = BLOCK_BYTES / ((depth + 1) * sizeof(float));
    uint64_t block = rows < least_rows ? least_rows : least(rows, BLOCK_ROWS);
    if (way == IGEMM_SMALL_BLOCKS) block = div_up(block, 2);
    return way == IGEMM_LARGE_BLOCKS ? 4 * block : block;
}

bool igemm_has_way(const KernelCall *call, const IgemmWeights *w, uint64_t rows, IsaSet cpu) {
    const IgemmIsa *isa = igemm_isa_by_vectors(w->kind, cpu);
    const Panels ruled = panels_of(isa, IGEMM_BY_RULE, w->columns);
    switch (w->way) {
    case IGEMM_BY_RULE: return true;
    case IGEMM_SMALL_BLOCKS: return rows > block_rows(w->way, igemm_words(w->kind, w->depth));
    case IGEMM_LARGE_BLOCKS:
        return rows > block_rows(IGEMM_BY_RULE, igemm_words(w->kind, w->depth));
    case IGEMM_NARROW: return panels_of(isa, w->way, w->columns).count != ruled.count;
    case IGEMM_OTHER_SHARES: return kernel_threads(call) > 1 && ruled.count > 1;
    case IGEMM_WAY_COUNT: break;
    }
    return false;
}

bool igemm_run(KernelCall *call, const Igemm *g, IsaSet cpu) {
    const IgemmIsa *isa = igemm_isa_for(g->kind, cpu, g->rows);
    if (!g->rows || !g->columns) return true;
    Job job = {.g = g,
               .call = call,
               .isa = isa,
               .panels = panels_of(isa, g->way, g->columns),
               .groups = g->groups ? g->groups : 1};
    const double depth = (double)g->taps * (double)g->depth;
    const double work = (double)g->rows * (double)g->columns * depth * (double)job.groups;
    const double speed =
        g->rows < SPEED ? (double)g->rows : SPEED; /* a row reads weights, and little else */
    share_out(&job, kernel_work_threads(call, work / speed, UINT64_MAX));
    job.bounds = epilogue_bounds(g->epilogue);
    job.swish = takes_swish(g, &job.bounds);
    job.element = element_of(g);
    if (job.element == 1) bound_bytes(&job.bounds, g->scale);
    job.block = least(block_rows(g->way, g->depth), g->rows);
    const uint64_t width = (uint64_t)job.panels.vecs * isa->lanes;
    const bool pieces = g->repeats || depth * (double)width * WORD > PIECE_BYTES;
    job.table = aligned(job.block * g->taps * sizeof(void *));
    job.buffer =
        kernel_lane_count(job.table + (pieces ? job.block * width * WORD : 0), sizeof(char));
    job.buffers = kernel_workspace(call, job.buffer * kernel_threads(call));
    if (!job.buffers) return false;
    kernel_run_parts(call->workers, cut_of(&job, work / speed), run_share, &job);
    return true;
}

static void find_next(const void *source, uint64_t first, uint32_t count, const void **to) {
    const IgemmBlock *block = source;
    const char *x = block->x;
    for (uint64_t i = 0; i < count; i++) to[i] = x + (first + i) * block->depth * WORD;
}

void igemm_multiply(const IgemmBlock *block, const IgemmIsa *isa) {
    const void *table[IGEMM_BLOCK_ROWS];
    const Igemm g = {.kind = block->kind,
                     .rows = block->rows,
                     .taps = 1,
                     .depth = block->depth,
                     .columns = block->columns,
                     .find = find_next,
                     .source = block,
                     .weights = block->weights,
                     .y = block->y,
                     .y_row = block->columns,
                     .epilogue = block->epilogue,
                     .z = block->z};
    Job job = {.g = &g,
               .isa = isa,
               .panels = panels_of(isa, g.way, g.columns),
               .groups = 1,
               .block = g.rows,
               .bounds = epilogue_bounds(block->epilogue),
               .element = element_of(&g)};
    job.swish = takes_swish(&g, &job.bounds);
    Block whole = {.job = &job, .rows = g.rows, .table = table};
    if (isa->begin) isa->begin(g.depth);
    run_block(&whole, 0, job.panels.count);
    if (isa->end) isa->end();
}

/* ---- by channel ------------------------------------------------------------------------------ */

typedef struct ChannelsJob {
    const Igemm *g;
    const IgemmIsa *isa;
    EpilogueBounds bounds; /* part of the micro-kernels; what else there may be follows */
    bool swish;            /* as in Job */
    const void **tables;   /* [lanes][table_size] */
    float *floats;         /* [lanes][igemm_channels_rest], if there are any; otherwise NULL */
} ChannelsJob;

bool igemm_has_lines(IgemmSteps steps) {
    return steps.taps >= 3 && steps.taps <= IGEMM_LINE_TAPS && steps.taps % 2 &&
           (steps.step == 1 || steps.step == 2);
}

/* Pixels of a line whose addresses are found at once. */
static uint32_t line_columns(IgemmSteps steps) {
    return (IGEMM_LINE - 1) * steps.step + steps.taps;
}

uint64_t igemm_channels_table(const Igemm *g) {
    const uint64_t lines = g->lines ? g->taps / g->lines->steps.taps : 0;
    const uint64_t count =
        g->lines ? lines * line_columns(g->lines->steps) : g->taps * IGEMM_PIXELS_FOUND;
    return kernel_lane_count(count, sizeof(void *));
}

/* Of bfloats: an activation that is not the micro-kernels' is of what has not been rounded yet. */
uint64_t igemm_channels_rest(const Igemm *g) {
    EpilogueBounds bounds = epilogue_bounds(g->epilogue);
    takes_swish(g, &bounds);
    return g->kind == IGEMM_BFLOATS && bounds.rest.activation != ACTIVATION_NONE
               ? kernel_lane_count(IGEMM_LINE * g->columns, sizeof(float))
               : 0;
}

/* Rows [row, row + count), as they are made: to `floats`, where that is given. */
static IgemmPixels pixels_at(const ChannelsJob *job, float *floats, uint64_t row, uint64_t count) {
    const Igemm *g = job->g;
    const Epilogue *e = g->epilogue;
    const void *z = NULL;
    if (g->z)
        z = g->z + row * g->y_row;
    else if (e && e->residual)
        z = e->residual + row * e->residual_row;
    return (IgemmPixels){.taps = g->taps,
                         .channels = g->columns,
                         .spread = g->spread ? g->spread : 1,
                         .count = (uint32_t)count,
                         .weights = g->weights,
                         .y = floats ? (void *)floats
                                     : (char *)g->y + row * g->y_row * element_of(g),
                         .y_row = floats ? g->columns : g->y_row,
                         .wide = floats != NULL,
                         .bias = e ? e->bias : NULL,
                         .z = z,
                         .z_row = residual_row(g),
                         .low = job->bounds.low,
                         .high = job->bounds.high,
                         .swish = job->swish};
}

static void finish_pixels(const ChannelsJob *job, const IgemmPixels *pixels, uint64_t row) {
    const Igemm *g = job->g;
    const EpilogueBlock block = {
        .y = pixels->y, .y_row = pixels->y_row, .rows = pixels->count, .columns = pixels->channels};
    run_rest(&job->bounds, &block);
    const IgemmNarrow to = {(uint16_t *)g->y + row * g->y_row, g->y_row, pixels->count,
                            (uint32_t)g->columns, (uint32_t)g->columns};
    if (pixels->wide) igemm_round_rows(&to, pixels->y);
}

/* What one thread has for itself. */
typedef struct ChannelsLane {
    const void **table;
    float *floats; /* or NULL */
} ChannelsLane;

static void run_lines(const ChannelsJob *job, uint64_t first, uint64_t end,
                      const ChannelsLane *lane) {
    const void **table = lane->table;
    const Igemm *g = job->g;
    const IgemmLines *lines = g->lines;
    for (uint64_t row = first, count; row < end; row += count) {
        count = least(least(IGEMM_LINE, end - row), lines->outputs - row % lines->outputs);
        IgemmPixels pixels = pixels_at(job, lane->floats, row, count);
        pixels.rows = table;
        lines->find(g->source, row, line_columns(lines->steps), table);
        job->isa->line(&pixels, lines->steps);
        finish_pixels(job, &pixels, row);
    }
}

static void run_pixels(const ChannelsJob *job, uint64_t first, uint64_t end,
                       const ChannelsLane *lane) {
    const void **table = lane->table;
    const Igemm *g = job->g;
    for (uint64_t from = first, found; from < end; from += found) {
        found = least(IGEMM_PIXELS_FOUND, end - from);
        g->find(g->source, from, (uint32_t)found, table);
        for (uint64_t i = 0, count; i < found; i += count) {
            count = least(IGEMM_PIXELS, found - i);
            IgemmPixels pixels = pixels_at(job, lane->floats, from + i, count);
            pixels.rows = table + i;
            pixels.row_step = found;
            job->isa->pixels(&pixels);
            finish_pixels(job, &pixels, from + i);
        }
    }
}

static void run_channels(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const ChannelsJob *job = data;
    const ChannelsLane own = {job->tables + lane * igemm_channels_table(job->g),
                              job->floats ? job->floats + lane * igemm_channels_rest(job->g)
                                          : NULL};
    if (job->g->lines)
        run_lines(job, first, end, &own);
    else
        run_pixels(job, first, end, &own);
}

void igemm_channels_block(const Igemm *g, IsaSet cpu, const void **table, float *rest) {
    ChannelsJob job = {.g = g,
                       .isa = igemm_isa_by_vectors(g->kind, cpu),
                       .bounds = epilogue_bounds(g->epilogue),
                       .tables = table,
                       .floats = igemm_channels_rest(g) ? rest : NULL};
    job.swish = takes_swish(g, &job.bounds);
    run_channels(&job, 0, g->rows, 0);
}

bool igemm_channels(KernelCall *call, const Igemm *g, IsaSet cpu) {
    ChannelsJob job = {
        .g = g, .isa = igemm_isa_by_vectors(g->kind, cpu), .bounds = epilogue_bounds(g->epilogue)};
    if (!g->rows || !g->columns) return true;
    job.swish = takes_swish(g, &job.bounds);
    const uint64_t table = igemm_channels_table(g) * sizeof *job.tables;
    job.tables = kernel_workspace(call, table * kernel_threads(call));
    if (!job.tables) return false;
    const uint64_t rest = igemm_channels_rest(g) * sizeof *job.floats;
    if (rest) job.floats = kernel_workspace(call, rest * kernel_threads(call));
    if (rest && !job.floats) return false;
    const double work = (double)g->rows * (double)g->columns * (double)g->taps;
    const unsigned threads = kernel_work_threads(call, work, g->rows);
    uint64_t unit = g->lines ? IGEMM_LINE : IGEMM_PIXELS;
    if (g->lines && g->rows / g->lines->outputs % threads == 0) unit = g->lines->outputs;
    kernel_run_parts(call->workers, kernel_cut(g->rows, unit, threads, work), run_channels, &job);
    return true;
}
