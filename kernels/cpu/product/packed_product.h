// SPDX-License-Identifier: Apache-2.0
/* Products by a second matrix that is constant: packed once for all contexts (igemm.h), where more
 * than one row is multiplied with it. */
#ifndef DEMI_PACKED_PRODUCT_H
#define DEMI_PACKED_PRODUCT_H

#include "epilogue.h"
#include "igemm.h"

typedef struct PackedProduct {
    IsaSet cpu;
    IgemmKind kind; /* of float or bfloat16 */
    IgemmWay way;
    uint64_t k, n;
    bool transposed;     /* the matrix is [n, k] */
    const void *weights; /* NULL: it is not packed */
} PackedProduct;

/* KernelCall.choice of such rows: not to pack it where it would be; to pack it where it would not be;
 * and to, and multiply in another way of igemm.h. */
enum {
    PACKED_PRODUCT_PLAIN = 1,
    PACKED_PRODUCT_PACKED,
    PACKED_PRODUCT_CHOICES = PACKED_PRODUCT_PACKED + IGEMM_WAY_COUNT - 1
};

/* For `make` of rows whose operand 1 is the matrix: packs it where that is worth it and sets
 * call->prepared, which is a PackedProduct or NULL. Not in faithful plans, whose sums are made in
 * another order. False where the call's choice is none: the row is to decline. */
bool packed_product_make(KernelCall *call, bool transposed);

/* The same of bfloat16, for rows that stand before those of float: false where the call is not of
 * that, the processor does not multiply it, or B is not constant. */
bool packed_product_make_bfloats(KernelCall *call, bool transposed);

/* y[rows, n] = act(a[rows, k] * B + bias + residual), which is input 3 where a is bfloat16: the epilogue has
 * none then. False with the error set. */
bool packed_product_run(KernelCall *call, const PackedProduct *product, const void *a,
                        uint64_t rows, const Epilogue *epilogue);

#endif
