// SPDX-License-Identifier: Apache-2.0
/* What kernels of tile.cu take; C and C++. */
#ifndef DEMI_TILE_ARGS_H
#define DEMI_TILE_ARGS_H

#include <stdint.h>

enum {
    TILE_DEPTH = 64, /* products of an element of y between two steps of the pipeline */
    TILE_SPLITS =
        8 /* blocks that share a tile's depth at most: what every device has of a cluster */
};

/* Of tiles of so many pixels and filters: groups of warps, each of which has steps of its own, one in turn after
 * the others; stages, the steps that are under way at most; and the shared memory that z, the pixels' places,
 * `stages`, or the sums of all groups and a counter, take: below the 99 kB that the smallest devices have. A kernel that has
 * no more than it needs is there, with its weights, before the one before it has ended. */
#define TILE_GROUPS(pixels, filters) ((pixels) + (filters) > 64 ? 2 : 4)
#define TILE_STAGES(pixels, filters)                                                               \
    (TILE_GROUPS(pixels, filters) * ((pixels) + (filters) > 96 ? 2 : 3))
#define TILE_STAGE(pixels, filters)  (((pixels) + (filters)) * TILE_DEPTH * 2)
#define TILE_BEFORE(pixels, filters) ((pixels) * ((filters)*2 + 16)) /* z, and where pixels are */
#define TILE_SUMS(pixels, filters)   (TILE_GROUPS(pixels, filters) * (pixels) * ((filters) + 8) * 4)
#define TILE_SHARED(pixels, filters, stages)                                                       \
    (TILE_BEFORE(pixels, filters) +                                                                \
     (TILE_STAGE(pixels, filters) * (stages) > TILE_SUMS(pixels, filters) + 16                     \
          ? TILE_STAGE(pixels, filters) * (stages)                                                 \
          : TILE_SUMS(pixels, filters) + 16))

/* y = act(conv(x, w) + bias + z) of channels-last data: y (pixels, filters), w (filters, taps,
 * channels), x by strides in elements. A product of matrices is a convolution of one tap. */
typedef struct TileArgs {
    const void *x, *w, *bias, *z; /* bias and z may be NULL; z as y, in any float type */
    void *y;
    int32_t x_image, x_row, x_column;
    int32_t pixels, filters, channels, depth; /* of y; channels of x; channels times taps */
    int32_t in[2], out[2], taps[2], stride[2], dilation[2], begin[2];
    int32_t bias_type, z_type, op;
    int32_t
        constant; /* no kernel writes w: what is before this one may still run when it is read */
    float p, q;
    /* Of three channels, which are no whole 16 bytes: x and w are by pairs of pixels, of 6 elements each, which
     * taps[1], a multiple of 4, stride[1], begin[1], in[1] and x_column count, too. The first `pairs` of a row of
     * taps are read; of those, three elements from each of `beside` on, -1 for none, are beside the window. */
    int32_t pairs, beside[2];
    /* Several blocks for each tile, gridDim.z, each with a part of the depth. They are a cluster, and partial
     * is NULL; or else: the sums of all, by block and tile, and how many blocks of a tile are done, 0 before
     * and after. */
    float *partial;
    uint32_t *counters;
} TileArgs;

#endif
