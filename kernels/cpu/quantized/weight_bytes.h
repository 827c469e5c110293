// SPDX-License-Identifier: Apache-2.0
/* Products by panels of weights (weight_panels.h) whose rows are rounded to int8, so that sums are of products of bytes.
 *
 * Each block of a row is divided into parts of WEIGHT_PART depths at most, and each part has a scale of its own,
 * largest magnitude / 127. Such a part q' of scale s' and a block of weights q with scale s and zero point z add
 *
 *     s s' (sum(q q') - z sum(q'))
 *
 * to an element, of which both sums are exact. The error is that of the rows alone: about 45 dB below them if
 * magnitudes are distributed normally, where weights of 4 bits have theirs at about 20. ONNX Runtime's accuracy level 4 and
 * llama.cpp do the same.
 */
#ifndef DEMI_WEIGHT_BYTES_H
#define DEMI_WEIGHT_BYTES_H

#include "weight_panels.h"

enum { WEIGHT_PART = 128 };

/* Parts of a block. */
static inline uint64_t weight_parts(const WeightShape *shape) {
    return (weight_block_depth(shape) + WEIGHT_PART - 1) / WEIGHT_PART;
}

/* A part of a row: `count` floats become int8, zeros behind them up to a whole group. Of 4-bit weights, the depths 7,
 * 5, 3, 1 of a group precede 6, 4, 2, 0, as these are the nibbles of a word's bytes: the low ones, then the high ones.
 * Of 8-bit weights, they are 3, 2, 1, 0. *scale is NaN where one is infinite or NaN; *sum is of the numbers. */
typedef struct BytePart {
    const float *from;
    uint64_t count; /* at most WEIGHT_PART */
    uint32_t bits;  /* of the weights */
    int8_t *to;
    float *scale;
    int32_t *sum;
} BytePart;

/* Rows by a panel: y[r][WEIGHT_COLUMNS], which is added to. */
typedef struct ByteTile {
    const WeightShape *shape;
    const char *data;
    WeightFactors factors; /* [blocks][WEIGHT_COLUMNS] */
    const int8_t *x;       /* rows of blocks of weight_block_depth each */
    const float *x_scales; /* [rows][blocks][parts] */
    const int32_t *x_sums; /* the same */
    uint64_t x_row;
    float *y;
} ByteTile;

typedef void ByteRowsFunction(const ByteTile *tile);

typedef struct ByteIsa {
    ByteRowsFunction *rows[WEIGHT_ROWS_MOST]; /* [rows - 1] */
    void (*round)(const BytePart *part);
} ByteIsa;

/* Runs it with the call's threads. False with the error set past the memory budget. */
bool weight_bytes_run(KernelCall *call, const WeightProduct *product);

#endif
