// SPDX-License-Identifier: Apache-2.0
/* Launching kernels of tile.cu; see cuda_tile.h. */
#include "cuda_tile.h"

#include "cuda_device.h"

enum { GRID_LIMIT = 65535 }; /* blocks along the filters */

/* How long kernels take, in nanoseconds: fitted to what those of ResNet-50, BERT and MobileNetV2 took of an H200,
 * from the end of the one before to their own. A kernel; more where two blocks are on a multiprocessor, and
 * where blocks wait for others to end, for each 100 elements of a tile, too; and for blocks to add up what they
 * share, each of them, too.
 *
 * That was before groups of warps had steps of their own. A step now takes 0.09 to 0.2, 0.2 to 0.4 and 0.24 to 0.5
 * of a microsecond, the more where two blocks share a multiprocessor; but with half of the figures below, or 7
 * tenths, what is chosen is slower (ResNet-50 of 1, 8 and 32 images, BERT of 1), and so they stay. */
enum { START = 2100, SECOND = 500, TURN = 1600, TURN_ELEMENTS = 45, SHARING = 400, SHARE = 150 };

/* The shapes of tiles, and how long a block took for a step of the depth: for its data to come, so that two of a
 * multiprocessor took no longer. */
static const struct Shape {
    const char *name;
    uint32_t pixels, filters, threads, step;
} shapes[] = {
    {"32x32", 32, 32, 128, 200}, {"64x32", 64, 32, 256, 410}, {"64x64", 64, 64, 256, 720}};

static uint64_t most_stages(const struct Shape *shape) {
    return (uint64_t)TILE_STAGES((int)shape->pixels, (int)shape->filters);
}

/* The shared memory of a block that goes through so many steps. */
static uint32_t shared_of(const struct Shape *shape, uint64_t steps) {
    const uint64_t most = most_stages(shape);
    const int stages = (int)(steps < most ? steps : most);
    return (uint32_t)TILE_SHARED((int)shape->pixels, (int)shape->filters, stages);
}

static uint64_t div_up(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}

static uint64_t time_of(const struct Shape *shape, uint64_t width, uint64_t tiles, uint64_t splits,
                        uint64_t part) {
    const uint64_t blocks = tiles * splits, turns = div_up(blocks, 2 * width);
    const uint64_t turn = TURN + (uint64_t)shape->pixels * shape->filters * TURN_ELEMENTS / 100;
    return START + turns * part * shape->step + (turns - 1) * turn + (blocks > width ? SECOND : 0) +
           (splits > 1 ? SHARING + splits * SHARE : 0);
}

/* Large clusters come to run only where a part of the device is free at once. */
static bool may_share(uint64_t width, uint64_t tiles, uint64_t splits) {
    return splits == 1 ||
           (tiles <= CUDA_COUNTERS && tiles * splits <= (splits > 4 ? width : 2 * width));
}

/* 1 where there is no device, as shapes are asked for all the same. */
static uint64_t width_of(const KernelCall *call) {
    const uint64_t width = cuda_width(call);
    return width ? width : 1;
}

static uint64_t steps_of(uint64_t depth) {
    return depth ? div_up(depth, TILE_DEPTH) : 1;
}

/* The shape, and how many blocks share a tile, that take the least time. */
CudaTile cuda_tile_for(const KernelCall *call, uint64_t pixels, uint64_t filters, uint64_t depth) {
    const uint64_t width = width_of(call), steps = steps_of(depth);
    CudaTile best = {.time = UINT64_MAX};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const uint64_t tiles =
            div_up(pixels, shapes[i].pixels) * div_up(filters, shapes[i].filters);
        for (uint64_t shares = 1; shares <= TILE_SPLITS; shares *= 2) {
            const uint64_t part = div_up(steps, shares), splits = div_up(steps, part);
            const uint64_t time = time_of(&shapes[i], width, tiles, splits, part);
            if (!may_share(width, tiles, splits) || time >= best.time) continue;
            best = (CudaTile){.shape = i,
                              .splits = (uint32_t)splits,
                              .blocks = tiles,
                              .time = time,
                              .at_once = tiles * splits <= 2 * width};
        }
    }
    return best;
}

CudaTile cuda_tile_for_pairs(const KernelCall *call, uint64_t pixels, uint64_t filters,
                             uint64_t depth) {
    const uint32_t i = filters <= 32 ? 1 : 2;
    const struct Shape *shape = &shapes[i];
    const uint64_t width = width_of(call), steps = steps_of(depth);
    const uint64_t tiles = div_up(pixels, shape->pixels) * div_up(filters, shape->filters);
    CudaTile t = {.shape = i, .splits = 1, .at_once = tiles <= 2 * width};
    t.time = time_of(shape, width, tiles, 1, steps);
    if (steps <= most_stages(shape)) t.blocks = tiles;
    return t;
}

bool cuda_tile_takes(Dtype dtype, uint64_t channels, uint64_t pixels, uint64_t filters,
                     uint64_t depth, uint64_t reach) {
    const uint64_t most = INT32_MAX - 128;
    return dtype_is_reduced(dtype) && channels && channels % 8 == 0 && pixels <= most &&
           reach <= most && depth <= most / (filters + 64) && filters <= 32 * (uint64_t)GRID_LIMIT;
}

bool cuda_tile_ready(KernelCall *call, const CudaTile *tile) {
    return tile->splits == 1 || cuda_has_clusters(call) || cuda_make_counters(call);
}

bool cuda_tile(KernelCall *call, const TileArgs *given, Dtype dtype) {
    TileArgs args = *given;
    const uint64_t pixels = (uint64_t)args.pixels, filters = (uint64_t)args.filters;
    CudaTile t = (args.pairs ? cuda_tile_for_pairs : cuda_tile_for)(call, pixels, filters,
                                                                    (uint64_t)args.depth);
    const struct Shape *shape = &shapes[t.shape];
    const bool clusters = cuda_has_clusters(call);
    if (!clusters && !cuda_counters(call)) t.splits = 1;
    if (t.splits > 1 && !clusters) {
        const uint64_t size = t.blocks * t.splits * shape->pixels * shape->filters * sizeof(float);
        args.partial = kernel_workspace(call, size);
        if (!args.partial) return false;
        args.counters = cuda_counters(call);
        cuda_between(call, size);
    }
    const CudaName name =
        cuda_name(args.pairs ? "tile_few" : "tile", shape->name, cuda_suffix(dtype));
    const CudaLaunch launch = {
        .family = CUDA_tile,
        .kernel = name.text,
        .blocks = {cuda_blocks(pixels, shape->pixels, 1), cuda_blocks(filters, shape->filters, 1),
                   t.splits},
        .threads = {shape->threads},
        .shared = shared_of(shape, div_up(steps_of((uint64_t)args.depth), t.splits)),
        .cluster = clusters && t.splits > 1 ? t.splits : 0,
        .args = &args};
    return cuda_launch(call, &launch);
}
