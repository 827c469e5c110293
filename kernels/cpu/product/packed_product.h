// SPDX-License-Identifier: Apache-2.0
/* Products by a second matrix that is constant: packed once for all contexts (igemm.h), where more
 * than one row is multiplied with it. */
#ifndef DEMI_PACKED_PRODUCT_H
#define DEMI_PACKED_PRODUCT_H

#include "epilogue.h"
#include "igemm.h"

typedef struct PackedProduct {
    IsaLevel level;
    uint64_t k, n;
    bool transposed;     /* the matrix is [n, k] */
    const void *weights; /* NULL: it is not packed */
} PackedProduct;

/* For `make` of rows whose operand 1 is the matrix: packs it where that is worth it and sets
 * call->prepared, which is a PackedProduct or NULL. Not in faithful plans, whose sums are made in
 * another order. */
void packed_product_make(KernelCall *call, bool transposed);

/* y[rows, n] = act(a[rows, k] * B + bias + residual). False with the error set. */
bool packed_product_run(KernelCall *call, const PackedProduct *product, const float *a,
                        uint64_t rows, const Epilogue *epilogue);

#endif
