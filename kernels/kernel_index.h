// SPDX-License-Identifier: Apache-2.0
/* Index data: checked once, so that the loops behind it need not. And positions in tensors. */
#ifndef DEMI_KERNEL_INDEX_H
#define DEMI_KERNEL_INDEX_H

#include "kernel.h"

/* The elements of an integer tensor as indices of `size` elements: from [-size, size) to [0, size).
 * In scratch; NULL with the error set, naming the first one out of range. */
const int64_t *index_read(KernelCall *call, const KernelTensor *tensor, int64_t size);

/* One index into [0, size); false with the error set where it is not within [-size, size). */
bool index_wrap(KernelCall *call, int64_t index, int64_t size, int64_t *result);

/* Elements from one to the next along each axis of a dense tensor of these dims, in scratch. */
int64_t *index_steps(KernelCall *call, uint32_t rank, const int64_t *dims);

/* Advances a position, the last axis fastest; `at` and `dims` have `rank` numbers. After the last
 * position comes the first. */
void index_advance(uint32_t rank, const int64_t *dims, int64_t *at);

/* GatherElements and ScatterElements: which element of `data` each element of `indices` names,
 * whose position it has but along one axis. By rows of the last axis. */
typedef struct IndexRows {
    const int64_t *index, *dims;  /* checked indices; dims of the indices */
    int64_t *steps, *at, *places; /* places: [row], of the row at hand */
    uint32_t axis, rank;
    uint64_t row; /* elements of a row */
} IndexRows;

/* Begins in scratch. data and indices have that rank, at least 1, and indices no more elements than
 * data along other axes. False with the error set where an index is out of range. */
bool index_rows_begin(KernelCall *call, const KernelTensor *data, const KernelTensor *indices,
                      uint32_t axis, IndexRows *rows);
/* Fills `places` for the row whose first index is element `first`; rows come in order. */
void index_rows_next(IndexRows *rows, uint64_t first);

#endif
