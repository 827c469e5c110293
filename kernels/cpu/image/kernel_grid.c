// SPDX-License-Identifier: Apache-2.0
/* GridSample and AffineGrid. A sample is a product of one-dimensional filters, so for each grid
 * point the taps of every axis are found once and used for all channels; taps are within the input
 * or have weight 0, whatever the grid holds. The border pads each tap of a cubic filter on its own;
 * the other filters' middle is moved to it. Coordinates are computed in the grid's precision. */
#include <math.h>

#include "kernel_functions.h"
#include "kernel_index.h"

/* ---- one axis -------------------------------------------------------------------------------- */

enum { MOST_TAPS = 4 };

typedef struct AxisTaps {
    int64_t at[MOST_TAPS]; /* within the axis */
    double weight[MOST_TAPS];
} AxisTaps;

/* Back between the borders, as often as it takes. */
static double reflect(double x, double low, double high) {
    double range = high - low;
    if (x >= low && x <= high) return x;
    if (!(range > 0)) return low;
    double beyond = fmod(fabs(x - low), 2 * range);
    double folded = beyond > range ? 2 * range - beyond : beyond;
    return folded == folded ? low + folded : low;
}

/* The normalized coordinate, -1 to 1, in elements. */
static double denormalize(double n, int64_t size, bool align, bool single) {
    if (single) {
        float f = (float)n, length = (float)size;
        return (double)(align ? (f + 1) / 2 * (length - 1) : ((f + 1) * length - 1) / 2);
    }
    double length = (double)size;
    return align ? (n + 1) / 2 * (length - 1) : ((n + 1) * length - 1) / 2;
}

static void place_tap(const GridAttrs *attrs, int64_t at, int64_t size, AxisTaps *taps, int i) {
    double low = attrs->align ? 0 : -0.5, high = low + (double)size - (attrs->align ? 1 : 0);
    if (attrs->padding == GRID_REFLECTION) at = (int64_t)reflect((double)at, low, high);
    bool inside = at >= 0 && at < size;
    if (!inside && attrs->padding == GRID_ZEROS) taps->weight[i] = 0;
    taps->at[i] = at < 0 ? 0 : at >= size ? size - 1 : at;
}

/* Keys' convolution kernel with a = -0.75, at distances 1 + t, t, 1 - t, 2 - t. */
static void cubic_weights(double t, double weight[MOST_TAPS]) {
    const double a = -0.75, d[MOST_TAPS] = {1 + t, t, 1 - t, 2 - t};
    for (int i = 0; i < MOST_TAPS; i++) {
        bool near = i == 1 || i == 2;
        weight[i] = near ? ((a + 2) * d[i] - (a + 3)) * d[i] * d[i] + 1
                         : ((a * d[i] - 5 * a) * d[i] + 8 * a) * d[i] - 4 * a;
    }
}

static int taps_of(const GridAttrs *attrs) {
    return attrs->mode == GRID_NEAREST ? 1 : attrs->mode == GRID_LINEAR ? 2 : MOST_TAPS;
}

static void find_taps(const GridAttrs *attrs, double x, int64_t size, AxisTaps *taps) {
    double low = attrs->align ? 0 : -0.5, high = low + (double)size - (attrs->align ? 1 : 0);
    double far = (double)size + MOST_TAPS;
    if (attrs->mode == GRID_NEAREST) x = rint(x);
    if (x < low || x > high) {
        if (attrs->padding == GRID_BORDER && attrs->mode != GRID_CUBIC)
            x = x < 0 ? 0 : (double)(size - 1);
        if (attrs->padding == GRID_REFLECTION) x = reflect(x, low, high);
    }
    if (!(x > -far)) x = -far; /* NaN too: beyond the border */
    if (x > far) x = far;
    double base = floor(x), t = x - base;
    int64_t first = (int64_t)base - (attrs->mode == GRID_CUBIC ? 1 : 0);
    if (attrs->mode == GRID_NEAREST) {
        taps->weight[0] = 1;
    } else if (attrs->mode == GRID_LINEAR) {
        taps->weight[0] = 1 - t;
        taps->weight[1] = t;
    } else {
        cubic_weights(t, taps->weight);
    }
    for (int i = 0; i < taps_of(attrs); i++) place_tap(attrs, first + i, size, taps, i);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* All taps of one grid point: places in a channel, and weights. */
typedef struct Sampler {
    const GridAttrs *attrs;
    uint32_t spatial;
    uint64_t count, used; /* taps in all, and those of this point */
    const int64_t *dims;
    int64_t *steps, *at;
    double *weight;
    AxisTaps *axes;
} Sampler;

static bool sampler_init(KernelCall *call, Sampler *s) {
    const KernelTensor *in = &call->inputs[0];
    *s = (Sampler){.attrs = call->attrs, .spatial = in->rank - 2, .count = 1, .dims = in->dims + 2};
    for (uint32_t i = 0; i < s->spatial; i++) {
        s->count *= (uint64_t)taps_of(s->attrs);
        if (s->count > UINT64_C(1) << 20)
            return kernel_fail(call, "cannot interpolate %u axes", s->spatial);
    }
    s->steps = index_steps(call, s->spatial, s->dims);
    s->at = ARENA_ARRAY(call->scratch, int64_t, s->count);
    s->weight = ARENA_ARRAY(call->scratch, double, s->count);
    s->axes = ARENA_ARRAY(call->scratch, AxisTaps, s->spatial);
    return true;
}

/* The last coordinate is that of the first axis. */
static void sampler_aim(Sampler *s, const KernelTensor *grid, uint64_t point) {
    bool single = grid->dtype == DTYPE_FLOAT;
    uint64_t taps = (uint64_t)taps_of(s->attrs);
    for (uint32_t i = 0; i < s->spatial; i++) {
        double n = kernel_number(grid, point * s->spatial + (s->spatial - 1 - i));
        double x = denormalize(n, s->dims[i], s->attrs->align != 0, single);
        find_taps(s->attrs, x, s->dims[i], &s->axes[i]);
    }
    s->used = 0;
    for (uint64_t t = 0; t < s->count; t++) {
        uint64_t rest = t;
        int64_t at = 0;
        double weight = 1;
        for (uint32_t i = s->spatial; i-- > 0; rest /= taps) {
            at += s->axes[i].at[rest % taps] * s->steps[i];
            weight *= s->axes[i].weight[rest % taps];
        }
        if (weight == 0) continue; /* so that NaN beyond the border does not count */
        s->at[s->used] = at;
        s->weight[s->used++] = weight;
    }
}

static double sample(const Sampler *s, const KernelTensor *in, uint64_t base) {
    double sum = 0;
    const float *floats = in->dtype == DTYPE_FLOAT ? (const float *)in->data + base : NULL;
    for (uint64_t t = 0; floats && t < s->used; t++) sum += s->weight[t] * (double)floats[s->at[t]];
    for (uint64_t t = 0; !floats && t < s->used; t++)
        sum += s->weight[t] * kernel_real(in, base + (uint64_t)s->at[t]);
    return sum;
}

bool kernel_grid_sample(KernelCall *call) {
    const GridAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *grid = &call->inputs[1];
    KernelTensor *out = &call->outputs[0];
    Sampler s;
    if (attrs->mode < 0 || attrs->padding < 0) return kernel_fail(call, "the mode is unknown");
    if (in->rank < 3 || grid->dims[grid->rank - 1] != in->rank - 2)
        return kernel_fail(call, "grid points of %lld numbers for rank %u",
                           (long long)grid->dims[grid->rank - 1], in->rank);
    if (out->dtype != in->dtype) return kernel_fail(call, "the output has a different type");
    if (out->count == 0) return true;
    if (in->count == 0) return kernel_fail(call, "there is nothing to sample");
    if (!sampler_init(call, &s)) return false;
    uint64_t channels = (uint64_t)in->dims[1], area = kernel_span(in, 2, in->rank);
    uint64_t points = kernel_span(out, 2, out->rank);
    for (uint64_t n = 0; n < (uint64_t)in->dims[0]; n++)
        for (uint64_t p = 0; p < points; p++) {
            sampler_aim(&s, grid, n * points + p);
            for (uint64_t c = n * channels; c < (n + 1) * channels; c++)
                kernel_set_real(out, c * points + p, sample(&s, in, c * area));
        }
    return true;
}

/* ---- AffineGrid ------------------------------------------------------------------------------ */

/* Coordinate i of `size`, -1 to 1: the corners' middles, or their outer edges. */
static double affine_coordinate(int64_t i, int64_t size, bool align) {
    if (align) return size > 1 ? -1 + 2 * (double)i / (double)(size - 1) : -1;
    return (2 * (double)i + 1) / (double)size - 1;
}

/* theta (N, k, k + 1) times (x, y, …, 1); x belongs to the last axis */
bool kernel_affine_grid(KernelCall *call) {
    const GridAttrs *attrs = call->attrs;
    const KernelTensor *theta = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    uint32_t spatial = out->rank - 2;
    if (theta->rank != 3 || theta->dims[0] != out->dims[0] || theta->dims[1] != spatial ||
        theta->dims[2] != spatial + 1 || spatial > 3)
        return kernel_fail(call, "theta is not (N, %u, %u)", spatial, spatial + 1);
    uint64_t points = kernel_span(out, 1, out->rank - 1), rows = spatial;
    int64_t at[3] = {0};
    for (uint64_t i = 0; i < out->count / rows; i++) {
        uint64_t matrix = i / points * rows * (rows + 1);
        for (uint64_t row = 0; row < rows; row++) {
            uint64_t first = matrix + row * (rows + 1);
            double sum = kernel_real(theta, first + rows);
            for (uint32_t k = 0; k < spatial; k++) {
                uint32_t axis = spatial - 1 - k;
                double x = affine_coordinate(at[axis], out->dims[axis + 1], attrs->align != 0);
                sum += kernel_real(theta, first + k) * x;
            }
            kernel_set_real(out, i * rows + row, sum);
        }
        index_advance(spatial, out->dims + 1, at);
    }
    return true;
}
