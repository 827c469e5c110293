// SPDX-License-Identifier: Apache-2.0
/* Measures of difference; see value_compare.h. Everything is summed in double, piece by piece and
 * in the order of the pieces, so that sums do not depend on how many threads there are.
 *
 * Floats of up to 32 bits are widened to float, which is exact, and compared by loops of LANES
 * independent sums, which compilers turn into vector code. Pieces with NaN or Inf, and all other
 * types, go element by element.
 */
#include "value_compare.h"

#include <math.h>
#include <string.h>

#include "dtype.h"
#include "half.h"
#include "value_io.h"

enum { LANES = 8, BLOCK = 1024, PIECE = 32 * BLOCK, WAVE = 32 };

typedef struct Sums {
    double absolute, squares, want, got, product;
    double furthest;   /* of |got - want| beyond its tolerance */
    uint64_t finite;   /* elements that are so on both sides */
    uint64_t expected; /* that are so where they are expected */
} Sums;

typedef struct Pair {
    const DemiData *got, *want;
    const Tolerance *tolerance;
    bool exact;
    Dtype narrow; /* whose last place ulps are of */
    Workers *workers;
} Pair;

/* ---- units in the last place ----------------------------------------------------------------- */

/* Bits as integers in the order of the values they stand for: neighbors differ by 1. */
static double place_of(Dtype dtype, double value) {
    uint64_t bits = 0;
    unsigned width = dtype_bits(dtype);
    if (!dtype_from_double(dtype, value, &bits)) return 0;
    uint64_t sign = UINT64_C(1) << (width - 1);
    return bits & sign ? -(double)(bits & (sign - 1)) : (double)bits;
}

static double ulps(Dtype dtype, double a, double b) {
    if (!dtype_is_float(dtype) || dtype == DTYPE_FLOAT8E8M0) return fabs(a - b);
    return fabs(place_of(dtype, a) - place_of(dtype, b));
}

static int32_t place_of_16(uint16_t bits) {
    return bits & 0x8000 ? -(bits & 0x7fff) : bits;
}

static double ulps_of_16(Dtype dtype, const float *a, const float *b, size_t count) {
    uint16_t x[BLOCK], y[BLOCK];
    int32_t most[LANES] = {0}, all = 0;
    reduced_convert_from_float(dtype, x, a, count);
    reduced_convert_from_float(dtype, y, b, count);
    for (size_t i = 0; i < count; i++) {
        int32_t d = place_of_16(x[i]) - place_of_16(y[i]);
        d = d < 0 ? -d : d;
        most[i % LANES] = d > most[i % LANES] ? d : most[i % LANES];
    }
    for (int k = 0; k < LANES; k++) all = most[k] > all ? most[k] : all;
    return all;
}

static int64_t place_of_32(float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & INT32_MAX) : bits;
}

static double ulps_of_32(const float *a, const float *b, size_t count) {
    int64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t d = place_of_32(a[i]) - place_of_32(b[i]);
        d = d < 0 ? -d : d;
        most = d > most ? d : most;
    }
    return (double)most;
}

/* ---- blocks of floats ------------------------------------------------------------------------ */

static bool is_narrow(Dtype dtype) {
    return dtype_is_working(dtype);
}

/* `count` elements from `first` on as floats: in place, or widened into `room`. */
static const float *floats_of(const DemiData *tensor, uint64_t first, size_t count, float *room) {
    if (tensor->dtype == DTYPE_FLOAT) return (const float *)tensor->data + first;
    const uint16_t *from = (const uint16_t *)tensor->data + first;
    reduced_convert_to_float((Dtype)tensor->dtype, room, from, count);
    return room;
}

/* The largest magnitude's bits: below those of Inf where all are finite. */
static uint32_t largest_bits(const float *values, size_t count) {
    uint32_t most[LANES] = {0}, all = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) {
            uint32_t bits;
            memcpy(&bits, &values[i + (size_t)k], sizeof bits);
            bits &= INT32_MAX;
            most[k] = bits > most[k] ? bits : most[k];
        }
    for (; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits &= INT32_MAX;
        all = bits > all ? bits : all;
    }
    for (int k = 0; k < LANES; k++) all = most[k] > all ? most[k] : all;
    return all;
}

enum { INF_BITS = 0x7f800000 };

static bool all_finite(const float *values, size_t count) {
    return largest_bits(values, count) < INF_BITS;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

typedef struct Lanes {
    double absolute[LANES], squares[LANES], want[LANES], got[LANES], product[LANES];
    double most[LANES], furthest[LANES], beyond[LANES];
} Lanes;

static inline void compare_lane(Lanes *l, int k, double a, double b, const double allow[2]) {
    double d = fabs(a - b), over = d - (allow[0] + allow[1] * fabs(b));
    l->absolute[k] += d;
    l->squares[k] += d * d;
    l->want[k] += b * b;
    l->got[k] += a * a;
    l->product[k] += a * b;
    l->most[k] = d > l->most[k] ? d : l->most[k];
    l->furthest[k] = over > l->furthest[k] ? over : l->furthest[k];
    l->beyond[k] += over > 0 ? 1.0 : 0.0;
}

static void compare_lanes(Lanes *l, const float *a, const float *b, size_t count,
                          const double allow[2]) {
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++)
            compare_lane(l, k, a[i + (size_t)k], b[i + (size_t)k], allow);
    for (int k = 0; i < count; i++, k++) compare_lane(l, k, a[i], b[i], allow);
}

/* What compare_item does, of numbers alone. */
static void compare_block(const Pair *p, const float *a, const float *b, uint64_t first,
                          size_t count, Sums *sums, DemiDistance *diff) {
    const double allow[2] = {p->tolerance->absolute, p->tolerance->relative};
    Lanes l = {{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}};
    double furthest = 0, beyond = 0;
    compare_lanes(&l, a, b, count, allow);
    for (int k = 0; k < LANES; k++) {
        sums->absolute += l.absolute[k];
        sums->squares += l.squares[k];
        sums->want += l.want[k];
        sums->got += l.got[k];
        sums->product += l.product[k];
        beyond += l.beyond[k];
        if (l.most[k] > diff->max_abs) diff->max_abs = l.most[k];
        if (l.furthest[k] > furthest) furthest = l.furthest[k];
    }
    sums->finite += count;
    sums->expected += count;
    double scale = float_of(largest_bits(b, count));
    if (scale > diff->scale) diff->scale = scale;
    if (beyond > 0 && (furthest > sums->furthest || diff->beyond == 0)) {
        size_t i = 0;
        while (i + 1 < count &&
               fabs((double)a[i] - b[i]) - (allow[0] + allow[1] * fabs((double)b[i])) < furthest)
            i++;
        sums->furthest = furthest;
        diff->worst = first + i;
        diff->worst_got = a[i];
        diff->worst_want = b[i];
    }
    diff->beyond += (uint64_t)beyond;
    double ulp =
        p->narrow == DTYPE_FLOAT ? ulps_of_32(a, b, count) : ulps_of_16(p->narrow, a, b, count);
    if (ulp > diff->ulp) diff->ulp = ulp;
}

/* ---- element by element ---------------------------------------------------------------------- */

static void note_worst(const Pair *p, uint64_t i, double beyond, Sums *sums, DemiDistance *diff) {
    diff->beyond++;
    if (diff->beyond > 1 && !(beyond > sums->furthest)) return;
    sums->furthest = beyond;
    diff->worst = i;
    diff->worst_got = value_item(p->got, i);
    diff->worst_want = value_item(p->want, i);
}

/* A finite number that is expected. */
static void note_scale(double want, Sums *sums, DemiDistance *diff) {
    if (fabs(want) > diff->scale) diff->scale = fabs(want);
    sums->expected++;
}

static void compare_item(const Pair *p, uint64_t i, Sums *sums, DemiDistance *diff) {
    double a = value_item(p->got, i), b = value_item(p->want, i);
    if (!isfinite(a) || !isfinite(b)) {
        if (isfinite(b)) note_scale(b, sums, diff);
        if ((isnan(a) && isnan(b)) || a == b) return;
        diff->special++;
        diff->broken += isfinite(b) != 0;
        note_worst(p, i, INFINITY, sums, diff);
        return;
    }
    double distance = fabs(a - b), ulp = distance == 0 ? 0 : ulps(p->narrow, a, b);
    double allowed = p->exact ? 0 : p->tolerance->absolute + p->tolerance->relative * fabs(b);
    if (distance > allowed) note_worst(p, i, distance - allowed, sums, diff);
    if (distance > diff->max_abs) diff->max_abs = distance;
    note_scale(b, sums, diff);
    if (ulp > diff->ulp) diff->ulp = ulp;
    sums->absolute += distance;
    sums->squares += distance * distance;
    sums->want += b * b;
    sums->got += a * a;
    sums->product += a * b;
    sums->finite++;
}

static void compare_strings(const Pair *p, Sums *sums, DemiDistance *diff) {
    const DemiString *a = p->got->data, *b = p->want->data;
    uint64_t count = value_count(p->got);
    for (uint64_t i = 0; i < count; i++) {
        if (a[i].size == b[i].size && memcmp(a[i].text, b[i].text, a[i].size) == 0) continue;
        diff->special++;
        note_worst(p, i, INFINITY, sums, diff);
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

typedef struct Part {
    Sums sums;
    DemiDistance diff;
} Part;

typedef struct Wave {
    const Pair *pair;
    uint64_t first, count; /* of the tensor's elements */
    Part *parts;
} Wave;

static void compare_range(const Pair *p, uint64_t first, uint64_t end, Part *part) {
    float x[BLOCK], y[BLOCK];
    bool narrow = is_narrow((Dtype)p->got->dtype) && is_narrow((Dtype)p->want->dtype) && !p->exact;
    for (; first < end; first += BLOCK) {
        size_t count = end - first < BLOCK ? (size_t)(end - first) : BLOCK;
        const float *a = narrow ? floats_of(p->got, first, count, x) : NULL;
        const float *b = narrow ? floats_of(p->want, first, count, y) : NULL;
        if (narrow && all_finite(a, count) && all_finite(b, count))
            compare_block(p, a, b, first, count, &part->sums, &part->diff);
        else
            for (size_t i = 0; i < count; i++) compare_item(p, first + i, &part->sums, &part->diff);
    }
}

static void compare_piece(void *data, unsigned task, unsigned lane) {
    const Wave *wave = data;
    uint64_t first = wave->first + (uint64_t)task * PIECE, end = first + PIECE;
    (void)lane;
    compare_range(wave->pair, first, end < wave->count ? end : wave->count, &wave->parts[task]);
}

static void add_part(const Part *part, Sums *sums, DemiDistance *diff) {
    const Sums *s = &part->sums;
    const DemiDistance *d = &part->diff;
    if (d->beyond && (diff->beyond == 0 || s->furthest > sums->furthest)) {
        sums->furthest = s->furthest;
        diff->worst = d->worst;
        diff->worst_got = d->worst_got;
        diff->worst_want = d->worst_want;
    }
    sums->absolute += s->absolute;
    sums->squares += s->squares;
    sums->want += s->want;
    sums->got += s->got;
    sums->product += s->product;
    sums->finite += s->finite;
    sums->expected += s->expected;
    diff->beyond += d->beyond;
    diff->special += d->special;
    diff->broken += d->broken;
    if (d->max_abs > diff->max_abs) diff->max_abs = d->max_abs;
    if (d->scale > diff->scale) diff->scale = d->scale;
    if (d->ulp > diff->ulp) diff->ulp = d->ulp;
}

static void run_wave(Workers *workers, unsigned tasks, WorkersTask *task, void *data) {
    if (workers && tasks > 1)
        workers_run(workers, tasks, task, data);
    else
        for (unsigned i = 0; i < tasks; i++) task(data, i, 0);
}

static unsigned wave_tasks(uint64_t first, uint64_t count) {
    uint64_t left = (count - first + PIECE - 1) / PIECE;
    return left < WAVE ? (unsigned)left : WAVE;
}

static void compare_numbers(const Pair *p, uint64_t count, Sums *sums, DemiDistance *diff) {
    Part parts[WAVE];
    Wave wave = {.pair = p, .count = count, .parts = parts};
    for (; wave.first < count; wave.first += (uint64_t)WAVE * PIECE) {
        unsigned tasks = wave_tasks(wave.first, count);
        memset(parts, 0, tasks * sizeof *parts);
        run_wave(p->workers, tasks, compare_piece, &wave);
        for (unsigned i = 0; i < tasks; i++) add_part(&parts[i], sums, diff);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool comparable(const Pair *p) {
    Dtype a = (Dtype)p->got->dtype, b = (Dtype)p->want->dtype;
    return a == b || (p->tolerance->any_float && dtype_is_float(a) && dtype_is_float(b));
}

static const char *compare_tensors(Arena *arena, Pair *p, Sums *sums, DemiDistance *diff) {
    const DemiData *a = p->got, *b = p->want;
    bool same = a->kind == b->kind && comparable(p) && a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
    if (!same)
        return arena_printf(arena, "%s, expected %s", value_type_text(arena, a),
                            value_type_text(arena, b));
    Dtype dtype = (Dtype)b->dtype, counted = (Dtype)p->tolerance->ulp_of;
    uint64_t count = value_count(b);
    p->narrow = dtype_bits((Dtype)a->dtype) < dtype_bits(dtype) ? (Dtype)a->dtype : dtype;
    if (dtype_is_float(counted) && dtype_is_float(p->narrow) &&
        dtype_bits(counted) < dtype_bits(p->narrow))
        p->narrow = counted;
    diff->ulp_of = (int32_t)p->narrow;
    p->exact = p->tolerance->exact_integers && (dtype_is_integer(dtype) || dtype == DTYPE_BOOL);
    diff->count += count;
    if (dtype == DTYPE_STRING)
        compare_strings(p, sums, diff);
    else
        compare_numbers(p, count, sums, diff);
    return NULL;
}

static const char *compare_values(Arena *arena, Pair pair, Sums *sums, DemiDistance *diff) {
    const DemiData *a = pair.got, *b = pair.want;
    if (a->kind == DEMI_DATA_TENSOR_KIND && b->kind == DEMI_DATA_TENSOR_KIND)
        return compare_tensors(arena, &pair, sums, diff);
    if (a->kind != b->kind || a->count != b->count)
        return arena_printf(arena, "%s, expected %s", value_type_text(arena, a),
                            value_type_text(arena, b));
    const char *mismatch = NULL;
    for (size_t i = 0; !mismatch && i < a->count; i++) {
        pair.got = &a->items[i];
        pair.want = &b->items[i];
        mismatch = compare_tensors(arena, &pair, sums, diff);
    }
    return mismatch;
}

void value_compare(Arena *arena, const DemiData *got, const DemiData *want,
                   const Tolerance *tolerance, DemiDistance *diff) {
    Sums sums = {.finite = 0};
    Pair pair = {.got = got, .want = want, .tolerance = tolerance, .workers = tolerance->workers};
    *diff = (DemiDistance){.mismatch = NULL};
    diff->mismatch = compare_values(arena, pair, &sums, diff);
    const bool broken = diff->special || diff->mismatch;
    if (diff->count && !sums.expected) diff->scale = INFINITY;
    if (broken) diff->max_abs = diff->ulp = INFINITY;
    diff->mean_abs = broken ? INFINITY : sums.finite ? sums.absolute / (double)sums.finite : 0;
    diff->error = broken               ? INFINITY
                  : diff->max_abs == 0 ? 0
                  : diff->scale == 0   ? INFINITY
                                       : diff->max_abs / diff->scale;
    diff->sqnr = broken              ? -INFINITY
                 : sums.squares == 0 ? INFINITY
                                     : 10 * log10(sums.want / sums.squares);
    diff->cosine = broken ? NAN : sums.product / sqrt(sums.want) / sqrt(sums.got);
}

/* ---- one tensor ------------------------------------------------------------------------------ */

static void stats_item(double value, ValueStats *stats, uint64_t *finite) {
    stats->nan += isnan(value) != 0;
    stats->inf += isinf(value) != 0;
    if (!isfinite(value)) return;
    if (!*finite || value < stats->min) stats->min = value;
    if (!*finite || value > stats->max) stats->max = value;
    stats->mean += value;
    ++*finite;
}

/* Of a whole number of lanes. */
static void stats_lanes(const float *x, size_t count, ValueStats *stats, uint64_t *finite) {
    double sum[LANES] = {0};
    float low[LANES], high[LANES];
    for (int k = 0; k < LANES; k++) low[k] = high[k] = x[k];
    for (size_t i = 0; i < count; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float v = x[i + (size_t)k];
            low[k] = v < low[k] ? v : low[k];
            high[k] = v > high[k] ? v : high[k];
            sum[k] += v;
        }
    for (int k = 0; k < LANES; k++) {
        if (!*finite || low[k] < stats->min) stats->min = low[k];
        if (!*finite || high[k] > stats->max) stats->max = high[k];
        stats->mean += sum[k];
        *finite += count / LANES;
    }
}

void value_stats(const DemiData *tensor, ValueStats *stats) {
    float room[BLOCK];
    uint64_t finite = 0;
    *stats = (ValueStats){.min = NAN, .max = NAN, .mean = 0, .count = value_count(tensor)};
    bool narrow = is_narrow((Dtype)tensor->dtype);
    for (uint64_t at = 0; tensor->dtype != DTYPE_STRING && at < stats->count; at += BLOCK) {
        size_t count = stats->count - at < BLOCK ? (size_t)(stats->count - at) : BLOCK;
        const float *x = narrow ? floats_of(tensor, at, count, room) : NULL;
        size_t done = narrow && all_finite(x, count) ? count / LANES * LANES : 0;
        if (done) stats_lanes(x, done, stats, &finite);
        for (size_t i = done; i < count; i++)
            stats_item(value_item(tensor, at + i), stats, &finite);
    }
    stats->mean = finite ? stats->mean / (double)finite : NAN;
}

/* ---- the largest magnitude ------------------------------------------------------------------- */

typedef struct Largest {
    const DemiData *tensor;
    uint64_t first, count;
    double most[WAVE];
} Largest;

static void largest_piece(void *data, unsigned task, unsigned lane) {
    Largest *l = data;
    float room[BLOCK];
    uint64_t first = l->first + (uint64_t)task * PIECE, end = first + PIECE;
    double most = -1;
    bool narrow = is_narrow((Dtype)l->tensor->dtype);
    (void)lane;
    if (end > l->count) end = l->count;
    for (; first < end; first += BLOCK) {
        size_t count = end - first < BLOCK ? (size_t)(end - first) : BLOCK;
        const float *x = narrow ? floats_of(l->tensor, first, count, room) : NULL;
        uint32_t bits = narrow ? largest_bits(x, count) : INF_BITS + 1;
        if (bits <= INF_BITS) {
            most = fmax(most, float_of(bits));
            continue;
        }
        for (size_t i = 0; i < count; i++) {
            double value = fabs(value_item(l->tensor, first + i));
            if (value > most) most = value; /* never by NaN */
        }
    }
    l->most[task] = most;
}

double value_largest(const DemiData *tensor, Workers *workers) {
    Largest l = {.tensor = tensor, .count = value_count(tensor)};
    double most = -1;
    for (; l.first < l.count; l.first += (uint64_t)WAVE * PIECE) {
        unsigned tasks = wave_tasks(l.first, l.count);
        run_wave(workers, tasks, largest_piece, &l);
        for (unsigned i = 0; i < tasks; i++) most = fmax(most, l.most[i]);
    }
    return most;
}
