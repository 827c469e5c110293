// SPDX-License-Identifier: Apache-2.0
/* Margins of picks; see pick_margin.h. Scores that are not numbers, or infinite, make no tie. */
#include "pick_margin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "kernel.h"
#include "value_compare.h"
#include "value_io.h"

static double scale_of(const DemiData *tensor) {
    ValueStats stats;
    value_stats(tensor, &stats);
    double scale = fmax(fabs(stats.min), fabs(stats.max));
    return isfinite(scale) ? scale : 0;
}

/* One distance more, which is Inf where only one of two is a number. */
static void reach(DemiPick *row, double a, double b) {
    double distance = a == b ? 0 : fabs(a - b);
    if (isnan(distance)) distance = isnan(a) && isnan(b) ? 0 : INFINITY;
    if (distance > row->margin) row->margin = distance;
}

static void by_scale(DemiPick *row, double scale) {
    if (row->margin > 0) row->margin = scale > 0 ? row->margin / scale : INFINITY;
}

/* ---- along an axis --------------------------------------------------------------------------- */

typedef struct Slices {
    uint64_t outer, length, inner, picked; /* of the scores; `picked` of them in each slice */
} Slices;

static bool slices_of(const PickCase *pc, Slices *s) {
    const DemiData *from = &pc->step->inputs[0];
    int64_t axis = pc->axis < 0 ? pc->axis + from->rank : pc->axis;
    if (axis < 0 || axis >= (int64_t)from->rank) return false;
    *s = (Slices){1, (uint64_t)from->dims[axis], 1, 1};
    for (int64_t i = 0; i < axis; i++) s->outer *= (uint64_t)from->dims[i];
    for (int64_t i = axis + 1; i < from->rank; i++) s->inner *= (uint64_t)from->dims[i];
    if (pc->kind == PICK_TOPK) s->picked = (uint64_t)pc->pick->dims[axis];
    return s->outer * s->picked * s->inner == value_count(pc->pick);
}

/* The score at place `at` of slice (o, i); `index` may be counted from the end. */
static bool score_place(const Slices *s, uint64_t o, uint64_t i, double index, uint64_t *place) {
    if (index < 0) index += (double)s->length;
    if (!(index >= 0) || index >= (double)s->length) return false;
    *place = (o * s->length + (uint64_t)index) * s->inner + i;
    return true;
}

static uint64_t same_in_slice(const PickCase *pc, const Slices *s, uint64_t first, bool *marks) {
    uint64_t same = 0;
    memset(marks, 0, s->length * sizeof *marks);
    for (uint64_t k = 0; k < s->picked; k++) {
        double index = value_item(pc->pick, first + k * s->inner);
        if (index >= 0 && index < (double)s->length) marks[(uint64_t)index] = true;
    }
    for (uint64_t k = 0; k < s->picked; k++) {
        double index = value_item(pc->own, first + k * s->inner);
        same += index >= 0 && index < (double)s->length && marks[(uint64_t)index];
    }
    return same;
}

/* Place by place: sorted scores are as far apart as the scores are, whatever changed places. */
static void compare_slices(const PickCase *pc, DemiPick *row) {
    const DemiData *from = &pc->step->inputs[0];
    Slices s;
    row->count = value_count(pc->pick);
    if (!slices_of(pc, &s)) {
        row->margin = INFINITY;
        return;
    }
    bool *marks = ARENA_ARRAY(pc->scratch, bool, s.length + 1);
    for (uint64_t o = 0; o < s.outer; o++)
        for (uint64_t i = 0; i < s.inner; i++) {
            uint64_t first = o * s.picked * s.inner + i, a, b;
            row->same += same_in_slice(pc, &s, first, marks);
            for (uint64_t k = 0; k < s.picked; k++) {
                uint64_t at = first + k * s.inner;
                if (score_place(&s, o, i, value_item(pc->own, at), &a) &&
                    score_place(&s, o, i, value_item(pc->pick, at), &b))
                    reach(row, value_item(from, a), value_item(from, b));
                else
                    row->margin = INFINITY;
            }
        }
    by_scale(row, scale_of(from));
}

bool pick_values(const PickCase *pc, DemiData *values) {
    const DemiData *from = &pc->step->inputs[0];
    size_t size = kernel_element_size((Dtype)from->dtype);
    uint64_t count = value_count(pc->pick), place;
    Slices s;
    if (!slices_of(pc, &s)) return false;
    char *data = arena_array(pc->scratch, count + 1, size);
    for (uint64_t at = 0; at < count; at++) {
        uint64_t o = at / (s.picked * s.inner), i = at % s.inner;
        if (!score_place(&s, o, i, value_item(pc->pick, at), &place)) return false;
        memcpy(data + at * size, (const char *)from->data + place * size, size);
    }
    *values = *pc->pick;
    values->dtype = from->dtype;
    values->data = data;
    return true;
}

/* ---- element by element ---------------------------------------------------------------------- */

/* The element of a broadcast operand that belongs to element i of the result. */
static uint64_t operand_place(const DemiData *operand, const DemiData *result, uint64_t i) {
    uint64_t place = 0, step = 1;
    for (uint32_t k = 0; k < operand->rank && k < result->rank; k++) {
        uint64_t size = (uint64_t)result->dims[result->rank - 1 - k];
        uint64_t own = (uint64_t)operand->dims[operand->rank - 1 - k];
        if (own > 1) place += i % size * step;
        step *= own;
        i /= size;
    }
    return place;
}

/* How far a number is from what truncates to that integer, or as a truth value is that one. */
static double cast_distance(double x, double whole, bool truth) {
    if (truth) return fabs(x);
    double low = whole > 0 ? whole : whole - 1, high = whole < 0 ? whole : whole + 1;
    return x < low ? low - x : x > high ? x - high : 0;
}

static void compare_elements(const PickCase *pc, DemiPick *row) {
    const DemiData *x = &pc->step->inputs[0];
    bool two = pc->kind == PICK_COMPARISON && pc->step->input_count > 1;
    const DemiData *y = two ? &pc->step->inputs[1] : x;
    bool truth = pc->own->dtype == DTYPE_BOOL;
    row->count = value_count(pc->own);
    for (uint64_t i = 0; i < row->count; i++) {
        double wanted = value_item(pc->pick, i);
        if (value_item(pc->own, i) == wanted) {
            row->same++;
            continue;
        }
        double a = value_item(x, two ? operand_place(x, pc->own, i) : i);
        if (two)
            reach(row, a, value_item(y, operand_place(y, pc->own, i)));
        else
            reach(row, cast_distance(a, wanted, truth), 0);
    }
    by_scale(row, fmax(scale_of(x), scale_of(y)));
}

/* ---- lists of coordinates -------------------------------------------------------------------- */

enum { MOST_RANK = 8 };

typedef struct Coordinates {
    int64_t at[MOST_RANK];
} Coordinates;

static int by_place(const void *a, const void *b) {
    const Coordinates *x = a, *y = b;
    for (int i = 0; i < MOST_RANK; i++)
        if (x->at[i] != y->at[i]) return x->at[i] < y->at[i] ? -1 : 1;
    return 0;
}

/* Sorted; of NonZero one a column, of NonMaxSuppression one a row. */
static Coordinates *coordinates_of(const PickCase *pc, const DemiData *list, uint64_t *count) {
    bool columns = pc->kind == PICK_NONZERO;
    *count = list->rank == 2 ? (uint64_t)list->dims[columns] : 0;
    uint64_t width = list->rank == 2 ? (uint64_t)list->dims[!columns] : 0;
    Coordinates *made = ARENA_ARRAY(pc->scratch, Coordinates, *count + 1);
    for (uint64_t i = 0; i < *count; i++)
        for (uint64_t k = 0; k < width && k < MOST_RANK; k++)
            made[i].at[k] = (int64_t)value_item(list, columns ? k * *count + i : i * width + k);
    if (*count) qsort(made, *count, sizeof *made, by_place);
    return made;
}

static double nonzero_at(const DemiData *from, const Coordinates *c) {
    uint64_t place = 0;
    for (uint32_t k = 0; k < from->rank && k < MOST_RANK; k++)
        place = place * (uint64_t)from->dims[k] + (uint64_t)c->at[k];
    return place < value_count(from) ? value_item(from, place) : INFINITY;
}

static void compare_lists(const PickCase *pc, DemiPick *row) {
    uint64_t own_count, count, i = 0, k = 0;
    const Coordinates *own = coordinates_of(pc, pc->own, &own_count);
    const Coordinates *want = coordinates_of(pc, pc->pick, &count);
    row->count = count;
    while (i < own_count) {
        int order = k < count ? by_place(&own[i], &want[k]) : -1;
        if (order == 0) row->same++;
        if (order < 0 && pc->kind == PICK_NONZERO)
            reach(row, nonzero_at(&pc->step->inputs[0], &own[i]), 0);
        i += order <= 0;
        k += order >= 0;
    }
    if (pc->kind == PICK_NONZERO) by_scale(row, scale_of(&pc->step->inputs[0]));
}

/* Boxes and scores by scale, thresholds too. Where all of them are the same there is no tie that
 * could explain other rows. */
static void compare_boxes(const PickCase *pc, DemiPick *row) {
    static const Tolerance any_float = {.any_float = true};
    compare_lists(pc, row);
    for (size_t i = 0; i < PICK_FROM && i < pc->step->input_count; i++) {
        const DemiData *own = &pc->step->inputs[i];
        DemiDistance diff;
        if (own->kind == DEMI_DATA_NONE && pc->from[i].kind == DEMI_DATA_NONE) continue;
        value_compare(pc->scratch, own, &pc->from[i], &any_float, &diff);
        double error = diff.mismatch || diff.special ? INFINITY : diff.error;
        if (error > row->margin) row->margin = error;
    }
    if (row->margin == 0) row->margin = INFINITY;
}

void pick_margin(const PickCase *pc, DemiPick *row) {
    switch (pc->kind) {
    case PICK_NOTHING: break;
    case PICK_TOPK:
    case PICK_ARG: compare_slices(pc, row); break;
    case PICK_CAST:
    case PICK_COMPARISON: compare_elements(pc, row); break;
    case PICK_NONZERO: compare_lists(pc, row); break;
    case PICK_BOXES: compare_boxes(pc, row); break;
    }
}
