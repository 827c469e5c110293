// SPDX-License-Identifier: Apache-2.0
/* Rows by panels of weight_product.h in AVX2 with FMA: 8 sums in registers beside the words that
 * weights are taken of. */
#include "simd.h"
#include "weight_product.h"

#if defined(__x86_64__) || defined(__i386__)

#define WEIGHT_TARGET          AVX2_TARGET
#define WEIGHT_NAME(x)         weight_avx2_##x
#define WEIGHT_LANES           8
#define WEIGHT_VEC             __m256
#define WEIGHT_WORDS           __m256i
#define WEIGHT_VECS(rows)      ((rows) <= 2 ? 4 : (rows) <= 4 ? 2 : 1)
#define WEIGHT_ZERO            _mm256_setzero_ps()
#define WEIGHT_FILL(x)         _mm256_set1_ps(x)
#define WEIGHT_LOAD(p)         _mm256_loadu_ps(p)
#define WEIGHT_STORE(p, v)     _mm256_storeu_ps(p, v)
#define WEIGHT_SUB(a, b)       _mm256_sub_ps(a, b)
#define WEIGHT_MUL(a, b)       _mm256_mul_ps(a, b)
#define WEIGHT_STEP(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#define WEIGHT_LOAD_WORDS(p)   _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define WEIGHT_TOP(w)          _mm256_cvtepi32_ps(_mm256_srai_epi32(w, 28))
#define WEIGHT_UP(w)           _mm256_slli_epi32(w, 4)
#define WEIGHT_BYTES(p)                                                                            \
    _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p))))
#include "weight_tile.inc"

const WeightIsa *weight_isa_avx2(void) {
    return &weight_avx2_isa;
}

#else

const WeightIsa *weight_isa_avx2(void) {
    return NULL;
}

#endif
