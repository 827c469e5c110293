// SPDX-License-Identifier: Apache-2.0
/* Checked integer arithmetic: every size that depends on a file goes through here. Each function
 * returns false, leaving *result unspecified, where the exact result does not fit. */
#ifndef DEMI_BASE_CHECKED_H
#define DEMI_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *result) {
    return !__builtin_add_overflow(a, b, result);
}

static inline bool checked_mul(uint64_t a, uint64_t b, uint64_t *result) {
    return !__builtin_mul_overflow(a, b, result);
}

/* value rounded up to a multiple of `to`, which is a power of two. */
static inline bool checked_align(uint64_t value, uint64_t to, uint64_t *result) {
    if (!checked_add(value, to - 1, result)) return false;
    *result &= ~(to - 1);
    return true;
}

/* Product of `rank` dimensions. False where one is negative, or the product of the non-zero ones
 * passes 2^63 - 1: "zero times huge" is refused too, so that no other order of multiplication can
 * overflow later. Rank 0 gives 1. */
static inline bool checked_count(const int64_t *dims, size_t rank, uint64_t *result) {
    uint64_t product = 1;
    bool zero = false;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0) return false;
        if (dims[i] == 0)
            zero = true;
        else if (!checked_mul(product, (uint64_t)dims[i], &product) || product > INT64_MAX)
            return false;
    }
    *result = zero ? 0 : product;
    return true;
}

#endif
