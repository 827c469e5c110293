// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels and loops of gemm.h in AVX-512: tiles of 8 rows by 3 vectors of 16, so 24 of 32
 * registers are sums. Pairs use VNNI's fused instruction where the processor has it. */
#include "gemm.h"

#if defined(__x86_64__) || defined(__i386__)

#include <immintrin.h>

#include "gemm_unroll.h"

#define TARGET     __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,bmi2")))
#define TARGET_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,bmi2,avx512vnni")))

static inline uint16_t some(uint64_t lanes) {
    return (uint16_t)((1u << lanes) - 1);
}

#define CASES(X)                                                                                   \
    X(1, 1)                                                                                        \
    X(1, 2)                                                                                        \
    X(1, 3)                                                                                        \
    X(2, 1)                                                                                        \
    X(2, 2) X(2, 3) X(3, 1) X(3, 2) X(3, 3) X(4, 1) X(4, 2) X(4, 3) X(5, 1) X(5, 2) X(5, 3)        \
        X(6, 1) X(6, 2) X(6, 3) X(7, 1) X(7, 2) X(7, 3) X(8, 1) X(8, 2) X(8, 3)
#define TABLE(f, turned_tiles, turned_columns)                                                     \
    {                                                                                              \
        8, 3, 16,                                                                                  \
            {                                                                                      \
                {f(1_1), f(1_2), f(1_3)}, {f(2_1), f(2_2), f(2_3)}, {f(3_1), f(3_2), f(3_3)},      \
                {f(4_1), f(4_2), f(4_3)}, {f(5_1), f(5_2), f(5_3)}, {f(6_1), f(6_2), f(6_3)},      \
                {f(7_1), f(7_2), f(7_3)}, {f(8_1), f(8_2), f(8_3)},                                \
            },                                                                                     \
            turned_tiles, turned_columns                                                           \
    }

#define TILE_ROWS           8
#define TILE_VECS           3
#define TILE_LANES          16
#define TILE_MASK           __mmask16
#define TILE_MASK_OF(lanes) some(lanes)

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
TARGET static inline __attribute__((always_inline)) void turned(const GemmTile *tile, uint32_t row,
                                                                uint32_t column,
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
        const __mmask16 mask = tile->depth - k >= 16 ? 0xffff : some(tile->depth - k);
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

TARGET static void turned_columns(const GemmTile *tile) {
    uint32_t r = 0;
    for (; r + 8 <= tile->rows; r += 8) {
        uint32_t j = 0;
        for (; j + 3 <= tile->columns; j += 3) turned(tile, r, j, 8, 3);
        for (; j < tile->columns; j++) turned(tile, r, j, 8, 1);
    }
    for (; r < tile->rows; r++)
        for (uint32_t j = 0; j < tile->columns; j++) turned(tile, r, j, 1, 1);
}

const GemmIsa *gemm_isa_avx512(GemmKind kind) {
    static const GemmIsa floats = TABLE(FLOAT_NAME, turned_columns, 8),
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
            __mmask16 mask = block->lanes - j >= 16 ? 0xffff : some(block->lanes - j);
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
        const __mmask16 mask = count - k >= 16 ? 0xffff : some(count - k);
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
            __mmask16 mask = count - k >= 16 ? 0xffff : some(count - k);
            sum[0] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, matrix + k),
                                     _mm512_maskz_loadu_ps(mask, x + k), sum[0]);
        }
        y[r] += _mm512_reduce_add_ps(
            _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
    }
}

TARGET static void sweep(float *y, const float *matrix, uint64_t row, const float *x,
                         uint64_t depth, uint64_t columns) {
    uint64_t k = 0;
    for (; depth - k >= 4; k += 4, matrix += 4 * row) {
        __m512 x0 = _mm512_set1_ps(x[k]), x1 = _mm512_set1_ps(x[k + 1]);
        __m512 x2 = _mm512_set1_ps(x[k + 2]), x3 = _mm512_set1_ps(x[k + 3]);
        for (uint64_t j = 0; j < columns; j += 16) {
            __mmask16 mask = columns - j >= 16 ? 0xffff : some(columns - j);
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
            __mmask16 mask = columns - j >= 16 ? 0xffff : some(columns - j);
            __m512 sum = _mm512_maskz_loadu_ps(mask, y + j);
            sum =
                _mm512_fmadd_ps(_mm512_set1_ps(x[k]), _mm512_maskz_loadu_ps(mask, matrix + j), sum);
            _mm512_mask_storeu_ps(y + j, mask, sum);
        }
}

/* 16 elements p[0], p[stride], …, those of the mask; 0 for others. Nothing else is read. */
TARGET static inline __m512 spaced(const float *p, uint64_t stride, __mmask16 mask) {
    if (stride == 1) return _mm512_maskz_loadu_ps(mask, p);
    if (stride == 2) {
        const __m512i even =
            _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        uint32_t both = _pdep_u32(mask, 0x55555555u);
        __m512 low = _mm512_maskz_loadu_ps((__mmask16)both, p);
        __m512 high = _mm512_maskz_loadu_ps((__mmask16)(both >> 16), p + 16);
        return _mm512_permutex2var_ps(low, even, high);
    }
    float items[16] = {0};
    for (uint32_t i = 0; i < 16; i++)
        if (mask >> i & 1) items[i] = p[i * stride];
    return _mm512_loadu_ps(items);
}

TARGET static inline __mmask16 lanes_of(uint64_t count, uint64_t i) {
    return count - i >= 16 ? 0xffff : some(count - i);
}

TARGET static inline __attribute__((always_inline)) void run_taps(float *to, const GemmTaps *t,
                                                                  const uint32_t rows,
                                                                  const uint32_t taps,
                                                                  const uint64_t stride) {
    for (uint64_t line = 0; line < t->lines; line++, to += t->count)
        for (uint64_t i = 0; i < t->count; i += 16) {
            __mmask16 mask = lanes_of(t->count, i);
            __m512 sum = t->add ? _mm512_maskz_loadu_ps(mask, to + i) : _mm512_set1_ps(t->bias);
            const float *row = t->from + line * t->line + i * stride, *w = t->weights;
            for (uint32_t r = 0; r < rows; r++, row += t->row)
                for (uint32_t k = 0; k < taps; k++)
                    sum = _mm512_fmadd_ps(_mm512_set1_ps(*w++),
                                          spaced(row + k * t->step, stride, mask), sum);
            _mm512_mask_storeu_ps(to + i, mask, sum);
        }
}

/* 3 x 3 taps, `lines` lines of outputs at once, `stride` rows apart: what is loaded serves all of
 * them. */
TARGET static inline __attribute__((always_inline)) void three_lines(float *to, const GemmTaps *t,
                                                                     const float *from,
                                                                     const uint32_t lines,
                                                                     const uint64_t stride) {
    __m512 w[9];
    TILE_UNROLL
    for (uint32_t k = 0; k < 3; k++) {
        w[k] = _mm512_set1_ps(t->weights[k]);
        w[k + 3] = _mm512_set1_ps(t->weights[k + 3]);
        w[k + 6] = _mm512_set1_ps(t->weights[k + 6]);
    }
    for (uint64_t i = 0; i < t->count; i += 16) {
        __mmask16 mask = lanes_of(t->count, i);
        const float *row = from + i * stride;
        __m512 sum[4];
        TILE_UNROLL
        for (uint32_t l = 0; l < lines; l++)
            sum[l] = t->add ? _mm512_maskz_loadu_ps(mask, to + l * t->count + i)
                            : _mm512_set1_ps(t->bias);
        TILE_UNROLL
        for (uint32_t r = 0; r < (lines - 1) * stride + 3; r++, row += t->row) {
            TILE_UNROLL
            for (uint32_t k = 0; k < 3; k++) {
                __m512 x = spaced(row + k * t->step, stride, mask);
                TILE_UNROLL
                for (uint32_t l = 0; l < lines; l++)
                    if (r >= l * stride && r < l * stride + 3)
                        sum[l] = _mm512_fmadd_ps(w[(r - l * stride) * 3 + k], x, sum[l]);
            }
        }
        TILE_UNROLL
        for (uint32_t l = 0; l < lines; l++)
            _mm512_mask_storeu_ps(to + l * t->count + i, mask, sum[l]);
    }
}

TARGET static inline __attribute__((always_inline)) void
three_by_three(float *to, const GemmTaps *t, const uint32_t most, const uint64_t stride) {
    uint64_t line = 0;
    for (; t->lines - line >= most; line += most)
        three_lines(to + line * t->count, t, t->from + line * t->line, most, stride);
    const float *from = t->from + line * t->line;
    to += line * t->count;
    if (t->lines - line == 3)
        three_lines(to, t, from, 3, stride);
    else if (t->lines - line == 2)
        three_lines(to, t, from, 2, stride);
    else if (t->lines - line == 1)
        three_lines(to, t, from, 1, stride);
}

TARGET static void taps(float *to, const GemmTaps *t) {
    bool three = t->rows == 3 && t->taps == 3 && t->line == t->row * t->stride;
    if (three && t->stride == 1)
        three_by_three(to, t, 4, 1);
    else if (three && t->stride == 2)
        three_by_three(to, t, 3, 2);
    else if (t->stride == 1)
        run_taps(to, t, t->rows, t->taps, 1);
    else if (t->stride == 2)
        run_taps(to, t, t->rows, t->taps, 2);
    else
        run_taps(to, t, t->rows, t->taps, t->stride);
}

TARGET static inline __attribute__((always_inline)) void run_largest(float *to, const GemmTaps *t,
                                                                     const uint64_t stride) {
    const __m512 nan = _mm512_set1_ps(__builtin_nanf(""));
    for (uint64_t line = 0; line < t->lines; line++, to += t->count)
        for (uint64_t i = 0; i < t->count; i += 16) {
            __mmask16 mask = lanes_of(t->count, i), unordered = 0;
            __m512 best = _mm512_set1_ps(-__builtin_inff());
            const float *row = t->from + line * t->line + i * stride;
            for (uint32_t r = 0; r < t->rows; r++, row += t->row)
                for (uint32_t k = 0; k < t->taps; k++) {
                    __m512 x = spaced(row + k * t->step, stride, mask);
                    unordered |= _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
                    best = _mm512_max_ps(x, best);
                }
            _mm512_mask_storeu_ps(to + i, mask, _mm512_mask_mov_ps(best, unordered, nan));
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

/* Lanes [from, to) of 16. */
static inline uint16_t between(uint64_t from, uint64_t to) {
    uint32_t high = to >= 16 ? 0xffff : (1u << to) - 1,
             low = from >= 16 ? 0xffff : (1u << from) - 1;
    return (uint16_t)(high & ~low);
}

TARGET static void copy_row(float *to, const float *from, const GemmRow *row) {
    uint64_t length = (uint64_t)row->length, first = (uint64_t)row->first;
    uint64_t last = (uint64_t)row->last, stride = (uint64_t)row->stride;
    /* where element 0 would be; masked lanes are not read */
    uintptr_t base = (uintptr_t)from + (uint64_t)row->offset * sizeof(float);
    for (uint64_t i = 0; i < length; i += 16) {
        __mmask16 mask = lanes_of(length, i), have = 0;
        if (last > i) have = between(first > i ? first - i : 0, last - i);
        const float *source = (const float *)base + i * stride;
        float *target = to + i;
        if (stride == 1)
            for (uint64_t c = 0; c < row->copies; c++)
                _mm512_mask_storeu_ps(target + c * row->to_step, mask,
                                      spaced(source + c * row->from_step, 1, have));
        else
            for (uint64_t c = 0; c < row->copies; c++)
                _mm512_mask_storeu_ps(target + c * row->to_step, mask,
                                      spaced(source + c * row->from_step, stride, have));
    }
}

/* 3 x 3 taps as above, with masks in place of padding. */
TARGET static inline __attribute__((always_inline)) void
edge_lines(float *to, const GemmTaps *t, const GemmEdges *e, uint64_t line, const uint32_t lines,
           const uint64_t stride) {
    __m512 w[9];
    TILE_UNROLL
    for (uint32_t k = 0; k < 3; k++) {
        w[k] = _mm512_set1_ps(t->weights[k]);
        w[k + 3] = _mm512_set1_ps(t->weights[k + 3]);
        w[k + 6] = _mm512_set1_ps(t->weights[k + 6]);
    }
    const uint64_t rows = (lines - 1) * stride + 3,
                   from_row = line * stride - e->top; /* may wrap */
    for (uint64_t i = 0; i < t->count; i += 16) {
        const __mmask16 all = lanes_of(t->count, i);
        __mmask16 have[3];
        TILE_UNROLL
        for (uint32_t k = 0; k < 3; k++) {
            uint64_t at = i * stride + k, first = at >= e->left ? 0 : e->left - at;
            uint64_t end = e->in_width + e->left;
            uint64_t last = at < end ? (end - 1 - at) / stride + 1 : 0;
            have[k] = between((first + stride - 1) / stride, last) & all;
        }
        __m512 sum[4];
        TILE_UNROLL
        for (uint32_t l = 0; l < lines; l++)
            sum[l] = t->add ? _mm512_maskz_loadu_ps(all, to + l * t->count + i)
                            : _mm512_set1_ps(t->bias);
        TILE_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            if (from_row + r >= e->in_height) continue;
            /* where lane 0 would be; masked lanes are not read */
            uintptr_t row = (uintptr_t)t->from +
                            ((from_row + r) * e->in_width + i * stride - e->left) * sizeof(float);
            TILE_UNROLL
            for (uint32_t k = 0; k < 3; k++) {
                __m512 x = spaced((const float *)(row + k * sizeof(float)), stride, have[k]);
                TILE_UNROLL
                for (uint32_t l = 0; l < lines; l++)
                    if (r >= l * stride && r < l * stride + 3)
                        sum[l] = _mm512_fmadd_ps(w[(r - l * stride) * 3 + k], x, sum[l]);
            }
        }
        TILE_UNROLL
        for (uint32_t l = 0; l < lines; l++)
            _mm512_mask_storeu_ps(to + l * t->count + i, all, sum[l]);
    }
}

TARGET static inline __attribute__((always_inline)) void edge_steps(float *to, const GemmTaps *t,
                                                                    const GemmEdges *e,
                                                                    const uint32_t most,
                                                                    const uint64_t stride) {
    uint64_t line = 0;
    for (; t->lines - line >= most; line += most)
        edge_lines(to + line * t->count, t, e, line, most, stride);
    for (; line < t->lines; line++) edge_lines(to + line * t->count, t, e, line, 1, stride);
}

TARGET static void edges(float *to, const GemmTaps *t, const GemmEdges *e) {
    if (t->stride == 1)
        edge_steps(to, t, e, 4, 1);
    else
        edge_steps(to, t, e, 3, 2);
}

/* A strip of 16 columns at a time, so that its masks are computed once. */
TARGET static void pad(float *to, const GemmPlane *p) {
    const __m512 fill = _mm512_set1_ps(p->value);
    uint64_t end = p->left + p->in_width;
    for (uint64_t i = 0; i < p->width; i += 16) {
        __mmask16 mask = lanes_of(p->width, i);
        __mmask16 have = end > i ? between(p->left > i ? p->left - i : 0, end - i) & mask : 0;
        /* where lane 0 of the first row would be; masked lanes are not read */
        uintptr_t from = (uintptr_t)p->from + (i - p->left) * sizeof(float);
        float *strip = to + i;
        for (uint64_t row = 0; row < p->height; row++, strip += p->width) {
            __m512 x = fill;
            if (row - p->top < p->in_height) { /* wraps above the top */
                x = _mm512_mask_loadu_ps(fill, have, (const float *)from);
                from += p->in_width * sizeof(float);
            }
            _mm512_mask_storeu_ps(strip, mask, x);
        }
    }
}

const GemmLoops *gemm_loops_avx512(void) {
    static const GemmLoops table = {
        gemm_transpose_avx2, panels, dots, sweep, copy_row, pad, taps, edges, largest};
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
