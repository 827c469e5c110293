// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels and loops of gemm.h in AVX2 with FMA: tiles of 6 rows by 2 vectors of 8, so 12 of
 * 16 registers are sums. */
#include "gemm.h"

#if defined(__x86_64__) || defined(__i386__)

#include <immintrin.h>

#include "gemm_unroll.h"

#define TARGET __attribute__((target("avx2,fma")))

/* All bits of the first `lanes` of 8. */
TARGET static inline __m256i some(uint64_t lanes) {
    const __m256i order = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(lanes < 8 ? lanes : 8)), order);
}

#define CASES(X)                                                                                   \
    X(1, 1) X(1, 2) X(2, 1) X(2, 2) X(3, 1) X(3, 2) X(4, 1) X(4, 2) X(5, 1) X(5, 2) X(6, 1) X(6, 2)
#define TABLE(f, turned_tiles, turned_columns)                                                     \
    {                                                                                              \
        6, 2, 8,                                                                                   \
            {                                                                                      \
                {f(1_1), f(1_2)}, {f(2_1), f(2_2)}, {f(3_1), f(3_2)},                              \
                {f(4_1), f(4_2)}, {f(5_1), f(5_2)}, {f(6_1), f(6_2)},                              \
            },                                                                                     \
            turned_tiles, turned_columns                                                           \
    }

#define TILE_ROWS           6
#define TILE_VECS           2
#define TILE_LANES          8
#define TILE_MASK           __m256i
#define TILE_MASK_OF(lanes) some(lanes)
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
TARGET static inline __attribute__((always_inline)) void turn(__m256 v[8]) {
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
        __m256i mask = some(count);
        for (; columns - c >= 8; c += 8) {
            __m256 v[8];
            TILE_UNROLL
            for (uint64_t i = 0; i < 8; i++) /* rows past the end: any will do */
                v[i] = _mm256_loadu_ps(from + (r + (i < count ? i : 0)) * from_row + c);
            turn(v);
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

TARGET static void dots(float *y, const float *matrix, uint64_t row, const float *x, uint64_t rows,
                        uint64_t count) {
    for (uint64_t r = 0; r < rows; r++, matrix += row) {
        __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                         _mm256_setzero_ps()};
        uint64_t k = 0;
        for (; count - k >= 32; k += 32) {
            TILE_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                sum[i] = _mm256_fmadd_ps(_mm256_loadu_ps(matrix + k + 8 * i),
                                         _mm256_loadu_ps(x + k + 8 * i), sum[i]);
        }
        for (; k < count; k += 8) {
            __m256i mask = some(count - k);
            sum[0] = _mm256_fmadd_ps(_mm256_maskload_ps(matrix + k, mask),
                                     _mm256_maskload_ps(x + k, mask), sum[0]);
        }
        y[r] +=
            sum_lanes(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
    }
}

TARGET static void sweep(float *y, const float *matrix, uint64_t row, const float *x,
                         uint64_t depth, uint64_t columns) {
    uint64_t whole = columns & ~UINT64_C(7), k = 0;
    for (; depth - k >= 4; k += 4, matrix += 4 * row) {
        __m256 v[4];
        TILE_UNROLL
        for (uint32_t i = 0; i < 4; i++) v[i] = _mm256_set1_ps(x[k + i]);
        for (uint64_t j = 0; j < whole; j += 8) {
            __m256 sum = _mm256_loadu_ps(y + j);
            if (j % 16 == 0) /* the next four */
                for (uint32_t i = 4; i < 8; i++) __builtin_prefetch(matrix + j + i * row);
            TILE_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                sum = _mm256_fmadd_ps(v[i], _mm256_loadu_ps(matrix + j + i * row), sum);
            _mm256_storeu_ps(y + j, sum);
        }
        for (uint64_t j = whole; j < columns; j++)
            for (uint32_t i = 0; i < 4; i++)
                y[j] = __builtin_fmaf(x[k + i], matrix[j + i * row], y[j]);
    }
    for (; k < depth; k++, matrix += row)
        for (uint64_t j = 0; j < columns; j++) y[j] = __builtin_fmaf(x[k], matrix[j], y[j]);
}

/* 8 elements p[0], p[stride], … */
TARGET static inline __m256 spaced(const float *p, uint64_t stride) {
    if (stride == 1) return _mm256_loadu_ps(p);
    if (stride == 2) { /* the second half ends with element 14, one short of a vector */
        __m256 low = _mm256_loadu_ps(p), high = _mm256_maskload_ps(p + 8, some(7));
        __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
        return _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8));
    }
    return _mm256_setr_ps(p[0], p[stride], p[2 * stride], p[3 * stride], p[4 * stride],
                          p[5 * stride], p[6 * stride], p[7 * stride]);
}

TARGET static float tap_sum(const GemmTaps *t, const float *row, float sum) {
    const float *w = t->weights;
    for (uint32_t r = 0; r < t->rows; r++, row += t->row)
        for (uint32_t k = 0; k < t->taps; k++) sum = __builtin_fmaf(*w++, row[k * t->step], sum);
    return sum;
}

TARGET static inline __attribute__((always_inline)) void run_taps(float *to, const GemmTaps *t,
                                                                  const uint32_t rows,
                                                                  const uint32_t taps,
                                                                  const uint64_t stride) {
    for (uint64_t line = 0; line < t->lines; line++, to += t->count) {
        const float *from = t->from + line * t->line;
        uint64_t i = 0;
        for (; t->count - i >= 8; i += 8) {
            __m256 sum = t->add ? _mm256_loadu_ps(to + i) : _mm256_set1_ps(t->bias);
            const float *row = from + i * stride, *w = t->weights;
            for (uint32_t r = 0; r < rows; r++, row += t->row)
                for (uint32_t k = 0; k < taps; k++)
                    sum = _mm256_fmadd_ps(_mm256_set1_ps(*w++), spaced(row + k * t->step, stride),
                                          sum);
            _mm256_storeu_ps(to + i, sum);
        }
        for (; i < t->count; i++) to[i] = tap_sum(t, from + i * stride, t->add ? to[i] : t->bias);
    }
}

/* 3 x 3 taps of 8 outputs, or (not whole, steps of 1) fewer, in `lines` lines, `stride` rows apart:
 * what is loaded serves all of them. */
TARGET static inline __attribute__((always_inline)) void
three_by_eight(float *to, const GemmTaps *t, const float *row, const uint32_t lines,
               const uint64_t stride, const bool whole, uint64_t i) {
    const __m256i mask = some(t->count - i);
    __m256 sum[3];
    TILE_UNROLL
    for (uint32_t l = 0; l < lines; l++) {
        const float *at = to + l * t->count + i;
        if (!t->add)
            sum[l] = _mm256_set1_ps(t->bias);
        else
            sum[l] = whole ? _mm256_loadu_ps(at) : _mm256_maskload_ps(at, mask);
    }
    TILE_UNROLL
    for (uint32_t r = 0; r < (lines - 1) * stride + 3; r++, row += t->row) {
        TILE_UNROLL
        for (uint32_t k = 0; k < 3; k++) {
            const float *at = row + k * t->step;
            const __m256 x = whole ? spaced(at, stride) : _mm256_maskload_ps(at, mask);
            TILE_UNROLL
            for (uint32_t l = 0; l < lines; l++)
                if (r >= l * stride && r < l * stride + 3)
                    sum[l] = _mm256_fmadd_ps(_mm256_set1_ps(t->weights[(r - l * stride) * 3 + k]),
                                             x, sum[l]);
        }
    }
    TILE_UNROLL
    for (uint32_t l = 0; l < lines; l++) {
        float *at = to + l * t->count + i;
        if (whole)
            _mm256_storeu_ps(at, sum[l]);
        else
            _mm256_maskstore_ps(at, mask, sum[l]);
    }
}

TARGET static inline __attribute__((always_inline)) void three_lines(float *to, const GemmTaps *t,
                                                                     const float *from,
                                                                     const uint32_t lines,
                                                                     const uint64_t stride) {
    uint64_t i = 0;
    for (; t->count - i >= 8; i += 8)
        three_by_eight(to, t, from + i * stride, lines, stride, true, i);
    if (i < t->count && stride == 1) {
        three_by_eight(to, t, from + i, lines, 1, false, i);
        return;
    }
    for (; i < t->count; i++)
        for (uint32_t l = 0; l < lines; l++) {
            float *at = to + l * t->count + i;
            *at = tap_sum(t, from + l * t->line + i * stride, t->add ? *at : t->bias);
        }
}

TARGET static inline __attribute__((always_inline)) void
three_by_three(float *to, const GemmTaps *t, const uint64_t stride) {
    uint64_t line = 0;
    for (; t->lines - line >= 3; line += 3)
        three_lines(to + line * t->count, t, t->from + line * t->line, 3, stride);
    for (; line < t->lines; line++)
        three_lines(to + line * t->count, t, t->from + line * t->line, 1, stride);
}

TARGET static void taps(float *to, const GemmTaps *t) {
    bool three = t->rows == 3 && t->taps == 3 && t->line == t->row * t->stride;
    if (three && t->stride == 1)
        three_by_three(to, t, 1);
    else if (three && t->stride == 2)
        three_by_three(to, t, 2);
    else if (t->stride == 1)
        run_taps(to, t, t->rows, t->taps, 1);
    else if (t->stride == 2)
        run_taps(to, t, t->rows, t->taps, 2);
    else
        run_taps(to, t, t->rows, t->taps, t->stride);
}

static float tap_largest(const GemmTaps *t, const float *row) {
    float best = -__builtin_inff();
    for (uint32_t r = 0; r < t->rows; r++, row += t->row)
        for (uint32_t k = 0; k < t->taps; k++) {
            float x = row[k * t->step];
            if (x > best || x != x) best = x;
        }
    return best;
}

TARGET static inline __attribute__((always_inline)) void run_largest(float *to, const GemmTaps *t,
                                                                     const uint64_t stride) {
    for (uint64_t line = 0; line < t->lines; line++, to += t->count) {
        const float *from = t->from + line * t->line;
        uint64_t i = 0;
        for (; t->count - i >= 8; i += 8) {
            __m256 best = _mm256_set1_ps(-__builtin_inff()), unordered = _mm256_setzero_ps();
            const float *row = from + i * stride;
            for (uint32_t r = 0; r < t->rows; r++, row += t->row)
                for (uint32_t k = 0; k < t->taps; k++) {
                    __m256 x = spaced(row + k * t->step, stride);
                    unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
                    best = _mm256_max_ps(x, best);
                }
            _mm256_storeu_ps(to + i, _mm256_or_ps(best, unordered)); /* all bits set: NaN */
        }
        for (; i < t->count; i++) to[i] = tap_largest(t, from + i * stride);
    }
}

TARGET static void largest(float *to, const GemmTaps *t) {
    if (t->stride == 1)
        run_largest(to, t, 1);
    else if (t->stride == 2)
        run_largest(to, t, 2);
    else
        run_largest(to, t, t->stride);
}

/* Most rows are inside as a whole: 8 at a time, the rest one by one. */
TARGET static void copy_row(float *to, const float *from, const GemmRow *row) {
    if (row->first || row->last != row->length || row->stride > 2) {
        gemm_row_portable(to, from, row);
        return;
    }
    uint64_t stride = (uint64_t)row->stride;
    from += row->offset;
    for (uint64_t c = 0; c < row->copies; c++, to += row->to_step, from += row->from_step) {
        int64_t i = 0;
        for (; row->length - i >= 8; i += 8)
            _mm256_storeu_ps(to + i, spaced(from + i * row->stride, stride));
        for (; i < row->length; i++) to[i] = from[i * row->stride];
    }
}

/* ---- tiles of few columns -------------------------------------------------------------------- */

/* C's elements as sums of products of vectors along k. */
TARGET static inline __attribute__((always_inline)) void turned(const GemmTile *tile, uint32_t row,
                                                                uint32_t column,
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
        const __m256i mask = some(tile->depth - k);
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

TARGET static void turned_columns(const GemmTile *tile) {
    uint32_t r = 0;
    for (; r + 4 <= tile->rows; r += 4) {
        uint32_t j = 0;
        for (; j + 3 <= tile->columns; j += 3) turned(tile, r, j, 4, 3);
        for (; j < tile->columns; j++) turned(tile, r, j, 4, 1);
    }
    for (; r < tile->rows; r++)
        for (uint32_t j = 0; j < tile->columns; j++) turned(tile, r, j, 1, 1);
}

const GemmIsa *gemm_isa_avx2(GemmKind kind) {
    static const GemmIsa floats = TABLE(FLOAT_NAME, turned_columns, 4),
                         pairs = TABLE(PAIRS_NAME, NULL, 0);
    return kind == GEMM_FLOAT ? &floats : &pairs;
}

const GemmLoops *gemm_loops_avx2(void) {
    static const GemmLoops table = {gemm_transpose_avx2, panels, dots, sweep,  copy_row,
                                    gemm_pad_portable,   taps,   NULL, largest};
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
