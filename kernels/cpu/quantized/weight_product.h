// SPDX-License-Identifier: Apache-2.0
/* Products of float rows by constant weights of 4 or 8 bits, which stay so in memory.
 *
 * A weight is scale * (q - zero), with a scale and a zero point for each block of `block`
 * neighboring weights of a column; the product is the sum over blocks of
 * scale * sum((q - zero) * x), all in float, unless rows may be rounded (weight_bytes.h).
 *
 * Weights are packed once in panels of WEIGHT_COLUMNS columns, those past the last 0. Of 8 bits a
 * panel has a byte (signed) a column for each depth; of 4 bits a word of 32 bits a column for eight
 * depths, the first in the highest bits. So a vector of columns is loaded, widened in registers and
 * multiplied by an element of the row. Few rows read panels at the memory's speed; many have parts
 * of them widened into the cache, for gemm.h.
 */
#ifndef DEMI_WEIGHT_PRODUCT_H
#define DEMI_WEIGHT_PRODUCT_H

#include "epilogue.h"
#include "isa.h"

enum {
    WEIGHT_COLUMNS = 64,
    WEIGHT_ROWS_MOST = 8,
    WEIGHT_GROUP = 8 /* depths in a word of 4-bit weights */
};

/* A matrix [k, n]. `blocks` is k / block, rounded up; all blocks are stored whole. */
typedef struct WeightShape {
    uint32_t bits; /* 4 or 8 */
    uint64_t k, n, block, blocks;
} WeightShape;

/* Depths that a block takes in packed weights and in the rows they are multiplied with: of 4 bits a
 * whole number of words. */
static inline uint64_t weight_block_depth(const WeightShape *shape) {
    const uint64_t rest = shape->bits == 4 ? shape->block % WEIGHT_GROUP : 0;
    return shape->block + (rest ? WEIGHT_GROUP - rest : 0);
}

/* Depths of block b that are computed: the last one may end before it is full. */
static inline uint64_t weight_depth_of(const WeightShape *shape, uint64_t b) {
    const uint64_t left = shape->k - b * shape->block;
    if (left >= shape->block) return weight_block_depth(shape);
    return shape->bits == 4 ? (left + WEIGHT_GROUP - 1) / WEIGHT_GROUP * WEIGHT_GROUP : left;
}

/* Packed bytes of one panel, and of all; false where that is no size. */
bool weight_packed_size(const WeightShape *shape, uint64_t *panel, uint64_t *all);
/* Floats of the packed scales (or zero points): [panels][blocks][WEIGHT_COLUMNS]. */
bool weight_factors_count(const WeightShape *shape, uint64_t *count);

/* Packs [n][blocks][bytes of a block] unsigned weights, the first of a byte in its low bits; 2 to
 * the power of bits - 1 is the number 0. */
void weight_pack(const WeightShape *shape, const uint8_t *from, void *to);
/* Packs [n][blocks] floats, less `offset`. */
void weight_pack_factors(const WeightShape *shape, const float *from, float offset, float *to);

/* ---- instruction sets ------------------------------------------------------------------------ */

/* Rows by a panel: y[r][WEIGHT_COLUMNS], which is added to. */
typedef struct WeightTile {
    const WeightShape *shape;
    const char *data;
    const float *scales, *zeros; /* [blocks][WEIGHT_COLUMNS]; zeros may be NULL */
    const float *x;              /* rows of blocks of weight_block_depth each, the last shorter */
    uint64_t x_row;
    float *y;
} WeightTile;

typedef void WeightRowsFunction(const WeightTile *tile);

/* Part of a panel: columns from `column` on, a multiple of a vector's lanes, of depths from k on. */
typedef struct WeightPart {
    WeightTile tile; /* without x */
    uint64_t k, depth, column, columns, row;
} WeightPart;

typedef struct WeightIsa {
    WeightRowsFunction *rows[WEIGHT_ROWS_MOST]; /* [rows - 1] */
    /* y[i * row + j] = the weight of depth k + i, column `column` + j; for a last vector of columns
     * all of its lanes */
    void (*widen)(const WeightPart *part);
} WeightIsa;

/* ---- products -------------------------------------------------------------------------------- */

typedef struct WeightProduct {
    WeightShape shape;
    IsaSet cpu;                  /* whose loops are wanted */
    const void *data;            /* packed, as are: */
    const float *scales, *zeros; /* zeros: NULL for none */
    const float *x;              /* [rows, k] */
    uint64_t rows;
    bool bytes;               /* rows may be rounded to int8 (weight_bytes.h) */
    float *y;                 /* [rows, n] */
    const Epilogue *epilogue; /* not NULL */
} WeightProduct;

/* Runs it with the call's threads. False with the error set past the memory budget. */
bool weight_product_run(KernelCall *call, const WeightProduct *product);

/* What ends a tile: `rows` rows of a panel's sums, [rows][WEIGHT_COLUMNS], become those of y from `row` and `column`
 * on. */
void weight_product_store(const WeightProduct *product, const float *sums, uint64_t row,
                          uint64_t rows, uint64_t column);

#endif
