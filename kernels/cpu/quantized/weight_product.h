// SPDX-License-Identifier: Apache-2.0
/* Products of float rows by constant weights of 4 or 8 bits: the sum over blocks of scale * sum((q - zero) * x), all in
 * float, unless rows may be rounded (weight_bytes.h).
 *
 * A vector of columns of a panel (weight_panels.h) is loaded, widened in registers and multiplied by an element of the
 * row. Few rows read panels at the memory's speed; many have parts of them widened into the cache, for gemm.h.
 */
#ifndef DEMI_WEIGHT_PRODUCT_H
#define DEMI_WEIGHT_PRODUCT_H

#include "weight_panels.h"

/* Rows by a panel: y[r][WEIGHT_COLUMNS], which is added to. */
typedef struct WeightTile {
    const WeightShape *shape;
    const char *data;
    WeightFactors factors; /* [blocks][WEIGHT_COLUMNS] */
    const float *x;        /* rows of blocks of weight_block_depth each, the last shorter */
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

/* Runs it with the call's threads. False with the error set past the memory budget. */
bool weight_product_run(KernelCall *call, const WeightProduct *product);

#endif
