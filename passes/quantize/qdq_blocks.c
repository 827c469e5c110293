// SPDX-License-Identifier: Apache-2.0
/* Scales of blocks of weights; see qdq_scale.h. Blocks are looked at LANES at a time, one a lane, so that
 * vectors do it however the weights lie, and all instruction sets give the same bits.
 *
 * Of 4 bits, some ranges are tried that are smaller than what the block reaches. Numbers q of a zero point
 * z being chosen, the scale with the least squared error is sum(x (q - z)) / sum((q - z)^2), and the larger
 * the square of the former by the latter, the less is left: one look at the block finds both. */
#include <float.h>
#include <math.h>

#include "qdq_round.h"
#include "qdq_scale.h"
#include "row_clones.h"

enum { LANES = 16, TILE = 1024, PARTS = 6 }; /* rows of a tile; ranges that are tried */
static const float SMALLER = 0.04f;          /* by which each is smaller than the one before */
static const float ROUNDED = 0x1p-20f;       /* what rounding makes of 1: exact weights stay so */

/* Rows of one element of each block, [rows][LANES]. */
typedef struct Tile {
    const float *items;
    uint64_t rows;
} Tile;

/* Blocks: their elements lie `step` apart. */
typedef struct Blocks {
    const float *first[LANES];
    uint64_t counts[LANES];
    uint64_t lanes, step, most; /* the longest one's count */
    bool beside;                /* each begins one element behind the one before */
    float *buffer;              /* [TILE * LANES] */
} Blocks;

ROW_CLONES static void copy_rows(float *to, const float *from, uint64_t rows, uint64_t step) {
    for (uint64_t r = 0; r < rows; r++) {
        ROW_LOOP
        for (unsigned k = 0; k < LANES; k++) to[r * LANES + k] = from[r * step + k];
    }
}

/* Rows [from, from + TILE), brought together: weights' own rows are often as far apart as lines that
 * push each other out of the cache. What is not there is 0. */
static Tile tile_of(Blocks *b, uint64_t from) {
    const Tile tile = {b->buffer, b->most - from < TILE ? b->most - from : TILE};
    const float *first = b->first[0] + from * b->step;
    if (b->beside && b->lanes == LANES) {
        copy_rows(b->buffer, first, tile.rows, b->step);
        return tile;
    }
    for (uint64_t k = 0; k < LANES; k++) {
        const uint64_t count = k < b->lanes ? b->counts[k] : 0;
        for (uint64_t r = 0; r < tile.rows; r++)
            b->buffer[r * LANES + k] = from + r < count ? b->first[k][(from + r) * b->step] : 0;
    }
    return tile;
}

/* Ends of all blocks, which are 0 or beyond. */
ROW_CLONES static void add_ends(const Tile *tile, float ends_low[LANES], float ends_high[LANES]) {
    float low[LANES] = {0},
          high[LANES] = {0}; /* nothing else may write them: they stay in registers */
    for (uint64_t r = 0; r < tile->rows; r++) {
        const float *items = tile->items + r * LANES;
        ROW_LOOP
        for (unsigned k = 0; k < LANES; k++) {
            low[k] = items[k] < low[k] ? items[k] : low[k];
            high[k] = items[k] > high[k] ? items[k] : high[k];
        }
    }
    ROW_LOOP
    for (unsigned k = 0; k < LANES; k++) {
        ends_low[k] = low[k] < ends_low[k] ? low[k] : ends_low[k];
        ends_high[k] = high[k] > ends_high[k] ? high[k] : ends_high[k];
    }
}

/* What a range of each block makes of its elements: number = clamp(nearest(item * by) + zero), by being
 * 1 / step. And the sums of (number - zero) * item * by, and of (number - zero)^2. */
typedef struct Trial {
    float steps[LANES], by[LANES], zeros[LANES];
    float products[LANES], squares[LANES];
    float least, most;
} Trial;

ROW_CLONES static void try_range(const Tile *tile, Trial *t) {
    float products[LANES] = {0}, squares[LANES] = {0}, low[LANES], high[LANES];
    for (unsigned k = 0; k < LANES; k++) { /* of numbers less the zero point: all are exact */
        low[k] = t->least - t->zeros[k];
        high[k] = t->most - t->zeros[k];
    }
    for (uint64_t r = 0; r < tile->rows; r++) {
        const float *items = tile->items + r * LANES;
        ROW_LOOP
        for (unsigned k = 0; k < LANES; k++) {
            const float item = items[k] * t->by[k];
            const float number = round_clamp(round_nearest(item), low[k], high[k]);
            products[k] += number * item;
            squares[k] += number * number;
        }
    }
    for (unsigned k = 0; k < LANES; k++) {
        t->products[k] = products[k];
        t->squares[k] = squares[k];
    }
}

/* Of ranges [low, high] made smaller; zero points where the type has no sign. */
ROW_CLONES static void begin_trial(Trial *t, float part, const float low[LANES],
                                   const float high[LANES]) {
    const float least = t->least, most = t->most;
    ROW_LOOP
    for (unsigned k = 0; k < LANES; k++) {
        const float top = least < 0 && -low[k] > high[k] ? -low[k] : high[k];
        const float bottom = least < 0 ? 0 : low[k];
        const float step = (top / 2 - bottom / 2) / (most / 2) * part; /* of halves: it is finite */
        t->steps[k] = step > FLT_MIN ? step : FLT_MIN;
        t->by[k] = 1 / t->steps[k];
        t->zeros[k] = round_clamp(round_nearest(-bottom * part * t->by[k]), 0, most);
    }
}

/* What was found of each block. */
typedef struct Found {
    float scales[LANES], zeros[LANES];
    float gains[LANES]; /* by the whole range, so that they are finite */
} Found;

ROW_CLONES static void keep_better(const Trial *t, float part, Found *found) {
    ROW_LOOP
    for (unsigned k = 0; k < LANES; k++) {
        float ratio = t->products[k] / (t->squares[k] > 0 ? t->squares[k] : 1);
        const float gain = part * t->products[k] * part * ratio;
        const bool better = gain > found->gains[k] * (1 + ROUNDED);
        ratio = fabsf(ratio - 1) < ROUNDED ? 1 : ratio;
        found->gains[k] = better ? gain : found->gains[k];
        found->scales[k] = better ? ratio * t->steps[k] : found->scales[k];
        found->zeros[k] = better ? t->zeros[k] : found->zeros[k];
    }
}

static void best_scales(const Tile *tile, Trial *t, const float low[LANES], const float high[LANES],
                        Found *found) {
    for (int i = 0; i < PARTS; i++) {
        const float part = 1 - SMALLER * (float)i;
        begin_trial(t, part, low, high);
        try_range(tile, t);
        keep_better(t, part, found);
    }
}

/* Symmetric, of what the blocks reach. */
static void largest_scales(Dtype dtype, const float low[LANES], const float high[LANES],
                           Found *found) {
    for (unsigned k = 0; k < LANES; k++) {
        const float most = -low[k] > high[k] ? -low[k] : high[k];
        found->scales[k] = most / qdq_top(dtype);
    }
}

/* Of blocks that are longer than a tile, the ends count as a whole, and errors at their beginning. */
static void find_scales(Blocks *b, Dtype dtype, Found *found) {
    float low[LANES] = {0}, high[LANES] = {0};
    Trial trial = {.least = (float)qdq_least(dtype), .most = (float)qdq_most(dtype)};
    Tile tile;
    for (uint64_t tiles = (b->most + TILE - 1) / TILE; tiles-- > 0;) {
        tile = tile_of(b, tiles * TILE);
        add_ends(&tile, low, high);
    }
    if (dtype_is_integer(dtype) && dtype_bits(dtype) == 4)
        best_scales(&tile, &trial, low, high, found);
    else
        largest_scales(dtype, low, high, found);
}

static void find_lanes(Blocks *b, const QdqWeights *w, float *scales, uint8_t *zeros) {
    Found found = {.scales = {0}};
    find_scales(b, w->dtype, &found);
    const bool has_zeros = quantized_has_zeros(w->dtype);
    for (unsigned k = 0; k < b->lanes; k++) {
        scales[k] = qdq_scale_as(w->floats, qdq_normal_scale((double)found.scales[k]));
        if (has_zeros) zeros[k] = (uint8_t)found.zeros[k];
    }
}

void qdq_find_block_scales(const QdqWeights *w, float *scales, uint8_t *zeros) {
    const uint64_t blocks = (w->axis + w->block - 1) / w->block, all = qdq_scale_count(w);
    float buffer[TILE * LANES]; /* not cleared: most weights fill little of it */
    Blocks b = {.step = w->inner, .buffer = buffer};
    for (uint64_t at = 0; at < all; at += b.lanes) {
        const uint64_t left = w->inner == 1 ? all - at : w->inner - at % w->inner;
        b.lanes = left < LANES ? left : LANES;
        b.beside = w->inner != 1;
        b.most = 0;
        for (unsigned k = 0; k < b.lanes; k++) {
            const uint64_t place = (at + k) / w->inner, a = place % blocks * w->block;
            const uint64_t rest = w->axis - a;
            b.first[k] = w->items + (place / blocks * w->axis + a) * w->inner + (at + k) % w->inner;
            b.counts[k] = rest < w->block ? rest : w->block;
            b.most = b.counts[k] > b.most ? b.counts[k] : b.most;
        }
        find_lanes(&b, w, scales + at, zeros ? zeros + at : NULL);
    }
}
