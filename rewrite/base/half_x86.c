// SPDX-License-Identifier: Apache-2.0
/* The conversions of half.c in F16C, AVX2 and AVX-512.
 *
 * float16 uses the conversion instructions (vcvtps2ph, vcvtph2ps), which round as half.h says,
 * quiet NaNs as it says and ignore flush-to-zero. bfloat16 uses integer arithmetic on the bits: the
 * AVX512_BF16 instruction flushes subnormals, so it can't be used.
 */
#include "half_kernels.h"

#if defined(__x86_64__) || defined(__i386__)

#include <immintrin.h>

#define TARGET_F16C   __attribute__((target("avx,f16c")))
#define TARGET_AVX2   __attribute__((target("avx2,f16c")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define NEAREST_EVEN  (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

TARGET_F16C static void f16c_half_from_float(uint16_t *to, const float *from, size_t count) {
    size_t i = 0;
    for (; count - i >= 16; i += 16) {
        __m256 low = _mm256_loadu_ps(from + i), high = _mm256_loadu_ps(from + i + 8);
        _mm_storeu_si128((void *)(to + i), _mm256_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT));
        _mm_storeu_si128((void *)(to + i + 8), _mm256_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT));
    }
    half_kernels_portable()->half_from_float(to + i, from + i, count - i);
}

TARGET_F16C static void f16c_half_to_float(float *to, const uint16_t *from, size_t count) {
    size_t i = 0;
    for (; count - i >= 16; i += 16) {
        __m128i low = _mm_loadu_si128((const void *)(from + i));
        __m128i high = _mm_loadu_si128((const void *)(from + i + 8));
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(low));
        _mm256_storeu_ps(to + i + 8, _mm256_cvtph_ps(high));
    }
    half_kernels_portable()->half_to_float(to + i, from + i, count - i);
}

/* Eight bfloat16, each in the low half of 32 bits. */
TARGET_AVX2 static inline __m256i avx2_narrow_bfloat(const float *from) {
    __m256i bits = _mm256_loadu_si256((const void *)from);
    __m256i top = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
    __m256i size = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    __m256i is_nan = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(0x7f800000));
    __m256i nan = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(rounded, nan, is_nan);
}

TARGET_AVX2 static void avx2_bfloat_from_float(uint16_t *to, const float *from, size_t count) {
    size_t i = 0;
    for (; count - i >= 16; i += 16) {
        /* packus works in 128-bit lanes: the middle quarters come out exchanged */
        __m256i packed =
            _mm256_packus_epi32(avx2_narrow_bfloat(from + i), avx2_narrow_bfloat(from + i + 8));
        _mm256_storeu_si256((void *)(to + i), _mm256_permute4x64_epi64(packed, 0xd8));
    }
    half_kernels_portable()->bfloat_from_float(to + i, from + i, count - i);
}

TARGET_AVX2 static void avx2_bfloat_to_float(float *to, const uint16_t *from, size_t count) {
    const __m256i quiet = _mm256_set1_epi32(0x400000), inf = _mm256_set1_epi32(0x7f800000);
    size_t i = 0;
    for (; count - i >= 8; i += 8) {
        __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(from + i)));
        __m256i bits = _mm256_slli_epi32(wide, 16);
        __m256i size = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
        __m256i is_nan = _mm256_cmpgt_epi32(size, inf);
        bits = _mm256_or_si256(bits, _mm256_and_si256(is_nan, quiet));
        _mm256_storeu_si256((void *)(to + i), bits);
    }
    half_kernels_portable()->bfloat_to_float(to + i, from + i, count - i);
}

/* Whole vectors by themselves, and what is left by masks: loads wait for masked stores to leave the
 * processor's queue, which kernels that read at once what was widened would do in each step. */
#define AVX512_LOOPS(load, convert, store)                                                         \
    size_t i = 0;                                                                                  \
    for (; count - i >= 16; i += 16) {                                                             \
        const __mmask16 mask = 0xffff;                                                             \
        store(to + i, mask, convert(load(mask, from + i)));                                        \
    }                                                                                              \
    if (i < count) {                                                                               \
        const __mmask16 mask = (__mmask16)((1u << (count - i)) - 1);                               \
        store(to + i, mask, convert(load(mask, from + i)));                                        \
    }

/* Of constant masks that are full, plain loads and stores. */
#define AVX512_INLINE TARGET_AVX512 static inline __attribute__((always_inline))
AVX512_INLINE __m512i load_wide(__mmask16 mask, const float *from) {
    return mask == 0xffff ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi32(mask, from);
}
AVX512_INLINE __m256i load_narrow(__mmask16 mask, const uint16_t *from) {
    return mask == 0xffff ? _mm256_loadu_si256((const void *)from)
                          : _mm256_maskz_loadu_epi16(mask, from);
}
AVX512_INLINE void store_wide(float *to, __mmask16 mask, __m512i bits) {
    if (mask == 0xffff)
        _mm512_storeu_si512(to, bits);
    else
        _mm512_mask_storeu_epi32(to, mask, bits);
}
AVX512_INLINE void store_narrow(uint16_t *to, __mmask16 mask, __m256i bits) {
    if (mask == 0xffff)
        _mm256_storeu_si256((void *)to, bits);
    else
        _mm256_mask_storeu_epi16(to, mask, bits);
}

AVX512_INLINE __m256i narrow_half(__m512i bits) {
    return _mm512_maskz_cvtps_ph(0xffff, _mm512_castsi512_ps(bits), NEAREST_EVEN);
}
AVX512_INLINE __m512i widen_half(__m256i halves) {
    return _mm512_castps_si512(_mm512_cvtph_ps(halves));
}
AVX512_INLINE __mmask16 is_nan(__m512i bits) {
    const __m512 floats = _mm512_castsi512_ps(bits);
    return _mm512_cmp_ps_mask(floats, floats, _CMP_UNORD_Q);
}
AVX512_INLINE __m256i narrow_bfloat(__m512i bits) {
    const __m512i top = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
    const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i near = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
    return _mm512_cvtepi32_epi16(
        _mm512_mask_or_epi32(near, is_nan(bits), top, _mm512_set1_epi32(0x40)));
}
AVX512_INLINE __m512i widen_bfloat(__m256i halves) {
    const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
    return _mm512_mask_or_epi32(bits, is_nan(bits), bits, _mm512_set1_epi32(0x400000));
}

TARGET_AVX512 static void avx512_half_from_float(uint16_t *to, const float *from, size_t count){
    AVX512_LOOPS(load_wide, narrow_half, store_narrow)} TARGET_AVX512
    static void avx512_half_to_float(float *to, const uint16_t *from, size_t count){
        AVX512_LOOPS(load_narrow, widen_half, store_wide)} TARGET_AVX512
    static void avx512_bfloat_from_float(uint16_t *to, const float *from, size_t count){
        AVX512_LOOPS(load_wide, narrow_bfloat, store_narrow)} TARGET_AVX512
    static void avx512_bfloat_to_float(float *to, const uint16_t *from, size_t count) {
    AVX512_LOOPS(load_narrow, widen_bfloat, store_wide)
}

/* F16C says nothing about bfloat16: those are the plain C loops. */
static void f16c_bfloat_from_float(uint16_t *to, const float *from, size_t count) {
    half_kernels_portable()->bfloat_from_float(to, from, count);
}

static void f16c_bfloat_to_float(float *to, const uint16_t *from, size_t count) {
    half_kernels_portable()->bfloat_to_float(to, from, count);
}

const HalfKernels *half_kernels_x86(IsaLevel level) {
    static const HalfKernels f16c = {f16c_half_from_float, f16c_half_to_float,
                                     f16c_bfloat_from_float, f16c_bfloat_to_float};
    static const HalfKernels avx2 = {f16c_half_from_float, f16c_half_to_float,
                                     avx2_bfloat_from_float, avx2_bfloat_to_float};
    static const HalfKernels avx512 = {avx512_half_from_float, avx512_half_to_float,
                                       avx512_bfloat_from_float, avx512_bfloat_to_float};
    switch (level) {
    case ISA_F16C: return &f16c;
    case ISA_AVX2: return &avx2;
    case ISA_AVX512: return &avx512;
    case ISA_PORTABLE:
    case ISA_COUNT: break;
    }
    return NULL;
}

#else

const HalfKernels *half_kernels_x86(IsaLevel level) {
    (void)level;
    return NULL;
}

#endif
