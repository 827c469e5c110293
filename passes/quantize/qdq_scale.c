// SPDX-License-Identifier: Apache-2.0
/* See qdq_scale.h. Inner loops have no branches that depend on data, so that compilers can make
 * vectors of them. */
#include "qdq_scale.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "float_size.h"

int32_t qdq_least(Dtype dtype) {
    if (dtype == DTYPE_INT4) return -8;
    if (dtype == DTYPE_INT8) return INT8_MIN;
    return dtype == DTYPE_INT16 ? INT16_MIN : 0;
}

int32_t qdq_most(Dtype dtype) {
    return qdq_least(dtype) + (int32_t)((UINT32_C(1) << dtype_bits(dtype)) - 1);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static float normal_scale(double scale) {
    if (!(scale > 0)) return 1;
    return scale < FLT_MIN ? FLT_MIN : (float)scale;
}

bool qdq_scale_of_range(Dtype dtype, bool symmetric, double low, double high, QdqScale *scale) {
    const int32_t least = qdq_least(dtype), most = qdq_most(dtype);
    if (!isfinite(low) || !isfinite(high)) return false;
    low = fmin(low, 0);
    high = fmax(high, 0);
    if (symmetric) {
        const int32_t zero = least < 0 ? 0 : (most + 1) / 2;
        *scale = (QdqScale){normal_scale(fmax(-low, high) / (most - zero)), zero};
        return true;
    }
    scale->scale = normal_scale((high - low) / (most - least));
    const double zero = nearbyint(least - low / (double)scale->scale);
    scale->zero = (int32_t)fmin(fmax(zero, least), most);
    return true;
}

/* ---- scales of weights ----------------------------------------------------------------------- */

/* Magnitudes that the largest weight becomes. */
static float top_of(Dtype dtype) {
    return dtype == DTYPE_FLOAT8E4M3FN ? 448 : (float)qdq_most(dtype);
}

uint64_t qdq_scale_count(const QdqWeights *w) {
    if (!w->block) return w->axis;
    return w->outer * ((w->axis + w->block - 1) / w->block) * w->inner;
}

bool qdq_weights_finite(const float *items, uint64_t count) {
    uint32_t bad = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &items[i], sizeof bits);
        bad |= (bits & UINT32_C(0x7f800000)) == UINT32_C(0x7f800000);
    }
    return !bad;
}

/* The largest magnitude of each place along the axis, into most[]. */
static void find_most(const QdqWeights *w, float *most) {
    for (uint64_t a = 0; a < w->axis; a++) most[a] = 0;
    for (uint64_t o = 0; o < w->outer; o++) {
        const float *items = w->items + o * w->axis * w->inner;
        for (uint64_t a = 0; w->inner == 1 && a < w->axis; a++) {
            const float item = fabsf(items[a]);
            most[a] = item > most[a] ? item : most[a];
        }
        for (uint64_t a = 0; w->inner != 1 && a < w->axis; a++) {
            const float here = floats_largest(items + a * w->inner, w->inner);
            most[a] = here > most[a] ? here : most[a];
        }
    }
}

void qdq_find_channel_scales(const QdqWeights *w, const float *least, float *scales) {
    find_most(w, scales);
    for (uint64_t a = 0; a < w->axis; a++) {
        const float bound = least ? least[a] : 0;
        float scale = scales[a] / top_of(w->dtype);
        if (scale < bound) scale = bound;
        scales[a] = normal_scale(scale);
    }
}

/* Nearest integer, ties to even, of what is within 2^22. */
static inline float nearest(float number) {
    const float magic = 12582912.0f;
    return (number + magic) - magic;
}

static inline float clamp(float number, float low, float high) {
    number = number > low ? number : low;
    return number < high ? number : high;
}

/* What a block of weights is stored by: number = clamp(nearest(item / scale) + zero). */
typedef struct BlockScale {
    float scale, zero, low, high;
} BlockScale;

static float block_error(const float *items, uint64_t count, const BlockScale *by) {
    float sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        const float number = clamp(nearest(items[i] / by->scale) + by->zero, by->low, by->high);
        const float off = (number - by->zero) * by->scale - items[i];
        sum += off * off;
    }
    return sum;
}

static void find_ends(const float *items, uint64_t count, float *low, float *high) {
    *low = *high = 0;
    for (uint64_t i = 0; i < count; i++) {
        *low = items[i] < *low ? items[i] : *low;
        *high = items[i] > *high ? items[i] : *high;
    }
}

/* The range [low, high] made smaller by `part`. */
static BlockScale shrunk(Dtype dtype, float low, float high, float part) {
    QdqScale found;
    const bool symmetric = qdq_least(dtype) < 0;
    qdq_scale_of_range(dtype, symmetric, (double)(low * part), (double)(high * part), &found);
    /* of a signed type the least number is of use to errors, if not to the largest magnitude */
    return (BlockScale){found.scale, (float)found.zero, (float)qdq_least(dtype),
                        (float)qdq_most(dtype)};
}

static BlockScale best_scale(const QdqWeights *w, const float *items, uint64_t count) {
    enum { PARTS = 10 };
    float low, high;
    find_ends(items, count, &low, &high);
    BlockScale best = shrunk(w->dtype, low, high, 1);
    float error = block_error(items, count, &best);
    for (int i = 1; i < PARTS && error > 0; i++) {
        const BlockScale other = shrunk(w->dtype, low, high, 1 - 0.04f * (float)i);
        const float off = block_error(items, count, &other);
        if (off >= error) continue;
        best = other;
        error = off;
    }
    return best;
}

static BlockScale largest_scale(const QdqWeights *w, const float *items, uint64_t count) {
    float low, high;
    find_ends(items, count, &low, &high);
    const float most = -low > high ? -low : high;
    return (BlockScale){.scale = normal_scale((double)(most / top_of(w->dtype)))};
}

enum { GATHERED = 1024 };

/* A block of one place of `inner`: its elements lie `inner` apart, and are brought together. */
static BlockScale block_scale(const QdqWeights *w, const float *first, uint64_t count) {
    float buffer[GATHERED];
    const float *items = first;
    if (count > GATHERED)
        count = GATHERED; /* of longer ones their beginning is what is looked at */
    for (uint64_t i = 0; w->inner != 1 && i < count; i++) buffer[i] = first[i * w->inner];
    if (w->inner != 1) items = buffer;
    return dtype_bits(w->dtype) == 4 ? best_scale(w, items, count) : largest_scale(w, items, count);
}

void qdq_find_block_scales(const QdqWeights *w, float *scales, uint8_t *zeros) {
    const uint64_t blocks = (w->axis + w->block - 1) / w->block;
    for (uint64_t o = 0; o < w->outer; o++)
        for (uint64_t b = 0; b < blocks; b++) {
            const uint64_t place = o * w->axis + b * w->block;
            const uint64_t left = w->axis - b * w->block;
            const uint64_t count = left < w->block ? left : w->block;
            for (uint64_t i = 0; i < w->inner; i++) {
                const BlockScale by = block_scale(w, w->items + place * w->inner + i, count);
                const uint64_t at = (o * blocks + b) * w->inner + i;
                scales[at] = by.scale;
                if (w->dtype == DTYPE_UINT4) zeros[at] = (uint8_t)by.zero;
            }
        }
}

/* ---- storing --------------------------------------------------------------------------------- */

/* A row of elements next to each other: scale i * step and zero point likewise. */
typedef struct Row {
    const float *items, *scales;
    const uint8_t *zeros; /* NULL: all 0 */
    uint64_t count, step;
    float low, high;
} Row;

static inline float number_at(const Row *row, uint64_t i) {
    const float zero = row->zeros ? (float)row->zeros[i * row->step] : 0;
    return clamp(nearest(clamp(row->items[i] / row->scales[i * row->step], -65536, 65536)) + zero,
                 row->low, row->high);
}

/* Of one scale. */
static void store_even(const Row *row, int8_t *restrict to) {
    const float *restrict items = row->items;
    const float scale = row->scales[0], low = row->low, high = row->high;
    for (uint64_t i = 0; i < row->count; i++)
        to[i] = (int8_t)clamp(nearest(clamp(items[i] / scale, -65536, 65536)), low, high);
}

static void store_row(const Row *row, Dtype dtype, uint64_t first, unsigned char *out) {
    if (dtype == DTYPE_INT8 && !row->step && !row->zeros) {
        store_even(row, (int8_t *)out + first);
    } else if (dtype == DTYPE_INT8) {
        int8_t *to = (int8_t *)out + first;
        for (uint64_t i = 0; i < row->count; i++) to[i] = (int8_t)number_at(row, i);
    } else if (dtype == DTYPE_UINT8) {
        for (uint64_t i = 0; i < row->count; i++) out[first + i] = (uint8_t)number_at(row, i);
    } else if (dtype == DTYPE_FLOAT8E4M3FN) {
        for (uint64_t i = 0; i < row->count; i++) {
            uint64_t bits = 0;
            dtype_from_double(dtype, (double)(row->items[i] / row->scales[i * row->step]), &bits);
            out[first + i] = (uint8_t)bits;
        }
    } else if (dtype_bits(dtype) == 16) {
        for (uint64_t i = 0; i < row->count; i++) {
            const uint16_t number = (uint16_t)(int32_t)number_at(row, i);
            out[2 * (first + i)] = (unsigned char)number;
            out[2 * (first + i) + 1] = (unsigned char)(number >> 8);
        }
    } else {
        for (uint64_t i = 0; i < row->count; i++) {
            const unsigned number = (unsigned)(int)number_at(row, i) & 15u;
            const uint64_t at = first + i;
            out[at / 2] = (unsigned char)(at % 2 ? (out[at / 2] & 15u) | number << 4 : number);
        }
    }
}

/* How elements lie in rows: `count` of them by `step` of scales, of which row r begins at
 * scale_at(r). */
static uint64_t scale_at(const QdqWeights *w, uint64_t r) {
    const uint64_t block = w->block ? w->block : 1, blocks = (w->axis + block - 1) / block;
    if (w->inner == 1) return w->block ? r : 0;
    return w->block ? (r / w->axis * blocks + r % w->axis / block) * w->inner : r % w->axis;
}

/* Without blocks, or of several elements inside the axis: all rows are equally long. */
static void store_rows(const QdqWeights *w, Row row, const uint8_t *zeros, void *out) {
    const bool plain = w->inner == 1; /* a scale each, one after the other */
    const uint64_t rows = plain ? w->outer : w->outer * w->axis;
    const float *scales = row.scales;
    row.count = plain ? w->axis : w->inner;
    row.step = plain || w->block;
    for (uint64_t r = 0; r < rows; r++) {
        row.items = w->items + r * row.count;
        row.scales = scales + scale_at(w, r);
        row.zeros = zeros ? zeros + scale_at(w, r) : NULL;
        store_row(&row, w->dtype, r * row.count, out);
    }
}

/* Blocks that lie in one piece: of each axis the last may be shorter. */
static void store_blocks(const QdqWeights *w, Row row, const uint8_t *zeros, void *out) {
    const uint64_t blocks = (w->axis + w->block - 1) / w->block;
    const float *scales = row.scales;
    for (uint64_t r = 0; r < w->outer * blocks; r++) {
        const uint64_t a = r % blocks * w->block, first = r / blocks * w->axis + a;
        row.count = w->axis - a < w->block ? w->axis - a : w->block;
        row.items = w->items + first;
        row.scales = scales + r;
        row.zeros = zeros ? zeros + r : NULL;
        store_row(&row, w->dtype, first, out);
    }
}

void qdq_store_weights(const QdqWeights *w, const float *scales, const uint8_t *zeros, void *out) {
    Row row = {.scales = scales};
    if (w->dtype != DTYPE_UINT4) zeros = NULL;
    if (w->dtype != DTYPE_FLOAT8E4M3FN) {
        row.high = (float)qdq_most(w->dtype);
        row.low = (float)qdq_least(w->dtype);
        if (!w->block && row.low < 0) row.low = -row.high;
    }
    if (w->block && w->inner == 1)
        store_blocks(w, row, zeros, out);
    else
        store_rows(w, row, zeros, out);
}

bool qdq_store_bias(const float *bias, uint64_t count, const float *scales, uint64_t scale_count,
                    int32_t *out) {
    for (uint64_t i = 0; i < count; i++) {
        const double number = nearbyint((double)bias[i] / (double)scales[i % scale_count]);
        if (!(fabs(number) < 2147483648.0)) return false;
        out[i] = (int32_t)number;
    }
    return true;
}
