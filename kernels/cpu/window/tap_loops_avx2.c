// SPDX-License-Identifier: Apache-2.0
/* The loops of tap_loops.h in AVX2 with FMA. */
#include "tap_loops.h"

#include <stddef.h>

#include "simd.h"

#if defined(__x86_64__) || defined(__i386__)

/* 8 elements p[0], p[stride], … */
AVX2_TARGET static inline __m256 strided(const float *p, uint64_t stride) {
    if (stride == 1) return _mm256_loadu_ps(p);
    if (stride == 2) { /* the second half ends with element 14, one short of a vector */
        __m256 low = _mm256_loadu_ps(p), high = _mm256_maskload_ps(p + 8, avx2_some(7));
        __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
        return _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8));
    }
    return _mm256_setr_ps(p[0], p[stride], p[2 * stride], p[3 * stride], p[4 * stride],
                          p[5 * stride], p[6 * stride], p[7 * stride]);
}

AVX2_TARGET static float tap_sum(const Taps *t, const float *row, float sum) {
    const float *w = t->weights;
    for (uint32_t r = 0; r < t->rows; r++, row += t->row)
        for (uint32_t k = 0; k < t->taps; k++) sum = __builtin_fmaf(*w++, row[k * t->step], sum);
    return sum;
}

AVX2_TARGET static inline __attribute__((always_inline)) void run_taps(float *to, const Taps *t,
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
                    sum = _mm256_fmadd_ps(_mm256_set1_ps(*w++), strided(row + k * t->step, stride),
                                          sum);
            _mm256_storeu_ps(to + i, sum);
        }
        for (; i < t->count; i++) to[i] = tap_sum(t, from + i * stride, t->add ? to[i] : t->bias);
    }
}

/* 3 x 3 taps of 8 outputs, or (not whole, steps of 1) fewer, in `lines` lines, `stride` rows apart:
 * what is loaded serves all of them. */
AVX2_TARGET static inline __attribute__((always_inline)) void
three_by_eight(float *to, const Taps *t, const float *row, const uint32_t lines,
               const uint64_t stride, const bool whole, uint64_t i) {
    const __m256i mask = avx2_some(t->count - i);
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
            const __m256 x = whole ? strided(at, stride) : _mm256_maskload_ps(at, mask);
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

AVX2_TARGET static inline __attribute__((always_inline)) void three_lines(float *to, const Taps *t,
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

AVX2_TARGET static inline __attribute__((always_inline)) void
three_by_three(float *to, const Taps *t, const uint64_t stride) {
    uint64_t line = 0;
    for (; t->lines - line >= 3; line += 3)
        three_lines(to + line * t->count, t, t->from + line * t->line, 3, stride);
    for (; line < t->lines; line++)
        three_lines(to + line * t->count, t, t->from + line * t->line, 1, stride);
}

AVX2_TARGET static void taps(float *to, const Taps *t) {
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

static float tap_largest(const Taps *t, const float *row) {
    float best = -__builtin_inff();
    for (uint32_t r = 0; r < t->rows; r++, row += t->row)
        for (uint32_t k = 0; k < t->taps; k++) {
            float x = row[k * t->step];
            if (x > best || x != x) best = x;
        }
    return best;
}

AVX2_TARGET static inline __attribute__((always_inline)) void run_largest(float *to, const Taps *t,
                                                                          const uint64_t stride) {
    for (uint64_t line = 0; line < t->lines; line++, to += t->count) {
        const float *from = t->from + line * t->line;
        uint64_t i = 0;
        for (; t->count - i >= 8; i += 8) {
            __m256 best = _mm256_set1_ps(-__builtin_inff()), unordered = _mm256_setzero_ps();
            const float *row = from + i * stride;
            for (uint32_t r = 0; r < t->rows; r++, row += t->row)
                for (uint32_t k = 0; k < t->taps; k++) {
                    __m256 x = strided(row + k * t->step, stride);
                    unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
                    best = _mm256_max_ps(x, best);
                }
            _mm256_storeu_ps(to + i, _mm256_or_ps(best, unordered)); /* all bits set: NaN */
        }
        for (; i < t->count; i++) to[i] = tap_largest(t, from + i * stride);
    }
}

AVX2_TARGET static void largest(float *to, const Taps *t) {
    if (t->stride == 1)
        run_largest(to, t, 1);
    else if (t->stride == 2)
        run_largest(to, t, 2);
    else
        run_largest(to, t, t->stride);
}

/* Most rows are inside as a whole: 8 at a time, the rest one by one. */
AVX2_TARGET static void copy_row(float *to, const float *from, const TapRow *row) {
    if (row->first || row->last != row->length || row->stride > 2) {
        tap_row_portable(to, from, row);
        return;
    }
    uint64_t stride = (uint64_t)row->stride;
    from += row->offset;
    for (uint64_t c = 0; c < row->copies; c++, to += row->to_step, from += row->from_step) {
        int64_t i = 0;
        for (; row->length - i >= 8; i += 8)
            _mm256_storeu_ps(to + i, strided(from + i * row->stride, stride));
        for (; i < row->length; i++) to[i] = from[i * row->stride];
    }
}

const TapLoops *tap_loops_avx2(void) {
    static const TapLoops table = {copy_row, tap_pad_portable, taps, NULL, largest};
    return &table;
}

#else

const TapLoops *tap_loops_avx2(void) {
    return NULL;
}

#endif
