// SPDX-License-Identifier: Apache-2.0
/* Launching kernels of tile.cu; see cuda_tile.h. */
#include "cuda_tile.h"

#include "cuda_device.h"

enum { GRID_LIMIT = 65535 }; /* blocks along the filters */
enum { PART_STEPS = 4 };     /* of a block at least: what shares a tile costs as much as a few */

/* How many blocks share the depth of each of so many tiles: a power of two, which cuts clusters well out of
 * a device, less those that would be left without a step. */
static uint32_t splits_of(uint64_t blocks, uint64_t width, uint64_t depth) {
    const uint64_t steps = (depth + TILE_DEPTH - 1) / TILE_DEPTH;
    uint32_t splits = 1;
    while (splits < TILE_SPLITS && 2 * splits * blocks <= width && 2 * splits * PART_STEPS <= steps)
        splits *= 2;
    const uint64_t part = (steps + splits - 1) / splits;
    return blocks > CUDA_COUNTERS ? 1 : (uint32_t)((steps + part - 1) / part);
}

static CudaTile tile_of(uint64_t width, uint64_t pixels, uint64_t filters, uint64_t depth,
                        uint32_t rows, uint32_t columns) {
    CudaTile t = {rows, columns,
                  (uint64_t)cuda_blocks(pixels, rows, 1) * cuda_blocks(filters, columns, 1), 1};
    t.splits = splits_of(t.blocks, width, depth);
    return t;
}

CudaTile cuda_tile_for(const KernelCall *call, uint64_t pixels, uint64_t filters, uint64_t depth) {
    const uint64_t width = cuda_width(call);
    const CudaTile square = tile_of(width, pixels, filters, depth, 64, 64);
    const CudaTile narrow = tile_of(width, pixels, filters, depth, 64, 32);
    const uint32_t columns = filters <= 32 ? 32 : 64;
    const CudaTile large = tile_of(width, pixels, filters, depth, 128, columns);
    if (large.blocks >= 2 * width) return large;
    /* where that fills the device without sharing, small tiles; and where nothing can be shared */
    const bool fills = narrow.blocks >= width * 5 / 8;
    if (filters <= 32 || (square.blocks < width * 5 / 8 && square.splits <= 2 && fills) ||
        (square.splits == 1 && square.blocks < width * 5 / 8))
        return fills ? (CudaTile){64, 32, narrow.blocks, 1} : narrow;
    return square;
}

bool cuda_tile_takes(Dtype dtype, uint64_t channels, uint64_t pixels, uint64_t filters,
                     uint64_t depth) {
    const uint64_t most = INT32_MAX - 128;
    return (dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16) && channels % 8 == 0 &&
           pixels <= most && depth <= most && filters <= 32 * (uint64_t)GRID_LIMIT;
}

bool cuda_tile_ready(KernelCall *call, const CudaTile *tile) {
    return tile->splits == 1 || cuda_has_clusters(call) || cuda_make_counters(call);
}

bool cuda_tile(KernelCall *call, const TileArgs *given, Dtype dtype) {
    TileArgs args = *given;
    const uint64_t pixels = (uint64_t)args.pixels, filters = (uint64_t)args.filters;
    CudaTile t = cuda_tile_for(call, pixels, filters, (uint64_t)args.depth);
    const bool clusters = cuda_has_clusters(call);
    if (!clusters && !cuda_counters(call)) t.splits = 1;
    if (t.splits > 1 && !clusters) {
        const uint64_t size = t.blocks * t.splits * t.pixels * t.filters * sizeof(float);
        args.partial = kernel_workspace(call, size);
        if (!args.partial) return false;
        args.counters = cuda_counters(call);
        cuda_between(call, size);
    }
    const bool wide = t.filters == 64;
    const char *size = t.pixels == 64 ? (wide ? "64x64" : "64x32") : wide ? "128x64" : "128x32";
    const CudaName name = cuda_name("tile", size, cuda_suffix(dtype));
    const uint32_t threads = t.pixels == 64 ? (wide ? 128 : 256) : wide ? 256 : 128;
    const CudaLaunch launch = {
        .family = CUDA_tile,
        .kernel = name.text,
        .blocks = {cuda_blocks(pixels, t.pixels, 1), cuda_blocks(filters, t.filters, 1), t.splits},
        .threads = {threads},
        .shared = (uint32_t)TILE_SHARED(t.pixels, t.filters),
        .cluster = clusters && t.splits > 1 ? t.splits : 0,
        .args = &args};
    return cuda_launch(call, &launch);
}
