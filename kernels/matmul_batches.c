// SPDX-License-Identifier: Apache-2.0
/* Shapes of numpy.matmul; see matmul_batches.h. */
#include "matmul_batches.h"

/* Batch axes of an operand. */
static uint32_t batch_rank(const KernelTensor *t) {
    return t->rank > 2 ? t->rank - 2 : 0;
}

/* The first element of each batch's matrix of t, whose batch dims are broadcast to y's first `rank`
 * ones. NULL where they do not fit. */
static const uint64_t *starts(KernelCall *call, const KernelTensor *t, const KernelTensor *y,
                              uint32_t rank, uint64_t batches) {
    uint32_t own = batch_rank(t);
    if (own > rank) return NULL;
    uint64_t *steps = ARENA_ARRAY(call->scratch, uint64_t, rank + 1);
    uint64_t size = kernel_span(t, own, t->rank);
    for (uint32_t i = own; i-- > 0;) {
        int64_t dim = t->dims[i], wanted = y->dims[i + rank - own];
        if (dim != 1 && dim != wanted) return NULL;
        steps[i + rank - own] = dim == 1 ? 0 : size;
        size *= (uint64_t)dim;
    }
    uint64_t *at = ARENA_ARRAY(call->scratch, uint64_t, batches + 1);
    for (uint64_t b = 0; b < batches; b++) {
        uint64_t rest = b;
        for (uint32_t i = rank; i-- > 0; rest /= (uint64_t)y->dims[i])
            at[b] += rest % (uint64_t)y->dims[i] * steps[i];
    }
    return at;
}

bool matmul_batches(KernelCall *call, const KernelTensor *a, const KernelTensor *b,
                    const KernelTensor *y, MatmulBatches *result) {
    if (!a->rank || !b->rank) return kernel_fail(call, "a scalar is not a matrix");
    uint32_t matrix = (a->rank > 1 ? 1u : 0) + (b->rank > 1 ? 1u : 0);
    MatmulBatches s = {.m = a->rank > 1 ? (uint64_t)a->dims[a->rank - 2] : 1,
                       .k = (uint64_t)a->dims[a->rank - 1],
                       .n = b->rank > 1 ? (uint64_t)b->dims[b->rank - 1] : 1};
    uint64_t b_rows = (uint64_t)b->dims[b->rank > 1 ? b->rank - 2 : 0];
    bool fits = y->rank >= matrix && b_rows == s.k;
    uint32_t rank = fits ? y->rank - matrix : 0, at = rank;
    if (fits && a->rank > 1) fits = (uint64_t)y->dims[at++] == s.m;
    if (fits && b->rank > 1) fits = (uint64_t)y->dims[at] == s.n;
    if (!fits) return kernel_fail(call, "the matrices' dimensions do not fit");
    *result = s;
    if (y->count == 0) return true;
    result->batches = kernel_span(y, 0, rank);
    bool together = b->rank <= 2 && a->rank > 1 && batch_rank(a) == rank;
    if (together) {
        result->m *= result->batches;
        result->batches = 1;
        rank = 0;
        result->a = ARENA_ARRAY(call->scratch, uint64_t, 1);
        result->b = ARENA_ARRAY(call->scratch, uint64_t, 1);
        return a->count == result->m * s.k || kernel_fail(call, "the batches do not fit");
    }
    result->a = starts(call, a, y, rank, result->batches);
    result->b = starts(call, b, y, rank, result->batches);
    return (result->a && result->b) || kernel_fail(call, "the batches do not fit");
}

KernelTensor matmul_transposed(KernelCall *call, const KernelTensor *tensor) {
    KernelTensor view = *tensor;
    int64_t *dims = ARENA_ARRAY(call->scratch, int64_t, view.rank);
    for (uint32_t i = 0; i < view.rank; i++) dims[i] = tensor->dims[i];
    dims[view.rank - 2] = tensor->dims[view.rank - 1];
    dims[view.rank - 1] = tensor->dims[view.rank - 2];
    view.dims = dims;
    return view;
}
