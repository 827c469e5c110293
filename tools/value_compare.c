// SPDX-License-Identifier: Apache-2.0
/* Measures of difference; see value_compare.h. Everything is summed in double. */
#include "value_compare.h"

#include <math.h>
#include <string.h>

#include "dtype.h"
#include "value_io.h"

typedef struct Sums {
    double absolute, squares, want, got, product;
    double furthest; /* of |got - want| beyond its tolerance */
    uint64_t finite;
} Sums;

/* Bits as integers in the order of the values they stand for: neighbours differ by 1. */
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

typedef struct Pair {
    const DemiData *got, *want;
    const Tolerance *tolerance;
    bool exact;
    Dtype narrow; /* whose last place ulps are of */
} Pair;

static void note_worst(const Pair *p, uint64_t i, double beyond, Sums *sums, ValueDiff *diff) {
    diff->beyond++;
    if (diff->beyond > 1 && !(beyond > sums->furthest)) return;
    sums->furthest = beyond;
    diff->worst = i;
    diff->worst_got = value_item(p->got, i);
    diff->worst_want = value_item(p->want, i);
}

static void compare_item(const Pair *p, uint64_t i, Sums *sums, ValueDiff *diff) {
    double a = value_item(p->got, i), b = value_item(p->want, i);
    if (!isfinite(a) || !isfinite(b)) {
        if ((isnan(a) && isnan(b)) || a == b) return;
        diff->special++;
        note_worst(p, i, INFINITY, sums, diff);
        return;
    }
    double distance = fabs(a - b), ulp = distance == 0 ? 0 : ulps(p->narrow, a, b);
    double allowed = p->exact ? 0 : p->tolerance->absolute + p->tolerance->relative * fabs(b);
    if (distance > allowed) note_worst(p, i, distance - allowed, sums, diff);
    if (distance > diff->max_abs) diff->max_abs = distance;
    if (fabs(b) > diff->scale) diff->scale = fabs(b);
    if (ulp > diff->ulp) diff->ulp = ulp;
    sums->absolute += distance;
    sums->squares += distance * distance;
    sums->want += b * b;
    sums->got += a * a;
    sums->product += a * b;
    sums->finite++;
}

static void compare_strings(const Pair *p, Sums *sums, ValueDiff *diff) {
    const DemiString *a = p->got->data, *b = p->want->data;
    uint64_t count = value_count(p->got);
    for (uint64_t i = 0; i < count; i++) {
        if (a[i].size == b[i].size && memcmp(a[i].text, b[i].text, a[i].size) == 0) continue;
        diff->special++;
        note_worst(p, i, INFINITY, sums, diff);
    }
}

static bool comparable(const Pair *p) {
    Dtype a = (Dtype)p->got->dtype, b = (Dtype)p->want->dtype;
    return a == b || (p->tolerance->any_float && dtype_is_float(a) && dtype_is_float(b));
}

static const char *compare_tensors(Arena *arena, Pair *p, Sums *sums, ValueDiff *diff) {
    const DemiData *a = p->got, *b = p->want;
    bool same = a->kind == b->kind && comparable(p) && a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
    if (!same)
        return arena_printf(arena, "%s, expected %s", value_type_text(arena, a),
                            value_type_text(arena, b));
    Dtype dtype = (Dtype)b->dtype;
    uint64_t count = value_count(b);
    p->narrow = dtype_bits((Dtype)a->dtype) < dtype_bits(dtype) ? (Dtype)a->dtype : dtype;
    p->exact = p->tolerance->exact_integers && (dtype_is_integer(dtype) || dtype == DTYPE_BOOL);
    diff->count += count;
    if (dtype == DTYPE_STRING)
        compare_strings(p, sums, diff);
    else
        for (uint64_t i = 0; i < count; i++) compare_item(p, i, sums, diff);
    return NULL;
}

static const char *compare_values(Arena *arena, Pair pair, Sums *sums, ValueDiff *diff) {
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
                   const Tolerance *tolerance, ValueDiff *diff) {
    Sums sums = {.finite = 0};
    *diff = (ValueDiff){.mismatch = NULL};
    diff->mismatch = compare_values(arena, (Pair){.got = got, .want = want, .tolerance = tolerance},
                                    &sums, diff);
    if (diff->special || diff->mismatch) diff->max_abs = INFINITY;
    diff->mean_abs = sums.finite ? sums.absolute / (double)sums.finite : 0;
    diff->error = diff->max_abs == 0 ? 0 : diff->scale > 0 ? diff->max_abs / diff->scale : INFINITY;
    diff->sqnr = diff->special || diff->mismatch ? -INFINITY
                 : sums.squares == 0             ? INFINITY
                                                 : 10 * log10(sums.want / sums.squares);
    diff->cosine = sums.product / sqrt(sums.want) / sqrt(sums.got);
}

void value_stats(const DemiData *tensor, ValueStats *stats) {
    uint64_t finite = 0;
    double sum = 0;
    *stats = (ValueStats){.min = NAN, .max = NAN, .mean = NAN, .count = value_count(tensor)};
    for (uint64_t i = 0; tensor->dtype != DTYPE_STRING && i < stats->count; i++) {
        double value = value_item(tensor, i);
        stats->nan += isnan(value) != 0;
        stats->inf += isinf(value) != 0;
        if (!isfinite(value)) continue;
        if (!finite || value < stats->min) stats->min = value;
        if (!finite || value > stats->max) stats->max = value;
        sum += value;
        finite++;
    }
    if (finite) stats->mean = sum / (double)finite;
}
