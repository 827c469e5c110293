// SPDX-License-Identifier: Apache-2.0
/* The census loop in AVX2 and AVX-512. The last elements of an array are padded with zeros, which
 * reach no limit and are neither the largest nor the smallest magnitude. */
#include "census_kernels.h"

#if defined(__x86_64__) || defined(__i386__)

#include <immintrin.h>
#include <string.h>

#define TARGET_AVX2   __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

/* Running counts as the negative of what they count: a comparison gives -1 where it is true. */
typedef struct Avx2Sums {
    __m256i one, nonzero, normal, overflow, inf, nan, max, min;
} Avx2Sums;

TARGET_AVX2 static inline void avx2_step(Avx2Sums *sums, __m256i bits, const CensusLimits *limits) {
    const __m256i inf = _mm256_set1_epi32(CENSUS_INF);
    __m256i size = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    __m256i finite = _mm256_cmpgt_epi32(inf, size);
#define REACH(field, limit)                                                                        \
    sums->field =                                                                                  \
        _mm256_add_epi32(sums->field, _mm256_cmpgt_epi32(size, _mm256_set1_epi32((limit)-1)))
    REACH(one, 1);
    REACH(nonzero, limits->nonzero_from);
    REACH(normal, limits->normal_from);
    REACH(overflow, limits->overflow_from);
    REACH(inf, CENSUS_INF);
    REACH(nan, CENSUS_INF + 1);
#undef REACH
    sums->max = _mm256_max_epi32(sums->max, _mm256_and_si256(size, finite));
    sums->min = _mm256_min_epu32(sums->min, _mm256_sub_epi32(size, _mm256_set1_epi32(1)));
}

/* Minus the sum of the eight counts. */
TARGET_AVX2 static uint32_t avx2_total(__m256i counts) {
    uint32_t lanes[8], total = 0;
    _mm256_storeu_si256((void *)lanes, counts);
    for (int i = 0; i < 8; i++) total -= lanes[i];
    return total;
}

TARGET_AVX2 static void avx2_finish(CensusBlock *block, const Avx2Sums *sums) {
    uint32_t max[8], min[8];
    *block = (CensusBlock){
        .reach_one = avx2_total(sums->one),
        .reach_nonzero = avx2_total(sums->nonzero),
        .reach_normal = avx2_total(sums->normal),
        .reach_overflow = avx2_total(sums->overflow),
        .reach_inf = avx2_total(sums->inf),
        .reach_nan = avx2_total(sums->nan),
        .min_less_one = UINT32_MAX,
    };
    _mm256_storeu_si256((void *)max, sums->max);
    _mm256_storeu_si256((void *)min, sums->min);
    for (int i = 0; i < 8; i++) {
        if (max[i] > block->max_finite) block->max_finite = max[i];
        if (min[i] < block->min_less_one) block->min_less_one = min[i];
    }
}

TARGET_AVX2 static void avx2_block(CensusBlock *block, const float *values, size_t count,
                                   const CensusLimits *limits) {
    Avx2Sums sums;
    memset(&sums, 0, sizeof sums);
    sums.min = _mm256_set1_epi32(-1);
    size_t i = 0;
    for (; count - i >= 8; i += 8)
        avx2_step(&sums, _mm256_loadu_si256((const void *)(values + i)), limits);
    float last[8] = {0};
    if (count > i) memcpy(last, values + i, (count - i) * sizeof *last);
    avx2_step(&sums, _mm256_loadu_si256((const void *)last), limits);
    avx2_finish(block, &sums);
}

/* Counts are kept in lanes (a masked decrement), cheaper than moving each mask to a register. */
typedef struct Avx512Sums {
    __m512i one, nonzero, normal, overflow, inf, nan, max, min;
} Avx512Sums;

TARGET_AVX512 static inline void avx512_step(Avx512Sums *sums, __m512i bits,
                                             const CensusLimits *limits) {
    const __m512i one = _mm512_set1_epi32(1), inf = _mm512_set1_epi32(CENSUS_INF);
    __m512i size = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    __mmask16 finite = _mm512_cmpgt_epi32_mask(inf, size);
#define REACH(field, limit)                                                                        \
    sums->field = _mm512_mask_add_epi32(                                                           \
        sums->field, _mm512_cmpgt_epi32_mask(size, _mm512_set1_epi32((limit)-1)), sums->field,     \
        one)
    REACH(one, 1);
    REACH(nonzero, limits->nonzero_from);
    REACH(normal, limits->normal_from);
    REACH(overflow, limits->overflow_from);
    REACH(inf, CENSUS_INF);
    REACH(nan, CENSUS_INF + 1);
#undef REACH
    sums->max = _mm512_mask_max_epi32(sums->max, finite, sums->max, size);
    sums->min = _mm512_min_epu32(sums->min, _mm512_sub_epi32(size, one));
}

TARGET_AVX512 static uint32_t avx512_total(__m512i counts) {
    return (uint32_t)_mm512_reduce_add_epi32(counts);
}

TARGET_AVX512 static void avx512_block(CensusBlock *block, const float *values, size_t count,
                                       const CensusLimits *limits) {
    Avx512Sums sums;
    memset(&sums, 0, sizeof sums);
    sums.min = _mm512_set1_epi32(-1);
    size_t i = 0;
    for (; count - i >= 16; i += 16) avx512_step(&sums, _mm512_loadu_si512(values + i), limits);
    __mmask16 mask = (__mmask16)((1u << (count - i)) - 1);
    avx512_step(&sums, _mm512_maskz_loadu_epi32(mask, values + i), limits);
    *block = (CensusBlock){
        .reach_one = avx512_total(sums.one),
        .reach_nonzero = avx512_total(sums.nonzero),
        .reach_normal = avx512_total(sums.normal),
        .reach_overflow = avx512_total(sums.overflow),
        .reach_inf = avx512_total(sums.inf),
        .reach_nan = avx512_total(sums.nan),
        .max_finite = _mm512_reduce_max_epu32(sums.max),
        .min_less_one = _mm512_reduce_min_epu32(sums.min),
    };
}

CensusKernel *census_kernel_x86(IsaLevel level) {
    switch (level) {
    case ISA_F16C: return census_block_portable; /* AVX has no integer comparison to gain from */
    case ISA_AVX2: return avx2_block;
    case ISA_AVX512: return avx512_block;
    case ISA_PORTABLE:
    case ISA_COUNT: break;
    }
    return NULL;
}

#else

CensusKernel *census_kernel_x86(IsaLevel level) {
    (void)level;
    return NULL;
}

#endif
