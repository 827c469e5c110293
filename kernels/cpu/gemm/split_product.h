// SPDX-License-Identifier: Apache-2.0
/* Products of rows of float by weights of bfloat16, by instructions for bfloat16 and as exact as by those
 * for float: a float is the sum of three bfloat16, of its first, second and last eight bits, and products
 * of bfloat16 are exact in float. Three products for one take less time where there are tiles (AMX). */
#ifndef DEMI_SPLIT_PRODUCT_H
#define DEMI_SPLIT_PRODUCT_H

#include "igemm.h"

/* y [rows, columns] = x [rows, depth] * weights + bias [columns], in float; bias may be NULL. */
typedef struct SplitProduct {
    const float *x;
    uint64_t rows, depth, columns; /* depth even */
    const void *weights;           /* packed by split_product_weights' layout */
    const float *bias;
    float *y;
} SplitProduct;

/* Whether that is faster than a product in float, with the processor at hand. */
bool split_product_suits(IsaSet cpu, uint64_t rows, uint64_t depth);

/* What weights of bfloat16, [columns][depth], are packed as. */
IgemmWeights split_product_weights(uint64_t depth, uint64_t columns);

/* With the call's threads. False with the error set past the memory budget. Infinite weights give NaN where
 * their product in float is not: *sound is whether no result is NaN. */
bool split_product_run(KernelCall *call, const SplitProduct *p, IsaSet cpu, bool *sound);

#endif
