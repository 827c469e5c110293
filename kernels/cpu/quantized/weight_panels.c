// SPDX-License-Identifier: Apache-2.0
/* Packing of weight_panels.h, and what ends its products. */
#include "weight_panels.h"

#include <string.h>

#include "checked.h"

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- packing --------------------------------------------------------------------------------- */

bool weight_packed_size(const WeightShape *shape, uint64_t *panel, uint64_t *all) {
    return checked_mul(shape->blocks, weight_block_depth(shape), panel) &&
           checked_mul(*panel, WEIGHT_COLUMNS / 8 * shape->bits, panel) &&
           checked_mul(*panel, weight_panel_count(shape), all);
}

bool weight_factors_count(const WeightShape *shape, uint64_t *count) {
    return checked_mul(shape->blocks, WEIGHT_COLUMNS, count) &&
           checked_mul(*count, weight_panel_count(shape), count);
}

/* A column of a panel's words. */
static void pack_column(const WeightShape *shape, const uint8_t *from, uint32_t *to) {
    const uint32_t bits = shape->bits, stored = shape->stored, mask = (1u << stored) - 1;
    const uint32_t middle = weight_middle(stored), kept = (1u << bits) - 1;
    const uint64_t each = 8 / stored, bytes = (shape->block + each - 1) / each;
    const uint64_t depth = weight_block_depth(shape), group = weight_group(shape);
    for (uint64_t k = 0; k < shape->k; k++) {
        const uint64_t in = k % shape->block, place = shape->places ? shape->places[k] : k;
        const uint32_t item =
            from[k / shape->block * bytes + in / each] >> in % each * stored & mask;
        const uint64_t at = place / shape->block * depth + place % shape->block;
        to[at / group * WEIGHT_COLUMNS] |= ((item - middle) & kept)
                                           << (WEIGHT_WORD_BITS - bits - at % group * bits);
    }
}

void weight_pack(const WeightShape *shape, const uint8_t *from, void *to) {
    uint64_t panel = 0, all = 0;
    if (!weight_packed_size(shape, &panel, &all)) return;
    memset(to, 0, all);
    const uint64_t each = 8 / shape->stored;
    const uint64_t column = shape->blocks * ((shape->block + each - 1) / each);
    for (uint64_t n = 0; n < shape->n; n++) {
        char *start = (char *)to + n / WEIGHT_COLUMNS * panel;
        pack_column(shape, from + n * column, (uint32_t *)(void *)start + n % WEIGHT_COLUMNS);
    }
}

bool weight_pack_zeros(const WeightShape *shape, const float *from, uint8_t *to) {
    const float most = (float)((1u << shape->bits) - 1);
    uint64_t count = 0;
    if (!weight_factors_count(shape, &count)) return false;
    memset(to, 0, count);
    for (uint64_t n = 0; n < shape->n; n++) {
        uint8_t *column =
            to + n / WEIGHT_COLUMNS * shape->blocks * WEIGHT_COLUMNS + n % WEIGHT_COLUMNS;
        for (uint64_t b = 0; b < shape->blocks; b++) {
            const float zero = from[n * shape->blocks + b];
            if (!(zero >= 0 && zero <= most) || zero != (float)(uint8_t)zero) return false;
            column[b * WEIGHT_COLUMNS] = (uint8_t)zero;
        }
    }
    return true;
}

void weight_pack_factors(const WeightShape *shape, const float *from, float offset, float *to) {
    uint64_t count = 0;
    if (!weight_factors_count(shape, &count)) return;
    memset(to, 0, count * sizeof *to);
    for (uint64_t n = 0; n < shape->n; n++) {
        float *column =
            to + n / WEIGHT_COLUMNS * shape->blocks * WEIGHT_COLUMNS + n % WEIGHT_COLUMNS;
        for (uint64_t b = 0; b < shape->blocks; b++)
            column[b * WEIGHT_COLUMNS] = from[n * shape->blocks + b] - offset;
    }
}

/* ---- products ------------------------------------------------------------------------------- */

WeightFactors weight_panel_factors(const WeightProduct *p, uint64_t panel) {
    const uint64_t first = panel * p->shape.blocks * WEIGHT_COLUMNS;
    const WeightFactors *f = &p->factors;
    return (WeightFactors){.scales = f->scales + first,
                           .zeros = f->zeros ? f->zeros + first : NULL,
                           .zero_bytes = f->zero_bytes ? f->zero_bytes + first : NULL};
}

void weight_panel_store(const WeightProduct *p, const float *sums, uint64_t row, uint64_t rows,
                        uint64_t column) {
    const uint64_t n = p->shape.n, columns = least(n - column, WEIGHT_COLUMNS);
    float *y = p->y + row * n + column;
    for (uint64_t r = 0; r < rows; r++)
        memcpy(y + r * n, sums + r * WEIGHT_COLUMNS, columns * sizeof *y);
    epilogue_apply(
        p->epilogue,
        &(EpilogueBlock){
            .y = y, .y_row = n, .row = row, .column = column, .rows = rows, .columns = columns});
}
