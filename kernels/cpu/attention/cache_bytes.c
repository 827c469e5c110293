// SPDX-License-Identifier: Apache-2.0
/* Rows of caches in bytes; see cache_bytes.h. */
#include "cache_bytes.h"

#include <math.h>

enum { HALF_ZERO = 8 };

bool cache_bytes_find(KernelCall *call, const KernelTensor *scale, Dtype dtype, CacheBytes *cache) {
    const uint64_t all = cache->heads * cache->size;
    if (dtype != (cache->half ? DTYPE_UINT8 : DTYPE_INT8))
        return kernel_fail(call, "this type of quantized cache is not supported");
    if (cache->half && cache->size % 2) return kernel_fail(call, "an odd number of 4-bit elements");
    if (!scale) return kernel_fail(call, "a quantized cache without its scale");
    if (scale->count != (cache->each ? all : 1))
        return kernel_fail(call, "a cache's scale has %llu elements",
                           (unsigned long long)scale->count);
    cache->scale = scale->data;
    return true;
}

uint64_t cache_bytes_row(const CacheBytes *cache) {
    return cache->half ? cache->size / 2 : cache->size;
}

static float scale_of(const CacheBytes *cache, uint64_t head, uint64_t e) {
    return cache->scale[cache->each ? head * cache->size + e : 0];
}

void cache_bytes_read(const CacheBytes *cache, uint64_t head, const uint8_t *from, float *to) {
    for (uint64_t e = 0; e < cache->size; e++) {
        const int number =
            cache->half ? (from[e / 2] >> (e % 2 ? 4 : 0) & 15) - HALF_ZERO : (int8_t)from[e];
        to[e] = (float)number * scale_of(cache, head, e);
    }
}

/* 0 where the scale is none. */
static int rounded(float x, float scale, float most) {
    const float number = scale != 0 ? rintf(x / scale) : 0;
    if (!(number > -most - 1)) return number <= -most - 1 ? (int)(-most - 1) : 0;
    return (int)(number < most ? number : most);
}

void cache_bytes_write(const CacheBytes *cache, uint64_t head, const float *from, uint8_t *to) {
    for (uint64_t e = 0; e < cache->size; e++) {
        const int number = rounded(from[e], scale_of(cache, head, e), cache->half ? 7 : 127);
        if (!cache->half)
            to[e] = (uint8_t)number;
        else if (e % 2)
            to[e / 2] = (uint8_t)(to[e / 2] | (number + HALF_ZERO) << 4);
        else
            to[e / 2] = (uint8_t)(number + HALF_ZERO);
    }
}
