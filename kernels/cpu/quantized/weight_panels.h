// SPDX-License-Identifier: Apache-2.0
/* Weights of a few bits as products read them (weight_product.h, weight_bytes.h), which stay so in memory.
 *
 * A weight is scale * (q - zero), with a scale and a zero point for each block of `block` neighboring weights of a
 * column. Weights are packed once in panels of WEIGHT_COLUMNS columns, those past the last 0. A panel has a word of 32
 * bits per column for a group of depths, eight of 4 bits or four of 8, signed, the first in the highest bits.
 */
#ifndef DEMI_WEIGHT_PANELS_H
#define DEMI_WEIGHT_PANELS_H

#include "epilogue.h"
#include "isa.h"

enum {
    WEIGHT_COLUMNS = 64,
    WEIGHT_ROWS_MOST = 8,
    WEIGHT_WORD_BITS = 32,
};

/* A matrix [k, n]. `blocks` is k / block, rounded up; all blocks are stored whole. Weights may be stored in 2 bits
 * and packed in 4; their middle stays the middle. */
typedef struct WeightShape {
    uint32_t bits,
        stored; /* packed: 4 or 8; at most as many, of which there are whole numbers in a byte */
    uint64_t k, n, block, blocks;
    const uint32_t
        *places; /* [k]: where depths are packed, as they would be without; NULL: in order */
} WeightShape;

/* The number that is 0 where there are no zero points. */
static inline uint32_t weight_middle(uint32_t bits) {
    return 1u << (bits - 1);
}

/* Depths in a word. */
static inline uint64_t weight_group(const WeightShape *shape) {
    return WEIGHT_WORD_BITS / shape->bits;
}

static inline uint64_t weight_whole_groups(const WeightShape *shape, uint64_t depth) {
    const uint64_t group = weight_group(shape);
    return (depth + group - 1) / group * group;
}

/* Depths that a block takes in packed weights and in the rows they are multiplied with: whole words. */
static inline uint64_t weight_block_depth(const WeightShape *shape) {
    return weight_whole_groups(shape, shape->block);
}

/* Depths of block b that are computed: the last one may end before it is full. */
static inline uint64_t weight_depth_of(const WeightShape *shape, uint64_t b) {
    const uint64_t left = shape->k - b * shape->block;
    return weight_whole_groups(shape, left < shape->block ? left : shape->block);
}

static inline uint64_t weight_panel_count(const WeightShape *shape) {
    return shape->n / WEIGHT_COLUMNS + (shape->n % WEIGHT_COLUMNS != 0);
}

/* Packed bytes of one panel, and of all; false where that is no size. */
bool weight_packed_size(const WeightShape *shape, uint64_t *panel, uint64_t *all);
/* Floats of the packed scales (or zero points): [panels][blocks][WEIGHT_COLUMNS]. */
bool weight_factors_count(const WeightShape *shape, uint64_t *count);

/* Packs [n][blocks][bytes of a block] unsigned weights, the first of a byte in its low bits. */
void weight_pack(const WeightShape *shape, const uint8_t *from, void *to);
/* The same of zero points, each a byte: whole numbers of so many bits. False where one is none of these. */
bool weight_pack_zeros(const WeightShape *shape, const float *from, uint8_t *to);
/* Packs [n][blocks] floats, less `offset`. */
void weight_pack_factors(const WeightShape *shape, const float *from, float offset, float *to);

/* What packed weights have for each block of a column. Zero points are floats, less 2 to the power of bits - 1, or
 * bytes, or neither where that difference is 0 throughout. */
typedef struct WeightFactors {
    const float *scales, *zeros;
    const uint8_t *zero_bytes;
} WeightFactors;

/* ---- products -------------------------------------------------------------------------------- */

typedef struct WeightProduct {
    WeightShape shape;
    IsaSet cpu;       /* whose loops are wanted */
    const void *data; /* packed, as are: */
    WeightFactors factors;
    const float *x; /* [rows, k], in the order of the weights as they are stored */
    uint64_t rows;
    bool bytes;               /* rows may be rounded to int8 (weight_bytes.h) */
    float *y;                 /* [rows, n] */
    const Epilogue *epilogue; /* not NULL */
} WeightProduct;

/* Those of a panel. */
WeightFactors weight_panel_factors(const WeightProduct *product, uint64_t panel);

/* What ends a tile: `rows` rows of a panel's sums, [rows][WEIGHT_COLUMNS], become those of y from `row` and `column`
 * on. */
void weight_panel_store(const WeightProduct *product, const float *sums, uint64_t row,
                        uint64_t rows, uint64_t column);

#endif
