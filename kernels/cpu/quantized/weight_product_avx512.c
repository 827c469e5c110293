// SPDX-License-Identifier: Apache-2.0
/* Rows by panels of weight_product.h in AVX-512: four bits are looked up in a vector of 16 floats,
 * so that widening them takes two instructions. */
#include "simd.h"
#include "weight_product.h"

#if defined(__x86_64__) || defined(__i386__)

/* Of bits as they stand for signed numbers. */
AVX512_TARGET static inline __attribute__((always_inline)) __m512 top(__m512i words) {
    const __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    /* the lowest four bits are what is looked up */
    return _mm512_permutexvar_ps(_mm512_rol_epi32(words, 4), numbers);
}

#define WEIGHT_TARGET          AVX512_TARGET
#define WEIGHT_NAME(x)         weight_avx512_##x
#define WEIGHT_LANES           16
#define WEIGHT_VEC             __m512
#define WEIGHT_WORDS           __m512i
#define WEIGHT_VECS(rows)      ((rows) <= 4 ? 4 : 2)
#define WEIGHT_ZERO            _mm512_setzero_ps()
#define WEIGHT_FILL(x)         _mm512_set1_ps(x)
#define WEIGHT_LOAD(p)         _mm512_loadu_ps(p)
#define WEIGHT_STORE(p, v)     _mm512_storeu_ps(p, v)
#define WEIGHT_SUB(a, b)       _mm512_sub_ps(a, b)
#define WEIGHT_MUL(a, b)       _mm512_mul_ps(a, b)
#define WEIGHT_STEP(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#define WEIGHT_LOAD_WORDS(p)   _mm512_loadu_si512(p)
#define WEIGHT_TOP(w)          top(w)
#define WEIGHT_UP(w)           _mm512_rol_epi32(w, 4)
#define WEIGHT_BYTES(p)                                                                            \
    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p))))
#include "weight_tile.inc"

const WeightIsa *weight_isa_avx512(void) {
    return &weight_avx512_isa;
}

#else

const WeightIsa *weight_isa_avx512(void) {
    return NULL;
}

#endif
