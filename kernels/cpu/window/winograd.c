// SPDX-License-Identifier: Apache-2.0
/* Blocks of tiles and the products of their points; see winograd.h.
 *
 * A thread takes blocks of tiles, as many as the second-level cache has space for, and of a block
 * turns all tiles, multiplies, and turns back. Between the points' matrices of a block there is a cache
 * line, as they are read and written side by side and would else meet in one set of the cache.
 */
#include "winograd.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "igemm.h"
#include "kernel_parts.h"
#include "tile_forms.h"

enum {
    LINE = 16,               /* floats of a cache line */
    BLOCK_BYTES = 768 << 10, /* of turned tiles and of products */
    LEAST_TILES = 24,
    MOST_TILES = IGEMM_BLOCK_ROWS,
    LEAST_CHANNELS = 32,
    MOST_CHANNELS = IGEMM_BLOCK_DEPTH,
    TAPS = 3 /* of squares, along an axis */
};

/* ---- what it is for -------------------------------------------------------------------------- */

/* Pixels of two axes, the first of one where the window has but one, in tiles. */
typedef struct Tiling {
    const TileForm *form; /* NULL: there is none */
    WindowAxis axes[2];
    int64_t pixels[2], results[2]; /* of a tile */
    uint64_t tiles[2];             /* of an image, along the axes */
} Tiling;

/* An axis that tiles go along, or a single tap that is no more than a pixel. */
static bool suits_tiles(const WindowAxis *axis) {
    return axis->stride == 1 && axis->dilation == 1 && axis->out >= 1 && axis->begin < axis->taps &&
           axis->end < axis->taps;
}

/* NULL: there is none. */
static const TileForm *form_of(const WindowAxis axes[2], bool large) {
    if (!suits_tiles(&axes[0]) || !suits_tiles(&axes[1])) return NULL;
    if (axes[0].taps == TAPS && axes[1].taps == TAPS)
        return large ? tile_form_large_square() : tile_form_square();
    if (large || (axes[0].taps != 1 && axes[1].taps != 1)) return NULL;
    return tile_form_line(axes[axes[0].taps == 1].taps);
}

static Tiling tiling_of(const Window *window, bool large) {
    Tiling t = {.axes = {{.in = 1, .out = 1, .taps = 1, .stride = 1, .dilation = 1}}};
    if (window->rank < 1 || window->rank > 2) return t;
    memcpy(t.axes + 2 - window->rank, window->axes, window->rank * sizeof *t.axes);
    t.form = form_of(t.axes, large);
    for (int i = 0; t.form && i < 2; i++) {
        const bool along = t.axes[i].taps > 1;
        t.pixels[i] = along ? t.form->along : 1;
        t.results[i] = along ? t.form->results_along : 1;
        t.tiles[i] = (uint64_t)((t.axes[i].out + t.results[i] - 1) / t.results[i]);
    }
    return t;
}

static bool can(const WinogradSizes *sizes, bool large) {
    return sizes->window->groups == 1 && sizes->channels && sizes->filters &&
           sizes->channels <= MOST_CHANNELS && tiling_of(sizes->window, large).form;
}

bool winograd_can(const WinogradSizes *sizes) {
    return can(sizes, false);
}
bool winograd_can_large(const WinogradSizes *sizes) {
    return can(sizes, true);
}

/* Tiles of a block, where there are so many. */
static uint64_t block_tiles(uint64_t points, uint64_t channels, uint64_t filters,
                            WinogradBlocks blocks) {
    const uint64_t tile = points * (channels + filters) * sizeof(float);
    uint64_t bytes = BLOCK_BYTES;
    if (blocks == WINOGRAD_SMALL) bytes /= 2;
    if (blocks == WINOGRAD_LARGE) bytes *= 2;
    const uint64_t tiles = bytes / tile;
    if (tiles < LEAST_TILES) return blocks == WINOGRAD_LARGE ? 2 * LEAST_TILES : LEAST_TILES;
    return tiles < MOST_TILES ? tiles : MOST_TILES;
}

/* Costs are in multiply-adds, as measured on a processor with AVX-512 that reads 10 GB/s a thread: a
 * weight from memory, as it is of many weights, or from a cache, and once more with each block of
 * tiles; to turn an element. */
static const double READ_MEMORY = 28, READ_CACHE = 6, READ_AGAIN = 8, TURN = 10;
enum { MANY_WEIGHTS = 1 << 18 };

static double reading(double weights) {
    return weights * (weights > MANY_WEIGHTS ? READ_MEMORY : READ_CACHE);
}

static double tiles_cost(const WinogradSizes *sizes, bool large) {
    const Tiling tiling = tiling_of(sizes->window, large);
    if (!tiling.form) return HUGE_VAL;
    const double points = tiling.form->points, images = (double)sizes->images;
    const double c = (double)sizes->channels, k = (double)sizes->filters;
    const double tiles = images * (double)tiling.tiles[0] * (double)tiling.tiles[1];
    const double blocks = ceil(tiles / (double)block_tiles(tiling.form->points, sizes->channels,
                                                           sizes->filters, WINOGRAD_BY_RULE));
    return points * (tiles * (c * k + (c + k) * TURN) + c * k * (blocks - 1) * READ_AGAIN) +
           reading(points * c * k);
}

bool winograd_takes(const WinogradSizes *sizes) {
    if (!winograd_can(sizes) || sizes->channels < LEAST_CHANNELS || sizes->filters < LEAST_CHANNELS)
        return false;
    const double taps = (double)sizes->window->taps, outs = (double)sizes->window->out;
    const double weights = taps * (double)sizes->channels * (double)sizes->filters;
    return fmin(tiles_cost(sizes, false), tiles_cost(sizes, true)) <
           weights * (double)sizes->images * outs + reading(weights);
}

bool winograd_takes_large(const WinogradSizes *sizes) {
    return tiles_cost(sizes, true) < tiles_cost(sizes, false);
}

WeightLayout winograd_layout(const WinogradWeights *weights) {
    const IgemmWeights taps = {.taps = weights->taps,
                               .depth = weights->channels,
                               .columns = weights->filters,
                               .tap = 1,
                               .row = weights->taps,
                               .column = weights->channels * weights->taps};
    WeightLayout layout = igemm_layout(&taps, weights->cpu);
    layout.word = weights->large ? WEIGHT_LARGE_TILES : WEIGHT_TILES;
    return layout;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct Job {
    const Winograd *g;
    Tiling tiling;
    uint64_t matrix;            /* bytes of the weights of a point */
    uint64_t tiles, block;      /* of all, and of a block */
    uint64_t in_step, out_step; /* floats between the points' matrices */
    uint64_t size;              /* floats of a lane */
    float *space;
    const float *nothing; /* [filters] of 0 */
    EpilogueBounds bounds;
    atomic_bool *unsound;
} Job;

/* Where a tile lies. */
typedef struct Place {
    uint64_t image;
    int64_t y, x; /* its first result */
} Place;

static Place place_of(const Job *job, uint64_t tile) {
    const Tiling *t = &job->tiling;
    const uint64_t row = tile / t->tiles[1];
    return (Place){row / t->tiles[0], (int64_t)(row % t->tiles[0]) * t->results[0],
                   (int64_t)(tile % t->tiles[1]) * t->results[1]};
}

static void find_pixels(const Job *job, const Place *at, const float *d[TILE_POINTS]) {
    const Winograd *g = job->g;
    const WindowAxis *y = &job->tiling.axes[0], *x = &job->tiling.axes[1];
    const float *image = g->x + at->image * g->window->in * g->weights.channels;
    for (int64_t i = 0; i < job->tiling.pixels[0]; i++)
        for (int64_t k = 0; k < job->tiling.pixels[1]; k++) {
            const int64_t row = at->y - y->begin + i, column = at->x - x->begin + k;
            const bool inside = row >= 0 && row < y->in && column >= 0 && column < x->in;
            *d++ =
                inside ? image + (uint64_t)(row * x->in + column) * g->weights.channels : g->zero;
        }
}

/* The results of a tile; those behind the last go to `spare`. */
static void find_results(const Job *job, const Place *at, float *spare, TileResults *to) {
    const Winograd *g = job->g;
    const WindowAxis *rows = &job->tiling.axes[0], *columns = &job->tiling.axes[1];
    const uint64_t filters = g->weights.filters, image = at->image * g->window->out;
    uint32_t r = 0;
    for (int64_t i = 0; i < job->tiling.results[0]; i++)
        for (int64_t k = 0; k < job->tiling.results[1]; k++, r++) {
            const bool inside = at->y + i < rows->out && at->x + k < columns->out;
            const uint64_t pixel = image + (uint64_t)((at->y + i) * columns->out + at->x + k);
            const Epilogue *e = g->epilogue;
            to->y[r] = inside ? g->y + pixel * filters : spare;
            to->z[r] = inside && e->residual ? e->residual + pixel * e->residual_row : job->nothing;
        }
}

/* False where a sum is not finite, or a result's sums so small beside another's that what the tile
 * has in common may have left an error in them. */
static bool is_sound(const TileForm *form, const uint32_t *most, const TileResults *to,
                     const float *spare) {
    float low = HUGE_VALF, high = 0;
    for (uint32_t k = 0; k < form->results; k++) {
        float size;
        memcpy(&size, &most[k], sizeof size);
        if (to->y[k] == spare) continue;
        if (!(size < HUGE_VALF)) return false;
        low = size < low ? size : low;
        high = size > high ? size : high;
    }
    return low >= high * form->least_share;
}

/* An activation that is no bounds. */
static void finish_tile(const Job *job, const TileResults *to) {
    for (uint32_t k = 0; k < job->tiling.form->results; k++) {
        const EpilogueBlock block = {.y = to->y[k], .rows = 1, .columns = job->g->weights.filters};
        epilogue_apply(&job->bounds.rest, &block);
    }
}

static void run_block(const Job *job, uint64_t first, uint64_t count, float *turned) {
    const Winograd *g = job->g;
    const TileForm *form = job->tiling.form;
    const uint64_t channels = g->weights.channels, filters = g->weights.filters;
    float *products = turned + form->points * job->in_step;
    float *spare = products + form->points * job->out_step;
    const IgemmIsa *isa = igemm_isa_for(IGEMM_FLOAT, g->weights.cpu, count);
    for (uint64_t i = 0; i < count; i++) {
        const Place at = place_of(job, first + i);
        const float *d[TILE_POINTS];
        find_pixels(job, &at, d);
        form->turn(d, channels, turned + i * channels, job->in_step);
    }
    for (uint64_t point = 0; point < form->points; point++) {
        const IgemmBlock block = {.rows = count,
                                  .depth = channels,
                                  .columns = filters,
                                  .x = turned + point * job->in_step,
                                  .weights = (const char *)g->packed + point * job->matrix,
                                  .y = products + point * job->out_step};
        igemm_multiply(&block, isa);
    }
    TileResults to = {.bias = g->epilogue->bias ? g->epilogue->bias : job->nothing,
                      .low = job->bounds.low,
                      .high = job->bounds.high};
    bool sound = true;
    for (uint64_t i = 0; i < count; i++) {
        const Place at = place_of(job, first + i);
        uint32_t most[TILE_RESULTS];
        find_results(job, &at, spare, &to);
        form->turn_back(products + i * filters, job->out_step, filters, &to, most);
        sound = sound && is_sound(form, most, &to, spare);
        if (job->bounds.rest.activation != ACTIVATION_NONE) finish_tile(job, &to);
    }
    if (!sound) atomic_store(job->unsound, true);
}

static void run_blocks(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Job *job = data;
    for (uint64_t tile = first; tile < end && !atomic_load(job->unsound); tile += job->block) {
        const uint64_t count = end - tile < job->block ? end - tile : job->block;
        run_block(job, tile, count, job->space + lane * job->size);
    }
}

WinogradEnd winograd_run(KernelCall *call, const Winograd *g) {
    const uint64_t channels = g->weights.channels, filters = g->weights.filters;
    atomic_bool unsound;
    const WeightLayout layout = winograd_layout(&g->weights);
    Job job = {.g = g,
               .tiling = tiling_of(g->window, g->weights.large),
               .matrix = weight_layout_group(&layout),
               .bounds = epilogue_bounds(g->epilogue),
               .unsound = &unsound};
    atomic_init(&unsound, false);
    const uint64_t points = job.tiling.form->points;
    job.tiles = g->images * job.tiling.tiles[0] * job.tiling.tiles[1];
    const double work = (double)job.tiles * (double)points * (double)channels * (double)filters;
    const unsigned threads = kernel_work_threads(call, work / 4, job.tiles);
    const uint64_t share = (job.tiles + threads - 1) / threads;
    job.block = block_tiles(points, channels, filters, g->blocks);
    const uint64_t blocks = (share + job.block - 1) / job.block; /* of one size, nearly */
    job.block = (share + blocks - 1) / blocks;
    job.in_step = (job.block * channels + LINE - 1) / LINE * LINE + LINE;
    job.out_step = (job.block * filters + LINE - 1) / LINE * LINE + LINE;
    job.size = (points * (job.in_step + job.out_step) + filters + LINE - 1) / LINE * LINE;
    float *nothing = kernel_workspace(call, filters * sizeof(float));
    job.space = kernel_workspace(call, job.size * kernel_threads(call) * sizeof(float));
    if (!job.space || !nothing) return WINOGRAD_FAILED;
    memset(nothing, 0, filters * sizeof(float));
    job.nothing = nothing;
    KernelCut cut = kernel_cut(job.tiles, job.block, threads, work);
    cut.grain = 1;
    cut.chunk = job.block;
    kernel_run_parts(call->workers, cut, run_blocks, &job);
    return atomic_load(&unsound) ? WINOGRAD_UNSOUND : WINOGRAD_DONE;
}
