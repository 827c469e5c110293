// SPDX-License-Identifier: Apache-2.0
/* Vectors of simd.h in AVX-512 (F, BW and VL): sixteen lanes; with VNNI and with BF16 where the row is
 * compiled for them. simd_portable.h says what the names mean. */
#ifndef DEMI_SIMD_AVX512_H
#define DEMI_SIMD_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "simd.h"
#include "simd_eights.h"

#define SIMD_LANES     16
#define SIMD_REGISTERS 32

typedef __m512 Floats;
typedef __m512i Words;
typedef __mmask16 Lanes;

SIMD_INLINE Lanes lanes_first(uint64_t count) {
    return (Lanes)(count < 16 ? (1u << count) - 1 : 0xffff);
}

/* What is done by some lanes costs what it does by all. */
#define SIMD_MASKS
/* Lanes [from, to); those that both have; whether one is chosen. */
SIMD_INLINE Lanes lanes_between(uint64_t from, uint64_t to) {
    return (Lanes)(lanes_first(to) & ~lanes_first(from));
}
SIMD_INLINE Lanes lanes_both(Lanes a, Lanes b) {
    return a & b;
}
SIMD_INLINE bool lanes_has(Lanes some, uint32_t lane) {
    return some >> lane & 1;
}

/* ---- float ----------------------------------------------------------------------------------- */

SIMD_INLINE Floats floats_load(const float *from) {
    return _mm512_loadu_ps(from);
}
SIMD_INLINE void floats_store(float *to, Floats v) {
    _mm512_storeu_ps(to, v);
}
SIMD_INLINE Floats floats_load_some(const float *from, Lanes some) {
    return _mm512_maskz_loadu_ps(some, from);
}
SIMD_INLINE void floats_store_some(float *to, Lanes some, Floats v) {
    _mm512_mask_storeu_ps(to, some, v);
}
SIMD_INLINE Floats floats_fill(float x) {
    return _mm512_set1_ps(x);
}
SIMD_INLINE Floats floats_zero(void) {
    return _mm512_setzero_ps();
}
SIMD_INLINE Floats floats_add(Floats a, Floats b) {
    return _mm512_add_ps(a, b);
}
SIMD_INLINE Floats floats_sub(Floats a, Floats b) {
    return _mm512_sub_ps(a, b);
}
SIMD_INLINE Floats floats_mul(Floats a, Floats b) {
    return _mm512_mul_ps(a, b);
}
SIMD_INLINE Floats floats_step(Floats sum, Floats a, Floats b) {
    return _mm512_fmadd_ps(a, b, sum);
}
SIMD_INLINE Floats floats_max(Floats a, Floats b) {
    return _mm512_max_ps(a, b);
}
SIMD_INLINE Floats floats_min(Floats a, Floats b) {
    return _mm512_min_ps(a, b);
}
SIMD_INLINE Floats floats_pick(Floats v, Words index) {
    return _mm512_permutexvar_ps(index, v);
}
SIMD_INLINE Floats floats_of_int8(const void *from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
}
SIMD_INLINE Floats floats_round(Floats v) { /* of numbers that int32 has */
    return _mm512_cvtepi32_ps(_mm512_cvtps_epi32(v));
}
SIMD_INLINE float floats_sum(Floats v) {
    return _mm512_reduce_add_ps(v);
}

/* Those that are chosen, and those of v that are NaN. */
SIMD_INLINE Lanes lanes_or_nans(Lanes some, Floats v) {
    return some | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
}
SIMD_INLINE Floats floats_nan_where(Floats v, Lanes some) {
    return _mm512_mask_mov_ps(v, some, _mm512_set1_ps(__builtin_nanf("")));
}
/* Lanes that are not chosen are v's. */
SIMD_INLINE Floats floats_load_or(const float *from, Lanes some, Floats v) {
    return _mm512_mask_loadu_ps(v, some, from);
}
/* Every other element from `from` on, nothing behind the last. */
SIMD_INLINE Floats floats_load_some_by_two(const float *from, Lanes some) {
    const Words even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const uint32_t both = _pdep_u32(some, 0x55555555u);
    const Floats low = _mm512_maskz_loadu_ps((Lanes)both, from);
    const Floats high = _mm512_maskz_loadu_ps((Lanes)(both >> 16), from + 16);
    return _mm512_permutex2var_ps(low, even, high);
}
SIMD_INLINE Floats floats_load_by_two(const float *from) {
    return floats_load_some_by_two(from, 0xffff);
}
SIMD_INLINE float float_step(float sum, float a, float b) {
    return __builtin_fmaf(a, b, sum);
}
/* The sums of the lanes of eight vectors. */
SIMD_INLINE __m256 floats_sums_of_eight(const Floats *v) {
    Floats four[2];
    SIMD_UNROLL
    for (uint32_t i = 0; i < 2;
         i++, v += 4) { /* in each quarter: the quarter's sum of each of four */
        const Floats low =
            _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
        const Floats high =
            _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
        const __m512d a = _mm512_castps_pd(low), b = _mm512_castps_pd(high);
        four[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                                _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    const Floats halves = _mm512_add_ps(_mm512_shuffle_f32x4(four[0], four[1], 0x44),
                                        _mm512_shuffle_f32x4(four[0], four[1], 0xee));
    return _mm512_castps512_ps256(_mm512_add_ps(_mm512_shuffle_f32x4(halves, halves, 0x88),
                                                _mm512_shuffle_f32x4(halves, halves, 0xdd)));
}
SIMD_INLINE void floats_add_sums(float *to, const Floats *v, const uint32_t count) {
    if (count == 8) {
        _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), floats_sums_of_eight(v)));
        return;
    }
    SIMD_UNROLL
    for (uint32_t r = 0; r < count; r++) to[r] += floats_sum(v[r]);
}

/* Lanes by turns: two vectors' lanes at even places, or at odd ones, one vector's behind the other's; and
 * back, the first half of what they were or the second. */
#define SIMD_TURNS
SIMD_INLINE Floats floats_evens(Floats low, Floats high) {
    const Words even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(low, even, high);
}
SIMD_INLINE Floats floats_odds(Floats low, Floats high) {
    const Words odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_permutex2var_ps(low, odd, high);
}
SIMD_INLINE Floats floats_turns_low(Floats even, Floats odd) {
    const Words turns = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return _mm512_permutex2var_ps(even, turns, odd);
}
SIMD_INLINE Floats floats_turns_high(Floats even, Floats odd) {
    const Words turns =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    return _mm512_permutex2var_ps(even, turns, odd);
}

/* ---- halves ---------------------------------------------------------------------------------- */

SIMD_INLINE Floats floats_load_half(const uint16_t *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
SIMD_INLINE Floats bfloats_wide(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
SIMD_INLINE Floats floats_load_bfloat(const uint16_t *from) {
    return bfloats_wide(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
SIMD_INLINE Floats floats_load_bfloat_some(const uint16_t *from, Lanes some) {
    return bfloats_wide(_mm256_maskz_loadu_epi16(some, from));
}

SIMD_INLINE Floats floats_load_half_first(const uint16_t *from, uint64_t count) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_first(count), from));
}
SIMD_INLINE Floats floats_load_bfloat_first(const uint16_t *from, uint64_t count) {
    return floats_load_bfloat_some(from, lanes_first(count));
}
/* Of two vectors' bfloat16 in words, those at even places, or at odd ones. */
SIMD_INLINE Floats floats_of_even_bfloats(Words two) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(two, 16));
}
SIMD_INLINE Floats floats_of_odd_bfloats(Words two) {
    return _mm512_castsi512_ps(_mm512_and_si512(two, _mm512_set1_epi32(-0x10000)));
}

/* 16 numbers from and to float, or the first `count` of them, as half.h says. */
#define NEAREST_EVEN (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
SIMD_INLINE void halves_of_16(uint16_t *to, const float *from) {
    _mm256_storeu_si256((__m256i *)(void *)to,
                        _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(from), NEAREST_EVEN));
}
SIMD_INLINE void halves_of_first(uint16_t *to, const float *from, uint64_t count) {
    const Lanes some = lanes_first(count);
    const Floats v = _mm512_maskz_loadu_ps(some, from);
    _mm256_mask_storeu_epi16(to, some, _mm512_maskz_cvtps_ph(0xffff, v, NEAREST_EVEN));
}
SIMD_INLINE void halves_to_16(float *to, const uint16_t *from) {
    _mm512_storeu_ps(to, floats_load_half(from));
}
SIMD_INLINE void halves_to_first(float *to, const uint16_t *from, uint64_t count) {
    _mm512_mask_storeu_ps(to, lanes_first(count), floats_load_half_first(from, count));
}
SIMD_INLINE __mmask16 bits_are_nan(__m512i bits) {
    const __m512 floats = _mm512_castsi512_ps(bits);
    return _mm512_cmp_ps_mask(floats, floats, _CMP_UNORD_Q);
}
SIMD_INLINE __m256i bfloat_bits(__m512i bits) {
    const __m512i top = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
    const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i near = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
    return _mm512_cvtepi32_epi16(
        _mm512_mask_or_epi32(near, bits_are_nan(bits), top, _mm512_set1_epi32(0x40)));
}
SIMD_INLINE __m512i bfloat_wide_bits(__m256i narrow) {
    const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16);
    return _mm512_mask_or_epi32(bits, bits_are_nan(bits), bits, _mm512_set1_epi32(0x400000));
}
SIMD_INLINE void bfloats_of_16(uint16_t *to, const float *from) {
    _mm256_storeu_si256((__m256i *)(void *)to, bfloat_bits(_mm512_loadu_si512(from)));
}
SIMD_INLINE void bfloats_of_first(uint16_t *to, const float *from, uint64_t count) {
    const Lanes some = lanes_first(count);
    _mm256_mask_storeu_epi16(to, some, bfloat_bits(_mm512_maskz_loadu_epi32(some, from)));
}
SIMD_INLINE void bfloats_to_16(float *to, const uint16_t *from) {
    const __m256i narrow = _mm256_loadu_si256((const __m256i *)(const void *)from);
    _mm512_storeu_si512(to, bfloat_wide_bits(narrow));
}
SIMD_INLINE void bfloats_to_first(float *to, const uint16_t *from, uint64_t count) {
    const Lanes some = lanes_first(count);
    const __m256i narrow = _mm256_maskz_loadu_epi16(some, from);
    _mm512_mask_storeu_epi32(to, some, bfloat_wide_bits(narrow));
}

/* ---- words ----------------------------------------------------------------------------------- */

SIMD_INLINE Words words_load(const void *from) {
    return _mm512_loadu_si512(from);
}
SIMD_INLINE void words_store(void *to, Words v) {
    _mm512_storeu_si512(to, v);
}
SIMD_INLINE Words words_load_some(const void *from, Lanes some) {
    return _mm512_maskz_loadu_epi32(some, from);
}
SIMD_INLINE void words_store_some(void *to, Lanes some, Words v) {
    _mm512_mask_storeu_epi32(to, some, v);
}
SIMD_INLINE Words words_fill(int32_t x) {
    return _mm512_set1_epi32(x);
}
SIMD_INLINE Words words_zero(void) {
    return _mm512_setzero_si512();
}
SIMD_INLINE Words words_add(Words a, Words b) {
    return _mm512_add_epi32(a, b);
}
SIMD_INLINE Words words_dot_pairs(Words sum, Words a, Words b) {
#ifdef __AVX512VNNI__
    return _mm512_dpwssd_epi32(sum, a, b);
#else
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
#endif
}
SIMD_INLINE Words words_up_4(Words v) {
    return _mm512_rol_epi32(v, 4); /* what comes in below is not looked at */
}
/* The lowest four bits, where a rotation has brought them, are looked up in a vector of all numbers. */
SIMD_INLINE Floats floats_of_top_4(Words v) {
    const __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    return _mm512_permutexvar_ps(_mm512_rol_epi32(v, 4), numbers);
}

SIMD_INLINE Words words_and(Words a, Words b) {
    return _mm512_and_si512(a, b);
}
SIMD_INLINE Words words_xor(Words a, Words b) {
    return _mm512_xor_si512(a, b);
}
SIMD_INLINE Words words_down_4(Words v) {
    return _mm512_srli_epi32(v, 4);
}
SIMD_INLINE Words words_dot_nibbles(Words sum, Words a, Words b) {
#ifdef __AVX512VNNI__
    return _mm512_dpbusd_epi32(sum, a, b);
#else
    const __m512i pairs = _mm512_maddubs_epi16(a, b); /* at most 2 * 15 * 128 */
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#endif
}
#ifndef __AVX512VNNI__
/* Pairs of bytes as pairs of words, as sums of two products of bytes may exceed 16 bits. */
SIMD_INLINE Words words_dot_quads(Words sum, Words a, Words b) {
    const __m512i even = _mm512_madd_epi16(_mm512_and_si512(a, _mm512_set1_epi16(255)),
                                           _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8));
    const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(a, 8), _mm512_srai_epi16(b, 8));
    return _mm512_add_epi32(sum, _mm512_add_epi32(even, odd));
}
#endif
SIMD_INLINE Words words_up_8(Words v) {
    return _mm512_slli_epi32(v, 8);
}
SIMD_INLINE Floats floats_of_top_8(Words v) {
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(v, 24));
}
SIMD_INLINE Words words_max(Words a, Words b) {
    return _mm512_max_epi32(a, b);
}
SIMD_INLINE Words words_min_unsigned(Words a, Words b) {
    return _mm512_min_epu32(a, b);
}
SIMD_INLINE Words words_count_over(Words counts, Words v, int32_t limit) {
    const __mmask16 over = _mm512_cmpgt_epi32_mask(v, _mm512_set1_epi32(limit));
    return _mm512_mask_add_epi32(counts, over, counts, _mm512_set1_epi32(1));
}
SIMD_INLINE Words words_if_below(Words v, int32_t limit) {
    return _mm512_maskz_mov_epi32(_mm512_cmpgt_epi32_mask(_mm512_set1_epi32(limit), v), v);
}
SIMD_INLINE uint32_t words_sum(Words v) {
    return (uint32_t)_mm512_reduce_add_epi32(v);
}
SIMD_INLINE uint32_t words_largest_unsigned(Words v) {
    return _mm512_reduce_max_epu32(v);
}
SIMD_INLINE uint32_t words_smallest_unsigned(Words v) {
    return _mm512_reduce_min_epu32(v);
}
SIMD_INLINE Floats floats_of_words(Words v) {
    return _mm512_cvtepi32_ps(v);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

#define SIMD_BYTES_MOVED 128
SIMD_INLINE Floats floats_of_bytes_first(const void *from, uint32_t count, bool is_signed) {
    const __m128i flip = _mm_set1_epi8((char)(is_signed << 7));
    const __m128i bytes = _mm_maskz_loadu_epi8(lanes_first(count), from);
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_xor_si128(bytes, flip)));
}

/* Rounded bounds, with the zero point, of uint8: int8 is moved by 128 until it is stored. */
typedef struct ByteEnd {
    __m512 most;
    __m512i zero, low, high, flip;
} ByteEnd;

SIMD_INLINE ByteEnd byte_end(float low, float high, int32_t zero, bool is_signed) {
    const int32_t flip = is_signed ? 128 : 0, moved = zero + flip;
    return (ByteEnd){
        .most = _mm512_set1_ps(0x1p30f),
        .zero = _mm512_set1_epi16((short)moved),
        .low = _mm512_set1_epi8((char)(_mm_cvtss_si32(_mm_set_ss(low)) + moved)),
        .high = _mm512_set1_epi8((char)(_mm_cvtss_si32(_mm_set_ss(high)) + moved)),
        .flip = _mm512_set1_epi8((char)flip),
    };
}

/* Rounding and bounds change places, as rounding is monotonic: what is too large for int32 is cut
 * before, the rest saturates. NaN becomes the least. Each 128 bits of the result are those of v[0],
 * v[1], v[2] and v[3], one behind the other. */
SIMD_INLINE __m512i bytes_by_quarters(const ByteEnd *end, const Floats v[4]) {
    __m512i whole[4];
    SIMD_UNROLL
    for (int i = 0; i < 4; i++) whole[i] = _mm512_cvtps_epi32(_mm512_min_ps(end->most, v[i]));
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(whole[0], whole[1]), end->zero);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(whole[2], whole[3]), end->zero);
    __m512i bytes = _mm512_packus_epi16(low, high);
    bytes = _mm512_min_epu8(end->high, _mm512_max_epu8(end->low, bytes));
    return _mm512_xor_si512(bytes, end->flip);
}

/* A bit for each of the first `count`, up to 64. */
SIMD_INLINE __mmask64 bytes_first(uint32_t count) {
    return count < 64 ? ((__mmask64)1 << count) - 1 : ~(__mmask64)0;
}

SIMD_INLINE void bytes_store(const ByteEnd *end, char *to, uint32_t columns, const Floats *v,
                             const uint32_t vecs) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const Floats four[4] = {v[0], v[vecs > 1 ? 1 : 0], v[vecs > 2 ? 2 : 0], v[vecs > 3 ? 3 : 0]};
    const __m512i bytes = _mm512_permutexvar_epi32(order, bytes_by_quarters(end, four));
    _mm512_mask_storeu_epi8(to, bytes_first(columns), bytes);
}

/* ---- double ---------------------------------------------------------------------------------- */

typedef __m512d Doubles; /* half as many lanes */
SIMD_INLINE Doubles doubles_fill(double x) {
    return _mm512_set1_pd(x);
}
SIMD_INLINE Doubles doubles_add(Doubles a, Doubles b) {
    return _mm512_add_pd(a, b);
}
SIMD_INLINE Doubles doubles_step(Doubles sum, Doubles a, Doubles b) {
    return _mm512_fmadd_pd(a, b, sum);
}
SIMD_INLINE void doubles_store(double *to, Doubles v) {
    _mm512_storeu_pd(to, v);
}

/* ---- VNNI and BF16 --------------------------------------------------------------------------- */

#ifdef __AVX512VNNI__
/* 64 bytes; or the first `count` of each of two rows by halves, or of four by quarters. */
typedef __m512i Bytes;
SIMD_INLINE Bytes bytes_load(const void *from) {
    return _mm512_loadu_si512(from);
}
SIMD_INLINE Bytes bytes_load_first(const void *from, uint32_t count) {
    return _mm512_maskz_loadu_epi8(bytes_first(count), from);
}
SIMD_INLINE Bytes bytes_load_two(const char *const at[2], uint32_t count) {
    const __mmask32 some = (__mmask32)bytes_first(count);
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi8(some, at[0])),
                              _mm256_maskz_loadu_epi8(some, at[1]), 1);
}
SIMD_INLINE Bytes bytes_load_four(const char *const at[4], uint32_t count) {
    const __mmask16 some = (__mmask16)bytes_first(count);
    Bytes all = _mm512_castsi128_si512(_mm_maskz_loadu_epi8(some, at[0]));
    all = _mm512_inserti32x4(all, _mm_maskz_loadu_epi8(some, at[1]), 1);
    all = _mm512_inserti32x4(all, _mm_maskz_loadu_epi8(some, at[2]), 2);
    return _mm512_inserti32x4(all, _mm_maskz_loadu_epi8(some, at[3]), 3);
}
SIMD_INLINE void bytes_store_all(void *to, Bytes v) {
    _mm512_storeu_si512(to, v);
}
SIMD_INLINE void bytes_store_first(void *to, uint32_t count, Bytes v) {
    _mm512_mask_storeu_epi8(to, bytes_first(count), v);
}
/* What lies behind the first half, or quarter, in front. */
SIMD_INLINE Bytes bytes_second_half(Bytes v) {
    return _mm512_shuffle_i64x2(v, v, 0xee);
}
SIMD_INLINE Bytes bytes_next_quarter(Bytes v) {
    return _mm512_alignr_epi32(v, v, 4);
}
/* int8 as uint8, 128 higher. */
SIMD_INLINE Bytes bytes_moved(Bytes v) {
    return _mm512_xor_si512(v, _mm512_set1_epi8((char)128));
}
/* Words of four vectors' bytes by turns, quarter by quarter, as bytes_by_quarters has them; and of one's, four
 * times each. */
SIMD_INLINE void bytes_turn_four(const Bytes x[4], Words words[4]) {
    const Bytes low01 = _mm512_unpacklo_epi8(x[0], x[1]), high01 = _mm512_unpackhi_epi8(x[0], x[1]);
    const Bytes low23 = _mm512_unpacklo_epi8(x[2], x[3]), high23 = _mm512_unpackhi_epi8(x[2], x[3]);
    words[0] = _mm512_unpacklo_epi16(low01, low23);
    words[1] = _mm512_unpackhi_epi16(low01, low23);
    words[2] = _mm512_unpacklo_epi16(high01, high23);
    words[3] = _mm512_unpackhi_epi16(high01, high23);
}
SIMD_INLINE void bytes_turn_same(Bytes x, Words words[4]) {
    const Bytes low = _mm512_unpacklo_epi8(x, x), high = _mm512_unpackhi_epi8(x, x);
    words[0] = _mm512_unpacklo_epi16(low, low);
    words[1] = _mm512_unpackhi_epi16(low, low);
    words[2] = _mm512_unpacklo_epi16(high, high);
    words[3] = _mm512_unpackhi_epi16(high, high);
}

SIMD_INLINE Words words_dot_quads(Words sum, Words a, Words b) {
    return _mm512_dpbusd_epi32(sum, a, b);
}
#endif

#ifdef __AVX512BF16__
SIMD_INLINE Words words_of_bits(Floats v) {
    return _mm512_castps_si512(v);
}
SIMD_INLINE Floats floats_dot_bfloats(Floats sum, Words a, Words b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}
/* The upper halves, rounded as products are: subnormals are 0. A NaN stays one. */
SIMD_INLINE void bfloats_store_flushed(uint16_t *to, Floats v) {
    _mm256_storeu_si256((__m256i_u *)to, (__m256i)_mm512_cvtneps_pbh(v));
}
SIMD_INLINE void bfloats_store_some_flushed(uint16_t *to, Lanes some, Floats v) {
    _mm256_mask_storeu_epi16(to, some, (__m256i)_mm512_cvtneps_pbh(v));
}
#endif

#endif
