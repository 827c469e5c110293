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
#define TILE_MUL(a, b)              _mm256_mul_ps(a, b)
#define TILE_MAX(a, b)              _mm256_max_ps(a, b)
#define TILE_MIN(a, b)              _mm256_min_ps(a, b)
#define TILE_MASK                   __m256i
#define TILE_MASK_OF(lanes)         avx2_some(lanes)
#define TILE_LOAD_SOME(p, mask)     _mm256_maskload_ps(p, mask)
#define TILE_STORE_SOME(p, mask, v) _mm256_maskstore_ps(p, mask, v)
#define TILE_LINE_VECS              1
#define TILE_INDEX                  __m256i
#define TILE_INDEX_OF(p)            _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define TILE_PICK(v, index)         _mm256_permutevar8x32_ps(v, index)
#include "igemm_tile.inc"
#include "igemm_channels.inc"

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
#define ISA(name, two, by_pixel, by_line)                                                          \
    {                                                                                              \
        .lanes = 8, .vecs = 2, .most = {10, 6, 0, 0},                                              \
        .tiles = {name##_one, name##_two, NULL, NULL}, .twins = two, .pixels = by_pixel,           \
        .line = by_line                                                                            \
    }

CASES(IGEMM_CASE)
IGEMM_TWINS(2)

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Bytes that are added, of a vector's columns. */
AVX2_TARGET static inline __attribute__((always_inline)) __m256
add_bytes(const IgemmByteSum *sum, const char *z, uint32_t count, __m256 v) {
    __m128i bytes = _mm_setzero_si128();
    if (count == 8)
        bytes = _mm_loadl_epi64((const __m128i *)(const void *)z);
    else
        memcpy(&bytes, z, count);
    const __m256i whole =
        sum->is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
    const __m256 other = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_set1_ps(sum->z_factor),
                                         _mm256_set1_ps(sum->shift));
    v = _mm256_min_ps(_mm256_set1_ps(sum->high), _mm256_max_ps(_mm256_set1_ps(sum->low), v));
    v = _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return _mm256_fmadd_ps(v, _mm256_set1_ps(sum->v_factor), other);
}

AVX2_TARGET static inline __attribute__((always_inline)) void
finish(const IgemmTile *tile, uint32_t r, uint32_t at, __m256i sum) {
    const IgemmScale *s = &tile->scale;
    const uint32_t left = tile->columns - at, count = left < 8 ? left : 8;
    const __m256i mask = avx2_some(count);
    const __m256 factor = _mm256_maskload_ps(s->factor + at, mask);
    const __m256 shift = _mm256_maskload_ps(s->shift + at, mask);
    sum = _mm256_add_epi32(sum, _mm256_maskload_epi32(s->offset + at, mask));
    __m256 v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), factor, shift);
    if (s->sum) v = add_bytes(s->sum, tile->z_bytes + r * s->sum->z_row + at, count, v);
    v = _mm256_min_ps(_mm256_set1_ps(tile->high), _mm256_max_ps(_mm256_set1_ps(tile->low), v));
    if (s->to == DTYPE_FLOAT) {
        _mm256_maskstore_ps((float *)tile->y + r * tile->y_row + at, mask, v);
        return;
    }
    const __m256i whole = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(s->zero));
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    const __m128i bytes =
        s->to == DTYPE_INT8 ? _mm_packs_epi16(words, words) : _mm_packus_epi16(words, words);
    uint8_t *y = (uint8_t *)tile->y + r * tile->y_row + at;
    if (count == 8)
        _mm_storel_epi64((__m128i *)(void *)y, bytes);
    else
        memcpy(y, &bytes, count);
}

AVX2_TARGET static inline __attribute__((always_inline)) void
finish_all(const IgemmTile *tile, __m256i acc[IGEMM_ROWS_MOST][IGEMM_VECS_MOST],
           const uint32_t rows, const uint32_t vecs) {
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        TILE_UNROLL
        for (uint32_t v = 0; v < vecs; v++)
            if (v * 8 < tile->columns) finish(tile, r, v * 8, acc[r][v]);
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
#define BYTES_FINISH(tile, acc, rows, vecs) finish_all(tile, acc, rows, vecs)
#include "igemm_bytes.inc"
CASES(BYTES_CASE)

TABLE(igemm)
TABLE(pairs)
static IgemmTileFunction *const igemm_twins[] = {igemm_twin_1, igemm_twin_2};

const IgemmIsa *igemm_isa_avx2(IgemmKind kind) {
    static const IgemmIsa floats = ISA(igemm, igemm_twins, igemm_pixels, igemm_line),
                          pairs = ISA(pairs, NULL, NULL, NULL);
    return kind == IGEMM_FLOAT ? &floats : &pairs;
}

#else

const IgemmIsa *igemm_isa_avx2(IgemmKind kind) {
    (void)kind;
    return NULL;
}

#endif
