// SPDX-License-Identifier: Apache-2.0
/* Vectors of simd.h in AVX2 with FMA: eight lanes. simd_portable.h says what the names mean. */
#ifndef DEMI_SIMD_AVX2_H
#define DEMI_SIMD_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "simd.h"
#include "simd_eights.h"
#include "simd_f16c.h"

#define SIMD_LANES     8
#define SIMD_REGISTERS 16

typedef __m256 Floats;
typedef __m256i Words;
typedef __m256i Lanes; /* all bits of those that are chosen */

SIMD_INLINE Lanes lanes_first(uint64_t count) {
    const __m256i order = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(count < 8 ? count : 8)), order);
}

/* ---- float ----------------------------------------------------------------------------------- */

SIMD_INLINE Floats floats_load(const float *from) {
    return _mm256_loadu_ps(from);
}
SIMD_INLINE void floats_store(float *to, Floats v) {
    _mm256_storeu_ps(to, v);
}
SIMD_INLINE Floats floats_load_some(const float *from, Lanes some) {
    return _mm256_maskload_ps(from, some);
}
SIMD_INLINE void floats_store_some(float *to, Lanes some, Floats v) {
    _mm256_maskstore_ps(to, some, v);
}
SIMD_INLINE Floats floats_fill(float x) {
    return _mm256_set1_ps(x);
}
SIMD_INLINE Floats floats_zero(void) {
    return _mm256_setzero_ps();
}
SIMD_INLINE Floats floats_add(Floats a, Floats b) {
    return _mm256_add_ps(a, b);
}
SIMD_INLINE Floats floats_sub(Floats a, Floats b) {
    return _mm256_sub_ps(a, b);
}
SIMD_INLINE Floats floats_mul(Floats a, Floats b) {
    return _mm256_mul_ps(a, b);
}
SIMD_INLINE Floats floats_step(Floats sum, Floats a, Floats b) {
    return _mm256_fmadd_ps(a, b, sum);
}
SIMD_INLINE Floats floats_max(Floats a, Floats b) {
    return _mm256_max_ps(a, b);
}
SIMD_INLINE Floats floats_min(Floats a, Floats b) {
    return _mm256_min_ps(a, b);
}
SIMD_INLINE Floats floats_pick(Floats v, Words index) {
    return _mm256_permutevar8x32_ps(v, index);
}
SIMD_INLINE Floats floats_of_int8(const void *from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from)));
}
SIMD_INLINE Floats floats_round(Floats v) {
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
SIMD_INLINE Lanes lanes_or_nans(Lanes some, Floats v) {
    return _mm256_or_si256(some, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}
SIMD_INLINE Floats floats_nan_where(Floats v, Lanes some) { /* all bits set */
    return _mm256_or_ps(v, _mm256_castsi256_ps(some));
}
SIMD_INLINE Floats floats_load_by_two(const float *from) {
    const __m256 low = _mm256_loadu_ps(from), high = _mm256_maskload_ps(from + 8, lanes_first(7));
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8));
}
SIMD_INLINE float float_step(float sum, float a, float b) {
    return __builtin_fmaf(a, b, sum);
}
/* The sum of the lanes: halves, then of what is left halves, and so on. */
SIMD_INLINE float floats_sum(Floats v) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/* to[r] += the sum of the lanes of v[r], which may be summed in another order if there are many. */
SIMD_INLINE void floats_add_sums(float *to, const Floats *v, const uint32_t count) {
    SIMD_UNROLL
    for (uint32_t r = 0; r < count; r++) to[r] += floats_sum(v[r]);
}

/* ---- halves ---------------------------------------------------------------------------------- */

/* SIMD_LANES float16, or bfloat16, as float. */
SIMD_INLINE Floats floats_load_half(const uint16_t *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}
SIMD_INLINE Floats floats_load_bfloat(const uint16_t *from) {
    const __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)from);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

/* The first `count`, of which there are fewer; the others are 0 and not read. */
SIMD_INLINE Floats floats_load_half_first(const uint16_t *from, uint64_t count) {
    uint16_t some[8] = {0};
    memcpy(some, from, count * sizeof *from);
    return floats_load_half(some);
}
SIMD_INLINE Floats floats_load_bfloat_first(const uint16_t *from, uint64_t count) {
    uint16_t some[8] = {0};
    memcpy(some, from, count * sizeof *from);
    return floats_load_bfloat(some);
}

/* 16 numbers to bfloat16 and back, as half.h says: NaNs become quiet, subnormals stay. */
SIMD_INLINE __m256i bfloat_bits(const float *from) { /* eight, each in the low half of 32 bits */
    const __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)from);
    const __m256i top = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
    const __m256i size = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    const __m256i is_nan = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(0x7f800000));
    const __m256i nan = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(rounded, nan, is_nan);
}
SIMD_INLINE void bfloats_of_16(uint16_t *to, const float *from) {
    /* packus works in 128-bit lanes: the middle quarters come out exchanged */
    const __m256i packed = _mm256_packus_epi32(bfloat_bits(from), bfloat_bits(from + 8));
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permute4x64_epi64(packed, 0xd8));
}
SIMD_INLINE void bfloats_to_16(float *to, const uint16_t *from) {
    const __m256i quiet = _mm256_set1_epi32(0x400000), inf = _mm256_set1_epi32(0x7f800000);
    SIMD_UNROLL
    for (int i = 0; i < 16; i += 8) {
        const __m128i narrow = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16);
        const __m256i size = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
        const __m256i is_nan = _mm256_cmpgt_epi32(size, inf);
        _mm256_storeu_si256((__m256i *)(void *)(to + i),
                            _mm256_or_si256(bits, _mm256_and_si256(is_nan, quiet)));
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

SIMD_INLINE Words words_load(const void *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}
SIMD_INLINE void words_store(void *to, Words v) {
    _mm256_storeu_si256((__m256i *)to, v);
}
SIMD_INLINE Words words_load_some(const void *from, Lanes some) {
    return _mm256_maskload_epi32((const int *)from, some);
}
SIMD_INLINE void words_store_some(void *to, Lanes some, Words v) {
    _mm256_maskstore_epi32((int *)to, some, v);
}
SIMD_INLINE Words words_fill(int32_t x) {
    return _mm256_set1_epi32(x);
}
SIMD_INLINE Words words_zero(void) {
    return _mm256_setzero_si256();
}
SIMD_INLINE Words words_add(Words a, Words b) {
    return _mm256_add_epi32(a, b);
}
SIMD_INLINE Words words_dot_pairs(Words sum, Words a, Words b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
SIMD_INLINE Words words_up_4(Words v) {
    return _mm256_slli_epi32(v, 4);
}
SIMD_INLINE Floats floats_of_top_4(Words v) {
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(v, 28));
}

SIMD_INLINE Words words_and(Words a, Words b) {
    return _mm256_and_si256(a, b);
}
SIMD_INLINE Words words_xor(Words a, Words b) {
    return _mm256_xor_si256(a, b);
}
SIMD_INLINE Words words_down_4(Words v) {
    return _mm256_srli_epi32(v, 4);
}
SIMD_INLINE Words words_dot_nibbles(Words sum, Words a, Words b) {
    const __m256i pairs = _mm256_maddubs_epi16(a, b); /* at most 2 * 15 * 128 */
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
/* Pairs of bytes as pairs of words, as sums of two products of bytes may exceed 16 bits. */
SIMD_INLINE Words words_dot_quads(Words sum, Words a, Words b) {
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(a, _mm256_set1_epi16(255)),
                                           _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(b, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}
SIMD_INLINE Words words_up_8(Words v) {
    return _mm256_slli_epi32(v, 8);
}
SIMD_INLINE Floats floats_of_top_8(Words v) {
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(v, 24));
}
SIMD_INLINE Words words_max(Words a, Words b) {
    return _mm256_max_epi32(a, b);
}
SIMD_INLINE Words words_min_unsigned(Words a, Words b) {
    return _mm256_min_epu32(a, b);
}
/* counts + 1 where v is over the limit; v where it is below, else 0. */
SIMD_INLINE Words words_count_over(Words counts, Words v, int32_t limit) {
    return _mm256_sub_epi32(counts, _mm256_cmpgt_epi32(v, _mm256_set1_epi32(limit)));
}
SIMD_INLINE Words words_if_below(Words v, int32_t limit) {
    return _mm256_and_si256(v, _mm256_cmpgt_epi32(_mm256_set1_epi32(limit), v));
}
SIMD_INLINE uint32_t words_sum(Words v) {
    uint32_t lanes[8], sum = 0;
    _mm256_storeu_si256((__m256i *)(void *)lanes, v);
    for (int i = 0; i < 8; i++) sum += lanes[i];
    return sum;
}
SIMD_INLINE uint32_t words_largest_unsigned(Words v) {
    uint32_t lanes[8], most = 0;
    _mm256_storeu_si256((__m256i *)(void *)lanes, v);
    for (int i = 0; i < 8; i++) most = lanes[i] > most ? lanes[i] : most;
    return most;
}
SIMD_INLINE uint32_t words_smallest_unsigned(Words v) {
    uint32_t lanes[8], least = UINT32_MAX;
    _mm256_storeu_si256((__m256i *)(void *)lanes, v);
    for (int i = 0; i < 8; i++) least = lanes[i] < least ? lanes[i] : least;
    return least;
}
SIMD_INLINE Floats floats_of_words(Words v) {
    return _mm256_cvtepi32_ps(v);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

#define SIMD_BYTES_MOVED 0
SIMD_INLINE Floats floats_of_bytes_first(const void *from, uint32_t count, bool is_signed) {
    __m128i bytes = _mm_setzero_si128();
    if (count == 8)
        bytes = _mm_loadl_epi64((const __m128i *)from);
    else
        memcpy(&bytes, from, count);
    return _mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(bytes)
                                        : _mm256_cvtepu8_epi32(bytes));
}

typedef struct ByteEnd {
    Floats low, high;
    Words zero;
    bool is_signed;
} ByteEnd;

SIMD_INLINE ByteEnd byte_end(float low, float high, int32_t zero, bool is_signed) {
    return (ByteEnd){_mm256_set1_ps(low), _mm256_set1_ps(high), _mm256_set1_epi32(zero), is_signed};
}

SIMD_INLINE void bytes_store(const ByteEnd *end, char *to, uint32_t columns, const Floats *v,
                             const uint32_t vecs) {
    SIMD_UNROLL
    for (uint32_t i = 0; i < vecs; i++) {
        const uint32_t at = i * 8, count = columns <= at ? 0 : columns - at < 8 ? columns - at : 8;
        const Floats x = _mm256_min_ps(end->high, _mm256_max_ps(end->low, v[i]));
        const Words whole = _mm256_add_epi32(_mm256_cvtps_epi32(x), end->zero);
        const __m128i words =
            _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
        const __m128i bytes =
            end->is_signed ? _mm_packs_epi16(words, words) : _mm_packus_epi16(words, words);
        if (count == 8)
            _mm_storel_epi64((__m128i *)(void *)(to + at), bytes);
        else
            memcpy(to + at, &bytes, count);
    }
}

/* Up to 16 bytes as int16, two a word, the first `count` of them; words of two such vectors' int16 by turns,
 * low or high ones of each half. */
SIMD_INLINE Words pairs_of_bytes_first(const void *from, uint32_t count, bool is_signed) {
    __m128i bytes = _mm_setzero_si128();
    if (count == 16)
        bytes = _mm_loadu_si128((const __m128i *)from);
    else
        memcpy(&bytes, from, count);
    return is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}
SIMD_INLINE Words pairs_turn_low(Words a, Words b) {
    return _mm256_unpacklo_epi16(a, b);
}
SIMD_INLINE Words pairs_turn_high(Words a, Words b) {
    return _mm256_unpackhi_epi16(a, b);
}
/* The first `count` of two vectors of sums whose pairs were turned so, in their order. */
SIMD_INLINE void floats_store_turned(float *to, uint32_t count, Floats low, Floats high) {
    float values[16];
    _mm256_storeu_ps(values, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(values + 8, _mm256_permute2f128_ps(low, high, 0x31));
    memcpy(to, values, count * sizeof *to);
}
SIMD_INLINE void bytes_store_turned(const ByteEnd *end, char *to, uint32_t count, Floats low,
                                    Floats high) {
    low = _mm256_min_ps(end->high, _mm256_max_ps(end->low, low));
    high = _mm256_min_ps(end->high, _mm256_max_ps(end->low, high));
    const __m256i words = _mm256_packs_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(low), end->zero),
                                             _mm256_add_epi32(_mm256_cvtps_epi32(high), end->zero));
    const __m128i first = _mm256_castsi256_si128(words);
    const __m128i second = _mm256_extracti128_si256(words, 1);
    const __m128i bytes =
        end->is_signed ? _mm_packs_epi16(first, second) : _mm_packus_epi16(first, second);
    if (count == 16)
        _mm_storeu_si128((__m128i *)(void *)to, bytes);
    else
        memcpy(to, &bytes, count);
}

/* ---- double ---------------------------------------------------------------------------------- */

typedef __m256d Doubles; /* half as many lanes */
SIMD_INLINE Doubles doubles_fill(double x) {
    return _mm256_set1_pd(x);
}
SIMD_INLINE Doubles doubles_add(Doubles a, Doubles b) {
    return _mm256_add_pd(a, b);
}
SIMD_INLINE Doubles doubles_step(Doubles sum, Doubles a, Doubles b) {
    return _mm256_fmadd_pd(a, b, sum);
}
SIMD_INLINE void doubles_store(double *to, Doubles v) {
    _mm256_storeu_pd(to, v);
}

#endif
