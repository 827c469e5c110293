// SPDX-License-Identifier: Apache-2.0
/* What numpy.matmul's shapes come down to: batches of matrices, and where each batch's begin. */
#ifndef DEMI_MATMUL_BATCHES_H
#define DEMI_MATMUL_BATCHES_H

#include "kernel.h"

typedef struct MatmulBatches {
    uint64_t batches, m, n, k;
    const uint64_t *a, *b; /* [batches]: element at which the batch's matrix begins; in scratch */
} MatmulBatches;

/* For y = a * b; all dims are checked against each other. Where b is one matrix for all batches of
 * a, they are one batch of more rows. False with the error set. */
bool matmul_batches(KernelCall *call, const KernelTensor *a, const KernelTensor *b,
                    const KernelTensor *y, MatmulBatches *result);

/* The operand, of rank 2 at least, with its last two axes exchanged: a view whose dims are in
 * scratch. */
KernelTensor matmul_transposed(KernelCall *call, const KernelTensor *tensor);

#endif
