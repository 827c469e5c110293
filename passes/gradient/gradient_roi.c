// SPDX-License-Identifier: Apache-2.0
/* Regions of interest, made again of operators that have gradients: samples are (regions, bins and
 * samples in each along the rows, the same along the columns). Where regions differ in how many
 * samples their bins have, all have as many as the largest, and what is beyond does not count. */
#include <math.h>

#include "gradient_sample.h"

/* One axis of the map: of rows, or of columns. */
typedef struct RoiAxis {
    Value *at;     /* (regions, bins, samples): coordinates */
    Value *counts; /* of them, which samples count; NULL: all */
    Value *number; /* (regions, 1, 1): how many count; NULL: always as many */
    Value *length; /* elements, as a float */
    int64_t bins;
} RoiAxis;

enum { ROI_MOST = 1 << 16 }; /* bins, or samples in one */

/* Of (regions, columns): one column, as (regions, 1, 1). */
static Value *column(Grad *g, Value *rois, int64_t i) {
    static const int64_t later[] = {1, 2};
    Value *all = GRAD(g, "Gather", rois, grad_int_number(g, i));
    node_set_attr_int(all->producer, "axis", 1);
    return grad_axes(g, "Unsqueeze", all, (GradAxes){later, 2});
}

/* 0, 1, … below the largest number, or below 0 where there is none, as floats. */
static Value *up_to_most(Grad *g, Value *numbers) {
    Value *all = GRAD(g, "Reshape", numbers, grad_int_list(g, -1));
    Value *none = GRAD(g, "Reshape", grad_number(g, 0, all), grad_int_list(g, 1));
    all = GRAD(g, "Concat", all, none);
    node_set_attr_int(all->producer, "axis", 0);
    Value *most = GRAD(g, "ReduceMax", all);
    node_set_attr_int(most->producer, "keepdims", 0);
    Value *range = sample_range(g, grad_cast(g, most, DTYPE_INT64));
    return grad_cast(g, range, type_dtype(numbers->type));
}

/* 0, 1, … below bins, as floats along axis 1 of (regions, bins, samples). */
static Value *numbered_bins(Grad *g, int64_t bins, const Value *like) {
    static const int64_t last[] = {1};
    Value *range = grad_cast(g, sample_range(g, grad_int_number(g, bins)), type_dtype(like->type));
    return grad_axes(g, "Unsqueeze", range, (GradAxes){last, 1});
}

/* (regions, bins, samples) of rows, or of columns, with the axes of the other put in. */
static Value *across(Grad *g, Value *value, bool rows, int64_t first) {
    const int64_t behind[] = {first + 3, first + 4}, before[] = {first + 1, first + 2};
    return grad_axes(g, "Unsqueeze", value, (GradAxes){rows ? behind : before, 2});
}

static Value *both_count(Grad *g, const RoiAxis axes[2]) {
    if (!axes[0].counts) return NULL;
    return GRAD(g, "And", across(g, axes[0].counts, true, 0), across(g, axes[1].counts, false, 0));
}

/* (regions, 1, 1, 1, 1): the number of each region's map. */
static Value *roi_batch(Grad *g, Value *numbers) {
    static const int64_t later[] = {1, 2, 3, 4};
    return grad_axes(g, "Unsqueeze", grad_cast(g, numbers, DTYPE_INT64), (GradAxes){later, 4});
}

/* (regions, bins, bins, channels) with the channels second. */
static Value *roi_result(Grad *g, Value *value) {
    static const int64_t turn[] = {0, 3, 1, 2};
    return grad_transpose(g, value, turn, 4);
}

/* The largest of what counts: over axes of (…, regions, bins, samples, bins, samples, channels);
 * where nothing does, 0. */
static Value *roi_most(Grad *g, Value *values, Value *counts, GradAxes axes) {
    static const int64_t last = -1, samples[] = {2, 4};
    if (!counts) return grad_reduce_away(g, "ReduceMax", values, axes);
    counts = grad_axes(g, "Unsqueeze", counts, (GradAxes){&last, 1});
    Value *lowest = grad_number(g, -(double)INFINITY, values);
    Value *some = GRAD_AS(g, "Where", type_dtype(values->type), counts, values, lowest);
    Value *most = grad_reduce_away(g, "ReduceMax", some, axes);
    Value *any =
        grad_reduce_away(g, "ReduceMax", grad_cast(g, counts, DTYPE_INT32), (GradAxes){samples, 2});
    return GRAD_CALC(g, "Where(p, q, 0)", grad_cast(g, any, DTYPE_BOOL), most);
}

/* ---- RoiAlign -------------------------------------------------------------------------------- */

/* Samples of [start, start + length) along an axis: sampling_ratio a bin, or as many as the bin has
 * elements. */
static RoiAxis aligned_axis(Grad *g, uint32_t axis, int64_t bins) {
    static const int64_t around[] = {0, 1};
    Value *x = grad_in(g, 0), *rois = grad_in(g, 1);
    const bool moved = grad_is(g, "coordinate_transformation_mode", "half_pixel");
    const int64_t ratio = grad_int(g, "sampling_ratio");
    RoiAxis made = {.length = sample_length(g, x, axis, rois), .bins = bins};
    const char *scaled = moved ? "p * $spatial_scale - 0.5" : "p * $spatial_scale";
    Value *start = GRAD_CALC(g, scaled, column(g, rois, axis == 2 ? 1 : 0));
    Value *length = GRAD(g, "Sub", GRAD_CALC(g, scaled, column(g, rois, axis == 2 ? 3 : 2)), start);
    if (!moved) length = GRAD_CALC(g, "Where(p > 1, p, 1)", length);
    Value *bin = GRAD(g, "Div", length, grad_number(g, (double)bins, length)), *i, *step;
    if (ratio > 0) {
        i = grad_cast(g, sample_range(g, grad_int_number(g, ratio)), type_dtype(rois->type));
        step = GRAD(g, "Div", bin, grad_number(g, (double)ratio, bin));
    } else {
        made.number = GRAD_CALC(g, "Where(p > 0, p, 0)", GRAD(g, "Ceil", bin));
        i = up_to_most(g, made.number);
        step = GRAD_CALC(g, "p / Where(q > 1, q, 1)", bin, made.number);
    }
    i = grad_axes(g, "Unsqueeze", i, (GradAxes){around, 2});
    if (made.number) made.counts = GRAD_AS(g, "Less", DTYPE_BOOL, i, made.number);
    start = GRAD_CALC(g, "p + q * r", start, numbered_bins(g, bins, bin), bin);
    made.at = GRAD_CALC(g, "p + (q + 0.5) * r", start, i, step);
    return made;
}

/* Samples further than one element outside of the map are 0. */
static SampleTaps aligned_taps(Grad *g, const RoiAxis *axis, bool rows, bool sums) {
    SampleTaps taps = sample_border(g, axis->at, axis->length);
    Value *inside = GRAD_CALC(g, "And(p >= -1, p <= q)", axis->at, axis->length);
    if (sums && axis->counts) inside = GRAD(g, "And", inside, axis->counts);
    taps.weights = GRAD_CALC(g, "Where(p, q, 0)", inside, taps.weights);
    taps.weights = across(g, taps.weights, rows, 1);
    taps.places = across(g, taps.places, rows, 1);
    return taps;
}

/* (regions, 1, 1, 1): how many samples a mean is of. */
static Value *aligned_number(Grad *g, const RoiAxis axes[2]) {
    if (!axes[0].number) {
        const double ratio = (double)grad_int(g, "sampling_ratio");
        return grad_number(g, ratio * ratio, grad_in(g, 1));
    }
    static const int64_t last = -1;
    Value *number = GRAD(g, "Mul", axes[0].number, axes[1].number);
    number = GRAD_CALC(g, "Where(p > 1, p, 1)", number);
    return grad_axes(g, "Unsqueeze", number, (GradAxes){&last, 1});
}

void gradient_roi_align(Grad *g, Value **outputs, uint32_t count) {
    static const int64_t tapped[] = {0, 1, 4, 6}, samples[] = {2, 4};
    (void)count;
    const int64_t bins[] = {grad_int(g, "output_height"), grad_int(g, "output_width")};
    const bool most = grad_is(g, "mode", "max");
    if (bins[0] < 1 || bins[1] < 1 || bins[0] > ROI_MOST || bins[1] > ROI_MOST)
        grad_refuse(g, "of these bins");
    if (grad_int(g, "sampling_ratio") > ROI_MOST) grad_refuse(g, "of so many samples");
    if (g->failed) return;
    const SampledMaps maps = {grad_in(g, 0), 1, 2};
    const RoiAxis axes[] = {aligned_axis(g, 2, bins[0]), aligned_axis(g, 3, bins[1])};
    const SampleTaps taps[] = {aligned_taps(g, &axes[0], true, !most),
                               aligned_taps(g, &axes[1], false, !most)};
    Value *batch = roi_batch(g, grad_in(g, 2)), *pooled;
    if (most) { /* of the weighted taps, not of their sums: so it is defined */
        pooled = roi_most(g, sample_read(g, &maps, taps, batch), both_count(g, axes),
                          (GradAxes){tapped, 4});
    } else {
        pooled = grad_reduce_away(g, "ReduceSum", sample_sums(g, &maps, taps, batch),
                                  (GradAxes){samples, 2});
        pooled = GRAD(g, "Div", pooled, aligned_number(g, axes));
    }
    outputs[0] = roi_result(g, pooled);
}

/* ---- MaxRoiPool ------------------------------------------------------------------------------ */

/* All elements of bins whose ends are rounded to elements. */
static RoiAxis pooled_axis(Grad *g, uint32_t axis, int64_t bins) {
    static const int64_t around[] = {0, 1};
    static const char *const rounded =
        "Sign(p) * Floor(Abs(p * $spatial_scale) + 0.5)"; /* halves away from 0 */
    Value *x = grad_in(g, 0), *rois = grad_in(g, 1);
    RoiAxis made = {.length = sample_length(g, x, axis, rois), .bins = bins};
    Value *start = GRAD_CALC(g, rounded, column(g, rois, axis == 2 ? 2 : 1));
    Value *end = GRAD_CALC(g, rounded, column(g, rois, axis == 2 ? 4 : 3));
    Value *length = GRAD_CALC(g, "Where(p < q, q - p + 1, 1)", start, end);
    Value *bin = numbered_bins(g, bins, start), *all = grad_number(g, (double)bins, start);
    Value *low = GRAD_CALC(g, "Floor(p * q / r)", bin, length, all);
    Value *high = GRAD_CALC(g, "Ceil((p + 1) * q / r)", bin, length, all);
    static const char *const within = "Where(p + q > 0, Where(p + q > r, r, p + q), 0)";
    low = GRAD_CALC(g, within, low, start, made.length);
    high = GRAD_CALC(g, within, high, start, made.length);
    Value *i = up_to_most(g, GRAD(g, "Sub", high, low));
    i = grad_axes(g, "Unsqueeze", i, (GradAxes){around, 2});
    made.at = GRAD(g, "Add", low, i);
    made.counts = GRAD_AS(g, "Less", DTYPE_BOOL, made.at, high);
    return made;
}

static SampleTaps pooled_taps(Grad *g, const RoiAxis *axis, bool rows) {
    static const int64_t first = 0;
    Value *places = sample_places(g, axis->at, axis->length);
    places = grad_axes(g, "Unsqueeze", places, (GradAxes){&first, 1});
    return (SampleTaps){across(g, places, rows, 1), NULL};
}

void gradient_max_roi_pool(Grad *g, Value **outputs, uint32_t count) {
    static const int64_t read[] = {0, 1, 4, 6};
    (void)count;
    uint32_t given;
    const int64_t *bins = grad_list(g, "pooled_shape", &given);
    if (!bins || given != 2 || bins[0] < 1 || bins[1] < 1 || bins[0] > ROI_MOST ||
        bins[1] > ROI_MOST)
        grad_refuse(g, "of these bins");
    if (g->failed) return;
    const SampledMaps maps = {grad_in(g, 0), 1, 2};
    const RoiAxis axes[] = {pooled_axis(g, 2, bins[0]), pooled_axis(g, 3, bins[1])};
    const SampleTaps taps[] = {pooled_taps(g, &axes[0], true), pooled_taps(g, &axes[1], false)};
    Value *number = GRAD(g, "Gather", grad_in(g, 1), grad_int_number(g, 0));
    node_set_attr_int(number->producer, "axis", 1);
    Value *values = sample_read(g, &maps, taps, roi_batch(g, number));
    outputs[0] = roi_result(g, roi_most(g, values, both_count(g, axes), (GradAxes){read, 4}));
}
