// SPDX-License-Identifier: Apache-2.0
/* What products of bytes (igemm.h) share: rows as words, and scales by column. */
#ifndef DEMI_BYTE_ROWS_H
#define DEMI_BYTE_ROWS_H

#include "igemm.h"

/* Rows of int8 or uint8 as words of `kind`: [rows][padded elements], of uint8 for quads (int8 moved
 * by 128), of int16 less the zero point for pairs. Elements before `begin` and behind the row's
 * are the zero point. */
typedef struct ByteRows {
    IgemmKind kind;
    const void *from; /* [rows][length] */
    Dtype dtype;
    int32_t zero;
    uint64_t rows, length, begin, padded;
} ByteRows;

static inline size_t byte_rows_element(IgemmKind kind) {
    return kind == IGEMM_QUADS ? 1 : sizeof(int16_t);
}

/* Bytes from one row to the next are padded * byte_rows_element(kind). The rows themselves where
 * they are as they should be; else in the workspace, with 8 readable bytes behind the last. NULL
 * with the error set past the memory budget. */
const void *byte_rows_make(KernelCall *call, const ByteRows *rows);

/* The zero point as rows have it, which is what sums are corrected by: sum(W) times it. */
int32_t byte_rows_zero(const ByteRows *rows);

/* Fills `size` bytes with padding. */
void byte_rows_fill(const ByteRows *rows, void *to, uint64_t size);

/* (images, rows, columns) to (images, columns, rows), elements of that size. */
void byte_rows_turn(KernelCall *call, void *to, const void *from, const uint64_t dims[3],
                    size_t size);

/* Operand i for each column; `otherwise` where it is absent. NULL with the error set. */
const float *byte_by_column(KernelCall *call, uint32_t i, uint64_t count, float otherwise);

/* Operands of QConv, QConvTranspose, QMatMul: which inputs they are is the same. Sums are of W over all that a
 * column is multiplied with; `count` columns. In the workspace and in scratch. */
typedef struct ByteScale {
    IgemmScale scale;
    Epilogue bounds;
} ByteScale;
bool byte_scale_make(KernelCall *call, const int32_t *sums, int32_t zero, uint64_t count,
                     ByteScale *made);

#endif
