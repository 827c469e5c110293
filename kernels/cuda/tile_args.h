// SPDX-License-Identifier: Apache-2.0
/* What kernels of tile.cu take; C and C++. */
#ifndef DEMI_TILE_ARGS_H
#define DEMI_TILE_ARGS_H

#include <stdint.h>

enum { TILE_DEPTH = 32 }; /* products of an element of y between two steps of the pipeline */

/* y = act(conv(x, w) + bias + z) of channels-last data: y (pixels, filters), w (filters, taps,
 * channels), x by strides in elements. A product of matrices is a convolution of one tap. */
typedef struct TileArgs {
    const void *x, *w, *bias, *z; /* bias and z may be NULL; z as y, in any float type */
    void *y;
    int64_t x_image, x_row, x_column;
    int32_t pixels, filters, channels, depth; /* of y; channels of x; channels times taps */
    int32_t in[2], out[2], taps[2], stride[2], dilation[2], begin[2];
    int32_t bias_type, z_type, op;
    float p, q;
    /* Several blocks for each tile, gridDim.z, each with a part of the depth: the sums of all, by block and
     * tile, and how many blocks of a tile are done, 0 before and after. */
    float *partial;
    uint32_t *counters;
} TileArgs;

#endif
