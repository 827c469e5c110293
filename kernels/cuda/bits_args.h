// SPDX-License-Identifier: Apache-2.0
/* What kernels of bits.cu take; C and C++. */
#ifndef DEMI_BITS_ARGS_H
#define DEMI_BITS_ARGS_H

#include <stdint.h>

enum {
    BITS_ROWS =
        8, /* at most, where weights are read as they are: then blocks are whole words, and the
                       depth a multiple of 4 */
    BITS_WARPS = 8, /* of a block, each with a column */
};

/* y (rows, columns) = x W + bias + z, where W (depth, columns) is `weights`: for each column so many
 * blocks of `bytes` bytes, which hold `block` elements of 4 or 8 bits, low ones first. An element is
 * (weight - zero) scale; zero points are one a block, packed as weights are with a column's in whole
 * bytes, or (zero_type) floats. */
typedef struct BitsArgs {
    const void *x, *scale, *zero, *bias,
        *z; /* the last three may be NULL: zero is the middle then */
    const uint8_t *weights;
    void *y;
    int64_t columns, depth;
    int32_t rows, blocks, block, bytes, bits;
    int32_t scale_type, zero_type, bias_type, z_type, y_type;
} BitsArgs;

#endif
