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

#define VECTORS(name, T, wide)                                                                     \
    static void name##dots(float *y, const void *matrix, uint64_t row, const float *x,             \
                           uint64_t rows, uint64_t columns) {                                      \
        const T *m = matrix;                                                                       \
        for (uint64_t r = 0; r < rows; r++, m += row) {                                            \
            double sum[4] = {0};                                                                   \
            uint64_t k = 0;                                                                        \
            for (; columns - k >= 4; k += 4)                                                       \
                for (uint32_t i = 0; i < 4; i++) sum[i] += (double)wide(m[k + i]) * x[k + i];      \
            for (; k < columns; k++) sum[0] += (double)wide(m[k]) * x[k];                          \
            y[r] += (float)(sum[0] + sum[1] + (sum[2] + sum[3]));                                  \
        }                                                                                          \
    }                                                                                              \
    static void name##gemv(float *y, const void *matrix, uint64_t row, const float *x,             \
                           uint64_t rows, uint64_t columns) {                                      \
        const T *m = matrix;                                                                       \
        for (uint64_t k = 0; k < rows; k++, m += row)                                              \
            for (uint64_t j = 0; j < columns; j++) y[j] += x[k] * wide(m[j]);                      \
    }
VECTORS(, float, )
VECTORS(half_, uint16_t, half_to_float)
VECTORS(brain_, uint16_t, bfloat_to_float)

const GemmLoops *gemm_loops_portable(void) {
    static const GemmLoops table = {transpose, gemm_panels_portable, dots,      gemv, half_dots,
                                    half_gemv, brain_dots,           brain_gemv};
    return &table;
}
