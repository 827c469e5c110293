// SPDX-License-Identifier: Apache-2.0
/* What a warp does with matrices: ldmatrix and mma.m16n8k16, whose fragments are those of the PTX ISA.
 * Products are exact; the order of a device's sums is not known, here they are rounded once. */
#include <string.h>

#include "ptx_code.h"

/* ---- loads ----------------------------------------------------------------------------------- */

/* 8 x 8 of 16 bit each; lanes 8 k to 8 k + 7 have the addresses of matrix k's rows. */
static void load(PtxWarp *w, const PtxInstr *i, bool turned) {
    for (uint32_t k = 0; k < i->count; k++) {
        uint16_t rows[8][8];
        uint32_t *to = PTX_REG(uint32_t, w, i->at[k]);
        for (uint32_t r = 0; r < 8; r++) {
            const int lane = (int)(8 * k + r);
            const uint32_t base = PTX_REG(uint32_t, w, i->at[i->count])[lane];
            const PtxAccess row = {w, i, lane, sizeof rows[r], base + (uint64_t)i->offset};
            if (!ptx_shared_read(&row, rows[r])) return;
        }
        for (uint32_t l = 0; l < PTX_LANES; l++) {
            const uint32_t r = l / 4, c = l % 4 * 2;
            to[l] = turned ? rows[c][r] | (uint32_t)rows[c + 1][r] << 16
                           : rows[r][c] | (uint32_t)rows[r][c + 1] << 16;
        }
    }
}
void ptx_load_matrices(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    (void)lanes;
    load(w, i, false);
}
void ptx_load_turned(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    (void)lanes;
    load(w, i, true);
}

/* ---- products -------------------------------------------------------------------------------- */

typedef float Widen(uint16_t bits);

/* at: four sums, four registers of the left, two of the right, four addends. */
static inline void multiply(PtxWarp *w, const PtxInstr *i, Widen *widen) {
    float left[16][16], right[16][8], sums[4][PTX_LANES];
    for (uint32_t l = 0; l < PTX_LANES; l++) {
        const uint32_t row = l / 4, column = l % 4 * 2;
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t bits = PTX_REG(uint32_t, w, i->at[4 + k])[l];
            float *to = &left[row + k % 2 * 8][column + k / 2 * 8];
            to[0] = widen((uint16_t)bits);
            to[1] = widen((uint16_t)(bits >> 16));
        }
        for (uint32_t k = 0; k < 2; k++) {
            const uint32_t bits = PTX_REG(uint32_t, w, i->at[8 + k])[l];
            right[column + k * 8][row] = widen((uint16_t)bits);
            right[column + k * 8 + 1][row] = widen((uint16_t)(bits >> 16));
        }
    }
    for (uint32_t r = 0; r < 16; r++) {
        double row[8] = {0};
        for (uint32_t k = 0; k < 16; k++)
            for (uint32_t c = 0; c < 8; c++) row[c] += (double)left[r][k] * (double)right[k][c];
        for (uint32_t c = 0; c < 8; c++) {
            const uint32_t part = r / 8 * 2 + c % 2, lane = r % 8 * 4 + c / 2;
            sums[part][lane] = (float)(row[c] + (double)PTX_REG(float, w, i->at[10 + part])[lane]);
        }
    }
    for (uint32_t k = 0; k < 4; k++) memcpy(PTX_REG(float, w, i->at[k]), sums[k], sizeof sums[k]);
}
void ptx_mma_f16(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    (void)lanes;
    multiply(w, i, ptx_from_half);
}
void ptx_mma_bf16(PtxWarp *w, const PtxInstr *i, uint32_t lanes) {
    (void)lanes;
    multiply(w, i, ptx_from_bfloat);
}
