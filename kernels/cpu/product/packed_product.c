// SPDX-License-Identifier: Apache-2.0
/* Products by packed constants; see packed_product.h. */
#include "packed_product.h"

/* A single row is as fast by weights as they are: so is what the plan has packed already. */
enum { LEAST_ROWS = 2 };

static IgemmWeights weights_of(const PackedProduct *p) {
    return (IgemmWeights){.kind = IGEMM_FLOAT,
                          .taps = 1,
                          .depth = p->k,
                          .columns = p->n,
                          .row = p->transposed ? 1 : p->n,
                          .column = p->transposed ? p->k : 1,
                          .way = p->way};
}

/* False where the choice can't be, or would be what the rule does. */
static bool takes_choice(const KernelCall *call, const PackedProduct *p, bool is_worth) {
    const IgemmWeights weights = weights_of(p);
    if (!call->choice) return true;
    if (call->choice == PACKED_PRODUCT_PLAIN) return is_worth;
    if (call->choice == PACKED_PRODUCT_PACKED) return !is_worth;
    return igemm_has_way(call, &weights, call->outputs[0].count / p->n, p->level);
}

/* Packed weights; NULL: they stay plain. */
static const void *find_weights(KernelCall *call, const PackedProduct *p, bool is_worth) {
    const IgemmWeights weights = weights_of(p);
    const WeightLayout layout = igemm_layout(&weights, p->level);
    if (call->choice == PACKED_PRODUCT_PLAIN) return NULL;
    return is_worth || call->choice ? kernel_weights(call, 1, &layout)
                                    : kernel_stored_weights(call, 1, &layout);
}

bool packed_product_make(KernelCall *call, bool transposed) {
    const KernelTensor *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
    if (call->faithful || !kernel_is_constant(call, 1) || b->rank != 2 || a->dtype != DTYPE_FLOAT ||
        b->dtype != DTYPE_FLOAT || b->count == 0 || y->count == 0)
        return !call->choice;
    PackedProduct made = {.level = kernel_isa(call),
                          .k = (uint64_t)b->dims[transposed],
                          .n = (uint64_t)b->dims[!transposed],
                          .transposed = transposed};
    PackedProduct *p = kernel_keep(call, sizeof *p);
    if (!p) return !call->choice;
    if (call->choice > PACKED_PRODUCT_PACKED)
        made.way = (IgemmWay)(call->choice - PACKED_PRODUCT_PACKED);
    *p = made;
    const bool is_worth = !call->small && y->count / made.n >= LEAST_ROWS;
    if (!takes_choice(call, p, is_worth)) return false;
    p->weights = find_weights(call, p, is_worth);
    if (!p->weights) return call->choice <= PACKED_PRODUCT_PLAIN;
    call->prepared = p;
    kernel_set_unread(call, 1);
    return true;
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
                           .way = p->way,
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
