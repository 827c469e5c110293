// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels and loops of gemm.h in AVX2 with FMA: tiles of 6 rows by 2 vectors of 8, so 12 of
 * 16 registers are sums. */
#include "gemm.h"

#include <string.h>

#include "simd.h"

#if defined(__x86_64__) || defined(__i386__)

#define TARGET __attribute__((target("avx2,fma,f16c")))
#define INLINE inline __attribute__((always_inline))

#define CASES(X)                                                                                   \
    X(1, 1) X(1, 2) X(2, 1) X(2, 2) X(3, 1) X(3, 2) X(4, 1) X(4, 2) X(5, 1) X(5, 2) X(6, 1) X(6, 2)
#define TABLE(f, transposed_tiles, transposed_columns)                                             \
    {                                                                                              \
        6, 2, 8,                                                                                   \
            {                                                                                      \
                {f(1_1), f(1_2)}, {f(2_1), f(2_2)}, {f(3_1), f(3_2)},                              \
                {f(4_1), f(4_2)}, {f(5_1), f(5_2)}, {f(6_1), f(6_2)},                              \
            },                                                                                     \
            transposed_tiles, transposed_columns                                                   \
    }

#define TILE_ROWS           6
#define TILE_VECS           2
#define TILE_LANES          8
#define TILE_MASK           __m256i
#define TILE_MASK_OF(lanes) avx2_some(lanes)
#define TILE_TARGET         TARGET

#define FLOAT_NAME(x)                 float_##x
#define TILE_NAME(x)                  FLOAT_NAME(x)
#define TILE_VEC                      __m256
#define TILE_IN                       float
#define TILE_OUT                      float
#define TILE_ZERO                     _mm256_setzero_ps()
#define TILE_LOAD(p)                  _mm256_loadu_ps(p)
#define TILE_FILL(x)                  _mm256_set1_ps(x)
#define TILE_STEP(acc, a, b)          _mm256_fmadd_ps(a, b, acc)
#define TILE_ADD(a, b)                _mm256_add_ps(a, b)
#define TILE_C_FILL(x)                _mm256_set1_ps(x)
#define TILE_C_LOAD(p)                _mm256_loadu_ps(p)
#define TILE_C_STORE(p, v)            _mm256_storeu_ps(p, v)
#define TILE_C_LOAD_SOME(p, mask)     _mm256_maskload_ps(p, mask)
#define TILE_C_STORE_SOME(p, mask, v) _mm256_maskstore_ps(p, mask, v)
#include "gemm_tile.inc"
CASES(TILE_CASE)

#undef TILE_NAME
#undef TILE_VEC
#undef TILE_IN
#undef TILE_OUT
#undef TILE_ZERO
#undef TILE_LOAD
#undef TILE_FILL
#undef TILE_STEP
#undef TILE_ADD
#undef TILE_C_FILL
#undef TILE_C_LOAD
#undef TILE_C_STORE
#undef TILE_C_LOAD_SOME
#undef TILE_C_STORE_SOME
#undef TILE_CASE

#define PAIRS_NAME(x)                 pairs_##x
#define TILE_NAME(x)                  PAIRS_NAME(x)
#define TILE_VEC                      __m256i
#define TILE_IN                       int32_t
#define TILE_OUT                      int32_t
#define TILE_ZERO                     _mm256_setzero_si256()
#define TILE_LOAD(p)                  _mm256_loadu_si256((const void *)(p))
#define TILE_FILL(x)                  _mm256_set1_epi32(x)
#define TILE_STEP(acc, a, b)          _mm256_add_epi32(acc, _mm256_madd_epi16(a, b))
#define TILE_ADD(a, b)                _mm256_add_epi32(a, b)
#define TILE_C_FILL(x)                _mm256_set1_epi32(x)
#define TILE_C_LOAD(p)                _mm256_loadu_si256((const void *)(p))
#define TILE_C_STORE(p, v)            _mm256_storeu_si256((void *)(p), v)
#define TILE_C_LOAD_SOME(p, mask)     _mm256_maskload_epi32(p, mask)
#define TILE_C_STORE_SOME(p, mask, v) _mm256_maskstore_epi32(p, mask, v)
#include "gemm_tile.inc"
CASES(TILE_CASE)

/* ---- loops ----------------------------------------------------------------------------------- */

/* Rows become columns, in place. */
TARGET static inline __attribute__((always_inline)) void transpose_8(__m256 v[8]) {
    __m256 a[8], b[8];
    TILE_UNROLL
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    TILE_UNROLL
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    TILE_UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

/* Masked stores are slow on some processors. Where `to` is as wide as there are rows, what a whole
 * store writes too much is overwritten by the next one. */
TARGET void gemm_transpose_avx2(float *to, uint64_t to_row, const float *from, uint64_t from_row,
                                uint64_t rows, uint64_t columns) {
    for (uint64_t r = 0; r < rows; r += 8) {
        uint64_t count = rows - r < 8 ? rows - r : 8, c = 0;
        __m256i mask = avx2_some(count);
        for (; columns - c >= 8; c += 8) {
            __m256 v[8];
            TILE_UNROLL
            for (uint64_t i = 0; i < 8; i++) /* rows past the end: any will do */
                v[i] = _mm256_loadu_ps(from + (r + (i < count ? i : 0)) * from_row + c);
            transpose_8(v);
            TILE_UNROLL
            for (uint64_t i = 0; i < 8; i++) {
                if (count == 8 || to_row == count)
                    _mm256_storeu_ps(to + (c + i) * to_row + r, v[i]);
                else
                    _mm256_maskstore_ps(to + (c + i) * to_row + r, mask, v[i]);
            }
        }
        for (; c < columns; c++)
            for (uint64_t i = r; i < r + count; i++) to[c * to_row + i] = from[i * from_row + c];
    }
}

TARGET static void panels(float *to, const float *from, uint64_t row, const GemmBlock *block) {
    if (block->width != 16) {
        gemm_panels_portable(to, from, row, block);
        return;
    }
    const uint64_t whole = block->lanes & ~UINT64_C(15), panel = 16 * block->depth;
    for (uint64_t k = 0; k < block->depth; k++, from += row, to += 16) {
        float *at = to;
        for (uint64_t j = 0; j < whole; j += 16, at += panel) {
            __m256 low = _mm256_loadu_ps(from + j), high = _mm256_loadu_ps(from + j + 8);
            _mm256_storeu_ps(at, low);
            _mm256_storeu_ps(at + 8, high);
        }
        for (uint64_t j = whole; j < block->lanes; j++) at[j - whole] = from[j];
    }
}

TARGET static float sum_lanes(__m256 v) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/* ---- a vector and a matrix ------------------------------------------------------------------- */

typedef enum Element { ELEMENT_FLOAT, ELEMENT_HALF, ELEMENT_BRAIN } Element;

typedef struct Vector {
    float *y;
    const void *matrix;
    const float *x;
    uint64_t row, rows, columns;
} Vector;

static INLINE size_t size_of(const Element element) {
    return element == ELEMENT_FLOAT ? sizeof(float) : sizeof(uint16_t);
}

/* Elements [i, i + 8) of a matrix's row, in float. */
TARGET static INLINE __m256 wide(const char *from, uint64_t i, const Element element) {
    from += i * size_of(element);
    if (element == ELEMENT_FLOAT) return _mm256_loadu_ps((const void *)from);
    const __m128i bits = _mm_loadu_si128((const void *)from);
    if (element == ELEMENT_HALF) return _mm256_cvtph_ps(bits);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

/* Its first `count` from i on, fewer than 8; the others are 0 and not read. */
TARGET static INLINE __m256 wide_some(const char *from, uint64_t i, uint64_t count,
                                      const Element element) {
    float some[8] = {0};
    memcpy(some, from + i * size_of(element), count * size_of(element));
    return wide((const char *)some, 0, element);
}

/* `rows` rows at once, each summed as it is alone: x is loaded once for them, and the rows behind them
 * are asked of memory, whose own look ahead ends with a page. */
TARGET static INLINE void dots_of(const Vector *v, uint64_t first, const uint32_t rows,
                                  const Element element) {
    const uint64_t size = size_of(element), step = v->row * size, count = v->columns;
    const char *m = (const char *)v->matrix + first * step;
    __m256 sum[2][4];
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        TILE_UNROLL
        for (uint32_t i = 0; i < 4; i++) sum[r][i] = _mm256_setzero_ps();
    }
    uint64_t k = 0;
    for (; count - k >= 32; k += 32) {
        TILE_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            __builtin_prefetch(m + (rows + r) * step + k * size);
            if (element == ELEMENT_FLOAT) __builtin_prefetch(m + (rows + r) * step + k * size + 64);
        }
        TILE_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const __m256 x = _mm256_loadu_ps(v->x + k + 8 * i);
            TILE_UNROLL
            for (uint32_t r = 0; r < rows; r++)
                sum[r][i] = _mm256_fmadd_ps(wide(m + r * step, k + 8 * i, element), x, sum[r][i]);
        }
    }
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++, m += step) {
        uint64_t j = k;
        for (; count - j >= 8; j += 8)
            sum[r][0] = _mm256_fmadd_ps(wide(m, j, element), _mm256_loadu_ps(v->x + j), sum[r][0]);
        if (j < count)
            sum[r][0] =
                _mm256_fmadd_ps(wide_some(m, j, count - j, element),
                                _mm256_maskload_ps(v->x + j, avx2_some(count - j)), sum[r][0]);
        v->y[first + r] += sum_lanes(_mm256_add_ps(_mm256_add_ps(sum[r][0], sum[r][1]),
                                                   _mm256_add_ps(sum[r][2], sum[r][3])));
    }
}

TARGET static INLINE void all_dots(const Vector *v, const Element element) {
    uint64_t r = 0;
    for (; v->rows - r >= 2; r += 2) dots_of(v, r, 2, element);
    if (r < v->rows) dots_of(v, r, 1, element);
}

/* y += the sum of `rows` rows from row k on, each times its x. */
TARGET static INLINE void sweep(const Vector *v, uint64_t k, const uint32_t rows,
                                const Element element) {
    const uint64_t step = v->row * size_of(element), line = 64 / size_of(element);
    const char *m = (const char *)v->matrix + k * step;
    __m256 x[4];
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++) x[r] = _mm256_set1_ps(v->x[k + r]);
    uint64_t j = 0;
    for (; v->columns - j >= 8; j += 8) {
        __m256 sum = _mm256_loadu_ps(v->y + j);
        if (j % line == 0) { /* the rows that are next */
            TILE_UNROLL
            for (uint32_t r = rows; r < 2 * rows; r++)
                __builtin_prefetch(m + r * step + j * size_of(element));
        }
        TILE_UNROLL
        for (uint32_t r = 0; r < rows; r++)
            sum = _mm256_fmadd_ps(x[r], wide(m + r * step, j, element), sum);
        _mm256_storeu_ps(v->y + j, sum);
    }
    if (j == v->columns) return;
    const __m256i mask = avx2_some(v->columns - j);
    __m256 sum = _mm256_maskload_ps(v->y + j, mask);
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        sum = _mm256_fmadd_ps(x[r], wide_some(m + r * step, j, v->columns - j, element), sum);
    _mm256_maskstore_ps(v->y + j, mask, sum);
}

TARGET static INLINE void all_gemv(const Vector *v, const Element element) {
    uint64_t k = 0;
    for (; v->rows - k >= 4; k += 4) sweep(v, k, 4, element);
    for (; k < v->rows; k++) sweep(v, k, 1, element);
}

#define VECTORS(name, element)                                                                     \
    TARGET static void name##dots(float *y, const void *matrix, uint64_t row, const float *x,      \
                                  uint64_t rows, uint64_t columns) {                               \
        all_dots(&(Vector){y, matrix, x, row, rows, columns}, element);                            \
    }                                                                                              \
    TARGET static void name##gemv(float *y, const void *matrix, uint64_t row, const float *x,      \
                                  uint64_t rows, uint64_t columns) {                               \
        all_gemv(&(Vector){y, matrix, x, row, rows, columns}, element);                            \
    }
VECTORS(, ELEMENT_FLOAT)
VECTORS(half_, ELEMENT_HALF)
VECTORS(brain_, ELEMENT_BRAIN)

/* ---- tiles of few columns -------------------------------------------------------------------- */

/* C's elements as sums of products of vectors along k. */
TARGET static inline __attribute__((always_inline)) void transposed(const GemmTile *tile,
                                                                    uint32_t row, uint32_t column,
                                                                    const uint32_t rows,
                                                                    const uint32_t columns) {
    const float *a = (const float *)tile->a + row * tile->a_row;
    const float *b = (const float *)tile->b + column * tile->b_column;
    __m256 acc[4][3];
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        TILE_UNROLL
        for (uint32_t j = 0; j < columns; j++) acc[r][j] = _mm256_setzero_ps();
    }
    for (uint64_t k = 0; k < tile->depth; k += 8) {
        const __m256i mask = avx2_some(tile->depth - k);
        __m256 y[3];
        TILE_UNROLL
        for (uint32_t j = 0; j < columns; j++)
            y[j] = _mm256_maskload_ps(b + j * tile->b_column + k, mask);
        TILE_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            const __m256 x = _mm256_maskload_ps(a + r * tile->a_row + k, mask);
            TILE_UNROLL
            for (uint32_t j = 0; j < columns; j++) acc[r][j] = _mm256_fmadd_ps(x, y[j], acc[r][j]);
        }
    }
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t j = 0; j < columns; j++) {
            float *c = (float *)tile->c + (row + r) * tile->c_row + column + j;
            float before = tile->add ? *c : tile->bias ? ((const float *)tile->bias)[row + r] : 0;
            *c = before + sum_lanes(acc[r][j]);
        }
}

TARGET static void transposed_columns(const GemmTile *tile) {
    uint32_t r = 0;
    for (; r + 4 <= tile->rows; r += 4) {
        uint32_t j = 0;
        for (; j + 3 <= tile->columns; j += 3) transposed(tile, r, j, 4, 3);
        for (; j < tile->columns; j++) transposed(tile, r, j, 4, 1);
    }
    for (; r < tile->rows; r++)
        for (uint32_t j = 0; j < tile->columns; j++) transposed(tile, r, j, 1, 1);
}

const GemmIsa *gemm_isa_avx2(GemmKind kind) {
    static const GemmIsa floats = TABLE(FLOAT_NAME, transposed_columns, 4),
                         pairs = TABLE(PAIRS_NAME, NULL, 0);
    return kind == GEMM_FLOAT ? &floats : &pairs;
}

const GemmLoops *gemm_loops_avx2(void) {
    static const GemmLoops table = {gemm_transpose_avx2, panels,    dots,       gemv,
                                    half_dots,           half_gemv, brain_dots, brain_gemv};
    return &table;
}

#else

const GemmIsa *gemm_isa_avx2(GemmKind kind) {
    (void)kind;
    return NULL;
}
const GemmLoops *gemm_loops_avx2(void) {
    return NULL;
}

#endif
