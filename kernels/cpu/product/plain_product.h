// SPDX-License-Identifier: Apache-2.0
/* Products of matrices of types that have no fast one: double, and integers modulo their size. */
#ifndef DEMI_PLAIN_PRODUCT_H
#define DEMI_PLAIN_PRODUCT_H

#include "kernel.h"

/* y[i * n + j] += sum over k of a[i * a_row + k * a_column] * b[k * b_row + j * b_column] */
typedef struct PlainProduct {
    const void *a, *b;
    void *y;
    uint64_t m, n, k, a_row, a_column, b_row, b_column;
} PlainProduct;

/* dtype: double or an integer of 32 or 64 bits. */
void plain_product(KernelCall *call, Dtype dtype, const PlainProduct *product);

#endif
