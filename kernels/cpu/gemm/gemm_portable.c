// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels and loops of gemm.h in plain C: what other processors run, and what tests compare
 * the others with. Tiles of 4 rows by 8 columns. */
#include "gemm.h"

#include <string.h>

enum { ROWS = 4, LANES = 8 };

static inline void float_tile(const GemmTile *tile, uint32_t rows) {
    float acc[ROWS][LANES] = {{0}};
    const float *a = tile->a, *b = tile->b;
    for (uint64_t k = 0; k < tile->depth; k++, b += LANES)
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t j = 0; j < LANES; j++) acc[r][j] += a[r * tile->a_row + k] * b[j];
    for (uint32_t r = 0; r < rows; r++) {
        float *c = (float *)tile->c + r * tile->c_row;
        float bias = tile->bias && !tile->add ? ((const float *)tile->bias)[r] : 0;
        for (uint32_t j = 0; j < tile->columns; j++) c[j] = acc[r][j] + (tile->add ? c[j] : bias);
    }
}

static inline uint32_t half_at(uint32_t pair, int which) {
    return (uint32_t)(int32_t)(int16_t)(which ? pair >> 16 : pair & 0xffff);
}

static inline void pairs_tile(const GemmTile *tile, uint32_t rows) {
    uint32_t acc[ROWS][LANES] = {{0}};
    const uint32_t *a = tile->a, *b = tile->b;
    for (uint64_t k = 0; k < tile->depth; k++, b += LANES)
        for (uint32_t r = 0; r < rows; r++) {
            const uint32_t x = a[r * tile->a_row + k];
            for (uint32_t j = 0; j < LANES; j++)
                acc[r][j] += half_at(x, 0) * half_at(b[j], 0) + half_at(x, 1) * half_at(b[j], 1);
        }
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t *c = (uint32_t *)tile->c + r * tile->c_row;
        uint32_t bias = tile->bias && !tile->add ? ((const uint32_t *)tile->bias)[r] : 0;
        for (uint32_t j = 0; j < tile->columns; j++) c[j] = acc[r][j] + (tile->add ? c[j] : bias);
    }
}

#define TILES(kind)                                                                                \
    static void kind##_1(const GemmTile *tile) {                                                   \
        kind##_tile(tile, 1);                                                                      \
    }                                                                                              \
    static void kind##_2(const GemmTile *tile) {                                                   \
        kind##_tile(tile, 2);                                                                      \
    }                                                                                              \
    static void kind##_3(const GemmTile *tile) {                                                   \
        kind##_tile(tile, 3);                                                                      \
    }                                                                                              \
    static void kind##_4(const GemmTile *tile) {                                                   \
        kind##_tile(tile, 4);                                                                      \
    }
TILES(float)
TILES(pairs)

const GemmIsa *gemm_isa_portable(GemmKind kind) {
    static const GemmIsa floats = {ROWS, 1, LANES, {{float_1}, {float_2}, {float_3}, {float_4}},
                                   NULL, 0};
    static const GemmIsa pairs = {ROWS, 1, LANES, {{pairs_1}, {pairs_2}, {pairs_3}, {pairs_4}},
                                  NULL, 0};
    return kind == GEMM_FLOAT ? &floats : &pairs;
}

static void transpose(float *to, uint64_t to_row, const float *from, uint64_t from_row,
                      uint64_t rows, uint64_t columns) {
    for (uint64_t c = 0; c < columns; c++)
        for (uint64_t r = 0; r < rows; r++) to[c * to_row + r] = from[r * from_row + c];
}

void gemm_panels_portable(float *to, const float *from, uint64_t row, const GemmBlock *block) {
    const uint64_t panel = block->width * block->depth;
    for (uint64_t k = 0; k < block->depth; k++, from += row, to += block->width)
        for (uint64_t j = 0; j < block->lanes; j += block->width) {
            uint64_t lanes = block->lanes - j < block->width ? block->lanes - j : block->width;
            memcpy(to + j / block->width * panel, from + j, lanes * sizeof *to);
        }
}

static void dots(float *y, const float *matrix, uint64_t row, const float *x, uint64_t rows,
                 uint64_t count) {
    for (uint64_t r = 0; r < rows; r++, matrix += row) {
        double sum[4] = {0};
        uint64_t k = 0;
        for (; count - k >= 4; k += 4)
            for (uint32_t i = 0; i < 4; i++) sum[i] += (double)matrix[k + i] * x[k + i];
        for (; k < count; k++) sum[0] += (double)matrix[k] * x[k];
        y[r] += (float)(sum[0] + sum[1] + (sum[2] + sum[3]));
    }
}

static void sweep(float *y, const float *matrix, uint64_t row, const float *x, uint64_t depth,
                  uint64_t columns) {
    for (uint64_t k = 0; k < depth; k++, matrix += row)
        for (uint64_t j = 0; j < columns; j++) y[j] += x[k] * matrix[j];
}

static void copy_one(float *to, const float *from, const GemmRow *row) {
    for (int64_t i = 0; i < row->first; i++) to[i] = 0;
    if (row->stride == 1 && row->last > row->first)
        memcpy(to + row->first, from + (row->offset + row->first),
               (size_t)(row->last - row->first) * sizeof *to);
    else if (row->stride == 2)
        for (int64_t i = row->first; i < row->last; i++) to[i] = from[row->offset + 2 * i];
    else
        for (int64_t i = row->first; i < row->last; i++)
            to[i] = from[row->offset + i * row->stride];
    for (int64_t i = row->last; i < row->length; i++) to[i] = 0;
}

void gemm_row_portable(float *to, const float *from, const GemmRow *row) {
    for (uint64_t c = 0; c < row->copies; c++)
        copy_one(to + c * row->to_step, from + c * row->from_step, row);
}

void gemm_pad_portable(float *to, const GemmPlane *p) {
    uint64_t left = p->left < p->width ? p->left : p->width;
    uint64_t count = p->width - left < p->in_width ? p->width - left : p->in_width;
    for (uint64_t row = 0; row < p->height; row++, to += p->width) {
        bool inside = row >= p->top && row - p->top < p->in_height;
        uint64_t right = inside ? left + count : 0;
        for (uint64_t i = 0; i < left && inside; i++) to[i] = p->value;
        if (inside) memcpy(to + left, p->from + (row - p->top) * p->in_width, count * sizeof *to);
        for (uint64_t i = right; i < p->width; i++) to[i] = p->value;
    }
}

static void line_taps(float *to, const GemmTaps *t, const float *row) {
    const float *w = t->weights;
    for (uint64_t i = 0; i < t->count && !t->add; i++) to[i] = t->bias;
    for (uint32_t r = 0; r < t->rows; r++, row += t->row)
        for (uint32_t k = 0; k < t->taps; k++, w++)
            for (uint64_t i = 0; i < t->count; i++) to[i] += *w * row[i * t->stride + k * t->step];
}

static void taps(float *to, const GemmTaps *t) {
    for (uint64_t line = 0; line < t->lines; line++)
        line_taps(to + line * t->count, t, t->from + line * t->line);
}

static void line_largest(float *to, const GemmTaps *t, const float *row) {
    for (uint64_t i = 0; i < t->count; i++) to[i] = -__builtin_inff();
    for (uint32_t r = 0; r < t->rows; r++, row += t->row)
        for (uint32_t k = 0; k < t->taps; k++)
            for (uint64_t i = 0; i < t->count; i++) {
                float x = row[i * t->stride + k * t->step];
                to[i] = x > to[i] || x != x ? x : to[i];
            }
}

static void largest(float *to, const GemmTaps *t) {
    for (uint64_t line = 0; line < t->lines; line++)
        line_largest(to + line * t->count, t, t->from + line * t->line);
}

const GemmLoops *gemm_loops_portable(void) {
    static const GemmLoops table = {transpose,
                                    gemm_panels_portable,
                                    dots,
                                    sweep,
                                    gemm_row_portable,
                                    gemm_pad_portable,
                                    taps,
                                    NULL,
                                    largest};
    return &table;
}
