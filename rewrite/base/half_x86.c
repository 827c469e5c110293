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

/* The lanes of the last step: all 16, or as many as are left. */
static inline uint16_t lanes(size_t left) {
    return (uint16_t)(left >= 16 ? 0xffffu : (1u << left) - 1);
}

TARGET_AVX512 static void avx512_half_from_float(uint16_t *to, const float *from, size_t count) {
    for (size_t i = 0; i < count; i += 16) {
        __mmask16 mask = lanes(count - i);
        __m512 floats = _mm512_maskz_loadu_ps(mask, from + i);
        __m256i halves = _mm512_maskz_cvtps_ph(mask, floats, NEAREST_EVEN);
        _mm256_mask_storeu_epi16(to + i, mask, halves);
    }
}

TARGET_AVX512 static void avx512_half_to_float(float *to, const uint16_t *from, size_t count) {
    for (size_t i = 0; i < count; i += 16) {
        __mmask16 mask = lanes(count - i);
        __m256i halves = _mm256_maskz_loadu_epi16(mask, from + i);
        _mm512_mask_storeu_ps(to + i, mask, _mm512_cvtph_ps(halves));
    }
}

TARGET_AVX512 static void avx512_bfloat_from_float(uint16_t *to, const float *from, size_t count) {
    const __m512i one = _mm512_set1_epi32(1), below_half = _mm512_set1_epi32(0x7fff);
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), inf = _mm512_set1_epi32(0x7f800000);
    for (size_t i = 0; i < count; i += 16) {
        __mmask16 mask = lanes(count - i);
        __m512i bits = _mm512_maskz_loadu_epi32(mask, from + i);
        __m512i top = _mm512_srli_epi32(bits, 16);
        __m512i bias = _mm512_add_epi32(_mm512_and_si512(top, one), below_half);
        __m512i result = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
        __mmask16 is_nan = _mm512_cmpgt_epi32_mask(_mm512_and_si512(bits, magnitude), inf);
        result = _mm512_mask_or_epi32(result, is_nan, top, _mm512_set1_epi32(0x40));
        _mm256_mask_storeu_epi16(to + i, mask, _mm512_cvtepi32_epi16(result));
    }
}

TARGET_AVX512 static void avx512_bfloat_to_float(float *to, const uint16_t *from, size_t count) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), inf = _mm512_set1_epi32(0x7f800000);
    for (size_t i = 0; i < count; i += 16) {
        __mmask16 mask = lanes(count - i);
        __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + i));
        __m512i bits = _mm512_slli_epi32(wide, 16);
        __mmask16 is_nan = _mm512_cmpgt_epi32_mask(_mm512_and_si512(bits, magnitude), inf);
        bits = _mm512_mask_or_epi32(bits, is_nan, bits, _mm512_set1_epi32(0x400000));
        _mm512_mask_storeu_epi32(to + i, mask, bits);
    }
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
