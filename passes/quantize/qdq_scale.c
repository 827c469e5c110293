// SPDX-License-Identifier: Apache-2.0
/* See qdq_scale.h; blocks have a file of their own. Inner loops have no branches that depend on data,
 * so that compilers can make vectors of them. */
#include "qdq_scale.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "float_size.h"
#include "half.h"
#include "qdq_round.h"
#include "row_clones.h"

int32_t qdq_least(Dtype dtype) {
    return dtype_is_integer(dtype) ? (int32_t)dtype_least(dtype) : 0;
}

int32_t qdq_most(Dtype dtype) {
    return qdq_least(dtype) + (int32_t)((UINT32_C(1) << dtype_bits(dtype)) - 1);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

float qdq_normal_scale(double scale) {
    if (!(scale > 0)) return 1;
    return scale < FLT_MIN ? FLT_MIN : (float)scale;
}

float qdq_scale_as(Dtype floats, float scale) {
    uint16_t bits;
    float stored;
    if (!dtype_is_reduced(floats)) return scale;
    const float most = (float)dtype_largest(floats);
    reduced_convert_from_float(floats, &bits, &scale, 1);
    reduced_convert_to_float(floats, &stored, &bits, 1);
    if (stored < scale) bits++; /* the next number: of positive ones, bits are in order */
    reduced_convert_to_float(floats, &stored, &bits, 1);
    return stored <= most ? stored : most;
}

bool qdq_scale_of_range(Dtype dtype, bool symmetric, double low, double high, QdqScale *scale) {
    return qdq_scale_in(DTYPE_FLOAT, dtype, symmetric, (const double[2]){low, high}, scale);
}

bool qdq_scale_in(Dtype floats, Dtype dtype, bool symmetric, const double range[2],
                  QdqScale *scale) {
    const bool integer = dtype_is_integer(dtype);
    const int32_t least = integer ? qdq_least(dtype) : 0, most = integer ? qdq_most(dtype) : 0;
    if (!isfinite(range[0]) || !isfinite(range[1])) return false;
    const double low = fmin(range[0], 0), high = fmax(range[1], 0);
    if (!integer) {
        const double top = (double)qdq_top(dtype);
        *scale = (QdqScale){qdq_scale_as(floats, qdq_normal_scale(fmax(-low, high) / top)), 0};
        return true;
    }
    if (symmetric) {
        const int32_t zero = least < 0 ? 0 : (most + 1) / 2;
        *scale = (QdqScale){
            qdq_scale_as(floats, qdq_normal_scale(fmax(-low, high) / (most - zero))), zero};
        return true;
    }
    scale->scale = qdq_scale_as(floats, qdq_normal_scale((high - low) / (most - least)));
    const double zero = nearbyint(least - low / (double)scale->scale);
    scale->zero = (int32_t)fmin(fmax(zero, least), most);
    return true;
}

/* ---- scales of weights ----------------------------------------------------------------------- */

float qdq_top(Dtype dtype) {
    return (float)dtype_largest(dtype);
}

uint64_t qdq_scale_count(const QdqWeights *w) {
    if (!w->block) return w->axis;
    return w->outer * ((w->axis + w->block - 1) / w->block) * w->inner;
}

ROW_CLONES bool qdq_weights_finite(const float *items, uint64_t count) {
    uint32_t bad = 0;
    ROW_LOOP
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &items[i], sizeof bits);
        bad |= (bits & UINT32_C(0x7f800000)) == UINT32_C(0x7f800000);
    }
    return !bad;
}

/* One magnitude each, of items next to each other. */
ROW_CLONES static void add_sizes(const float *items, uint64_t count, float *restrict peaks) {
    ROW_LOOP
    for (uint64_t i = 0; i < count; i++) {
        const float item = fabsf(items[i]);
        peaks[i] = item > peaks[i] ? item : peaks[i];
    }
}

ROW_CLONES static float largest_of(const float *items, uint64_t count) {
    return floats_largest(items, count);
}

void qdq_add_peaks(const QdqWeights *w, float *peaks) {
    for (uint64_t o = 0; o < w->outer; o++) {
        const float *items = w->items + o * w->axis * w->inner;
        if (w->inner == 1) add_sizes(items, w->axis, peaks);
        for (uint64_t a = 0; w->inner != 1 && a < w->axis; a++) {
            const float here = largest_of(items + a * w->inner, w->inner);
            peaks[a] = here > peaks[a] ? here : peaks[a];
        }
    }
}

void qdq_scales_of_peaks(const QdqWeights *w, const float *least, float *peaks) {
    for (uint64_t a = 0; a < w->axis; a++) {
        const float bound = least ? least[a] : 0, scale = peaks[a] / qdq_top(w->dtype);
        peaks[a] =
            qdq_scale_as(w->floats, qdq_normal_scale((double)(scale < bound ? bound : scale)));
    }
}

void qdq_find_channel_scales(const QdqWeights *w, const float *least, float *scales) {
    for (uint64_t a = 0; a < w->axis; a++) scales[a] = 0;
    qdq_add_peaks(w, scales);
    qdq_scales_of_peaks(w, least, scales);
}

/* ---- scales as they are stored ---------------------------------------------------------------- */

float qdq_power_from(float step) {
    const int exponent = ilogbf(step);
    const float power = ldexpf(1, exponent);
    return power < step && exponent < FLT_MAX_EXP - 1 ? 2 * power : power;
}

float qdq_whole_scale(const QdqWeights *w, float peak) {
    const double largest = (double)qdq_top(w->dtype) * (double)qdq_top(w->stored);
    return qdq_power_from(qdq_normal_scale((double)peak / largest));
}

uint64_t qdq_scale_size(const QdqWeights *w) {
    return w->stored ? dtype_bits(w->stored) / 8 : sizeof(float);
}

void qdq_store_scales(const QdqWeights *w, const float *scales, uint64_t count, void *out) {
    uint8_t *bytes = out;
    if (!w->stored) {
        memcpy(out, scales, count * sizeof *scales);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t code = 0;
        const float scale = w->whole > 0 ? scales[i] / w->whole : scales[i];
        dtype_from_double(w->stored, (double)scale, &code);
        bytes[i] = (uint8_t)code;
    }
}

/* ---- storing --------------------------------------------------------------------------------- */

enum { PIECE = 256 }; /* of a row, that becomes numbers at once */

static inline float number_of(float item, float scale, float zero) {
    return round_nearest(round_clamp(item / scale, -65536, 65536)) + zero;
}

ROW_CLONES static void number_even(const QdqRow *row, uint64_t first, uint64_t count,
                                   int32_t *numbers) {
    const float *items = row->items + first;
    const float scale = *row->scales, zero = row->zeros ? (float)*row->zeros : 0;
    const float low = row->low, high = row->high;
    ROW_LOOP
    for (uint64_t i = 0; i < count; i++)
        numbers[i] = (int32_t)round_clamp(number_of(items[i], scale, zero), low, high);
}

ROW_CLONES static void number_each(const QdqRow *row, uint64_t first, uint64_t count,
                                   int32_t *numbers) {
    static const uint8_t none[PIECE];
    const float *items = row->items + first, *scales = row->scales + first;
    const uint8_t *zeros = row->zeros ? row->zeros + first : none;
    const float low = row->low, high = row->high;
    ROW_LOOP
    for (uint64_t i = 0; i < count; i++)
        numbers[i] =
            (int32_t)round_clamp(number_of(items[i], scales[i], (float)zeros[i]), low, high);
}

static void store_bytes(const int32_t *numbers, uint64_t count, unsigned char *out) {
    for (uint64_t i = 0; i < count; i++) out[i] = (unsigned char)numbers[i];
}

static void store_words(const int32_t *numbers, uint64_t count, unsigned char *out) {
    for (uint64_t i = 0; i < count; i++) {
        out[2 * i] = (unsigned char)numbers[i];
        out[2 * i + 1] = (unsigned char)((uint32_t)numbers[i] >> 8);
    }
}

ROW_CLONES static void pack_halves(const int32_t *numbers, uint64_t count, unsigned char *out) {
    ROW_LOOP
    for (uint64_t i = 0; i < count; i++)
        out[i] = (unsigned char)((numbers[2 * i] & 15) | (numbers[2 * i + 1] & 15) << 4);
}

ROW_CLONES static void pack_quarters(const int32_t *numbers, uint64_t count, unsigned char *out) {
    ROW_LOOP
    for (uint64_t i = 0; i < count; i++)
        out[i] = (unsigned char)((numbers[4 * i] & 3) | (numbers[4 * i + 1] & 3) << 2 |
                                 (numbers[4 * i + 2] & 3) << 4 | (numbers[4 * i + 3] & 3) << 6);
}

/* Several in a byte, from element `at` on; what lies beside them in a byte stays. */
static void store_packed(const int32_t *numbers, uint64_t count, uint64_t at, unsigned bits,
                         unsigned char *out) {
    const uint64_t each = 8 / bits;
    for (; at % each && count; count--) qdq_put_code(out, bits, at++, (uint32_t)*numbers++);
    const uint64_t whole = count / each;
    if (bits == 4)
        pack_halves(numbers, whole, out + at / each);
    else
        pack_quarters(numbers, whole, out + at / each);
    for (uint64_t i = whole * each; i < count; i++)
        qdq_put_code(out, bits, at + i, (uint32_t)numbers[i]);
}

/* Codes of a floating-point type. */
ROW_CLONES static void number_floats(const QdqRow *row, const SmallFloat *of, uint64_t first,
                                     uint64_t count, int32_t *numbers) {
    const SmallFloat small = *of;
    const float *items = row->items + first, *scales = row->scales + (row->step ? first : 0);
    const float one = *scales;
    ROW_LOOP
    for (uint64_t i = 0; i < count; i++)
        numbers[i] = small_code(&small, items[i] / (row->step ? scales[i] : one));
}

void qdq_store_row(const QdqRow *row, Dtype dtype, uint64_t first, void *bytes) {
    unsigned char *out = bytes;
    int32_t numbers[PIECE];
    const bool floats = dtype_is_float(dtype);
    const SmallFloat small = floats ? small_float_of(dtype) : (SmallFloat){0};
    for (uint64_t at = 0, n; at < row->count; at += n) {
        n = row->count - at < PIECE ? row->count - at : PIECE;
        if (floats)
            number_floats(row, &small, at, n, numbers);
        else if (row->step)
            number_each(row, at, n, numbers);
        else
            number_even(row, at, n, numbers);
        if (dtype_bits(dtype) < 8)
            store_packed(numbers, n, first + at, dtype_bits(dtype), out);
        else if (dtype_bits(dtype) == 8)
            store_bytes(numbers, n, out + first + at);
        else
            store_words(numbers, n, out + 2 * (first + at));
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
static void store_rows(const QdqWeights *w, QdqRow row, const uint8_t *zeros, void *out) {
    const bool plain = w->inner == 1; /* a scale each, one after the other */
    const uint64_t rows = plain ? w->outer : w->outer * w->axis;
    const float *scales = row.scales;
    row.count = plain ? w->axis : w->inner;
    row.step = plain || w->block;
    for (uint64_t r = 0; r < rows; r++) {
        row.items = w->items + r * row.count;
        row.scales = scales + scale_at(w, r);
        row.zeros = zeros ? zeros + scale_at(w, r) : NULL;
        qdq_store_row(&row, w->dtype, r * row.count, out);
    }
}

/* Blocks that lie in one piece: of each axis the last may be shorter. */
static void store_blocks(const QdqWeights *w, QdqRow row, const uint8_t *zeros, void *out) {
    const uint64_t blocks = (w->axis + w->block - 1) / w->block;
    const float *scales = row.scales;
    for (uint64_t r = 0; r < w->outer * blocks; r++) {
        const uint64_t a = r % blocks * w->block, first = r / blocks * w->axis + a;
        row.count = w->axis - a < w->block ? w->axis - a : w->block;
        row.items = w->items + first;
        row.scales = scales + r;
        row.zeros = zeros ? zeros + r : NULL;
        qdq_store_row(&row, w->dtype, first, out);
    }
}

void qdq_set_limits(const QdqWeights *w, QdqRow *row) {
    if (dtype_is_float(w->dtype)) return;
    row->high = (float)qdq_most(w->dtype);
    row->low = (float)qdq_least(w->dtype);
    if (!w->block && row->low < 0) row->low = -row->high;
}

/* The part of the last byte that no element fills. */
static void clear_end(const QdqWeights *w, unsigned char *out) {
    const uint64_t count = w->outer * w->axis * w->inner, bits = dtype_bits(w->dtype);
    if (count * bits % 8) out[count * bits / 8] = 0;
}

void qdq_store_weights(const QdqWeights *w, const float *scales, const uint8_t *zeros, void *out) {
    QdqRow row = {.scales = scales};
    if (!quantized_has_zeros(w->dtype)) zeros = NULL;
    qdq_set_limits(w, &row);
    clear_end(w, out);
    if (w->block && w->inner == 1)
        store_blocks(w, row, zeros, out);
    else
        store_rows(w, row, zeros, out);
}

/* ---- what becomes of sums -------------------------------------------------------------------- */

/* The weight, in units of its scale, and what storing adds to it, times a factor each. */
static inline float drift_of(float item, float scale, float high, float of_weight,
                             float of_growth) {
    const float number = round_clamp(item / scale, -65536, 65536);
    const float growth = round_clamp(round_nearest(number), -high, high) - number;
    return number * of_weight + growth * of_growth;
}

ROW_CLONES static void add_drifts(const float *items, const float *scales, uint64_t count,
                                  float high, float of_weight, float of_growth,
                                  float *restrict sums) {
    ROW_LOOP
    for (uint64_t i = 0; i < count; i++)
        sums[i] += drift_of(items[i], scales[i], high, of_weight, of_growth);
}

/* By lanes, whose number says what the sum is. */
ROW_CLONES static float drift_of_row(const float *items, uint64_t count, float scale, float high,
                                     const float *of_weights, const float *of_growths) {
    enum { LANES = 16 };
    float sums[LANES] = {0};
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (unsigned k = 0; k < LANES; k++)
            sums[k] += drift_of(items[i + k], scale, high, of_weights[i + k], of_growths[i + k]);
    for (; i < count; i++) sums[0] += drift_of(items[i], scale, high, of_weights[i], of_growths[i]);
    for (unsigned k = 1; k < LANES; k++) sums[0] += sums[k];
    return sums[0];
}

void qdq_find_drifts(const QdqWeights *w, const float *scales, const QdqFactors *factors,
                     float *sums) {
    const float high = (float)qdq_most(w->dtype);
    const bool columns = w->inner == 1 && factors->group >= factors->first + w->axis;
    for (uint64_t a = 0; a < w->axis; a++) sums[a] = 0;
    for (uint64_t o = 0; o < w->outer; o++) {
        const float *items = w->items + o * w->axis * w->inner;
        if (columns)
            add_drifts(items, scales, w->axis, high, factors->weights[o], factors->growths[o],
                       sums);
        for (uint64_t a = 0; !columns && a < w->axis; a++) {
            const uint64_t group = (factors->first + a) / factors->group;
            const uint64_t at = group * factors->stride + o * w->inner;
            sums[a] += drift_of_row(items + a * w->inner, w->inner, scales[a], high,
                                    factors->weights + at, factors->growths + at);
        }
    }
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
