// SPDX-License-Identifier: Apache-2.0
/* Conversions of float16 in F16C, which AVX's processors have without AVX2; no arithmetic.
 * simd_avx2.h has them, too. */
#ifndef DEMI_SIMD_F16C_H
#define DEMI_SIMD_F16C_H

#include <immintrin.h>
#include <stdint.h>

#include "simd.h"

/* 16 numbers, from or to float. */
SIMD_INLINE void halves_of_16(uint16_t *to, const float *from) {
    const __m256 low = _mm256_loadu_ps(from), high = _mm256_loadu_ps(from + 8);
    _mm_storeu_si128((__m128i *)(void *)to, _mm256_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(void *)(to + 8), _mm256_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT));
}
SIMD_INLINE void halves_to_16(float *to, const uint16_t *from) {
    const __m128i low = _mm_loadu_si128((const __m128i *)(const void *)from);
    const __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(from + 8));
    _mm256_storeu_ps(to, _mm256_cvtph_ps(low));
    _mm256_storeu_ps(to + 8, _mm256_cvtph_ps(high));
}

#endif
