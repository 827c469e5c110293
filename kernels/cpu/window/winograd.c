// SPDX-License-Identifier: Apache-2.0
/* Tiles, their transformations, and the products between them; see winograd.h.
 *
 * A thread takes blocks of tiles, as many as the second-level cache has space for, and of a block
 * turns all tiles, multiplies, and turns back. Between the 16 matrices of a block there is a cache
 * line, as they are read and written side by side and would else meet in one set of the cache.
 */
#include "winograd.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "igemm.h"
#include "kernel_clones.h"
#include "kernel_parts.h"
#include "kernel_rows.h"

enum {
    SIDE = 4,               /* of a tile */
    POINTS = WEIGHT_POINTS, /* products: SIDE * SIDE */
    STEP = 2,               /* results along an axis */
    TAPS = 3,
    LINE = 16,               /* floats of a cache line */
    BLOCK_BYTES = 768 << 10, /* of turned tiles and of products */
    LEAST_TILES = 24,
    MOST_TILES = IGEMM_BLOCK_ROWS,
    LEAST_CHANNELS = 32,
    MOST_CHANNELS = IGEMM_BLOCK_DEPTH,
};

/* A result's largest sum, beside that of its tile: 13 of 24 bits are its own, or more. */
static const float LEAST_SHARE = 0x1p-10F;

/* ---- what it is for -------------------------------------------------------------------------- */

static uint64_t tiles_along(const WindowAxis *axis) {
    return ((uint64_t)axis->out + STEP - 1) / STEP;
}

bool winograd_can(const Window *window, uint64_t channels, uint64_t filters) {
    if (window->rank != 2 || window->groups != 1 || !channels || !filters ||
        channels > MOST_CHANNELS)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const WindowAxis *axis = &window->axes[i];
        if (axis->taps != TAPS || axis->stride != 1 || axis->dilation != 1 || axis->out < 1 ||
            axis->begin >= TAPS || axis->end >= TAPS)
            return false;
    }
    return true;
}

bool winograd_takes(const Window *window, uint64_t images, uint64_t channels, uint64_t filters) {
    if (!winograd_can(window, channels, filters) || channels < LEAST_CHANNELS ||
        filters < LEAST_CHANNELS)
        return false;
    /* In multiply-adds: of the products, and what turning and reading an element takes. */
    const double TURN = 10, READ = 6, tap = TAPS * TAPS, point = POINTS;
    const double c = (double)channels, k = (double)filters;
    const double tiles = (double)images * (double)tiles_along(&window->axes[0]) *
                         (double)tiles_along(&window->axes[1]);
    const double direct = (double)images * (double)window->out * tap * c * k + tap * c * k * READ;
    return point * tiles * (c * k + (c + k) * TURN) + point * c * k * READ < direct;
}

WeightLayout winograd_layout(const WinogradWeights *weights) {
    const IgemmWeights taps = {.taps = TAPS * TAPS,
                               .depth = weights->channels,
                               .columns = weights->filters,
                               .tap = 1,
                               .row = TAPS * TAPS,
                               .column = weights->channels * TAPS * TAPS};
    WeightLayout layout = igemm_layout(&taps, weights->level);
    layout.word = WEIGHT_TILES;
    return layout;
}

/* ---- transformations ------------------------------------------------------------------------- */

/* B' d B of all channels: `to` has the 16 results `step` apart. */
ROW_CLONES
static void turn_tile(const float *const d[POINTS], uint64_t channels, float *to, uint64_t step) {
    for (uint32_t x = 0; x < SIDE; x++) {
        const float *p = d[x], *q = d[SIDE + x], *r = d[2 * SIDE + x], *s = d[3 * SIDE + x];
        float *a = to + x * step, *b = a + SIDE * step, *e = b + SIDE * step, *f = e + SIDE * step;
        ROW_LOOP
        for (uint64_t i = 0; i < channels; i++) {
            a[i] = p[i] - r[i];
            b[i] = q[i] + r[i];
            e[i] = r[i] - q[i];
            f[i] = q[i] - s[i];
        }
    }
    for (uint32_t y = 0; y < SIDE; y++) {
        float *a = to + y * SIDE * step, *b = a + step, *e = b + step, *f = e + step;
        ROW_LOOP
        for (uint64_t i = 0; i < channels; i++) {
            const float p = a[i], q = b[i], r = e[i], s = f[i];
            a[i] = p - r;
            b[i] = q + r;
            e[i] = r - q;
            f[i] = q - s;
        }
    }
}

/* Where four results go and what is added to them; the residual may lie where they go. */
typedef struct Results {
    float *y[STEP * STEP];
    const float *z[STEP * STEP], *bias;
    float low, high;
} Results;

KERNEL_INLINE uint32_t larger(uint32_t most, float number) {
    union {
        float number;
        uint32_t bits;
    } word = {number};
    word.bits &= INT32_MAX;
    return most > word.bits ? most : word.bits;
}

KERNEL_INLINE float bounded(float sum, float low, float high) {
    sum = sum < low ? low : sum;
    return sum > high ? high : sum;
}

/* A' m A of all filters, and what follows. `most` becomes the largest size of each result's sums, as
 * bits, which have the order of what they are. */
ROW_CLONES
static void turn_back(const float *m, uint64_t step, uint64_t filters, const Results *to,
                      uint32_t most[STEP * STEP]) {
    const float *p[POINTS], *bias = to->bias;
    const float *z0 = to->z[0], *z1 = to->z[1], *z2 = to->z[2], *z3 = to->z[3];
    float *y0 = to->y[0], *y1 = to->y[1], *y2 = to->y[2], *y3 = to->y[3];
    const float low = to->low, high = to->high;
    uint32_t most0 = 0, most1 = 0, most2 = 0, most3 = 0;
    for (uint32_t k = 0; k < POINTS; k++) p[k] = m + k * step;
    ROW_LOOP
    for (uint64_t i = 0; i < filters; i++) {
        float top[SIDE], end[SIDE];
        for (uint32_t x = 0; x < SIDE; x++) {
            const float a = p[x][i], b = p[SIDE + x][i], c = p[2 * SIDE + x][i];
            top[x] = a + b + c;
            end[x] = b - c - p[3 * SIDE + x][i];
        }
        const float a = top[0] + top[1] + top[2], b = top[1] - top[2] - top[3];
        const float c = end[0] + end[1] + end[2], d = end[1] - end[2] - end[3];
        most0 = larger(most0, a);
        most1 = larger(most1, b);
        most2 = larger(most2, c);
        most3 = larger(most3, d);
        y0[i] = bounded(a + bias[i] + z0[i], low, high);
        y1[i] = bounded(b + bias[i] + z1[i], low, high);
        y2[i] = bounded(c + bias[i] + z2[i], low, high);
        y3[i] = bounded(d + bias[i] + z3[i], low, high);
    }
    most[0] = most0;
    most[1] = most1;
    most[2] = most2;
    most[3] = most3;
}

/* False where a sum is not finite, or a result's sums so small beside another's that what the tile
 * has in common may have left an error in them. */
static bool is_sound(const uint32_t most[STEP * STEP], const Results *to, const float *spare) {
    float low = HUGE_VALF, high = 0;
    for (uint32_t k = 0; k < STEP * STEP; k++) {
        float size;
        memcpy(&size, &most[k], sizeof size);
        if (to->y[k] == spare) continue;
        if (!(size < HUGE_VALF)) return false;
        low = size < low ? size : low;
        high = size > high ? size : high;
    }
    return low >= high * LEAST_SHARE;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct Job {
    const Winograd *g;
    uint64_t matrix;                   /* bytes of the weights of a point */
    uint64_t high, wide, tiles, block; /* tiles of an image's column and row; of all; of a block */
    uint64_t in_step, out_step;        /* floats between the 16 matrices */
    uint64_t size;                     /* floats of a lane */
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
    const uint64_t row = tile / job->wide;
    return (Place){row / job->high, (int64_t)(row % job->high) * STEP,
                   (int64_t)(tile % job->wide) * STEP};
}

static void find_pixels(const Winograd *g, const Place *at, const float *d[POINTS]) {
    const WindowAxis *y = &g->window->axes[0], *x = &g->window->axes[1];
    const float *image = g->x + at->image * g->window->in * g->weights.channels;
    for (int64_t i = 0; i < SIDE; i++)
        for (int64_t k = 0; k < SIDE; k++) {
            const int64_t row = at->y - y->begin + i, column = at->x - x->begin + k;
            const bool inside = row >= 0 && row < y->in && column >= 0 && column < x->in;
            d[i * SIDE + k] =
                inside ? image + (uint64_t)(row * x->in + column) * g->weights.channels : g->zero;
        }
}

/* The results of a tile; those behind the last go to `spare`. */
static void find_results(const Job *job, const Place *at, float *spare, Results *to) {
    const Winograd *g = job->g;
    const WindowAxis *rows = &g->window->axes[0], *columns = &g->window->axes[1];
    const uint64_t filters = g->weights.filters, image = at->image * g->window->out;
    for (int64_t i = 0; i < STEP; i++)
        for (int64_t k = 0; k < STEP; k++) {
            const bool inside = at->y + i < rows->out && at->x + k < columns->out;
            const uint64_t pixel = image + (uint64_t)((at->y + i) * columns->out + at->x + k);
            const Epilogue *e = g->epilogue;
            to->y[i * STEP + k] = inside ? g->y + pixel * filters : spare;
            to->z[i * STEP + k] =
                inside && e->residual ? e->residual + pixel * e->residual_row : job->nothing;
        }
}

/* An activation that is no bounds. */
static void finish_tile(const Job *job, const Results *to) {
    for (uint32_t k = 0; k < STEP * STEP; k++) {
        const EpilogueBlock block = {.y = to->y[k], .rows = 1, .columns = job->g->weights.filters};
        epilogue_apply(&job->bounds.rest, &block);
    }
}

static void run_block(const Job *job, uint64_t first, uint64_t count, float *turned) {
    const Winograd *g = job->g;
    const uint64_t channels = g->weights.channels, filters = g->weights.filters;
    float *products = turned + POINTS * job->in_step, *spare = products + POINTS * job->out_step;
    for (uint64_t i = 0; i < count; i++) {
        const Place at = place_of(job, first + i);
        const float *d[POINTS];
        find_pixels(g, &at, d);
        turn_tile(d, channels, turned + i * channels, job->in_step);
    }
    for (uint64_t point = 0; point < POINTS; point++) {
        const IgemmBlock block = {.rows = count,
                                  .depth = channels,
                                  .columns = filters,
                                  .x = turned + point * job->in_step,
                                  .weights = (const char *)g->packed + point * job->matrix,
                                  .y = products + point * job->out_step};
        igemm_multiply(&block, g->weights.level);
    }
    Results to = {.bias = g->epilogue->bias ? g->epilogue->bias : job->nothing,
                  .low = job->bounds.low,
                  .high = job->bounds.high};
    bool sound = true;
    for (uint64_t i = 0; i < count; i++) {
        const Place at = place_of(job, first + i);
        uint32_t most[STEP * STEP];
        find_results(job, &at, spare, &to);
        turn_back(products + i * filters, job->out_step, filters, &to, most);
        sound = sound && is_sound(most, &to, spare);
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

/* Tiles of a block, where there are so many. */
static uint64_t block_tiles(const Winograd *g) {
    uint64_t tile = POINTS * (g->weights.channels + g->weights.filters) * sizeof(float);
    uint64_t bytes = BLOCK_BYTES;
    if (g->blocks == WINOGRAD_SMALL) bytes /= 2;
    if (g->blocks == WINOGRAD_LARGE) bytes *= 2;
    const uint64_t tiles = bytes / tile;
    if (tiles < LEAST_TILES) return g->blocks == WINOGRAD_LARGE ? 2 * LEAST_TILES : LEAST_TILES;
    return tiles < MOST_TILES ? tiles : MOST_TILES;
}

WinogradEnd winograd_run(KernelCall *call, const Winograd *g) {
    const uint64_t channels = g->weights.channels, filters = g->weights.filters;
    atomic_bool unsound;
    const WeightLayout layout = winograd_layout(&g->weights);
    Job job = {.g = g,
               .matrix = weight_layout_group(&layout),
               .high = tiles_along(&g->window->axes[0]),
               .wide = tiles_along(&g->window->axes[1]),
               .bounds = epilogue_bounds(g->epilogue),
               .unsound = &unsound};
    atomic_init(&unsound, false);
    job.tiles = g->images * job.high * job.wide;
    const double work = (double)job.tiles * POINTS * (double)channels * (double)filters;
    const unsigned threads = kernel_work_threads(call, work / 4, job.tiles);
    const uint64_t share = (job.tiles + threads - 1) / threads;
    job.block = block_tiles(g);
    const uint64_t blocks = (share + job.block - 1) / job.block; /* of one size, nearly */
    job.block = (share + blocks - 1) / blocks;
    job.in_step = (job.block * channels + LINE - 1) / LINE * LINE + LINE;
    job.out_step = (job.block * filters + LINE - 1) / LINE * LINE + LINE;
    job.size = (POINTS * (job.in_step + job.out_step) + filters + LINE - 1) / LINE * LINE;
    float *nothing = kernel_workspace(call, filters * sizeof(float));
    job.space = kernel_workspace(call, job.size * kernel_threads(call) * sizeof(float));
    if (!job.space || !nothing) return WINOGRAD_FAILED;
    memset(nothing, 0, filters * sizeof(float));
    job.nothing = nothing;
    kernel_run_parts(call->workers, (KernelCut){job.tiles, 1, threads}, run_blocks, &job);
    return atomic_load(&unsound) ? WINOGRAD_UNSOUND : WINOGRAD_DONE;
}
