// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels of igemm.h in AVX2 with FMA: up to 12 of 16 registers are sums. */
#include <string.h>

#include "igemm.h"
#include "simd.h"

#if defined(__x86_64__) || defined(__i386__)

#define TILE_TARGET                 AVX2_TARGET
#define TILE_NAME(x)                igemm_##x
#define TILE_LANES                  8
#define TILE_VEC                    __m256
#define TILE_ZERO                   _mm256_setzero_ps()
#define TILE_LOAD(p)                _mm256_loadu_ps(p)
#define TILE_STORE(p, v)            _mm256_storeu_ps(p, v)
#define TILE_FILL(p)                _mm256_broadcast_ss(p)
#define TILE_SPREAD(x)              _mm256_set1_ps(x)
#define TILE_STEP(acc, a, b)        _mm256_fmadd_ps(a, b, acc)
#define TILE_ADD(a, b)              _mm256_add_ps(a, b)
#define TILE_MAX(a, b)              _mm256_max_ps(a, b)
#define TILE_MIN(a, b)              _mm256_min_ps(a, b)
#define TILE_MASK                   __m256i
#define TILE_MASK_OF(lanes)         avx2_some(lanes)
#define TILE_LOAD_SOME(p, mask)     _mm256_maskload_ps(p, mask)
#define TILE_STORE_SOME(p, mask, v) _mm256_maskstore_ps(p, mask, v)
#include "igemm_tile.inc"

/* Cases of r rows and v vectors. */
/* clang-format off */
#define CASES(X)                                                                                   \
    X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1) X(7, 1) X(8, 1) X(9, 1) X(10, 1)               \
    X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2)
/* clang-format on */
#define TABLE(name)                                                                                \
    static IgemmTileFunction *const name##_one[] = {                                               \
        name##_1_1, name##_2_1, name##_3_1, name##_4_1, name##_5_1,                                \
        name##_6_1, name##_7_1, name##_8_1, name##_9_1, name##_10_1};                              \
    static IgemmTileFunction *const name##_two[] = {name##_1_2, name##_2_2, name##_3_2,            \
                                                    name##_4_2, name##_5_2, name##_6_2};
#define ISA(name, pixels)                                                                          \
    { 8, 2, {10, 6, 0, 0}, {name##_one, name##_two, NULL, NULL}, pixels }

CASES(IGEMM_CASE)

/* ---- bytes ----------------------------------------------------------------------------------- */

AVX2_TARGET static inline __attribute__((always_inline)) void
finish(const IgemmTile *tile, void *y, uint32_t at, uint32_t count, __m256i sum) {
    const IgemmScale *s = &tile->scale;
    const __m256i mask = avx2_some(count);
    const __m256 factor = _mm256_maskload_ps(s->factor + at, mask);
    const __m256 shift = _mm256_maskload_ps(s->shift + at, mask);
    sum = _mm256_add_epi32(sum, _mm256_maskload_epi32(s->offset + at, mask));
    __m256 v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), factor, shift);
    v = _mm256_min_ps(_mm256_set1_ps(tile->high), _mm256_max_ps(_mm256_set1_ps(tile->low), v));
    if (s->to == DTYPE_FLOAT) {
        _mm256_maskstore_ps(y, mask, v);
        return;
    }
    int32_t whole[8];
    sum = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(s->zero));
    _mm256_storeu_si256((__m256i *)(void *)whole, sum);
    for (uint32_t i = 0; i < count; i++) ((uint8_t *)y)[i] = (uint8_t)whole[i];
}

/* `count` bytes, of 8 or 16, and zeros behind them. */
AVX2_TARGET static inline __m128i some_bytes(const void *from, size_t count) {
    if (count == 16) return _mm_loadu_si128(from);
    __m128i bytes = _mm_setzero_si128();
    memcpy(&bytes, from, count);
    return bytes;
}

/* Channels from `at` on, of `count` pixels: a byte and a weight are the low halves of words. */
AVX2_TARGET static inline __attribute__((always_inline)) void
channels_part(const IgemmPixels *p, const IgemmTile *tile, const uint32_t count,
              const bool is_signed, uint64_t at) {
    const uint32_t left = p->channels - at < 8 ? (uint32_t)(p->channels - at) : 8;
    const size_t size = p->scale.to == DTYPE_FLOAT ? sizeof(float) : 1;
    const void *const *row = p->rows;
    const int16_t *w = (const int16_t *)p->weights + at;
    __m256i acc[IGEMM_PIXELS];
    TILE_UNROLL
    for (uint32_t i = 0; i < count; i++) acc[i] = _mm256_setzero_si256();
    for (uint64_t t = 0; t < p->taps; t++, row += count, w += p->channels) {
        const __m256i weight = _mm256_cvtepu16_epi32(some_bytes(w, 2 * (size_t)left));
        TILE_UNROLL
        for (uint32_t i = 0; i < count; i++) {
            const __m128i bytes = some_bytes((const char *)row[i] + at, left);
            const __m256i x = is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
            acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(x, weight));
        }
    }
    TILE_UNROLL
    for (uint32_t i = 0; i < count; i++)
        finish(tile, (char *)p->y + (i * p->y_row + at) * size, (uint32_t)at, left, acc[i]);
}

AVX2_TARGET static inline __attribute__((always_inline)) void
channels_of(const IgemmPixels *p, const uint32_t count, const bool is_signed) {
    const IgemmTile tile = {.scale = p->scale, .low = p->low, .high = p->high};
    for (uint64_t at = 0; at < p->channels; at += 8) channels_part(p, &tile, count, is_signed, at);
}

AVX2_TARGET static inline __attribute__((always_inline)) void channels_few(const IgemmPixels *p,
                                                                           const bool is_signed) {
    if (p->count == 3)
        channels_of(p, 3, is_signed);
    else if (p->count == 2)
        channels_of(p, 2, is_signed);
    else
        channels_of(p, 1, is_signed);
}

AVX2_TARGET static void byte_pixels(const IgemmPixels *p) {
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

#define BYTES_TARGET                        AVX2_TARGET
#define BYTES_NAME(x)                       pairs_##x
#define BYTES_LANES                         8
#define BYTES_VEC                           __m256i
#define BYTES_ZERO                          _mm256_setzero_si256()
#define BYTES_LOAD(p)                       _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define BYTES_STORE(p, v)                   _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define BYTES_FILL(p)                       _mm256_set1_epi32(p)
#define BYTES_STEP(acc, a, b)               _mm256_add_epi32(acc, _mm256_madd_epi16(a, b))
#define BYTES_FINISH(tile, y, at, count, v) finish(tile, y, at, count, v)
#include "igemm_bytes.inc"
CASES(BYTES_CASE)

TABLE(igemm)
TABLE(pairs)

const IgemmIsa *igemm_isa_avx2(IgemmKind kind) {
    static const IgemmIsa floats = ISA(igemm, igemm_pixels), pairs = ISA(pairs, byte_pixels);
    return kind == IGEMM_FLOAT ? &floats : &pairs;
}

#else

const IgemmIsa *igemm_isa_avx2(IgemmKind kind) {
    (void)kind;
    return NULL;
}

#endif
