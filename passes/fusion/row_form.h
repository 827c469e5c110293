// SPDX-License-Identifier: Apache-2.0
/* Products of rows that are quantized when the model runs, by weights of int8: the operators that
 * quantize-rows writes, that strip-qdq takes back, and that fuse-quantized makes one kernel of.
 *
 *   low = ReduceMin(x, -1)   high = ReduceMax(x, -1)                          of each row
 *   scale = Max((high - low) * (1 / 255), 2^-126) + ReduceSum(x, -1) * 0
 *   bytes = Cast(Round((x - low) / scale)), uint8; from opset 21 on QuantizeLinear(x - low, scale) by blocks of a row
 *   y = Cast(MatMulInteger(bytes, W)) * scale * factors + low * shifts
 *
 * as x = low + scale * bytes; factors are the scales of W's columns, shifts the sums of these times the
 * factors. The sum is there for its NaN: a row that is not finite gives NaN, whatever its bytes are, which
 * ReduceMin and ReduceMax do not promise. */
#ifndef DEMI_ROW_FORM_H
#define DEMI_ROW_FORM_H

#include "fuse_graph.h"

enum { ROW_LEVELS = 255, ROW_DEPTH_MOST = INT32_MAX / (255 * 128) };

/* The least scale. */
#define ROW_SCALE_LEAST 0x1p-126f

typedef struct RowBytes {
    Value *x, *low, *scale, *bytes;
    const Node *divides; /* of those that were found: it reads the scale */
} RowBytes;

/* Constants of the operators, which all in one graph share; NULL: not made yet. */
typedef struct RowConstants {
    Value *axis, *level, *least, *zero;
} RowConstants;

/* Makes that before `at`; x is float, its rows have that length. */
RowBytes row_bytes_make(PassCtx *ctx, Node *at, Value *x, int64_t length, RowConstants *shared);

/* The rows that `bytes` are made of so, by anybody. */
bool row_bytes_find(Value *bytes, Arena *scratch, RowBytes *found);

/* Operands beside the bytes. W is (K, N), int8; the others are N floats, or one. */
typedef struct RowWeights {
    Value *bytes, *factors, *shifts;
} RowWeights;

typedef struct RowProduct {
    Node *node;                 /* the MatMulInteger */
    Node *root;                 /* whose result is y */
    Value *bytes, *low, *scale; /* of rows */
    RowWeights weights;
} RowProduct;

/* The product of those rows before `at`, which gives a value of that shape; its result, and the MatMulInteger in *integer. */
Value *row_product_make(PassCtx *ctx, Node *at, const RowBytes *rows, const RowWeights *weights,
                        Node **integer);

/* The product whose MatMulInteger `node` is. */
bool row_product_find(Node *node, RowProduct *found);

/* The matrix that the product's bytes are, or are with the axes exchanged where *turned. */
Value *row_weights_stored(Value *bytes, bool *turned);

#endif
