// SPDX-License-Identifier: Apache-2.0
/* Order of elements of any dtype, as numbers whose unsigned order is that of the values: sorting
 * then knows one type. All NaNs are one value, above all others; both zeros are one. */
#ifndef DEMI_KERNEL_ORDER_H
#define DEMI_KERNEL_ORDER_H

#include "kernel.h"

/* The key of element i of a tensor of numbers or bools; of complex ones, of its real (part 0) or
 * imaginary part (1). Not for strings. */
uint64_t order_key(const KernelTensor *tensor, uint64_t i, unsigned part);

/* The keys of range[2] elements from range[0] on, range[1] apart; not for strings and complex
 * numbers. */
void order_keys(const KernelTensor *tensor, const uint64_t range[3], uint64_t *keys);

/* Order of two strings by their bytes: negative, 0, positive. */
int order_strings(const KernelString *a, const KernelString *b);

/* Negative, 0, positive for items a and b of `context`. */
typedef int (*OrderCompare)(const void *context, uint64_t a, uint64_t b);

/* Sorts the numbers 0 .. count - 1 by a comparison, stably: a new array in scratch. */
uint64_t *order_sort(KernelCall *call, uint64_t count, OrderCompare compare, const void *context);

#endif
