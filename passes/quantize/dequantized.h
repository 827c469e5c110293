// SPDX-License-Identifier: Apache-2.0
/* Float constants that are made of quantized ones: (number - zero point) * scale. Large ones are made as they are read,
 * so that nothing is held but the numbers as they are stored, and their scales. */
#ifndef DEMI_DEQUANTIZED_H
#define DEMI_DEQUANTIZED_H

#include "qdq_scale.h"
#include "tensor.h"

typedef struct Dequantized {
    /* Codes of `dtype`, one after the other as raw_data has them, the first in the lowest bits; [outer][axis][inner].
     */
    const Tensor *numbers;
    Dtype dtype;
    uint64_t outer, axis, inner;
    /* Scales, of any type with numbers, and zero points of one scale each: one for all, or for each place of the axis,
     * or for each block of it, [outer][axis / block, rounded up][inner]. */
    const Tensor *scales, *zeros; /* zeros: NULL: `zero` for all */
    Dtype zero_dtype;             /* of the zero points' codes */
    uint64_t zero_line; /* how many of these begin on a byte of their own; 0: all are one line */
    uint64_t block;     /* 0: no blocks */
    float zero;
    /* The result has the codes' order, or is [depth, outer]: of each line of the axis, where inner is 1, the first
     * `depth`, as columns. */
    bool turned;
    uint64_t depth;
    const int32_t
        *groups; /* [depth], of what is turned: the block that its scale is of; NULL: its own */
} Dequantized;

/* The constant, in `arena`, which what it is made of must live as long as; `name` is what messages call it. NULL where
 * the parts do not fit, have no numbers, or cannot be read. */
const Tensor *dequantized_tensor(Arena *arena, const Dequantized *of, const int64_t *dims,
                                 uint32_t rank, const char *name);

typedef struct DequantizedMaker DequantizedMaker;

/* What makes the tensor, or what it is cast from: its scales, with which such numbers are found again exactly. NULL
 * where that is nothing, or does not fit the layout: another type than uint4 or uint2, blocks with several scales or
 * zero points, or ones that cannot be stored so. */
const DequantizedMaker *dequantized_grid(const Tensor *tensor, const QdqWeights *layout);

/* `count` scales and zero points of the layout's blocks, from `first` on. */
void dequantized_scales(const DequantizedMaker *grid, const QdqWeights *layout, uint64_t first,
                        uint64_t count, float *scales, uint8_t *zeros);

#endif
