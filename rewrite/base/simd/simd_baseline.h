// SPDX-License-Identifier: Apache-2.0
/* Steps of loops that are compiled once, for the least processor of a kind: SSE2's instructions on x86-64, plain C
 * elsewhere. */
#ifndef DEMI_SIMD_BASELINE_H
#define DEMI_SIMD_BASELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "simd.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#include <xmmintrin.h>
#define SIMD_STREAMS /* there are stores that go past the caches */
#endif

enum { SIMD_LINE = 64 }; /* bytes of a line of a cache */

/* Copies a line to `to`, a multiple of it, past the caches where that can be. */
SIMD_INLINE void simd_stream_line(char *to, const char *from) {
#ifdef SIMD_STREAMS
    for (int i = 0; i < SIMD_LINE / (int)sizeof(__m128i); i++)
        _mm_stream_si128((__m128i *)(void *)to + i,
                         _mm_loadu_si128((const __m128i *)(const void *)from + i));
#else
    memcpy(to, from, SIMD_LINE);
#endif
}

/* After such copies, before another thread is told that they are there. */
SIMD_INLINE void simd_stream_end(void) {
#ifdef SIMD_STREAMS
    _mm_sfence();
#endif
}

typedef float __attribute__((may_alias)) SimdWord; /* 4 bytes of any type, which are only moved */

/* to[i * to_row + j] = from[j * from_row + i] for i, j < 4 */
SIMD_INLINE void simd_turn_four(SimdWord *to, uint64_t to_row, const SimdWord *from,
                                uint64_t from_row) {
#if defined(__x86_64__)
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + from_row);
    __m128 c = _mm_loadu_ps(from + 2 * from_row), d = _mm_loadu_ps(from + 3 * from_row);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + to_row, b);
    _mm_storeu_ps(to + 2 * to_row, c);
    _mm_storeu_ps(to + 3 * to_row, d);
#else
    for (uint64_t i = 0; i < 4; i++)
        for (uint64_t j = 0; j < 4; j++) to[i * to_row + j] = from[j * from_row + i];
#endif
}

/* The sum of uint8, or of int8 as uint8 that are 128 higher. */
SIMD_INLINE uint64_t simd_sum_bytes(const uint8_t *x, uint64_t count, bool is_signed) {
    uint64_t sum = 0, i = 0;
#if defined(__x86_64__)
    const __m128i none = _mm_setzero_si128(), flip = _mm_set1_epi8((char)(is_signed ? 128 : 0));
    __m128i sums = none, more = none;
    uint64_t parts[2];
    for (; i + 32 <= count; i += 32) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(x + i));
        const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(x + i + 16));
        sums = _mm_add_epi64(sums, _mm_sad_epu8(_mm_xor_si128(a, flip), none));
        more = _mm_add_epi64(more, _mm_sad_epu8(_mm_xor_si128(b, flip), none));
    }
    for (; i + 8 <= count; i += 8) {
        const __m128i a = _mm_loadl_epi64((const __m128i *)(const void *)(x + i));
        const __m128i some = _mm_move_epi64(_mm_xor_si128(a, flip));
        sums = _mm_add_epi64(sums, _mm_sad_epu8(some, none));
    }
    _mm_storeu_si128((__m128i *)(void *)parts, _mm_add_epi64(sums, more));
    sum = parts[0] + parts[1];
#endif
    for (; i < count; i++) sum += is_signed ? x[i] ^ 128 : x[i];
    return sum;
}

#endif
