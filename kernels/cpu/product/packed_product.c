// SPDX-License-Identifier: Apache-2.0
/* Products by packed constants; see packed_product.h. */
#include "packed_product.h"

enum { LEAST_ROWS = 2 };

static IgemmWeights weights_of(const PackedProduct *p, const void *data) {
    return (IgemmWeights){.kind = IGEMM_FLOAT,
                          .data = data,
                          .taps = 1,
                          .depth = p->k,
                          .columns = p->n,
                          .row = p->transposed ? 1 : p->n,
                          .column = p->transposed ? p->k : 1};
}

static bool pack(KernelCall *call, const KernelPackJob *job) {
    const PackedProduct *p = call->prepared;
    const IgemmWeights weights = weights_of(p, job->from->data);
    igemm_pack(job->to, &weights, p->level);
    return true;
}

void packed_product_make(KernelCall *call, bool transposed) {
    const KernelTensor *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
    if (call->faithful || call->small || !kernel_is_constant(call, 1) || b->rank != 2 ||
        a->dtype != DTYPE_FLOAT || b->dtype != DTYPE_FLOAT || b->count == 0 || y->count == 0)
        return;
    const PackedProduct made = {.level = isa_best(),
                                .k = (uint64_t)b->dims[transposed],
                                .n = (uint64_t)b->dims[!transposed],
                                .transposed = transposed};
    if (y->count / made.n < LEAST_ROWS) return;
    PackedProduct *p = kernel_keep(call, sizeof *p);
    if (!p) return;
    *p = made;
    call->prepared = p;
    const IgemmWeights weights = weights_of(p, NULL);
    const uint64_t variant = (uint64_t)p->level << 1 | transposed;
    p->weights = kernel_share(call, 1, pack, variant, igemm_packed_size(&weights, p->level));
    if (p->weights) kernel_set_unread(call, 1);
}

typedef struct Rows {
    const float *a;
    uint64_t k;
} Rows;

static void find(const void *source, uint64_t first, uint32_t count, const void **to) {
    const Rows *rows = source;
    for (uint32_t i = 0; i < count; i++) to[i] = rows->a + (first + i) * rows->k;
}

bool packed_product_run(KernelCall *call, const PackedProduct *p, const float *a, uint64_t rows,
                        const Epilogue *epilogue) {
    const Rows source = {a, p->k};
    const Igemm product = {.kind = IGEMM_FLOAT,
                           .rows = rows,
                           .taps = 1,
                           .depth = p->k,
                           .columns = p->n,
                           .find = find,
                           .source = &source,
                           .weights = p->weights,
                           .y = call->outputs[0].data,
                           .y_row = p->n,
                           .epilogue = epilogue};
    return igemm_run(call, &product, p->level);
}
