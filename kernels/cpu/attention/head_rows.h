// SPDX-License-Identifier: Apache-2.0
/* Heads of queries, keys and values in the layouts of com.microsoft's attention operators, as those
 * kernels share them. All is float; sizes are those of tensors that are there. */
#ifndef DEMI_HEAD_ROWS_H
#define DEMI_HEAD_ROWS_H

#include "attend.h"

/* Of each sample: heads of rows. Steps are in elements, a row's are side by side. */
typedef struct HeadRows {
    const float *data;
    uint64_t heads, rows, size;
    uint64_t batch, head, row; /* steps */
} HeadRows;

/* Views a tensor of rank 3 (batch, rows, heads * size), of rank 4 (batch, heads, rows, size), or of
 * rank 5 (batch, rows, heads, parts, size), of which that part is read. False with the error set
 * where it is none. */
bool head_rows_view(KernelCall *call, const KernelTensor *t, int64_t heads, uint64_t part,
                    HeadRows *view);

/* Adds numbers to each row, `bias` being [heads * size], in memory of the call's. */
bool head_rows_add(KernelCall *call, uint64_t batches, const float *bias, HeadRows *view);

/* The rows behind those of `past` (batch, heads, rows, size), NULL for none, in `present` where that
 * is not NULL, whose dims are checked, else in memory of the call's. */
bool head_rows_join(KernelCall *call, uint64_t batches, const KernelTensor *past,
                    KernelTensor *present, HeadRows *view);

/* For attend.h. */
AttendOperand head_rows_operand(const HeadRows *view);

/* What is added to scores, broadcast to (batches, heads, rows, keys). */
typedef struct HeadScores {
    uint64_t batches, heads, rows, keys;
} HeadScores;

/* An operand that broadcasts along its first two axes, as such a mask. False with the error set for
 * other dims. */
bool head_rows_bias(KernelCall *call, const KernelTensor *t, const HeadScores *scores,
                    AttendMask *mask);

#endif
