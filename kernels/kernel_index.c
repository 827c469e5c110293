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
