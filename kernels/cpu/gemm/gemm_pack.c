// SPDX-License-Identifier: Apache-2.0
/* Packing of rows and columns of float matrices in memory; see gemm.h. */
#include "gemm.h"

static const void *element_at(const GemmMatrix *m, uint64_t batch, uint64_t i, uint64_t j) {
    return gemm_start(m, batch) + (i * m->row + j * m->column) * gemm_element(m);
}

/* gemm_copy_rows of narrow elements: rows of the matrix, or columns where those are side by side.
 */
static void copy_narrow_rows(const GemmMatrix *m, const GemmBlock *block, float *to) {
    float column[GEMM_ROWS_MOST];
    if (m->column == 1 || block->depth == 1)
        for (uint64_t i = 0; i < block->lanes; i++)
            gemm_widen(m, to + i * block->depth,
                       element_at(m, block->batch, block->lane + i, block->k), block->depth);
    else
        for (uint64_t k = 0; k < block->depth; k++) {
            for (uint64_t i = 0; i < block->lanes; i++) /* side by side where row is 1 */
                gemm_widen(m, &column[i],
                           element_at(m, block->batch, block->lane + i, block->k + k), 1);
            for (uint64_t i = 0; i < block->lanes; i++) to[i * block->depth + k] = column[i];
        }
}

void gemm_copy_rows(const GemmMatrix *m, const GemmBlock *block, float *to) {
    const float *from = element_at(m, block->batch, block->lane, block->k);
    if (m->narrow)
        copy_narrow_rows(m, block, to);
    else if (m->row == 1)
        block->loops->transpose(to, block->depth, from, m->column, block->depth, block->lanes);
    else
        for (uint64_t i = 0; i < block->lanes; i++)
            for (uint64_t k = 0; k < block->depth; k++)
                to[i * block->depth + k] = from[i * m->row + k * m->column];
}

/* Columns that lie side by side in memory, each in its own lane. */
static void pack_transposed(const float *from, uint64_t step, const GemmBlock *block, float *to) {
    const uint32_t width = block->width;
    for (uint64_t j = 0; j < block->lanes; j += width, to += width * block->depth) {
        uint64_t lanes = block->lanes - j < width ? block->lanes - j : width;
        block->loops->transpose(to, width, from + j * step, step, lanes, block->depth);
    }
}

/* Of narrow elements: rows go into panels as they are widened, columns by pieces that are then
 * transposed. */
static void pack_narrow(const GemmMatrix *m, const GemmBlock *block, float *to) {
    enum { PIECE = 64, WIDEST = 64 };
    const uint32_t width = block->width;
    float piece[WIDEST * PIECE];
    for (uint64_t j = 0; j < block->lanes; j += width, to += width * block->depth) {
        uint64_t lanes = block->lanes - j < width ? block->lanes - j : width;
        for (uint64_t k = 0; m->column == 1 && k < block->depth; k++)
            gemm_widen(m, to + k * width,
                       element_at(m, block->batch, block->k + k, block->lane + j), lanes);
        for (uint64_t k = 0; m->column != 1 && k < block->depth; k += PIECE) {
            uint64_t depth = block->depth - k < PIECE ? block->depth - k : PIECE;
            for (uint64_t i = 0; i < lanes; i++)
                for (uint64_t d = 0; d < depth; d += m->row == 1 ? depth : 1)
                    gemm_widen(m, piece + i * PIECE + d,
                               element_at(m, block->batch, block->k + k + d, block->lane + j + i),
                               m->row == 1 ? depth : 1);
            for (uint64_t d = 0; d < depth; d++)
                for (uint64_t i = 0; i < lanes; i++) to[(k + d) * width + i] = piece[i * PIECE + d];
        }
    }
}

static void pack_any(const float *from, const GemmMatrix *m, const GemmBlock *block, float *to) {
    const uint32_t width = block->width;
    for (uint64_t k = 0; k < block->depth; k++)
        for (uint64_t j = 0; j < block->lanes; j++)
            to[(j / width * block->depth + k) * width + j % width] =
                from[k * m->row + j * m->column];
}

void gemm_pack_columns(const void *source, const GemmBlock *block, void *to) {
    const GemmMatrix *m = source;
    const float *from = element_at(m, block->batch, block->k, block->lane);
    if (m->narrow)
        pack_narrow(m, block, to);
    else if (m->column == 1)
        block->loops->panels(to, from, m->row, block);
    else if (m->row == 1)
        pack_transposed(from, m->column, block, to);
    else
        pack_any(from, m, block, to);
}
