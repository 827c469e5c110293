// SPDX-License-Identifier: Apache-2.0
/* Bytes from 64 float results at once in AVX-512, which products of bytes end with. */
#ifndef DEMI_BYTE_RESULT_AVX512_H
#define DEMI_BYTE_RESULT_AVX512_H

#include "igemm.h"
#include "simd.h"

#if defined(__x86_64__) || defined(__i386__)

/* Rounded bounds, with the zero point, of uint8: int8 is moved by 128 until it is stored. */
typedef struct ByteEnd {
    __m512 most;
    __m512i zero, low, high, flip;
} ByteEnd;

/* low and high are within the type less its zero point. */
AVX512_TARGET static inline __attribute__((always_inline)) ByteEnd byte_end(const IgemmScale *scale,
                                                                            float low, float high) {
    const int32_t flip = scale->to == DTYPE_INT8 ? 128 : 0, zero = scale->zero + flip;
    return (ByteEnd){
        .most = _mm512_set1_ps(0x1p30f),
        .zero = _mm512_set1_epi16((short)zero),
        .low = _mm512_set1_epi8((char)(_mm_cvtss_si32(_mm_set_ss(low)) + zero)),
        .high = _mm512_set1_epi8((char)(_mm_cvtss_si32(_mm_set_ss(high)) + zero)),
        .flip = _mm512_set1_epi8((char)flip),
    };
}

/* Rounding and bounds change places, as rounding is monotonic: what is too large for int32 is cut
 * before, the rest saturates. NaN becomes the least. Each 128 bits of the result are those of v[0],
 * v[1], v[2] and v[3], one behind the other. */
AVX512_TARGET static inline __attribute__((always_inline)) __m512i byte_end_pack(const ByteEnd *end,
                                                                                 const __m512 *v) {
    __m512i whole[4];
    TILE_UNROLL
    for (int i = 0; i < 4; i++) whole[i] = _mm512_cvtps_epi32(_mm512_min_ps(end->most, v[i]));
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(whole[0], whole[1]), end->zero);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(whole[2], whole[3]), end->zero);
    __m512i bytes = _mm512_packus_epi16(low, high);
    bytes = _mm512_min_epu8(end->high, _mm512_max_epu8(end->low, bytes));
    return _mm512_xor_si512(bytes, end->flip);
}

#endif

#endif
