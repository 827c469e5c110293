// SPDX-License-Identifier: Apache-2.0
/* The loops of tap_loops.h in AVX-512. */
#include "tap_loops.h"

#include <stddef.h>

#include "simd.h"

#if defined(__x86_64__) || defined(__i386__)

/* 16 elements p[0], p[stride], …, those of the mask; 0 for others. Nothing else is read. */
AVX512_TARGET static inline __m512 strided(const float *p, uint64_t stride, __mmask16 mask) {
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

AVX512_TARGET static inline __mmask16 lanes_of(uint64_t count, uint64_t i) {
    return count - i >= 16 ? 0xffff : avx512_some(count - i);
}

AVX512_TARGET static inline __attribute__((always_inline)) void run_taps(float *to, const Taps *t,
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
                                          strided(row + k * t->step, stride, mask), sum);
            _mm512_mask_storeu_ps(to + i, mask, sum);
        }
}

/* 3 x 3 taps, `lines` lines of outputs at once, `stride` rows apart: what is loaded serves all of
 * them. */
AVX512_TARGET static inline __attribute__((always_inline)) void
three_lines(float *to, const Taps *t, const float *from, const uint32_t lines,
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
                __m512 x = strided(row + k * t->step, stride, mask);
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

AVX512_TARGET static inline __attribute__((always_inline)) void
three_by_three(float *to, const Taps *t, const uint32_t most, const uint64_t stride) {
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

AVX512_TARGET static void taps(float *to, const Taps *t) {
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

AVX512_TARGET static inline __attribute__((always_inline)) void
run_largest(float *to, const Taps *t, const uint64_t stride) {
    const __m512 nan = _mm512_set1_ps(__builtin_nanf(""));
    for (uint64_t line = 0; line < t->lines; line++, to += t->count)
        for (uint64_t i = 0; i < t->count; i += 16) {
            __mmask16 mask = lanes_of(t->count, i), unordered = 0;
            __m512 best = _mm512_set1_ps(-__builtin_inff());
            const float *row = t->from + line * t->line + i * stride;
            for (uint32_t r = 0; r < t->rows; r++, row += t->row)
                for (uint32_t k = 0; k < t->taps; k++) {
                    __m512 x = strided(row + k * t->step, stride, mask);
                    unordered |= _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
                    best = _mm512_max_ps(x, best);
                }
            _mm512_mask_storeu_ps(to + i, mask, _mm512_mask_mov_ps(best, unordered, nan));
        }
}

AVX512_TARGET static void largest(float *to, const Taps *t) {
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

AVX512_TARGET static void copy_row(float *to, const float *from, const TapRow *row) {
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
                                      strided(source + c * row->from_step, 1, have));
        else
            for (uint64_t c = 0; c < row->copies; c++)
                _mm512_mask_storeu_ps(target + c * row->to_step, mask,
                                      strided(source + c * row->from_step, stride, have));
    }
}

/* 3 x 3 taps as above, with masks in place of padding. */
AVX512_TARGET static inline __attribute__((always_inline)) void
edge_lines(float *to, const Taps *t, const TapEdges *e, uint64_t line, const uint32_t lines,
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
                __m512 x = strided((const float *)(row + k * sizeof(float)), stride, have[k]);
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

AVX512_TARGET static inline __attribute__((always_inline)) void edge_steps(float *to, const Taps *t,
                                                                           const TapEdges *e,
                                                                           const uint32_t most,
                                                                           const uint64_t stride) {
    uint64_t line = 0;
    for (; t->lines - line >= most; line += most)
        edge_lines(to + line * t->count, t, e, line, most, stride);
    for (; line < t->lines; line++) edge_lines(to + line * t->count, t, e, line, 1, stride);
}

AVX512_TARGET static void edges(float *to, const Taps *t, const TapEdges *e) {
    if (t->stride == 1)
        edge_steps(to, t, e, 4, 1);
    else
        edge_steps(to, t, e, 3, 2);
}

/* A strip of 16 columns at a time, so that its masks are computed once. */
AVX512_TARGET static void pad(float *to, const TapPlane *p) {
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

const TapLoops *tap_loops_avx512(void) {
    static const TapLoops table = {copy_row, pad, taps, edges, largest};
    return &table;
}

#else

const TapLoops *tap_loops_avx512(void) {
    return NULL;
}

#endif
