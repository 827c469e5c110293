// SPDX-License-Identifier: Apache-2.0
/* Rows of caches of keys or values that com.microsoft's GroupQueryAttention keeps in 8 bits, or in 4,
 * two elements a byte, the first in the lower half, each with 8 added. An element is its number times
 * a scale: one for all, or one for each element of a head's rows. */
#ifndef DEMI_CACHE_BYTES_H
#define DEMI_CACHE_BYTES_H

#include "kernel.h"

typedef struct CacheBytes {
    const float *scale; /* [1], or [heads][size] */
    bool each;          /* the latter */
    bool half;          /* 4 bits */
    uint64_t heads, size;
} CacheBytes;

/* Reads what the scale and the cache's type say. False with the error set where they do not fit. */
bool cache_bytes_find(KernelCall *call, const KernelTensor *scale, Dtype dtype, CacheBytes *cache);

/* Bytes of a row. */
uint64_t cache_bytes_row(const CacheBytes *cache);

/* A row of head `head`, from bytes, and to bytes, rounded to the nearest, halves to even. */
void cache_bytes_read(const CacheBytes *cache, uint64_t head, const uint8_t *from, float *to);
void cache_bytes_write(const CacheBytes *cache, uint64_t head, const float *from, uint8_t *to);

#endif
