// SPDX-License-Identifier: Apache-2.0
/* Launching kernels of tile.cu; see cuda_tile.h. */
#include "cuda_tile.h"

#include "cuda_device.h"

enum { THREADS = 128, GRID_LIMIT = 65535 }; /* blocks along the filters */
enum { PART_STEPS = 12 }; /* of a block at least: what shares a tile costs as much as a few */

static uint64_t blocks_of(uint64_t pixels, uint64_t filters, uint32_t rows, uint32_t columns) {
    return (uint64_t)cuda_blocks(pixels, rows, 1) * cuda_blocks(filters, columns, 1);
}

/* No block is left without a step. */
static uint32_t splits_of(uint64_t blocks, uint64_t width, uint64_t depth) {
    const uint64_t steps = (depth + TILE_DEPTH - 1) / TILE_DEPTH;
    const uint64_t room = blocks ? width / blocks : 1, most = steps / PART_STEPS;
    const uint64_t wanted = room < most ? room : most;
    if (wanted < 2 || blocks > CUDA_COUNTERS) return 1;
    const uint64_t part = (steps + wanted - 1) / wanted;
    return (uint32_t)((steps + part - 1) / part);
}

CudaTile cuda_tile_for(const KernelCall *call, uint64_t pixels, uint64_t filters, uint64_t depth) {
    const uint64_t width = cuda_width(call);
    CudaTile t = {64, 64, 0, 1};
    if (filters <= 32 || blocks_of(pixels, filters, 64, 64) < width) t.filters = 32;
    if (blocks_of(pixels, filters, 128, t.filters) >= 2 * width) t.pixels = 128;
    t.blocks = blocks_of(pixels, filters, t.pixels, t.filters);
    t.splits = splits_of(t.blocks, width, depth);
    return t;
}

bool cuda_tile_takes(Dtype dtype, uint64_t channels, uint64_t pixels, uint64_t filters,
                     uint64_t depth) {
    const uint64_t most = INT32_MAX - 128;
    return (dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16) && channels % 8 == 0 &&
           pixels <= most && depth <= most && filters <= 32 * (uint64_t)GRID_LIMIT;
}

bool cuda_tile_ready(KernelCall *call, const CudaTile *tile) {
    return tile->splits == 1 || cuda_make_counters(call);
}

bool cuda_tile(KernelCall *call, const TileArgs *given, Dtype dtype) {
    TileArgs args = *given;
    const uint64_t pixels = (uint64_t)args.pixels, filters = (uint64_t)args.filters;
    CudaTile t = cuda_tile_for(call, pixels, filters, (uint64_t)args.depth);
    if (!cuda_counters(call)) t.splits = 1;
    if (t.splits > 1) {
        const uint64_t size = t.blocks * t.splits * t.pixels * t.filters * sizeof(float);
        args.partial = kernel_workspace(call, size);
        if (!args.partial) return false;
        args.counters = cuda_counters(call);
        cuda_between(call, size);
    }
    const char *size = t.pixels == 64 ? (t.filters == 32 ? "64x32" : "64x64")
                                      : (t.filters == 32 ? "128x32" : "128x64");
    const CudaName name = cuda_name("tile", size, cuda_suffix(dtype));
    const CudaLaunch launch = {
        .family = CUDA_tile,
        .kernel = name.text,
        .blocks = {cuda_blocks(pixels, t.pixels, 1), cuda_blocks(filters, t.filters, 1), t.splits},
        .threads = {THREADS},
        .args = &args};
    return cuda_launch(call, &launch);
}
