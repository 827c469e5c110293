// SPDX-License-Identifier: Apache-2.0
/* Products and convolutions of 16 bit by tiles of tensor cores, with all that follows them (tile.cu). */
#ifndef DEMI_CUDA_TILE_H
#define DEMI_CUDA_TILE_H

#include "cuda_call.h"
#include "tile_args.h"

/* What of y a block has, by the number of its shape, so that there are blocks enough for the device; how many
 * tiles there are; and how many blocks share the depth of each, where there are few and the depth is much. */
typedef struct CudaTile {
    uint32_t shape, splits;
    uint64_t blocks, time; /* the tiles; nanoseconds that this is likely to take */
    bool at_once;          /* all of it runs at once, so that a library's time can be told, too */
} CudaTile;
CudaTile cuda_tile_for(const KernelCall *call, uint64_t pixels, uint64_t filters, uint64_t depth);

/* The same by pairs of pixels of three channels (TileArgs.pairs); no blocks where there is no kernel for so many
 * taps. */
CudaTile cuda_tile_for_pairs(const KernelCall *call, uint64_t pixels, uint64_t filters,
                             uint64_t depth);

/* Whether there are kernels of it: 16-bit floats, rows of whole 16 bytes, and few enough pixels and weights to
 * be counted in 32 bits, a block beyond the last included. `reach`: of x, in elements, and how far beyond its
 * ends taps may lie. */
bool cuda_tile_takes(Dtype dtype, uint64_t channels, uint64_t pixels, uint64_t filters,
                     uint64_t depth, uint64_t reach);

/* When a row that will call it gets ready: what blocks share is made. False with the error set. */
bool cuda_tile_ready(KernelCall *call, const CudaTile *tile);

/* By pairs where args->pairs. */
bool cuda_tile(KernelCall *call, const TileArgs *args, Dtype dtype);

#endif
