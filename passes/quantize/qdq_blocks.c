// SPDX-License-Identifier: Apache-2.0
/* Scales of blocks of weights; see qdq_scale.h. Blocks are looked at LANES at a time, one a lane, so that
 * vectors do it however the weights lie, and all instruction sets give the same bits.
 *
 * Of integers of 4 bits and less, some ranges near what the block reaches are tried. Numbers q of a
 * zero point z being chosen, the scale with the least squared error is sum(x (q - z)) / sum((q - z)^2), and the larger
 * the square of the former by the latter, the less is left: one look at the block finds both. Scales that are stored
 * in a type of their own are tried as its numbers, s: what each leaves of the squares is less by
 * 2 s sum(x q) - s^2 sum(q^2). Where errors at some places count more than at others, each term of these sums has
 * that as a factor. */
#include <float.h>
#include <math.h>

#include "qdq_round.h"
#include "qdq_scale.h"
#include "row_clones.h"

enum { LANES = 16, TILE = 1024 };      /* rows of a tile */
static const float ROUNDED = 0x1p-20f; /* what rounding makes of 1: exact weights stay so */

/* Rows of one element of each block, [rows][LANES], and what errors of a row count. */
typedef struct Tile {
    const float *items, *importance;
    uint64_t rows;
} Tile;

/* Blocks: their elements lie `step` apart. */
typedef struct Blocks {
    const float *first[LANES];
    uint64_t counts[LANES];
    uint64_t lanes, step, most; /* the longest one's count */
    bool beside;                /* each begins one element behind the one before */
    float *buffer;              /* [TILE * LANES] */
    const float *importance;    /* QdqWeights' */
    float *ones;                /* [TILE] */
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
    const Tile tile = {b->buffer, b->importance ? b->importance + from : b->ones,
                       b->most - from < TILE ? b->most - from : TILE};
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

/* ---- which ranges are tried ------------------------------------------------------------------ */

/* Parts of the whole range, and by how much zero points are moved from where they belong. */
typedef struct Tries {
    int count, shifts;
    float parts[12];
} Tries;

static const Tries whole_range = {1, 1, {1}};
/* Larger ranges, too: with a zero point that is an integer, the ends of a range are off by up to half a step. They leave
 * 0.1 dB less of transformers' weights in blocks of 32 than as many smaller ones. */
static const Tries few_bits = {6, 1, {1, 1.08f, 1.04f, 0.96f, 0.92f, 0.88f}};
/* Four numbers cut off much of a bell, and have no middle. */
static const Tries two_bits = {9, 3, {1, 0.9f, 0.8f, 0.72f, 0.64f, 0.56f, 0.48f, 0.4f, 0.33f}};
/* Powers of two: the first that cuts nothing off, and the one before. One of them is that of the OCP Microscaling
 * Formats' 6.3, floor(log2(largest)) - emax; the better one leaves 0.2 to 0.3 dB less of float4 weights of transformers,
 * and 0.9 to 1.2 dB less of float8. */
static const Tries powers = {2, 1, {1, 0.5f}};
/* Of float4, whose numbers are even farther apart above 4 than below: the largest becomes 6, 4, what is between, or is
 * cut off. */
static const Tries small_scales = {
    11, 1, {1, 1.6f, 1.5f, 1.4f, 1.3f, 1.2f, 1.1f, 0.92f, 0.85f, 0.78f, 0.7f}};

static const Tries *tries_of(const QdqWeights *w) {
    if (w->stored == DTYPE_FLOAT8E8M0) return &powers;
    if (w->stored) return &small_scales;
    if (!dtype_is_integer(w->dtype) || dtype_bits(w->dtype) > 4) return &whole_range;
    return dtype_bits(w->dtype) == 2 ? &two_bits : &few_bits;
}

/* ---- trying them ----------------------------------------------------------------------------- */

/* What a range of each block makes of its elements: number = clamp(nearest(item * by) + zero), by being
 * 1 / step. And the sums of (number - zero) * item * by, and of (number - zero)^2. */
typedef struct Trial {
    float steps[LANES], by[LANES], zeros[LANES];
    float products[LANES], squares[LANES];
    float least, most;
    bool floats; /* numbers are of `small` */
    SmallFloat small;
} Trial;

ROW_CLONES static void try_integers(const Tile *tile, Trial *t) {
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
            products[k] += tile->importance[r] * number * item;
            squares[k] += tile->importance[r] * number * number;
        }
    }
    for (unsigned k = 0; k < LANES; k++) {
        t->products[k] = products[k];
        t->squares[k] = squares[k];
    }
}

ROW_CLONES static void try_floats(const Tile *tile, Trial *t) {
    float products[LANES] = {0}, squares[LANES] = {0};
    const SmallFloat small = t->small;
    for (uint64_t r = 0; r < tile->rows; r++) {
        const float *items = tile->items + r * LANES;
        ROW_LOOP
        for (unsigned k = 0; k < LANES; k++) {
            const float item = fabsf(items[k]) * t->by[k];
            const float number = round_small_size(&small, item);
            products[k] += tile->importance[r] * number * item;
            squares[k] += tile->importance[r] * number * number;
        }
    }
    for (unsigned k = 0; k < LANES; k++) {
        t->products[k] = products[k];
        t->squares[k] = squares[k];
    }
}

/* What a trial is of: ranges [low, high] made smaller, and zero points, where the type has no sign, moved. */
typedef struct Range {
    const float *low, *high; /* [LANES] */
    float part, shift;
} Range;

ROW_CLONES static void begin_trial(Trial *t, const Range *range) {
    const float least = t->least, most = t->most, part = range->part;
    const float *lows = range->low, *highs = range->high;
    ROW_LOOP
    for (unsigned k = 0; k < LANES; k++) {
        const float top = least < 0 && -lows[k] > highs[k] ? -lows[k] : highs[k];
        const float bottom = least < 0 ? 0 : lows[k];
        const float step = (top / 2 - bottom / 2) / (most / 2) * part; /* of halves: it is finite */
        t->steps[k] = step > FLT_MIN ? step : FLT_MIN;
        t->by[k] = 1 / t->steps[k];
        t->zeros[k] = round_clamp(round_nearest(-bottom * part * t->by[k]) + range->shift, 0, most);
    }
}

/* A number of the scales' own type, which is not 0. */
static float stored_step(const QdqWeights *w, const SmallFloat *small, float step) {
    if (!(w->whole > 0)) return qdq_power_from(step);
    const float least = 1 / small->units, scale = round_small(small, step / w->whole);
    return (scale > least ? scale : least) * w->whole;
}

static void snap_steps(const QdqWeights *w, Trial *t) {
    const SmallFloat small = w->whole > 0 ? small_float_of(w->stored) : (SmallFloat){0};
    for (unsigned k = 0; k < LANES; k++) {
        t->steps[k] = stored_step(w, &small, t->steps[k]);
        t->by[k] = 1 / t->steps[k];
    }
}

/* What was found of each block. */
typedef struct Found {
    float scales[LANES], zeros[LANES];
    float gains[LANES]; /* by the whole range, so that they are finite */
    float units[LANES]; /* the step of that */
} Found;

/* Of scales that fit the numbers. */
ROW_CLONES static void keep_fitting(const Trial *t, float part, Found *found) {
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

/* Of scales as they are. */
static void keep_stored(const Trial *t, Found *found) {
    for (unsigned k = 0; k < LANES; k++) {
        if (!(found->units[k] > 0)) found->units[k] = t->steps[k];
        const float part = t->steps[k] / found->units[k];
        const float gain = part * part * (2 * t->products[k] - t->squares[k]);
        if (!(gain > found->gains[k] * (1 + ROUNDED))) continue;
        found->gains[k] = gain;
        found->scales[k] = t->steps[k];
    }
}

static void best_scales(const QdqWeights *w, const Tile *tile, Trial *t, Range range,
                        Found *found) {
    const Tries *tries = tries_of(w);
    const int shifts = quantized_has_zeros(w->dtype) ? tries->shifts : 1;
    for (int i = 0; i < tries->count * shifts; i++) {
        range.part = tries->parts[i / shifts];
        range.shift = (float)((i % shifts + 1) % 3 - 1); /* 0, 1, -1 */
        begin_trial(t, &range);
        if (w->stored) snap_steps(w, t);
        if (t->floats)
            try_floats(tile, t);
        else
            try_integers(tile, t);
        if (w->stored)
            keep_stored(t, found);
        else
            keep_fitting(t, range.part, found);
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

static Trial trial_of(const QdqWeights *w) {
    const bool floats = dtype_is_float(w->dtype);
    const float most = floats ? qdq_top(w->dtype) : (float)qdq_most(w->dtype);
    return (Trial){.least = floats ? -most : (float)qdq_least(w->dtype),
                   .most = most,
                   .floats = floats,
                   .small = floats ? small_float_of(w->dtype) : (SmallFloat){0}};
}

/* Of blocks that are longer than a tile, the ends count as a whole, and errors at their beginning. */
static void find_scales(Blocks *b, const QdqWeights *w, Found *found) {
    float low[LANES] = {0}, high[LANES] = {0};
    Tile tile;
    for (uint64_t tiles = (b->most + TILE - 1) / TILE; tiles-- > 0;) {
        tile = tile_of(b, tiles * TILE);
        add_ends(&tile, low, high);
    }
    if (tries_of(w) == &whole_range) {
        largest_scales(w->dtype, low, high, found);
        return;
    }
    Trial trial = trial_of(w);
    best_scales(w, &tile, &trial, (Range){low, high, 1, 0}, found);
}

/* Of a block of nothing but zeros. */
static float scale_of_none(const QdqWeights *w) {
    return w->whole > 0 ? w->whole : 1;
}

static void find_lanes(Blocks *b, const QdqWeights *w, float *scales, uint8_t *zeros) {
    Found found = {.scales = {0}};
    find_scales(b, w, &found);
    const bool has_zeros = quantized_has_zeros(w->dtype);
    for (unsigned k = 0; k < b->lanes; k++) {
        const float scale = found.scales[k] > 0 ? found.scales[k] : scale_of_none(w);
        scales[k] = w->stored ? scale : qdq_scale_as(w->floats, qdq_normal_scale((double)scale));
        if (has_zeros) zeros[k] = (uint8_t)found.zeros[k];
    }
}

void qdq_find_block_scales(const QdqWeights *w, float *scales, uint8_t *zeros) {
    const uint64_t blocks = (w->axis + w->block - 1) / w->block, all = qdq_scale_count(w);
    float buffer[TILE * LANES]; /* not cleared: most weights fill little of it */
    float ones[TILE];
    const uint64_t rows = w->block < TILE ? w->block : TILE;
    Blocks b = {.step = w->inner, .buffer = buffer, .importance = w->importance, .ones = ones};
    for (uint64_t r = 0; r < rows; r++) ones[r] = 1;
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
