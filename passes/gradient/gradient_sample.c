// SPDX-License-Identifier: Apache-2.0
/* Samples between a map's elements; see gradient_sample.h. GridSample, AffineGrid, DeformConv. */
#include "fuse_graph.h"
#include "gradient_sample.h"

/* The number of an axis' elements, an int64 of rank 0. */
static Value *sample_size(Grad *g, Value *x, uint32_t axis) {
    const int64_t known = fuse_dim(x, axis);
    if (known >= 0) return grad_int_number(g, known);
    return GRAD(g, "Gather", grad_shape(g, x), grad_int_number(g, axis));
}

Value *sample_length(Grad *g, Value *x, uint32_t axis, const Value *like) {
    const int64_t known = fuse_dim(x, axis);
    if (known >= 0) return grad_number(g, (double)known, like);
    return grad_cast(g, sample_size(g, x, axis), type_dtype(like->type));
}

Value *sample_range(Grad *g, Value *end) {
    return GRAD(g, "Range", grad_int_number(g, 0), end, grad_int_number(g, 1));
}

/* ---- taps ------------------------------------------------------------------------------------ */

/* A leading axis put in. */
static Value *as_tap(Grad *g, Value *value) {
    static const int64_t first = 0;
    return grad_axes(g, "Unsqueeze", value, (GradAxes){&first, 1});
}

static Value *as_taps(Grad *g, Value *const *weights, uint32_t count) {
    Value *taps[4];
    for (uint32_t i = 0; i < count; i++) taps[i] = as_tap(g, weights[i]);
    Value *all = grad_make(g, "Concat", DTYPE_UNDEFINED, taps, count);
    node_set_attr_int(all->producer, "axis", 0);
    return all;
}

/* `first` and the next elements: (taps, samples…). */
static Value *neighbors(Grad *g, Value *first, uint32_t count) {
    Value *taps[4];
    taps[0] = first;
    for (uint32_t i = 1; i < count; i++) taps[i] = GRAD(g, "Add", first, grad_number(g, i, first));
    return as_taps(g, taps, count);
}

/* NaN becomes 0, so that it is no place outside. */
Value *sample_places(Grad *g, Value *at, Value *length) {
    at = GRAD_CALC(g, "Where(p >= 0, p, 0)", at);
    return grad_cast(g, GRAD_CALC(g, "Where(p >= q, q - 1, p)", at, length), DTYPE_INT64);
}

/* What lies outside weighs nothing. */
static Value *weights_inside(Grad *g, Value *weights, Value *at, Value *length) {
    Value *inside = GRAD_CALC(g, "And(p >= 0, p < q)", at, length);
    return GRAD_CALC(g, "Where(p, q, 0)", inside, weights);
}

static Value *linear_weights(Grad *g, Value *at, Value *base) {
    Value *t = GRAD(g, "Sub", at, base);
    return as_taps(g, (Value *[]){GRAD_CALC(g, "1 - p", t), t}, 2);
}

SampleTaps sample_border(Grad *g, Value *at, Value *length) {
    at = GRAD_CALC(g, "Where(p >= 0, p, 0)", at);
    at = GRAD_CALC(g, "Where(p > q - 1, q - 1, p)", at, length);
    Value *base = GRAD(g, "Floor", at);
    return (SampleTaps){sample_places(g, neighbors(g, base, 2), length),
                        linear_weights(g, at, base)};
}

/* As sample_border, where elements outside of the axis are 0. */
static SampleTaps sample_zeros(Grad *g, Value *at, Value *length) {
    Value *base = GRAD(g, "Floor", at), *taps = neighbors(g, base, 2);
    return (SampleTaps){sample_places(g, taps, length),
                        weights_inside(g, linear_weights(g, at, base), taps, length)};
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The taps of axis i of `axes`, with those of the others of size 1: (1, …, taps, …, 1, samples…). */
static Value *beside(Grad *g, Value *taps, uint32_t i, uint32_t axes) {
    int64_t *others = ARENA_ARRAY(g->make.ctx->scratch, int64_t, axes + 1);
    uint32_t count = 0;
    for (uint32_t k = 0; k < axes; k++)
        if (k != i) others[count++] = k;
    return grad_axes(g, "Unsqueeze", taps, (GradAxes){others, count});
}

/* (N * groups * elements, channels of a group). */
static Value *rows_of(Grad *g, const SampledMaps *maps) {
    static const int64_t turn[] = {0, 1, 3, 2};
    const int64_t known = fuse_dim(maps->x, 1);
    Value *channels = known >= 0
                          ? grad_int_list(g, known / maps->groups)
                          : GRAD(g, "Div", grad_dim(g, maps->x, 1), grad_int_list(g, maps->groups));
    const int64_t outer[] = {0, maps->groups};
    Value *dims = GRAD_LIST(g, grad_ints(g, outer, 2), channels, grad_int_list(g, -1));
    Value *rows = grad_transpose(g, GRAD(g, "Reshape", maps->x, dims), turn, 4);
    return GRAD(g, "Reshape", rows, GRAD_LIST(g, grad_int_list(g, -1), channels));
}

Value *sample_read(Grad *g, const SampledMaps *maps, const SampleTaps *taps, Value *batch) {
    static const int64_t last = -1;
    Value *row = batch, *weights = NULL;
    for (uint32_t i = 0; i < maps->axes; i++) {
        row = GRAD(g, "Mul", row, sample_size(g, maps->x, i + 2));
        row = GRAD(g, "Add", row, beside(g, taps[i].places, i, maps->axes));
        if (!taps[i].weights) continue;
        Value *own = beside(g, taps[i].weights, i, maps->axes);
        weights = weights ? GRAD(g, "Mul", weights, own) : own;
    }
    Value *read = GRAD(g, "Gather", rows_of(g, maps), row);
    if (!weights) return read;
    weights = grad_axes(g, "Unsqueeze", weights, (GradAxes){&last, 1});
    return GRAD(g, "Mul", read, grad_cast(g, weights, type_dtype(maps->x->type)));
}

Value *sample_sums(Grad *g, const SampledMaps *maps, const SampleTaps *taps, Value *batch) {
    int64_t *axes = ARENA_ARRAY(g->make.ctx->scratch, int64_t, maps->axes + 1);
    for (uint32_t i = 0; i < maps->axes; i++) axes[i] = i;
    return grad_reduce_away(g, "ReduceSum", sample_read(g, maps, taps, batch),
                            (GradAxes){axes, maps->axes});
}

/* ---- GridSample ------------------------------------------------------------------------------ */

typedef enum GridMode { GRID_IS_NEAREST, GRID_IS_LINEAR, GRID_IS_CUBIC } GridMode;

typedef struct GridAxis {
    Grad *g;
    GridMode mode;
    Value *length;
} GridAxis;

/* Back between the borders, as often as it takes. Of one element between its corners there is
 * nothing between: whatever comes of it, its place is moved to the element. */
static Value *reflected(const GridAxis *axis, Value *at) {
    Grad *g = axis->g;
    const char *unit = grad_int(g, "align_corners") ? "Where(p > 1, p - 1, 1)" : "p";
    const char *low = grad_int(g, "align_corners") ? "Abs(p)" : "Abs(p + 0.5)";
    Value *range = GRAD_CALC(g, unit, axis->length);
    Value *beyond = GRAD_CALC(g, low, at);
    beyond = GRAD_CALC(g, "p - 2 * q * Floor(p / (2 * q))", beyond, range);
    Value *folded = GRAD_CALC(g, "Where(p > q, 2 * q - p, p)", beyond, range);
    return grad_int(g, "align_corners") ? folded : GRAD_CALC(g, "p - 0.5", folded);
}

/* Keys' convolution kernel with a = -0.75, at distances 1 + t, t, 1 - t, 2 - t. */
static Value *cubic_weights(Grad *g, Value *t) {
    static const char *const near = "(1.25 * p - 2.25) * p * p + 1";
    static const char *const far = "((3.75 - 0.75 * p) * p - 6) * p + 3";
    Value *const weights[] = {GRAD_CALC(g, far, GRAD_CALC(g, "1 + p", t)), GRAD_CALC(g, near, t),
                              GRAD_CALC(g, near, GRAD_CALC(g, "1 - p", t)),
                              GRAD_CALC(g, far, GRAD_CALC(g, "2 - p", t))};
    return as_taps(g, weights, 4);
}

/* The border pads each tap of a cubic filter on its own, so its middle is only reflected. */
static SampleTaps grid_taps(const GridAxis *axis, Value *at) {
    Grad *g = axis->g;
    const bool zeros = grad_is(g, "padding_mode", "zeros");
    const bool reflects = grad_is(g, "padding_mode", "reflection");
    if (axis->mode == GRID_IS_NEAREST) at = GRAD(g, "Round", at);
    if (reflects) at = reflected(axis, at);
    if (axis->mode == GRID_IS_LINEAR)
        return zeros ? sample_zeros(g, at, axis->length) : sample_border(g, at, axis->length);
    Value *taps, *weights;
    if (axis->mode == GRID_IS_NEAREST) {
        taps = as_tap(g, at);
        weights = zeros ? grad_fill(g, 1, taps) : NULL;
    } else {
        Value *base = GRAD(g, "Floor", at);
        taps = neighbors(g, GRAD_CALC(g, "p - 1", base), 4);
        weights = cubic_weights(g, GRAD(g, "Sub", at, base));
        if (reflects) taps = reflected(axis, taps);
    }
    if (zeros) weights = weights_inside(g, weights, taps, axis->length);
    return (SampleTaps){sample_places(g, taps, axis->length), weights};
}

/* `linear` is `bilinear` before opset 20, `cubic` is `bicubic`. */
static GridMode grid_mode(const Grad *g) {
    if (grad_is(g, "mode", "nearest")) return GRID_IS_NEAREST;
    return grad_is(g, "mode", "cubic") || grad_is(g, "mode", "bicubic") ? GRID_IS_CUBIC
                                                                        : GRID_IS_LINEAR;
}

/* The grid's last axis has a coordinate for each axis of the map, the last one first, from -1 to 1. */
static SampleTaps grid_axis(Grad *g, uint32_t i, uint32_t axes) {
    static const int64_t flat[] = {0, -1};
    Value *x = grad_in(g, 0), *grid = grad_in(g, 1);
    const char *scaled =
        grad_int(g, "align_corners") ? "(p + 1) / 2 * (q - 1)" : "((p + 1) * q - 1) / 2";
    Value *at = GRAD(g, "Gather", grid, grad_int_number(g, axes - 1 - i));
    node_set_attr_int(at->producer, "axis", -1);
    at = GRAD(g, "Reshape", at, grad_ints(g, flat, 2));
    const GridAxis axis = {g, grid_mode(g), sample_length(g, x, i + 2, grid)};
    return grid_taps(&axis, GRAD_CALC(g, scaled, at, axis.length));
}

/* Samples of all places of a grid are (N, places). */
void gradient_grid_sample(Grad *g, Value **outputs, uint32_t count) {
    static const int64_t second = 1, turn[] = {0, 2, 1};
    (void)count;
    Value *x = grad_in(g, 0), *grid = grad_in(g, 1);
    const uint32_t rank = grad_rank(g, x);
    if (rank < 3) grad_refuse(g, "of no spatial axis");
    if (g->failed) return;
    const SampledMaps maps = {x, 1, rank - 2};
    SampleTaps *taps = ARENA_ARRAY(g->make.ctx->scratch, SampleTaps, rank);
    for (uint32_t i = 0; i < maps.axes; i++) taps[i] = grid_axis(g, i, maps.axes);
    Value *batch = sample_range(g, sample_size(g, x, 0));
    batch = grad_axes(g, "Unsqueeze", batch, (GradAxes){&second, 1});
    Value *sums = grad_transpose(g, sample_sums(g, &maps, taps, batch), turn, 3);
    Value *sizes =
        GRAD(g, "Slice", grad_shape(g, grid), grad_int_list(g, 1), grad_int_list(g, maps.axes + 1));
    Value *dims = GRAD_LIST(g, grad_dim(g, x, 0), grad_dim(g, x, 1), sizes);
    outputs[0] = GRAD(g, "Reshape", sums, dims);
}

/* ---- AffineGrid ------------------------------------------------------------------------------ */

/* theta's gradient is what flows, times the coordinates that it is multiplied with; the unit matrix
 * makes those of one sample. */
void gradient_affine_grid(Grad *g) {
    static const int64_t last[] = {1}, turn[] = {0, 2, 1};
    Value *theta = grad_in(g, 0), *size = grad_in(g, 1);
    const int64_t axes = grad_size(g, theta, 1);
    if (axes != 2 && axes != 3) grad_refuse(g, "of %lld axes", (long long)axes);
    if (g->failed) return;
    const int64_t square[] = {axes, axes + 1}, one[] = {1, axes, axes + 1}, flat[] = {0, -1, axes};
    Value *unit = GRAD(g, "Expand", grad_number(g, 0, theta), grad_ints(g, square, 2));
    unit = GRAD(g, "Reshape", GRAD(g, "EyeLike", unit), grad_ints(g, one, 3));
    Value *dims = GRAD(g, "Slice", size, grad_int_list(g, 1), grad_int_list(g, axes + 2));
    Value *grid = GRAD(g, "AffineGrid", unit, GRAD_LIST(g, grad_int_list(g, 1), dims));
    grad_keep_attrs(g, grid->producer);
    grid = GRAD(g, "Reshape", grid, grad_ints(g, flat, 3));
    Value *flow = GRAD(g, "Reshape", grad_flow(g, 0), grad_ints(g, flat, 3));
    Value *linear = GRAD(g, "MatMul", grad_transpose(g, flow, turn, 3), grid);
    Value *shift = grad_reduce(g, "ReduceSum", flow, (GradAxes){last, 1});
    Value *all = GRAD(g, "Concat", linear, grad_transpose(g, shift, turn, 3));
    node_set_attr_int(all->producer, "axis", 2);
    grad_give(g, 0, all);
}

/* ---- DeformConv ------------------------------------------------------------------------------ */

/* Samples are (N, places of the output, groups of offsets, places of the kernel). */
typedef struct Deformed {
    Grad *g;
    Value *x, *weights, *offset;
    uint32_t axes;
    int64_t offset_groups, kernel; /* kernel: its places in all */
    int64_t *sizes;                /* of the kernel, [axes] */
} Deformed;

static int64_t nth_or(const Grad *g, const char *name, uint32_t i, int64_t otherwise) {
    uint32_t count;
    const int64_t *items = grad_list(g, name, &count);
    return items && i < count ? items[i] : otherwise;
}

/* (N, groups * kernel * each, sizes…) as (N, places, groups, kernel[, each]). */
static Value *by_place(const Deformed *d, Value *value, uint32_t each) {
    static const int64_t flat[] = {0, 0, -1}, turn[] = {0, 2, 1};
    Grad *g = d->g;
    const int64_t apart[] = {0, 0, d->offset_groups, d->kernel, each};
    value = GRAD(g, "Reshape", value, grad_ints(g, flat, 3));
    value = grad_transpose(g, value, turn, 3);
    return GRAD(g, "Reshape", value, grad_ints(g, apart, each > 1 ? 5 : 4));
}

/* Where the kernel would read along an axis, by places of the output and of the kernel: (places, 1,
 * kernel). */
static Value *undeformed(const Deformed *d, uint32_t axis) {
    Grad *g = d->g;
    static const int64_t later[] = {1, 2};
    const Dtype dtype = type_dtype(d->offset->type);
    int64_t *reach = ARENA_ARRAY(g->make.ctx->scratch, int64_t, (size_t)d->kernel + 1);
    int64_t behind = 1;
    for (uint32_t i = axis + 1; i < d->axes; i++) behind *= d->sizes[i];
    for (int64_t k = 0; k < d->kernel; k++)
        reach[k] = k / behind % d->sizes[axis] * nth_or(g, "dilations", axis, 1) -
                   nth_or(g, "pads", axis, 0);
    Value *all = grad_int_number(g, 1), *after = all;
    for (uint32_t i = d->axes; i-- > 0;) {
        if (i == axis) after = all;
        all = GRAD(g, "Mul", all, sample_size(g, d->offset, i + 2));
    }
    Value *place = GRAD(g, "Div", sample_range(g, all), after);
    place = GRAD(g, "Mod", place, sample_size(g, d->offset, axis + 2));
    place = GRAD(g, "Mul", place, grad_int_number(g, nth_or(g, "strides", axis, 1)));
    place = grad_axes(g, "Unsqueeze", place, (GradAxes){later, 2});
    place = GRAD(g, "Add", place, grad_ints(g, reach, (uint32_t)d->kernel));
    return grad_cast(g, place, dtype);
}

/* (N, 1, groups, 1): the number of each map. */
static Value *deformed_batch(const Deformed *d) {
    static const int64_t later[] = {1, 2, 3}, around[] = {0, 2};
    Grad *g = d->g;
    Value *n = sample_range(g, sample_size(g, d->x, 0));
    n = grad_axes(g, "Unsqueeze", n, (GradAxes){later, 3});
    Value *group = sample_range(g, grad_int_number(g, d->offset_groups));
    group = grad_axes(g, "Unsqueeze", group, (GradAxes){around, 2});
    return GRAD(g, "Add", GRAD(g, "Mul", n, grad_int_number(g, d->offset_groups)), group);
}

static Value *deformed_samples(const Deformed *d) {
    Grad *g = d->g;
    const SampledMaps maps = {d->x, d->offset_groups, d->axes};
    SampleTaps *taps = ARENA_ARRAY(g->make.ctx->scratch, SampleTaps, d->axes + 1);
    Value *offsets = by_place(d, d->offset, d->axes);
    for (uint32_t i = 0; i < d->axes; i++) {
        Value *off = offsets;
        if (d->axes > 1) {
            off = GRAD(g, "Gather", offsets, grad_int_number(g, i));
            node_set_attr_int(off->producer, "axis", 4);
        }
        Value *at = GRAD(g, "Add", undeformed(d, i), off);
        taps[i] = sample_zeros(g, at, sample_length(g, d->x, i + 2, d->offset));
    }
    return sample_sums(g, &maps, taps, deformed_batch(d));
}

/* (N, channels, sizes…) of what is sampled, times the weights of each group. */
static Value *deformed_products(const Deformed *d, Value *samples) {
    static const int64_t channels_before[] = {0, 1, 2, 4, 3}, groups_first[] = {0, 2, 1, 3};
    static const int64_t channels_first[] = {0, 1, 3, 2};
    Grad *g = d->g;
    const int64_t groups = grad_int(g, "group"), out = grad_size(g, d->weights, 0);
    const int64_t inner = grad_size(g, d->weights, 1) * d->kernel;
    if (groups < 1 || out % groups) grad_refuse(g, "of these groups");
    if (g->failed) return samples;
    const int64_t columns[] = {0, 0, groups, inner}, rows[] = {groups, out / groups, inner};
    samples = grad_transpose(g, samples, channels_before, 5);
    samples = GRAD(g, "Reshape", samples, grad_ints(g, columns, 4));
    samples = grad_transpose(g, samples, groups_first, 4);
    Value *weights = GRAD(g, "Reshape", d->weights, grad_ints(g, rows, 3));
    Value *sums = GRAD(g, "MatMul", samples, grad_turn(g, weights, 3));
    sums = grad_transpose(g, sums, channels_first, 4);
    Value *sizes = GRAD(g, "Slice", grad_shape(g, d->offset), grad_int_list(g, 2),
                        grad_int_list(g, d->axes + 2));
    Value *dims = GRAD_LIST(g, grad_int_list(g, 0), grad_int_list(g, out), sizes);
    return GRAD(g, "Reshape", sums, dims);
}

static bool read_deformed(Grad *g, Deformed *d) {
    enum { PLACES_MOST = 1 << 16 };
    *d = (Deformed){.g = g,
                    .x = grad_in(g, 0),
                    .weights = grad_in(g, 1),
                    .offset = grad_in(g, 2),
                    .axes = grad_rank(g, grad_in(g, 0)),
                    .offset_groups = grad_int(g, "offset_group"),
                    .kernel = 1};
    if (d->axes < 3) grad_refuse(g, "of no spatial axis");
    d->axes = d->axes < 3 ? 1 : d->axes - 2;
    d->sizes = ARENA_ARRAY(g->make.ctx->scratch, int64_t, d->axes + 1);
    for (uint32_t i = 0; i < d->axes && !g->failed; i++) {
        d->sizes[i] = grad_size(g, d->weights, i + 2);
        if (d->sizes[i] < 1 || d->sizes[i] > PLACES_MOST / d->kernel)
            grad_refuse(g, "of these sizes");
        d->kernel *= d->sizes[i];
    }
    if (d->offset_groups < 1) grad_refuse(g, "of these groups");
    return !g->failed;
}

void gradient_deform_conv(Grad *g, Value **outputs, uint32_t count) {
    static const int64_t last = -1;
    Deformed d;
    (void)count;
    if (!read_deformed(g, &d)) return;
    Value *samples = deformed_samples(&d), *mask = grad_in(g, 4);
    if (mask) {
        mask = grad_axes(g, "Unsqueeze", by_place(&d, mask, 1), (GradAxes){&last, 1});
        samples = GRAD(g, "Mul", samples, mask);
    }
    outputs[0] = deformed_products(&d, samples);
    if (!grad_in(g, 3)) return;
    int64_t *dims = ARENA_ARRAY(g->make.ctx->scratch, int64_t, d.axes + 2);
    for (uint32_t i = 0; i <= d.axes; i++) dims[i] = i ? 1 : -1;
    Value *bias = GRAD(g, "Reshape", grad_in(g, 3), grad_ints(g, dims, d.axes + 1));
    outputs[0] = GRAD(g, "Add", outputs[0], bias);
}
