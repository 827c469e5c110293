// SPDX-License-Identifier: Apache-2.0
/* Blocks of eight by eight floats, which are turned in registers of AVX2, whatever else a row has: rows of
 * isas.def with these define SIMD_EIGHTS. */
#ifndef DEMI_SIMD_EIGHTS_H
#define DEMI_SIMD_EIGHTS_H

#include <immintrin.h>
#include <stdint.h>

#include "simd.h"

#define SIMD_EIGHTS

typedef __m256 Eight;

SIMD_INLINE Eight eight_load(const float *from) {
    return _mm256_loadu_ps(from);
}
SIMD_INLINE void eight_store(float *to, Eight v) {
    _mm256_storeu_ps(to, v);
}
/* The first `count` of them, up to 8. */
SIMD_INLINE void eight_store_first(float *to, uint64_t count, Eight v) {
    const __m256i order = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(to, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), order), v);
}
/* Rows become columns, in place. */
SIMD_INLINE void eights_turn(Eight v[8]) {
    __m256 a[8], b[8];
    SIMD_UNROLL
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    SIMD_UNROLL
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    SIMD_UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

#endif
