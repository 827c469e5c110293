// SPDX-License-Identifier: Apache-2.0
/* Heads of queries, keys and values in the layouts of com.microsoft's attention operators, as those
 * kernels share them. All is float; sizes are those of tensors that are there. */
#ifndef DEMI_HEAD_ROWS_H
#define DEMI_HEAD_ROWS_H

#include "attend.h"

/* Heads of rows, of each sample. Steps are in elements, a row's are side by side. */
typedef struct HeadRows {
    const float *data;
    uint64_t batches, heads, rows, size;
    uint64_t batch, head, row; /* steps */
} HeadRows;

/* What of a tensor is viewed: of rank 3 (batch, rows, heads * size), of rank 4 (batch, heads, rows,
 * size), or, of rank 5 (batch, rows, heads, parts, size), that part. */
typedef struct HeadSource {
    const KernelTensor *tensor;
    int64_t heads;
    uint64_t part;
} HeadSource;

/* False with the error set where the tensor is none. */
bool head_rows_view(KernelCall *call, HeadSource source, HeadRows *view);

/* Adds numbers to each row, `bias` being [heads * size], in memory of the call's. */
void head_rows_add(KernelCall *call, const float *bias, HeadRows *view);

/* What was there before, (batch, heads, rows, size), NULL for nothing; and where it is kept with what
 * is new, NULL for in memory of the call's. Of a cache with room for more, `shared`, the first `before`
 * rows count, new ones come behind them, and all else of it is kept, too. */
typedef struct HeadCache {
    const KernelTensor *past;
    KernelTensor *present;
    bool shared;
    uint64_t before;
} HeadCache;

/* The rows behind those of the past. False with the error set where a cache has other dims. */
bool head_rows_join(KernelCall *call, HeadCache cache, HeadRows *view);

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

/* `scale` times each query's product with each key, and what is added: (batches, heads, rows, keys). */
void head_rows_score(const HeadRows *q, const HeadRows *k, float scale, const AttendMask *bias,
                     float *to);

#endif
