// SPDX-License-Identifier: Apache-2.0
/* What files of one instruction set share: which of them run here, masks for the last lanes of a
 * vector, and loops that are unrolled. */
#ifndef DEMI_SIMD_H
#define DEMI_SIMD_H

#include <stdint.h>

#include "isa.h"

/* The next loop, of at most 16 rounds, is unrolled; each compiler wants it said in its own way.
 * Without it a tile of sums would not stay in registers. Under a sanitizer nothing stays there, and
 * what is unrolled takes minutes to compile. */
#if defined(DEMI_SANITIZED)
#define TILE_UNROLL
#elif defined(__clang__)
#define TILE_UNROLL _Pragma("unroll")
#else
#define TILE_UNROLL _Pragma("GCC unroll 16")
#endif

/* For who reads memory once, front to back, and is at `at`: fetches a line that is soon wanted to the
 * first-level cache, and one further on to the second. By the latter the next page is known before it is
 * read; on a machine with 4 KiB pages a product of one row read its weights by it 1.1 times (float) and
 * 1.2 times (bfloat16) as fast as by the former alone. */
static inline __attribute__((always_inline)) void simd_fetch_stream(const void *at) {
    enum { NEAR = 2048, FAR = 6144 }; /* bytes */
    __builtin_prefetch((const char *)at + FAR, 0, 2);
    __builtin_prefetch((const char *)at + NEAR, 0, 3);
}

/* Whose loops a processor of that level runs: ISA_AVX512, ISA_AVX2 or ISA_PORTABLE. Those loops use
 * instructions that a level's name does not promise (FMA, BMI2); who lacks them has the next lower
 * one's. */
IsaLevel simd_level(IsaLevel level);

#if defined(__x86_64__) || defined(__i386__)

#include <immintrin.h>

#define AVX2_TARGET   __attribute__((target("avx2,fma")))
#define AVX512_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,bmi2")))

/* All bits of the first `lanes` of 8. */
AVX2_TARGET static inline __m256i avx2_some(uint64_t lanes) {
    const __m256i order = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(lanes < 8 ? lanes : 8)), order);
}

/* The first `lanes` of 16, of which there are fewer. */
static inline uint16_t avx512_some(uint64_t lanes) {
    return (uint16_t)((1u << lanes) - 1);
}

#endif

#endif
