// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels and loops of gemm.h in AVX-512: tiles of 8 rows by 3 vectors of 16, so 24 of 32
 * registers are sums. Pairs use VNNI's fused instruction where the processor has it. */
#include "gemm.h"
#include "simd.h"

#if defined(__x86_64__) || defined(__i386__)

#define TARGET     AVX512_TARGET
#define TARGET_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,bmi2,avx512vnni")))

/* Tiles of a row count a line. */
/* clang-format off */
#define CASES(X)                                                                                   \
    X(1, 1) X(1, 2) X(1, 3)                                                                        \
    X(2, 1) X(2, 2) X(2, 3)                                                                        \
    X(3, 1) X(3, 2) X(3, 3)                                                                        \
    X(4, 1) X(4, 2) X(4, 3)                                                                        \
    X(5, 1) X(5, 2) X(5, 3)                                                                        \
    X(6, 1) X(6, 2) X(6, 3)                                                                        \
    X(7, 1) X(7, 2) X(7, 3)                                                                        \
    X(8, 1) X(8, 2) X(8, 3)
/* clang-format on */
#define TABLE(f, transposed_tiles, transposed_columns)                                             \
    {                                                                                              \
        8, 3, 16,                                                                                  \
            {                                                                                      \
                {f(1_1), f(1_2), f(1_3)}, {f(2_1), f(2_2), f(2_3)}, {f(3_1), f(3_2), f(3_3)},      \
                {f(4_1), f(4_2), f(4_3)}, {f(5_1), f(5_2), f(5_3)}, {f(6_1), f(6_2), f(6_3)},      \
                {f(7_1), f(7_2), f(7_3)}, {f(8_1), f(8_2), f(8_3)},                                \
            },                                                                                     \
            transposed_tiles, transposed_columns                                                   \
    }

#define TILE_ROWS           8
#define TILE_VECS           3
#define TILE_LANES          16
#define TILE_MASK           __mmask16
#define TILE_MASK_OF(lanes) avx512_some(lanes)

#define TILE_TARGET                   TARGET
#define FLOAT_NAME(x)                 float_##x
#define TILE_NAME(x)                  FLOAT_NAME(x)
#define TILE_VEC                      __m512
#define TILE_IN                       float
#define TILE_OUT                      float
#define TILE_ZERO                     _mm512_setzero_ps()
#define TILE_LOAD(p)                  _mm512_loadu_ps(p)
#define TILE_FILL(x)                  _mm512_set1_ps(x)
#define TILE_STEP(acc, a, b)          _mm512_fmadd_ps(a, b, acc)
#define TILE_ADD(a, b)                _mm512_add_ps(a, b)
#define TILE_C_FILL(x)                _mm512_set1_ps(x)
#define TILE_C_LOAD(p)                _mm512_loadu_ps(p)
#define TILE_C_STORE(p, v)            _mm512_storeu_ps(p, v)
#define TILE_C_LOAD_SOME(p, mask)     _mm512_maskz_loadu_ps(mask, p)
#define TILE_C_STORE_SOME(p, mask, v) _mm512_mask_storeu_ps(p, mask, v)
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
#define TILE_VEC                      __m512i
#define TILE_IN                       int32_t
#define TILE_OUT                      int32_t
#define TILE_ZERO                     _mm512_setzero_si512()
#define TILE_LOAD(p)                  _mm512_loadu_si512(p)
#define TILE_FILL(x)                  _mm512_set1_epi32(x)
#define TILE_STEP(acc, a, b)          _mm512_add_epi32(acc, _mm512_madd_epi16(a, b))
#define TILE_ADD(a, b)                _mm512_add_epi32(a, b)
#define TILE_C_FILL(x)                _mm512_set1_epi32(x)
#define TILE_C_LOAD(p)                _mm512_loadu_si512(p)
#define TILE_C_STORE(p, v)            _mm512_storeu_si512(p, v)
#define TILE_C_LOAD_SOME(p, mask)     _mm512_maskz_loadu_epi32(mask, p)
#define TILE_C_STORE_SOME(p, mask, v) _mm512_mask_storeu_epi32(p, mask, v)
#include "gemm_tile.inc"
CASES(TILE_CASE)

#undef TILE_CASE
#undef TILE_NAME
#undef TILE_STEP
#undef TILE_TARGET
#define TILE_TARGET          TARGET_DOT
#define VNNI_NAME(x)         vnni_##x
#define TILE_NAME(x)         VNNI_NAME(x)
#define TILE_STEP(acc, a, b) _mm512_dpwssd_epi32(acc, a, b)
#include "gemm_tile.inc"
CASES(TILE_CASE)

/* ---- tiles of few columns -------------------------------------------------------------------- */

/* C's elements as sums of products of vectors along k. */
TARGET static inline __attribute__((always_inline)) void transposed(const GemmTile *tile,
                                                                    uint32_t row, uint32_t column,
                                                                    const uint32_t rows,
                                                                    const uint32_t columns) {
    const float *a = (const float *)tile->a + row * tile->a_row;
    const float *b = (const float *)tile->b + column * tile->b_column;
    __m512 acc[8][3];
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        TILE_UNROLL
        for (uint32_t j = 0; j < columns; j++) acc[r][j] = _mm512_setzero_ps();
    }
    for (uint64_t k = 0; k < tile->depth; k += 16) {
        const __mmask16 mask = tile->depth - k >= 16 ? 0xffff : avx512_some(tile->depth - k);
        __m512 y[3];
        TILE_UNROLL
        for (uint32_t j = 0; j < columns; j++)
            y[j] = _mm512_maskz_loadu_ps(mask, b + j * tile->b_column + k);
        TILE_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            const __m512 x = _mm512_maskz_loadu_ps(mask, a + r * tile->a_row + k);
            TILE_UNROLL
            for (uint32_t j = 0; j < columns; j++) acc[r][j] = _mm512_fmadd_ps(x, y[j], acc[r][j]);
        }
    }
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        TILE_UNROLL
        for (uint32_t j = 0; j < columns; j++) {
            float *c = (float *)tile->c + (row + r) * tile->c_row + column + j;
            float before = tile->add ? *c : tile->bias ? ((const float *)tile->bias)[row + r] : 0;
            *c = before + _mm512_reduce_add_ps(acc[r][j]);
        }
    }
}

TARGET static void transposed_columns(const GemmTile *tile) {
    uint32_t r = 0;
    for (; r + 8 <= tile->rows; r += 8) {
        uint32_t j = 0;
        for (; j + 3 <= tile->columns; j += 3) transposed(tile, r, j, 8, 3);
        for (; j < tile->columns; j++) transposed(tile, r, j, 8, 1);
    }
    for (; r < tile->rows; r++)
        for (uint32_t j = 0; j < tile->columns; j++) transposed(tile, r, j, 1, 1);
}

const GemmIsa *gemm_isa_avx512(GemmKind kind) {
    static const GemmIsa floats = TABLE(FLOAT_NAME, transposed_columns, 8),
                         pairs = TABLE(PAIRS_NAME, NULL, 0), vnni = TABLE(VNNI_NAME, NULL, 0);
    if (kind == GEMM_FLOAT) return &floats;
    return __builtin_cpu_supports("avx512vnni") ? &vnni : &pairs;
}

/* ---- loops ----------------------------------------------------------------------------------- */

TARGET static void panels(float *to, const float *from, uint64_t row, const GemmBlock *block) {
    if (block->width != 48) {
        gemm_panels_portable(to, from, row, block);
        return;
    }
    const uint64_t whole = block->lanes / 48 * 48, panel = 48 * block->depth;
    for (uint64_t k = 0; k < block->depth; k++, from += row, to += 48) {
        float *at = to;
        for (uint64_t j = 0; j < whole; j += 48, at += panel) {
            __m512 x = _mm512_loadu_ps(from + j), y = _mm512_loadu_ps(from + j + 16);
            __m512 z = _mm512_loadu_ps(from + j + 32);
            _mm512_storeu_ps(at, x);
            _mm512_storeu_ps(at + 16, y);
            _mm512_storeu_ps(at + 32, z);
        }
        for (uint64_t j = whole; j < block->lanes; j += 16) {
            __mmask16 mask = block->lanes - j >= 16 ? 0xffff : avx512_some(block->lanes - j);
            _mm512_storeu_ps(at + (j - whole), _mm512_maskz_loadu_ps(mask, from + j));
        }
    }
}

/* Four rows at once: x is loaded once for them. */
TARGET static void four_dots(float *y, const float *matrix, uint64_t row, const float *x,
                             uint64_t count) {
    __m512 sum[4][2];
    TILE_UNROLL
    for (uint32_t r = 0; r < 4; r++) sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    uint64_t k = 0;
    for (; count - k >= 32; k += 32) {
        const __m512 low = _mm512_loadu_ps(x + k), high = _mm512_loadu_ps(x + k + 16);
        TILE_UNROLL
        for (uint32_t r = 0; r < 4; r++) {
            const float *m = matrix + r * row + k;
            sum[r][0] = _mm512_fmadd_ps(_mm512_loadu_ps(m), low, sum[r][0]);
            sum[r][1] = _mm512_fmadd_ps(_mm512_loadu_ps(m + 16), high, sum[r][1]);
        }
    }
    for (; k < count; k += 16) {
        const __mmask16 mask = count - k >= 16 ? 0xffff : avx512_some(count - k);
        const __m512 v = _mm512_maskz_loadu_ps(mask, x + k);
        TILE_UNROLL
        for (uint32_t r = 0; r < 4; r++)
            sum[r][0] =
                _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, matrix + r * row + k), v, sum[r][0]);
    }
    TILE_UNROLL
    for (uint32_t r = 0; r < 4; r++)
        y[r] += _mm512_reduce_add_ps(_mm512_add_ps(sum[r][0], sum[r][1]));
}

TARGET static void dots(float *y, const float *matrix, uint64_t row, const float *x, uint64_t rows,
                        uint64_t count) {
    uint64_t r = 0;
    for (; rows - r >= 4; r += 4, matrix += 4 * row) four_dots(y + r, matrix, row, x, count);
    for (; r < rows; r++, matrix += row) {
        __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                         _mm512_setzero_ps()};
        uint64_t k = 0;
        for (; count - k >= 64; k += 64) {
            TILE_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                sum[i] = _mm512_fmadd_ps(_mm512_loadu_ps(matrix + k + 16 * i),
                                         _mm512_loadu_ps(x + k + 16 * i), sum[i]);
        }
        for (; k < count; k += 16) {
            __mmask16 mask = count - k >= 16 ? 0xffff : avx512_some(count - k);
            sum[0] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, matrix + k),
                                     _mm512_maskz_loadu_ps(mask, x + k), sum[0]);
        }
        y[r] += _mm512_reduce_add_ps(
            _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
    }
}

TARGET static void gemv(float *y, const float *matrix, uint64_t row, const float *x, uint64_t depth,
                        uint64_t columns) {
    uint64_t k = 0;
    for (; depth - k >= 4; k += 4, matrix += 4 * row) {
        __m512 x0 = _mm512_set1_ps(x[k]), x1 = _mm512_set1_ps(x[k + 1]);
        __m512 x2 = _mm512_set1_ps(x[k + 2]), x3 = _mm512_set1_ps(x[k + 3]);
        for (uint64_t j = 0; j < columns; j += 16) {
            __mmask16 mask = columns - j >= 16 ? 0xffff : avx512_some(columns - j);
            const float *m = matrix + j;
            __m512 sum = _mm512_maskz_loadu_ps(mask, y + j);
            sum = _mm512_fmadd_ps(x0, _mm512_maskz_loadu_ps(mask, m), sum);
            sum = _mm512_fmadd_ps(x1, _mm512_maskz_loadu_ps(mask, m + row), sum);
            sum = _mm512_fmadd_ps(x2, _mm512_maskz_loadu_ps(mask, m + 2 * row), sum);
            sum = _mm512_fmadd_ps(x3, _mm512_maskz_loadu_ps(mask, m + 3 * row), sum);
            _mm512_mask_storeu_ps(y + j, mask, sum);
        }
    }
    for (; k < depth; k++, matrix += row)
        for (uint64_t j = 0; j < columns; j += 16) {
            __mmask16 mask = columns - j >= 16 ? 0xffff : avx512_some(columns - j);
            __m512 sum = _mm512_maskz_loadu_ps(mask, y + j);
            sum =
                _mm512_fmadd_ps(_mm512_set1_ps(x[k]), _mm512_maskz_loadu_ps(mask, matrix + j), sum);
            _mm512_mask_storeu_ps(y + j, mask, sum);
        }
}

const GemmLoops *gemm_loops_avx512(void) {
    static const GemmLoops table = {gemm_transpose_avx2, panels, dots, gemv};
    return &table;
}

#else

const GemmIsa *gemm_isa_avx512(GemmKind kind) {
    (void)kind;
    return NULL;
}
const GemmLoops *gemm_loops_avx512(void) {
    return NULL;
}

#endif
