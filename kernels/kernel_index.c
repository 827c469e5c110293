// SPDX-License-Identifier: Apache-2.0
/* Index data; see kernel_index.h. */
#include "kernel_index.h"

bool index_wrap(KernelCall *call, int64_t index, int64_t size, int64_t *result) {
    *result = index < 0 ? index + size : index;
    if (*result >= 0 && *result < size) return true;
    return kernel_fail(call, "index %lld of %lld elements", (long long)index, (long long)size);
}

const int64_t *index_read(KernelCall *call, const KernelTensor *tensor, int64_t size) {
    const int64_t *items = kernel_ints(call, tensor);
    if (!items) return NULL;
    int64_t *list = (int64_t *)(uintptr_t)items; /* scratch of this call's own */
    for (uint64_t i = 0; i < tensor->count; i++)
        if (!index_wrap(call, list[i], size, &list[i])) return NULL;
    return list;
}

int64_t *index_steps(KernelCall *call, uint32_t rank, const int64_t *dims) {
    int64_t *steps = ARENA_ARRAY(call->scratch, int64_t, rank), step = 1;
    for (uint32_t i = rank; i-- > 0; step *= dims[i]) steps[i] = step;
    return steps;
}

void index_advance(uint32_t rank, const int64_t *dims, int64_t *at) {
    for (uint32_t i = rank; i-- > 0;) {
        if (++at[i] < dims[i]) return;
        at[i] = 0;
    }
}

bool index_rows_begin(KernelCall *call, const KernelTensor *data, const KernelTensor *indices,
                      uint32_t axis, IndexRows *rows) {
    const int64_t *index = index_read(call, indices, data->dims[axis]);
    if (!index) return false;
    *rows = (IndexRows){.index = index,
                        .dims = indices->dims,
                        .steps = index_steps(call, data->rank, data->dims),
                        .at = ARENA_ARRAY(call->scratch, int64_t, data->rank),
                        .axis = axis,
                        .rank = data->rank,
                        .row = (uint64_t)indices->dims[data->rank - 1]};
    rows->places = ARENA_ARRAY(call->scratch, int64_t, rows->row);
    return true;
}

void index_rows_next(IndexRows *rows, uint64_t first) {
    int64_t base = 0,
            along = rows->axis + 1 == rows->rank ? 0 : 1; /* what the last axis itself adds */
    for (uint32_t k = 0; k + 1 < rows->rank; k++)
        if (k != rows->axis) base += rows->at[k] * rows->steps[k];
    for (uint64_t k = 0; k < rows->row; k++)
        rows->places[k] =
            base + rows->index[first + k] * rows->steps[rows->axis] + (int64_t)k * along;
    index_advance(rows->rank - 1, rows->dims, rows->at);
}
