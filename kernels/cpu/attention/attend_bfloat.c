// SPDX-License-Identifier: Apache-2.0
/* See attend_bfloat.h. */
#include "attend_bfloat.h"

#include <math.h>
#include <string.h>

#include "igemm.h"
#include "kernel_rows.h"

enum { VECTOR = 16, PANEL = 4 * VECTOR };

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static uint64_t panel_width(uint64_t lanes) {
    return (least(lanes, PANEL) + VECTOR - 1) / VECTOR * VECTOR;
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* Two rows side by side; of no second one zeros. */
ROW_CLONES static void join_pair(uint32_t *to, const uint16_t *low, const uint16_t *high,
                                 uint64_t n) {
    if (high)
        ROW_EACH(n, to[i] = low[i] | (uint32_t)high[i] << 16)
    else
        ROW_EACH(n, to[i] = low[i])
}

/* Words that lie in memory as they are, of one lane behind the other. */
static bool turn_words(const BfloatMatrix *m, const GemmLoops *loops, uint32_t *to,
                       uint64_t width) {
    const bool whole = m->step == 1 && m->depth % 2 == 0 && m->lane_step % 2 == 0 &&
                       (uintptr_t)m->data % sizeof *to == 0;
    if (whole)
        loops->transpose((float *)(void *)to, width, (const float *)(const void *)m->data,
                         m->lane_step / 2, m->lanes, m->depth / 2);
    return whole;
}

static void pack_any(const BfloatMatrix *m, uint32_t *to, uint64_t width) {
    for (uint64_t k = 0; k < m->depth; k += 2, to += width)
        for (uint64_t i = 0; i < m->lanes; i++) {
            const uint16_t *at = m->data + k * m->step + i * m->lane_step;
            to[i] = at[0] | (k + 1 < m->depth ? (uint32_t)at[m->step] << 16 : 0);
        }
}

static void pack_panel(const BfloatMatrix *m, const GemmLoops *loops, uint32_t *to,
                       uint64_t width) {
    if (m->lane_step == 1) {
        for (uint64_t k = 0; k < m->depth; k += 2, to += width) {
            const uint16_t *low = m->data + k * m->step;
            join_pair(to, low, k + 1 < m->depth ? low + m->step : NULL, m->lanes);
        }
    } else if (!turn_words(m, loops, to, width)) {
        pack_any(m, to, width);
    }
}

void bfloat_pack(const BfloatMatrix *matrix, const GemmLoops *loops, uint32_t *to) {
    for (uint64_t j = 0, width; j < matrix->lanes; j += width) {
        BfloatMatrix part = *matrix;
        part.data += j * part.lane_step;
        part.lanes = least(matrix->lanes - j, PANEL);
        width = panel_width(part.lanes);
        pack_panel(&part, loops, to, width);
        to += width * bfloat_words(part.depth);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

static void multiply_rows(const BfloatProduct *p, const IgemmIsa *isa, IgemmTile *tile,
                          uint32_t vecs) {
    const uint32_t most = isa->most[vecs - 1];
    float *y = tile->y;
    for (uint64_t i = 0; i < p->count; i += most) {
        const uint32_t count = (uint32_t)least(p->count - i, most);
        const void *rows[IGEMM_ROWS_MOST];
        for (uint32_t r = 0; r < count; r++) rows[r] = p->rows + (i + r) * p->row;
        tile->rows = rows;
        tile->row_step = count;
        tile->y = y + i * p->y_row;
        tile->z = p->add ? tile->y : NULL;
        isa->tiles[vecs - 1][count - 1](tile);
    }
}

void bfloat_multiply(const BfloatProduct *p) {
    const IgemmIsa *isa = igemm_isa_for(IGEMM_BFLOATS, isa_here(), p->count);
    const uint32_t *panel = p->panels;
    if (isa->begin) isa->begin(p->words);
    for (uint64_t j = 0, width; j < p->columns; j += width) {
        width = panel_width(p->columns - j);
        IgemmTile tile = {.taps = 1,
                          .depth = p->words,
                          .weights = panel,
                          .ahead = (const char *)panel,
                          .columns = (uint32_t)least(p->columns - j, width),
                          .ends = true,
                          .y = p->y + j,
                          .y_row = p->y_row,
                          .z_row = p->y_row,
                          .low = -HUGE_VALF,
                          .high = HUGE_VALF};
        multiply_rows(p, isa, &tile, (uint32_t)(width / VECTOR));
        panel += width * p->words;
    }
    if (isa->end) isa->end();
}
