// SPDX-License-Identifier: Apache-2.0
/* Products by packed constants; see packed_product.h. */
#include "packed_product.h"

/* A single row reads each weight once: as fast where a column's lie side by side as they are, and then
 * what the plan has packed already serves, too. Where they don't, packed ones are one stream for a thread
 * instead of a row's piece after the other, which memory gives at two thirds of the rate. */
static bool gains(const KernelCall *call, const PackedProduct *p) {
    return !call->small && (call->outputs[0].count / p->n > 1 || !p->transposed);
}

static IgemmWeights weights_of(const PackedProduct *p) {
    return (IgemmWeights){.kind = p->kind,
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
    return igemm_has_way(call, &weights, call->outputs[0].count / p->n, p->cpu);
}

/* Packed weights; NULL: they stay plain. */
static const void *find_weights(KernelCall *call, const PackedProduct *p, bool is_worth) {
    const IgemmWeights weights = weights_of(p);
    const WeightLayout layout = igemm_layout(&weights, p->cpu);
    if (call->choice == PACKED_PRODUCT_PLAIN) return NULL;
    return is_worth || call->choice ? kernel_weights(call, 1, &layout)
                                    : kernel_stored_weights(call, 1, &layout);
}

static PackedProduct made_of(const KernelCall *call, IgemmKind kind, bool transposed) {
    const KernelTensor *b = &call->inputs[1];
    return (PackedProduct){.cpu = kernel_cpu(call),
                           .kind = kind,
                           .way = call->choice > PACKED_PRODUCT_PACKED
                                      ? (IgemmWay)(call->choice - PACKED_PRODUCT_PACKED)
                                      : IGEMM_BY_RULE,
                           .k = (uint64_t)b->dims[transposed],
                           .n = (uint64_t)b->dims[!transposed],
                           .transposed = transposed};
}

/* A matrix that is constant. */
static bool has_matrix(const KernelCall *call, Dtype dtype) {
    const KernelTensor *a = &call->inputs[0], *b = &call->inputs[1];
    return !call->faithful && kernel_is_constant(call, 1) && b->rank == 2 && a->dtype == dtype &&
           b->dtype == dtype && b->count && call->outputs[0].count;
}

static bool finish(KernelCall *call, PackedProduct *p, bool is_worth) {
    p->weights = find_weights(call, p, is_worth);
    if (!p->weights) return false;
    call->prepared = p;
    kernel_set_unread(call, 1);
    return true;
}

bool packed_product_make(KernelCall *call, bool transposed) {
    if (!has_matrix(call, DTYPE_FLOAT)) return !call->choice;
    const PackedProduct made = made_of(call, IGEMM_FLOAT, transposed);
    PackedProduct *p = kernel_keep(call, sizeof *p);
    if (!p) return !call->choice;
    *p = made;
    const bool is_worth = gains(call, p);
    if (!takes_choice(call, p, is_worth)) return false;
    return finish(call, p, is_worth) || call->choice <= PACKED_PRODUCT_PLAIN;
}

bool packed_product_make_bfloats(KernelCall *call, bool transposed) {
    const KernelTensor *z = kernel_input(call, 3);
    const Dtype to = call->outputs[0].dtype;
    if (call->provider == KERNEL_PROVIDER_ONEDNN || !has_matrix(call, DTYPE_BFLOAT16) ||
        !igemm_has_bfloats(kernel_cpu(call)) || (to != DTYPE_BFLOAT16 && to != DTYPE_FLOAT) ||
        (z && z->dtype != to))
        return false;
    const PackedProduct made = made_of(call, IGEMM_BFLOATS, transposed);
    PackedProduct *p = made.k % 2 ? NULL : kernel_keep(call, sizeof *p);
    if (!p) return false;
    *p = made;
    return takes_choice(call, p, true) && finish(call, p, true);
}

typedef struct Rows {
    const char *a;
    uint64_t row; /* bytes */
} Rows;

static void find(const void *source, uint64_t first, uint32_t count, const void **to) {
    const Rows *rows = source;
    for (uint32_t i = 0; i < count; i++) to[i] = rows->a + (first + i) * rows->row;
}

bool packed_product_run(KernelCall *call, const PackedProduct *p, const void *a, uint64_t rows,
                        const Epilogue *epilogue) {
    const Rows source = {a, p->k * (p->kind == IGEMM_FLOAT ? sizeof(float) : sizeof(uint16_t))};
    const bool narrow = call->outputs[0].dtype == DTYPE_BFLOAT16;
    const KernelTensor *z = narrow ? kernel_input(call, 3) : NULL;
    const Igemm product = {.kind = p->kind,
                           .way = p->way,
                           .rows = rows,
                           .taps = 1,
                           .depth = igemm_words(p->kind, p->k),
                           .columns = p->n,
                           .find = find,
                           .source = &source,
                           .weights = p->weights,
                           .y = call->outputs[0].data,
                           .y_row = p->n,
                           .epilogue = epilogue,
                           .z = z ? z->data : NULL,
                           .wide = !narrow};
    return igemm_run(call, &product, p->cpu);
}
