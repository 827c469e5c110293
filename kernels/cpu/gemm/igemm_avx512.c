// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels of igemm.h in AVX-512: up to 24 of 32 registers are sums. Quads need VNNI. */
#include <string.h>

#include "igemm.h"
#include "simd.h"

#if defined(__x86_64__) || defined(__i386__)

#define TILE_TARGET                 AVX512_TARGET
#define TILE_NAME(x)                igemm_##x
#define TILE_LANES                  16
#define TILE_VEC                    __m512
#define TILE_ZERO                   _mm512_setzero_ps()
#define TILE_LOAD(p)                _mm512_loadu_ps(p)
#define TILE_STORE(p, v)            _mm512_storeu_ps(p, v)
#define TILE_FILL(p)                _mm512_set1_ps(*(p))
#define TILE_SPREAD(x)              _mm512_set1_ps(x)
#define TILE_STEP(acc, a, b)        _mm512_fmadd_ps(a, b, acc)
#define TILE_ADD(a, b)              _mm512_add_ps(a, b)
#define TILE_MAX(a, b)              _mm512_max_ps(a, b)
#define TILE_MIN(a, b)              _mm512_min_ps(a, b)
#define TILE_MASK                   __mmask16
#define TILE_MASK_OF(lanes)         avx512_some(lanes)
#define TILE_LOAD_SOME(p, mask)     _mm512_maskz_loadu_ps(mask, p)
#define TILE_STORE_SOME(p, mask, v) _mm512_mask_storeu_ps(p, mask, v)
#include "igemm_tile.inc"

/* Cases of r rows and v vectors. */
/* clang-format off */
#define CASES(X)                                                                                   \
    X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1) X(7, 1) X(8, 1) X(9, 1) X(10, 1) X(11, 1)      \
    X(12, 1)                                                                                       \
    X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2) X(9, 2) X(10, 2) X(11, 2)      \
    X(12, 2)                                                                                       \
    X(1, 3) X(2, 3) X(3, 3) X(4, 3) X(5, 3) X(6, 3) X(7, 3) X(8, 3)                                \
    X(1, 4) X(2, 4) X(3, 4) X(4, 4) X(5, 4) X(6, 4)
/* clang-format on */
#define TABLE(name)                                                                                \
    static IgemmTileFunction *const name##_one[] = {                                               \
        name##_1_1, name##_2_1, name##_3_1, name##_4_1,  name##_5_1,  name##_6_1,                  \
        name##_7_1, name##_8_1, name##_9_1, name##_10_1, name##_11_1, name##_12_1};                \
    static IgemmTileFunction *const name##_two[] = {                                               \
        name##_1_2, name##_2_2, name##_3_2, name##_4_2,  name##_5_2,  name##_6_2,                  \
        name##_7_2, name##_8_2, name##_9_2, name##_10_2, name##_11_2, name##_12_2};                \
    static IgemmTileFunction *const name##_three[] = {name##_1_3, name##_2_3, name##_3_3,          \
                                                      name##_4_3, name##_5_3, name##_6_3,          \
                                                      name##_7_3, name##_8_3};                     \
    static IgemmTileFunction *const name##_four[] = {name##_1_4, name##_2_4, name##_3_4,           \
                                                     name##_4_4, name##_5_4, name##_6_4};
#define ISA(name, pixels)                                                                          \
    { 16, 4, {12, 12, 8, 6}, {name##_one, name##_two, name##_three, name##_four}, pixels }

CASES(IGEMM_CASE)

/* ---- bytes ----------------------------------------------------------------------------------- */

#define VNNI_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,bmi2,avx512vnni")))

AVX512_TARGET static inline __attribute__((always_inline)) void
finish(const IgemmTile *tile, void *y, uint32_t at, uint32_t count, __m512i sum) {
    const IgemmScale *s = &tile->scale;
    const __mmask16 mask = count == 16 ? 0xffff : avx512_some(count);
    const __m512 factor = _mm512_maskz_loadu_ps(mask, s->factor + at);
    const __m512 shift = _mm512_maskz_loadu_ps(mask, s->shift + at);
    sum = _mm512_add_epi32(sum, _mm512_maskz_loadu_epi32(mask, s->offset + at));
    __m512 v = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), factor, shift);
    v = _mm512_min_ps(_mm512_set1_ps(tile->high), _mm512_max_ps(_mm512_set1_ps(tile->low), v));
    if (s->to == DTYPE_FLOAT) {
        _mm512_mask_storeu_ps(y, mask, v);
        return;
    }
    const __m512i whole = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(s->zero));
    _mm_mask_storeu_epi8(y, mask, _mm512_cvtepi32_epi8(whole));
}

/* Channels from `at` on, of `count` pixels: a byte and a weight are the low halves of words. */
AVX512_TARGET static inline __attribute__((always_inline)) void
channels_part(const IgemmPixels *p, const IgemmTile *tile, const uint32_t count,
              const bool is_signed, uint64_t at) {
    const uint32_t left = p->channels - at < 16 ? (uint32_t)(p->channels - at) : 16;
    const __mmask16 mask = left == 16 ? 0xffff : avx512_some(left);
    const size_t size = p->scale.to == DTYPE_FLOAT ? sizeof(float) : 1;
    const void *const *row = p->rows;
    const int16_t *w = (const int16_t *)p->weights + at;
    __m512i acc[IGEMM_PIXELS];
    TILE_UNROLL
    for (uint32_t i = 0; i < count; i++) acc[i] = _mm512_setzero_si512();
    for (uint64_t t = 0; t < p->taps; t++, row += count, w += p->channels) {
        const __m512i weight = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, w));
        TILE_UNROLL
        for (uint32_t i = 0; i < count; i++) {
            const __m128i bytes = _mm_maskz_loadu_epi8(mask, (const char *)row[i] + at);
            const __m512i x = is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
            acc[i] = _mm512_add_epi32(acc[i], _mm512_madd_epi16(x, weight));
        }
    }
    TILE_UNROLL
    for (uint32_t i = 0; i < count; i++)
        finish(tile, (char *)p->y + (i * p->y_row + at) * size, (uint32_t)at, left, acc[i]);
}

AVX512_TARGET static inline __attribute__((always_inline)) void
channels_of(const IgemmPixels *p, const uint32_t count, const bool is_signed) {
    const IgemmTile tile = {.scale = p->scale, .low = p->low, .high = p->high};
    for (uint64_t at = 0; at < p->channels; at += 16) channels_part(p, &tile, count, is_signed, at);
}

AVX512_TARGET static inline __attribute__((always_inline)) void channels_few(const IgemmPixels *p,
                                                                             const bool is_signed) {
    if (p->count == 3)
        channels_of(p, 3, is_signed);
    else if (p->count == 2)
        channels_of(p, 2, is_signed);
    else
        channels_of(p, 1, is_signed);
}

AVX512_TARGET static void byte_pixels(const IgemmPixels *p) {
    if (p->count == IGEMM_PIXELS && p->is_signed) {
        channels_of(p, IGEMM_PIXELS, true);
    } else if (p->count == IGEMM_PIXELS) {
        channels_of(p, IGEMM_PIXELS, false);
    } else if (p->is_signed) {
        channels_few(p, true);
    } else {
        channels_few(p, false);
    }
}

#define BYTES_LANES                         16
#define BYTES_VEC                           __m512i
#define BYTES_ZERO                          _mm512_setzero_si512()
#define BYTES_LOAD(p)                       _mm512_loadu_si512(p)
#define BYTES_STORE(p, v)                   _mm512_storeu_si512(p, v)
#define BYTES_FILL(p)                       _mm512_set1_epi32(p)
#define BYTES_FINISH(tile, y, at, count, v) finish(tile, y, at, count, v)

#define BYTES_TARGET          VNNI_TARGET
#define BYTES_NAME(x)         quads_##x
#define BYTES_STEP(acc, a, b) _mm512_dpbusd_epi32(acc, a, b)
#include "igemm_bytes.inc"
CASES(BYTES_CASE)

#undef BYTES_TARGET
#undef BYTES_NAME
#undef BYTES_STEP
#undef BYTES_CASE
#define BYTES_TARGET          AVX512_TARGET
#define BYTES_NAME(x)         pairs_##x
#define BYTES_STEP(acc, a, b) _mm512_add_epi32(acc, _mm512_madd_epi16(a, b))
#include "igemm_bytes.inc"
CASES(BYTES_CASE)

TABLE(igemm)
TABLE(quads)
TABLE(pairs)

const IgemmIsa *igemm_isa_avx512(IgemmKind kind) {
    static const IgemmIsa isas[IGEMM_KIND_COUNT] = {
        [IGEMM_FLOAT] = ISA(igemm, igemm_pixels),
        [IGEMM_QUADS] = ISA(quads, NULL),
        [IGEMM_PAIRS] = ISA(pairs, byte_pixels),
    };
    return &isas[kind];
}

#else

const IgemmIsa *igemm_isa_avx512(IgemmKind kind) {
    (void)kind;
    return NULL;
}

#endif
