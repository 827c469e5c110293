// SPDX-License-Identifier: Apache-2.0
/* See gptq.h. Channels do not depend on each other: each thread has TILE of them at a time, side by side, so that a
 * vector has one place of several channels. What is stored is put together by one thread, as channels share bytes. */
#include "gptq.h"

#include <math.h>
#include <string.h>

#include "qdq_scale.h"
#include "row_clones.h"

enum {
    TILE = 64,          /* channels that a thread rounds at once */
    STRIP = ROW_FLOATS, /* of these, in registers at once */
    ROWS = 8,           /* places, the same */
    PART = 32,          /* places that are fed at once, one after the other among themselves */
    CHUNK = 256,        /* errors that are fed at once: what a core's own cache holds */
    WHOLE = 128,        /* places of a block whose scales are fitted */
    SLAB = 1 << 22,     /* weights that are read at once */
    SWEEPS = 1          /* over all places, once they are rounded */
};

/* What a thread works with: places by rank. */
typedef struct Lane {
    float *errors; /* [size][TILE]: what is to be rounded, then what rounding took from it */
    float *values; /* [longest run][TILE]: with what they are fed */
} Lane;

/* Channels that were read. */
typedef struct Slab {
    const GptqWeights *w;
    const MomentFactor *f;
    uint64_t first, count; /* of the weights' channels */
    uint64_t blocks;       /* scales of a channel */
    float *items;          /* as the tensor has them: [size][count], or turned */
    uint8_t *numbers;      /* [tiles][size][TILE], by place: codes, one a byte */
    float *scales;         /* [tiles][blocks][TILE] */
    uint8_t *zeros;        /* the same */
    double *nearest, *fed; /* [tiles][TILE]: costs */
    Lane *lanes;
    float meanings[256]; /* what codes stand for, before zero points and scales */
} Slab;

/* The channels of a tile: [first, first + count) of the slab's. */
typedef struct Tile {
    const Slab *slab;
    const Lane *lane;
    uint64_t first, count;
    uint8_t *numbers, *zeros;
    float *scales;
    double norms[TILE]; /* of what is measured: squares of errors, which damping counts */
} Tile;

/* ---- what codes mean ------------------------------------------------------------------------- */

static void find_meanings(Dtype dtype, float meanings[256]) {
    const unsigned bits = dtype_bits(dtype), codes = 1u << bits;
    for (unsigned code = 0; code < codes; code++) {
        double value = 0;
        dtype_to_double(dtype, code, &value);
        meanings[code] = (float)value;
    }
}

static uint64_t element_of(const GptqWeights *w, uint64_t place, uint64_t channel) {
    return w->turned ? (w->first + channel) * w->size + place : place * w->all + w->first + channel;
}

static uint64_t scale_of(const Slab *s, uint64_t block, uint64_t channel) {
    const GptqWeights *w = s->w;
    return w->turned || !w->block ? (w->first + channel) * s->blocks + block
                                  : block * w->all + w->first + channel;
}

static uint64_t block_of(const GptqWeights *w, uint64_t place) {
    return w->block ? place / w->block : 0;
}

static float zero_of(const GptqWeights *w, const uint8_t *zeros, uint64_t i) {
    return quantized_has_zeros(w->dtype) ? (float)zeros[i] : 0;
}

/* ---- feeding --------------------------------------------------------------------------------- */

/* Values of ROWS places, a strip of channels each: what `count` errors add to them. */
ROW_CLONES static void feed_rows(const float *gains, uint64_t stride, const float *errors,
                                 uint64_t count, float *values) {
    RowFloats sums[ROWS] = {{0}}, with;
    for (uint64_t a = 0; a < count; a++) {
        const float *gain = gains + a * stride;
        memcpy(&with, errors + a * TILE, sizeof with);
        ROW_UNROLL
        for (unsigned b = 0; b < ROWS; b++) sums[b] += gain[b] * with;
    }
    for (unsigned b = 0; b < ROWS; b++) {
        memcpy(&with, values + b * TILE, sizeof with);
        with += sums[b];
        memcpy(values + b * TILE, &with, sizeof with);
    }
}

/* The same of one place. */
ROW_CLONES static void feed_row(const float *gains, uint64_t stride, const float *errors,
                                uint64_t count, float *values) {
    float sums[STRIP] = {0};
    for (uint64_t a = 0; a < count; a++) {
        const float gain = gains[a * stride], *error = errors + a * TILE;
        ROW_LOOP
        for (unsigned t = 0; t < STRIP; t++) sums[t] += gain * error[t];
    }
    ROW_LOOP
    for (unsigned t = 0; t < STRIP; t++) values[t] += sums[t];
}

/* The values of ranks [to, to + count), which get what the errors of ranks [from, end) add by a matrix. */
typedef struct Feed {
    const float *matrix; /* [size][size]: what error a gives value b is at [a][b] */
    uint64_t size, to, count, from, end;
} Feed;

static void feed(Feed f, const float *errors, float *values) {
    for (uint64_t a = f.from, now; a < f.end; a += now) {
        now = f.end - a < CHUNK ? f.end - a : CHUNK;
        for (uint64_t b = 0, rows; b < f.count; b += rows) {
            rows = f.count - b < ROWS ? 1 : ROWS;
            const float *gains = f.matrix + a * f.size + f.to + b;
            for (uint64_t t = 0; t < TILE; t += STRIP) {
                const float *with = errors + a * TILE + t;
                float *at = values + b * TILE + t;
                if (rows == ROWS)
                    feed_rows(gains, f.size, with, now, at);
                else
                    feed_row(gains, f.size, with, now, at);
            }
        }
    }
}

/* By what rounding makes up for. */
static Feed by_gains(const MomentFactor *f, uint64_t to, uint64_t count, uint64_t from,
                     uint64_t end) {
    return (Feed){f->gains, f->size, to, count, from, end};
}

/* Adds weight * values^2 to the costs. */
ROW_CLONES static void add_squares(const float *values, double weight, double *restrict costs) {
    ROW_LOOP
    for (unsigned t = 0; t < TILE; t++) costs[t] += weight * (double)values[t] * (double)values[t];
}

/* ---- rounding to nearest --------------------------------------------------------------------- */

static float weight_at(const Tile *tile, uint64_t place, uint64_t t) {
    const Slab *s = tile->slab;
    const uint64_t channel = tile->first + t;
    return t < tile->count
               ? s->items[s->w->turned ? channel * s->w->size + place : place * s->count + channel]
               : 0;
}

/* What rounding to nearest took from the weights, by rank. */
static void take_nearest(const Tile *tile) {
    const Slab *s = tile->slab;
    const GptqWeights *w = s->w;
    for (uint64_t a = 0; a < w->size; a++) {
        float *errors = tile->lane->errors + a * TILE;
        const uint64_t place = s->f->places[a];
        memset(errors, 0, TILE * sizeof *errors);
        for (uint64_t t = 0; t < tile->count; t++) {
            const uint64_t channel = s->first + tile->first + t,
                           scale = scale_of(s, block_of(w, place), channel);
            const float meaning = s->meanings[qdq_code_at(w->bytes, dtype_bits(w->dtype),
                                                          element_of(w, place, channel))];
            errors[t] = weight_at(tile, place, t) -
                        (meaning - zero_of(w, w->zeros, scale)) * w->scales[scale];
        }
    }
}

/* What the errors in the lane cost. */
static void add_costs(Tile *tile, double *costs) {
    const MomentFactor *f = tile->slab->f;
    float values[PART * TILE];
    for (uint64_t b = 0, count; b < f->size; b += count) {
        count = f->size - b < PART ? f->size - b : PART;
        memcpy(values, tile->lane->errors + b * TILE, count * TILE * sizeof *values);
        feed(by_gains(f, b, count, b + count, f->size), tile->lane->errors, values);
        for (uint64_t i = 0; i < count; i++) {
            feed(by_gains(f, b + i, 1, b + i + 1, b + count), tile->lane->errors,
                 values + i * TILE);
            add_squares(values + i * TILE, f->pivots[b + i], costs);
            add_squares(tile->lane->errors + (b + i) * TILE, f->dampings[b + i], tile->norms);
        }
    }
}

/* ---- rounding one by one --------------------------------------------------------------------- */

static void take_weights(const Tile *tile) {
    const MomentFactor *f = tile->slab->f;
    for (uint64_t a = 0; a < f->size; a++)
        for (uint64_t t = 0; t < TILE; t++)
            tile->lane->errors[a * TILE + t] = weight_at(tile, f->places[a], t);
}

/* What squared errors at the places of a run count when its scales are chosen: the roots of the pivots, in parts of the
 * largest. A pivot is what an error costs after the errors before it have been added to it (moment_factor.h), but those
 * are not known yet, so that the root is nearer to what comes of it: on the products of transformers, counting all the
 * same leaves 0.1 to 0.2 dB more noise, and the pivots themselves leave as much as their roots. NULL of runs that are too
 * long. */
static const float *find_importance(const MomentFactor *f, const MomentRun *run,
                                    float importance[WHOLE]) {
    double most = 0;
    if (run->count > WHOLE) return NULL;
    for (uint64_t i = 0; i < run->count; i++) most = fmax(most, f->pivots[run->first + i]);
    for (uint64_t i = 0; i < run->count; i++)
        importance[i] = (float)sqrt(f->pivots[run->first + i] / most);
    return importance;
}

/* Of the run's values: those of a block fit what they have become, a channel's are there. */
static void find_scales(const Tile *tile, const MomentRun *run) {
    const Slab *s = tile->slab;
    float *scales = tile->scales + run->block * TILE;
    uint8_t *zeros = tile->zeros + run->block * TILE;
    float importance[WHOLE];
    const QdqWeights box = {.items = tile->lane->values,
                            .outer = 1,
                            .axis = run->count,
                            .inner = TILE,
                            .block = run->count,
                            .dtype = s->w->dtype,
                            .floats = s->w->floats,
                            .stored = s->w->stored,
                            .whole = s->w->whole,
                            .importance = find_importance(s->f, run, importance)};
    if (s->w->block) {
        qdq_find_block_scales(&box, scales, zeros);
        return;
    }
    for (uint64_t t = 0; t < TILE; t++)
        scales[t] = t < tile->count ? s->w->scales[scale_of(s, 0, s->first + tile->first + t)] : 1;
}

/* As weights are stored, but one code a byte. */
static void find_codes(const Tile *tile, const MomentRun *run, const float *values,
                       uint8_t *codes) {
    const GptqWeights *w = tile->slab->w;
    const QdqWeights limits = {.block = w->block, .dtype = w->dtype};
    QdqRow row = {.items = values,
                  .scales = tile->scales + run->block * TILE,
                  .zeros = quantized_has_zeros(w->dtype) ? tile->zeros + run->block * TILE : NULL,
                  .count = TILE,
                  .step = 1};
    uint8_t packed[TILE];
    qdq_set_limits(&limits, &row);
    qdq_store_row(&row, w->dtype, 0, packed);
    for (uint64_t t = 0; t < TILE; t++) codes[t] = qdq_code_at(packed, dtype_bits(w->dtype), t);
}

/* Rounds the place of a rank; its values are fed. */
static void round_place(Tile *tile, const MomentRun *run, uint64_t rank, double *costs) {
    const Slab *s = tile->slab;
    const float *scales = tile->scales + run->block * TILE;
    float *values = tile->lane->values + (rank - run->first) * TILE;
    float *errors = tile->lane->errors + rank * TILE;
    uint8_t *codes = tile->numbers + s->f->places[rank] * (uint64_t)TILE;
    find_codes(tile, run, values, codes);
    for (uint64_t t = 0; t < TILE; t++) {
        const float zero = zero_of(s->w, tile->zeros + run->block * TILE, t);
        const float stored = (s->meanings[codes[t]] - zero) * scales[t];
        errors[t] -= stored;
        values[t] -= stored;
    }
    add_squares(values, s->f->pivots[rank], costs);
}

static void round_run(Tile *tile, const MomentRun *run, double *costs) {
    const MomentFactor *f = tile->slab->f;
    const Lane *lane = tile->lane;
    const uint64_t end = run->first + run->count;
    memcpy(lane->values, lane->errors + run->first * TILE, run->count * TILE * sizeof(float));
    feed(by_gains(f, run->first, run->count, end, f->size), lane->errors, lane->values);
    find_scales(tile, run);
    for (uint64_t to = end, from; to > run->first; to = from) {
        from = to - run->first < PART ? run->first : to - PART;
        float *values = lane->values + (from - run->first) * TILE;
        feed(by_gains(f, from, to - from, to, end), lane->errors, values);
        for (uint64_t b = to; b-- > from;) {
            feed(by_gains(f, b, 1, b + 1, to), lane->errors, values + (b - from) * TILE);
            round_place(tile, run, b, costs);
        }
    }
}

/* ---- going over them once more --------------------------------------------------------------- */

/* Ranks of a run that are worked at together: values are, for each, half of what costs grow by when its error grows. */
typedef struct Part {
    Tile *tile;
    const MomentRun *run;
    uint64_t first, count;
} Part;

static void find_slopes(const Part *p) {
    const MomentFactor *f = p->tile->slab->f;
    const float *errors = p->tile->lane->errors;
    float *values = p->tile->lane->values;
    for (uint64_t i = 0; i < p->count * TILE; i++)
        values[i] = (float)f->dampings[p->first + i / TILE] * errors[p->first * TILE + i];
    feed((Feed){f->moments, f->size, p->first, p->count, 0, f->size}, errors, values);
}

/* Errors of a rank grow by less: costs and slopes follow. */
static void change(const Part *p, uint64_t rank, const float less[TILE], double *costs) {
    const MomentFactor *f = p->tile->slab->f;
    const float *moments = f->moments + rank * f->size + p->first;
    float *errors = p->tile->lane->errors + rank * TILE, *values = p->tile->lane->values;
    const double own = (double)moments[rank - p->first] + f->dampings[rank];
    for (uint64_t t = 0; t < TILE; t++) {
        const double slope = (double)values[(rank - p->first) * TILE + t], step = (double)less[t];
        costs[t] += step * (own * step - 2 * slope);
        errors[t] -= less[t];
    }
    for (uint64_t b = 0; b < p->count; b++) {
        const float with = b == rank - p->first ? (float)own : moments[b];
        for (uint64_t t = 0; t < TILE; t++) values[b * TILE + t] -= with * less[t];
    }
}

/* Each place for itself, the others staying, gets the number that costs the least: never more than it did. */
static void improve_place(const Part *p, uint64_t rank, double *costs) {
    Tile *tile = p->tile;
    const Slab *s = tile->slab;
    const float *scales = tile->scales + p->run->block * TILE,
                *slopes = tile->lane->values + (rank - p->first) * TILE;
    const float own = s->f->moments[rank * (s->f->size + 1)] + (float)s->f->dampings[rank];
    uint8_t *codes = tile->numbers + s->f->places[rank] * (uint64_t)TILE, new[TILE];
    float best[TILE], less[TILE], most = 0;
    for (uint64_t t = 0; t < TILE; t++) {
        const float zero = zero_of(s->w, tile->zeros + p->run->block * TILE, t);
        best[t] = (s->meanings[codes[t]] - zero) * scales[t] + slopes[t] / own;
    }
    find_codes(tile, p->run, best, new);
    for (uint64_t t = 0; t < TILE; t++) {
        less[t] = (s->meanings[new[t]] - s->meanings[codes[t]]) * scales[t];
        most = fmaxf(most, fabsf(less[t]));
        codes[t] = new[t];
    }
    if (most > 0) change(p, rank, less, costs);
}

/* The scales of a block, whose numbers stay, get what costs the least. What its numbers stand for is `units`, a scale of 1
 * each, and what these would cost `own`. */
static void fit_scales(const Part *p, double *costs) {
    Tile *tile = p->tile;
    const Slab *s = tile->slab;
    const MomentFactor *f = s->f;
    float units[WHOLE * TILE], own[WHOLE * TILE], *scales = tile->scales + p->run->block * TILE;
    float *errors = tile->lane->errors + p->first * TILE;
    const float *slopes = tile->lane->values;
    for (uint64_t i = 0; i < p->count * TILE; i++) {
        const uint8_t *codes = tile->numbers + f->places[p->first + i / TILE] * (uint64_t)TILE;
        units[i] = s->meanings[codes[i % TILE]] -
                   zero_of(s->w, tile->zeros + p->run->block * TILE, i % TILE);
        own[i] = (float)f->dampings[p->first + i / TILE] * units[i];
    }
    feed((Feed){f->moments + p->first * f->size, f->size, p->first, p->count, 0, p->count}, units,
         own);
    for (uint64_t t = 0; t < TILE; t++) {
        double gain = 0, cost = 0;
        for (uint64_t i = t; i < p->count * TILE; i += TILE) {
            gain += (double)units[i] * (double)slopes[i];
            cost += (double)units[i] * (double)own[i];
        }
        const float was = scales[t], is = cost > 0 ? (float)((double)was + gain / cost) : was;
        if (!(is > was / 2 && is < was * 2)) continue;
        const double step = (double)is - (double)was;
        scales[t] = is;
        costs[t] += step * (cost * step - 2 * gain);
        for (uint64_t i = t; i < p->count * TILE; i += TILE) errors[i] -= (float)step * units[i];
    }
}

/* Scales of blocks that may be any float. */
static bool has_free_scales(const GptqWeights *w) {
    return w->block && !w->stored && !dtype_is_reduced(w->floats);
}

/* One look at all places, in the order of rounding, and at scales of blocks. */
static void improve(Tile *tile, double *costs) {
    const MomentFactor *f = tile->slab->f;
    for (uint64_t r = f->run_count; r-- > 0;) {
        const MomentRun *run = &f->runs[r];
        const uint64_t most = run->count <= WHOLE ? run->count : PART;
        for (uint64_t to = run->first + run->count, from; to > run->first; to = from) {
            from = to - run->first < most ? run->first : to - most;
            const Part part = {tile, run, from, to - from};
            find_slopes(&part);
            for (uint64_t b = to; b-- > from;) improve_place(&part, b, costs);
            if (part.count == run->count && has_free_scales(tile->slab->w))
                fit_scales(&part, costs);
        }
    }
}

static void take_norms(Tile *tile) {
    for (uint64_t a = 0; a < tile->slab->f->size; a++)
        add_squares(tile->lane->errors + a * TILE, tile->slab->f->dampings[a], tile->norms);
}

/* Damping is no part of what results cost. */
static void end_costs(Tile *tile, double *costs) {
    for (uint64_t t = 0; t < TILE; t++) {
        costs[t] -= tile->norms[t];
        if (costs[t] < 0) costs[t] = 0;
        tile->norms[t] = 0;
    }
}

static void round_task(void *data, unsigned task, unsigned lane) {
    const Slab *s = data;
    const uint64_t first = task * (uint64_t)TILE, left = s->count - first;
    Tile tile = {.slab = s,
                 .lane = &s->lanes[lane],
                 .first = first,
                 .count = left < TILE ? left : TILE,
                 .numbers = s->numbers + task * s->w->size * TILE,
                 .scales = s->scales + task * s->blocks * TILE,
                 .zeros = s->zeros + task * s->blocks * TILE};
    take_nearest(&tile);
    add_costs(&tile, s->nearest + first);
    end_costs(&tile, s->nearest + first);
    take_weights(&tile);
    for (uint64_t r = s->f->run_count; r-- > 0;) round_run(&tile, &s->f->runs[r], s->fed + first);
    for (int i = 0; i < SWEEPS; i++) improve(&tile, s->fed + first);
    take_norms(&tile);
    end_costs(&tile, s->fed + first);
}

/* ---- slabs ----------------------------------------------------------------------------------- */

static bool read_slab(const Slab *s, Err *err) {
    const GptqWeights *w = s->w;
    if (w->turned)
        return tensor_read_floats(w->tensor, element_of(w, 0, s->first), s->count * w->size,
                                  s->items, err);
    for (uint64_t k = 0; k < w->size; k++)
        if (!tensor_read_floats(w->tensor, element_of(w, k, s->first), s->count,
                                s->items + k * s->count, err))
            return false;
    return true;
}

static void put_channel(const Slab *s, uint64_t c) {
    const GptqWeights *w = s->w;
    const uint64_t tile = c / TILE, t = c % TILE, channel = s->first + c;
    const uint8_t *numbers = s->numbers + tile * w->size * TILE + t;
    const uint64_t scales = tile * s->blocks * TILE + t;
    for (uint64_t k = 0; k < w->size; k++)
        qdq_put_code(w->bytes, dtype_bits(w->dtype), element_of(w, k, channel), numbers[k * TILE]);
    for (uint64_t b = 0; w->block && b < s->blocks; b++) {
        w->scales[scale_of(s, b, channel)] = s->scales[scales + b * TILE];
        if (quantized_has_zeros(w->dtype))
            w->zeros[scale_of(s, b, channel)] = s->zeros[scales + b * TILE];
    }
}

static void put_slab(const Slab *s, GptqCost *cost) {
    for (uint64_t c = 0; c < s->count; c++) {
        const bool better = s->fed[c] < s->nearest[c];
        cost->nearest += s->nearest[c];
        cost->chosen += better ? s->fed[c] : s->nearest[c];
        if (better) put_channel(s, c);
    }
}

static void make_room(Slab *s, uint64_t tiles, unsigned lanes, Arena *scratch) {
    const uint64_t size = s->w->size, run = s->w->block && s->w->block < size ? s->w->block : size;
    s->items = arena_alloc_raw(scratch, tiles * TILE * size * sizeof(float));
    s->numbers = arena_alloc_raw(scratch, tiles * TILE * size);
    s->scales = ARENA_ARRAY(scratch, float, tiles * s->blocks * TILE);
    s->zeros = ARENA_ARRAY(scratch, uint8_t, tiles * s->blocks * TILE);
    s->nearest = ARENA_ARRAY(scratch, double, tiles *TILE);
    s->fed = ARENA_ARRAY(scratch, double, tiles *TILE);
    s->lanes = ARENA_ARRAY(scratch, Lane, lanes);
    for (unsigned i = 0; i < lanes; i++) {
        s->lanes[i].errors = arena_alloc_raw(scratch, size * TILE * sizeof(float));
        s->lanes[i].values = arena_alloc_raw(scratch, run * TILE * sizeof(float));
    }
}

bool gptq_round(const GptqWeights *w, const MomentFactor *factor, Workers *workers, GptqCost *cost,
                Arena *scratch, Err *err) {
    const uint64_t block = w->block ? w->block : w->size, most = SLAB / w->size / TILE;
    const uint64_t all = (w->channels + TILE - 1) / TILE, tiles = most < 1     ? 1
                                                                  : most < all ? most
                                                                               : all;
    Slab slab = {.w = w, .f = factor, .blocks = (w->size + block - 1) / block};
    Arena *within = arena_child(scratch);
    bool ok = true;
    make_room(&slab, tiles, workers_lanes(workers), within);
    find_meanings(w->dtype, slab.meanings);
    for (; ok && slab.first < w->channels; slab.first += slab.count) {
        const uint64_t left = w->channels - slab.first, count = tiles * TILE;
        slab.count = left < count ? left : count;
        memset(slab.nearest, 0, tiles * TILE * sizeof(double));
        memset(slab.fed, 0, tiles * TILE * sizeof(double));
        ok = read_slab(&slab, err);
        if (!ok) break;
        workers_run(workers, (unsigned)((slab.count + TILE - 1) / TILE), round_task, &slab);
        put_slab(&slab, cost);
    }
    arena_free(within);
    return ok;
}
