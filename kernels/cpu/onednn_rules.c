// SPDX-License-Identifier: Apache-2.0
/* The rules by which rows of oneDNN's are chosen; see onednn_rules.h. */
#include "onednn_rules.h"

const Onednn *onednn_allowed(const KernelCall *call, OnednnFamily family, Dtype dtype) {
    bool bytes = family == ONEDNN_CONV_BYTES || family == ONEDNN_MATMUL_BYTES;
    if (call->provider == KERNEL_PROVIDER_OWN) return NULL;
    /* A bfloat16 result is that of float sums rounded once, but of sums in another order than the own
     * kernels' and with subnormals taken for 0: it may be the neighbouring number. */
    if (dtype == DTYPE_BFLOAT16 && call->faithful) return NULL;
    const Onednn *lib = onednn_get();
    if (!lib || (bytes && !lib->bytes)) return NULL;
    return dtype == DTYPE_BFLOAT16 && !lib->bfloat16 ? NULL : lib;
}

/* A row of the table: work of this family and type is faster by oneDNN from these sizes on. */
typedef struct Rule {
    OnednnFamily family;
    Dtype dtype; /* FLOAT, BFLOAT16, or UINT8 for bytes */
    bool constant; /* only with constant weights */
    uint64_t rows, columns, depth; /* at least */
    uint64_t work;                 /* rows * columns * depth, at least */
} Rule;

static const Rule rules[] = {
    {ONEDNN_CONV, DTYPE_BFLOAT16, false, 8, 1, 8, 1 << 18},
    {ONEDNN_CONV_BYTES, DTYPE_UINT8, false, 8, 1, 8, 1 << 18},
    {ONEDNN_MATMUL, DTYPE_BFLOAT16, false, 1, 16, 16, 1 << 16},
    {ONEDNN_MATMUL_BYTES, DTYPE_UINT8, false, 1, 16, 16, 1 << 14},
};

bool onednn_preferred(const KernelCall *call, const OnednnWork *work) {
    if (call->provider == KERNEL_PROVIDER_ONEDNN) return true;
    double amount = (double)work->rows * (double)work->columns * (double)work->depth;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const Rule *rule = &rules[i];
        if (rule->family == work->family && rule->dtype == work->dtype &&
            (work->constant || !rule->constant) && work->rows >= rule->rows &&
            work->columns >= rule->columns && work->depth >= rule->depth &&
            amount >= (double)rule->work)
            return true;
    }
    return false;
}
