// SPDX-License-Identifier: Apache-2.0
/* The tables of Resize: coordinates and filters, as the operator's definition gives them. The cubic
 * filter is Keys' convolution kernel (1981); with antialias the filters are stretched by the
 * inverse of a scale below 1. */
#include "kernel_resize.h"

#include <math.h>

/* Where output x lies on the input's axis. */
static double coordinate(const ResizeHow *how, const ResizeAxis *axis, double x) {
    double in = (double)axis->in, half = (x + 0.5) / axis->scale - 0.5;
    switch ((ResizeCoordinates)how->coordinates) {
    case RESIZE_HALF_PIXEL: return half;
    case RESIZE_HALF_PIXEL_SYMMETRIC:
        return in / 2 * (1 - (double)axis->out / axis->length) + (x + 0.5) / axis->scale - 0.5;
    case RESIZE_PYTORCH_HALF_PIXEL: return axis->length > 1 ? half : 0;
    case RESIZE_ALIGN_CORNERS: return axis->length == 1 ? 0 : x * (in - 1) / (axis->length - 1);
    case RESIZE_ASYMMETRIC: return x / axis->scale;
    case RESIZE_TF_HALF_PIXEL_FOR_NN: return (x + 0.5) / axis->scale;
    case RESIZE_TF_CROP: break;
    }
    double first = axis->start * (in - 1), span = (axis->end - axis->start) * (in - 1);
    return axis->length == 1 ? first + span / 2 : first + x * span / (axis->length - 1);
}

static double nearest(ResizeNearest how, double x) {
    switch (how) {
    case RESIZE_ROUND_PREFER_FLOOR: return ceil(x - 0.5);
    case RESIZE_ROUND_PREFER_CEIL: return floor(x + 0.5);
    case RESIZE_FLOOR: return floor(x);
    case RESIZE_CEIL: return ceil(x);
    }
    return x;
}

/* The filter at a distance from its middle. */
static double filter(const ResizeHow *how, double distance) {
    double d = fabs(distance), a = how->cubic;
    if (how->mode == RESIZE_LINEAR) return d < 1 ? 1 - d : 0;
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* The filter's taps around x: `reach` to either side, stretched by 1 / shrink. What falls beyond
 * the ends counts for the elements there, or not at all. */
static void fill_row(const ResizeHow *how, const ResizeAxis *axis, double x, ResizeTable *table,
                     int64_t row) {
    double shrink = how->antialias && axis->scale < 1 ? axis->scale : 1, total = 0;
    int64_t radius = (int64_t)ceil((how->mode == RESIZE_CUBIC ? 2 : 1) / shrink);
    int64_t base = (int64_t)floor(x) - radius + 1, taps = table->taps;
    int64_t first = clamp(base, 0, axis->in - taps);
    double *weights = &table->weights[row * taps];
    table->first[row] = first;
    for (int64_t i = base; i < base + 2 * radius; i++) {
        bool inside = i >= 0 && i < axis->in;
        double weight = filter(how, ((double)i - x) * shrink);
        if (!inside && how->exclude_outside) continue;
        weights[clamp(i, 0, axis->in - 1) - first] += weight;
        total += weight;
    }
    bool divide = how->exclude_outside || how->antialias;
    if (divide && total == 0) weights[clamp((int64_t)floor(x), 0, axis->in - 1) - first] = 1;
    for (int64_t i = 0; divide && total != 0 && i < taps; i++) weights[i] /= total;
}

bool resize_table(KernelCall *call, const ResizeHow *how, const ResizeAxis *axis,
                  ResizeTable *table) {
    bool exact =
        how->coordinates != RESIZE_TF_CROP && how->coordinates != RESIZE_TF_HALF_PIXEL_FOR_NN;
    double shrink = how->antialias && axis->scale < 1 ? axis->scale : 1;
    double radius = ceil((how->mode == RESIZE_CUBIC ? 2 : 1) / shrink);
    double most = 4.0 * (double)axis->in + 8;
    *table =
        (ResizeTable){.taps = 1, .identity = exact && axis->scale == 1 && axis->in == axis->out};
    if (table->identity) return true;
    if (how->mode != RESIZE_NEAREST && !(radius <= most))
        return kernel_fail(call, "axis %u: a scale of %g is too small for %lld elements",
                           axis->axis, axis->scale, (long long)axis->in);
    if (how->mode != RESIZE_NEAREST) table->taps = clamp(2 * (int64_t)radius, 1, axis->in);
    size_t out = (size_t)axis->out;
    table->first = ARENA_ARRAY(call->scratch, int64_t, out);
    table->outside = ARENA_ARRAY(call->scratch, bool, out);
    table->weights = arena_array(call->scratch, out, (size_t)table->taps * sizeof(double));
    for (int64_t i = 0; i < axis->out; i++) {
        double x = coordinate(how, axis, (double)i), last = (double)(axis->in - 1);
        table->outside[i] = how->coordinates == RESIZE_TF_CROP && !(x >= 0 && x <= last);
        if (!(x > -most)) x = -most; /* so far out that only the end counts; NaN too */
        if (x > last + most) x = last + most;
        if (how->mode == RESIZE_NEAREST) {
            double at = nearest((ResizeNearest)how->nearest, x);
            table->first[i] = clamp((int64_t)at, 0, axis->in - 1);
            table->weights[i] = 1;
        } else {
            fill_row(how, axis, x, table, i);
        }
    }
    return true;
}
