// SPDX-License-Identifier: Apache-2.0
/* Resize and Upsample, all versions: one pass an axis (resize_axes.h says which become how large). Axes that
 * shrink go first, so that no intermediate result is larger than both input and output. Nearest
 * moves elements of any dtype; the other modes compute float in float and all other numbers in
 * double, integers being rounded to nearest, ties to even, and cut to their range at the end.
 *
 * With tf_crop_and_resize and scales, the output's size is the input's times the scale, as
 * implementations have it. */
#include "kernel_resize.h"

#include <math.h>
#include <string.h>

#include "kernel_functions.h"
#include "kernel_strided.h"

/* ---- passes ---------------------------------------------------------------------------------- */

/* A tensor as outer × along × inner elements. */
typedef struct Pass {
    uint64_t outer, inner, in, out;
    const ResizeTable *table;
} Pass;

#define INTERPOLATE(Real)                                                                          \
    static void mix_##Real(Real *to, const Real *from, const double *weights, const Pass *pass) {  \
        uint64_t taps = (uint64_t)pass->table->taps, inner = pass->inner;                          \
        if (inner == 1) {                                                                          \
            double sum = 0;                                                                        \
            for (uint64_t t = 0; t < taps; t++) sum += weights[t] * (double)from[t];               \
            *to = (Real)sum;                                                                       \
            return;                                                                                \
        }                                                                                          \
        for (uint64_t t = 0; t < taps; t++) {                                                      \
            Real weight = (Real)weights[t];                                                        \
            if (t == 0)                                                                            \
                for (uint64_t i = 0; i < inner; i++) to[i] = weight * from[i];                     \
            else if (weights[t] != 0)                                                              \
                for (uint64_t i = 0; i < inner; i++) to[i] += weight * from[t * inner + i];        \
        }                                                                                          \
    }                                                                                              \
    static void interpolate_##Real(Real *to, const Real *from, const Pass *pass) {                 \
        const ResizeTable *table = pass->table;                                                    \
        uint64_t taps = (uint64_t)table->taps;                                                     \
        for (uint64_t o = 0; o < pass->outer; o++)                                                 \
            for (uint64_t i = 0; i < pass->out; i++) {                                             \
                uint64_t at = o * pass->in + (uint64_t)table->first[i];                            \
                mix_##Real(to + (o * pass->out + i) * pass->inner, from + at * pass->inner,        \
                           table->weights + i * taps, pass);                                       \
            }                                                                                      \
    }
INTERPOLATE(float)
INTERPOLATE(double)

static void move_nearest(char *to, const char *from, const Pass *pass, size_t size) {
    const ResizeTable *table = pass->table;
    uint64_t block = pass->inner * size;
    for (uint64_t o = 0; o < pass->outer; o++)
        for (uint64_t i = 0; i < pass->out; i++) {
            const char *source = from + (o * pass->in + (uint64_t)table->first[i]) * block;
            char *target = to + (o * pass->out + i) * block;
            if (block == 4)
                memcpy(target, source, 4);
            else if (block == 1)
                *target = *source;
            else
                memcpy(target, source, block);
        }
}

static double *widen(KernelCall *call, const KernelTensor *tensor) {
    double *wide = ARENA_ARRAY(call->scratch, double, tensor->count);
    for (uint64_t i = 0; i < tensor->count; i++) wide[i] = kernel_real(tensor, i);
    return wide;
}

/* Where the table looks beyond the input, along one axis of the output. */
static void extrapolate(KernelTensor *out, uint32_t axis, const ResizeTable *table, float value) {
    uint64_t outer = kernel_span(out, 0, axis), inner = kernel_span(out, axis + 1, out->rank);
    uint64_t along = (uint64_t)out->dims[axis], bits = 0;
    KernelTensor part = *out;
    static const KernelString empty = {0, ""};
    const void *element = out->dtype == DTYPE_STRING ? (const void *)&empty : &bits;
    if (out->dtype == DTYPE_COMPLEX64 || out->dtype == DTYPE_COMPLEX128) element = NULL;
    dtype_from_double(out->dtype, (double)value, &bits);
    part.count = inner;
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t i = 0; i < along; i++) {
            part.data =
                (char *)out->data + (o * along + i) * inner * kernel_element_size(out->dtype);
            if (table->outside[i]) strided_fill(&part, element);
        }
}

typedef struct Resizing {
    KernelCall *call;
    const ResizeHow *how;
    int64_t *dims; /* as they are now */
    Dtype compute; /* FLOAT, DOUBLE, or UNDEFINED: moved as bytes */
    size_t size;   /* of an element now */
    void *data;
    uint32_t left; /* passes to come */
    bool in_place; /* the output is of the type computed in */
} Resizing;

static void resize_axis(Resizing *r, const ResizeAxis *axis, const ResizeTable *table) {
    const KernelTensor *in = &r->call->inputs[0];
    Pass pass = {1, 1, (uint64_t)axis->in, (uint64_t)axis->out, table};
    for (uint32_t i = 0; i < axis->axis; i++) pass.outer *= (uint64_t)r->dims[i];
    for (uint32_t i = axis->axis + 1; i < in->rank; i++) pass.inner *= (uint64_t)r->dims[i];
    r->dims[axis->axis] = axis->out;
    const void *from = r->data;
    bool last = --r->left == 0 && r->in_place; /* straight into the output */
    void *to = last ? r->call->outputs[0].data
                    : arena_array(r->call->scratch, pass.outer * pass.out * pass.inner, r->size);
    if (r->compute == DTYPE_FLOAT)
        interpolate_float(to, from, &pass);
    else if (r->compute == DTYPE_DOUBLE)
        interpolate_double(to, from, &pass);
    else
        move_nearest(to, from, &pass, r->size);
    r->data = to;
}

static bool resize_all(KernelCall *call, const ResizeHow *how, ResizeAxes axes) {
    const ResizeAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    bool plain = in->dtype == DTYPE_FLOAT || in->dtype == DTYPE_DOUBLE;
    bool move = how->mode == RESIZE_NEAREST;
    ResizeTable *tables = ARENA_ARRAY(call->scratch, ResizeTable, axes.count);
    Resizing r = {.call = call,
                  .how = how,
                  .data = in->data,
                  .dims = arena_copy(call->scratch, in->dims, in->rank * sizeof *r.dims),
                  .compute = move    ? DTYPE_UNDEFINED
                             : plain ? in->dtype
                                     : DTYPE_DOUBLE};
    if (!move && !plain) r.data = widen(call, in);
    r.size = kernel_element_size(move ? in->dtype : r.compute);
    for (uint32_t i = 0; i < axes.count; i++)
        if (!resize_table(call, how, &axes.items[i], &tables[i])) return false;
    for (uint32_t i = 0; i < axes.count; i++) r.left += !tables[i].identity;
    r.in_place = move || plain;
    for (int round = 0; round < 2; round++)
        for (uint32_t i = axes.count; i-- > 0;) {
            bool shrinks = axes.items[i].out < axes.items[i].in;
            if (tables[i].identity || shrinks != (round == 0)) continue;
            resize_axis(&r, &axes.items[i], &tables[i]);
        }
    if (r.in_place && r.data != out->data) memcpy(out->data, r.data, out->count * r.size);
    for (uint64_t i = 0; !r.in_place && i < out->count; i++)
        kernel_set_real(out, i, rint(((const double *)r.data)[i]));
    for (uint32_t i = 0; how->coordinates == RESIZE_TF_CROP && i < axes.count; i++)
        extrapolate(out, axes.items[i].axis, &tables[i], attrs->extrapolation);
    return true;
}

/* ---- operators ------------------------------------------------------------------------------- */

static bool resize_run(KernelCall *call, ResizeAxes axes) {
    const ResizeAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    ResizeHow how = {.mode = attrs->mode,
                     .coordinates = attrs->coordinates,
                     .nearest = attrs->nearest,
                     .cubic = (double)attrs->cubic};
    how.antialias = attrs->antialias && attrs->mode != RESIZE_NEAREST;
    how.exclude_outside = attrs->exclude_outside != 0;
    int64_t *dims = arena_copy(call->scratch, in->dims, in->rank * sizeof *dims);
    for (uint32_t i = 0; i < axes.count; i++) dims[axes.items[i].axis] = axes.items[i].out;
    if (how.mode < 0 || how.coordinates < 0 || how.nearest < 0 || attrs->aspect < 0)
        return kernel_fail(call, "a mode is unknown");
    if (how.coordinates == RESIZE_TF_CROP && !resize_axes_region(call, axes)) return false;
    if (how.mode != RESIZE_NEAREST && !(KERNEL_NUMBERS >> in->dtype & 1))
        return kernel_fail(call, "cannot interpolate %s", dtype_name(in->dtype));
    if (!kernel_output(call, 0, in->rank, dims)) return false;
    KernelTensor *out = &call->outputs[0];
    if (out->dtype != in->dtype) return kernel_fail(call, "the output has a different type");
    if (out->count == 0) return true;
    return in->count ? resize_all(call, &how, axes)
                     : kernel_fail(call, "cannot enlarge an empty axis");
}

bool kernel_resize(KernelCall *call) {
    ResizeAxes axes;
    return resize_axes_find(call, &axes) && resize_run(call, axes);
}

bool kernel_upsample(KernelCall *call) {
    ResizeAxes axes;
    return resize_axes_upsample(call, &axes) && resize_run(call, axes);
}

bool kernel_upsample_1(KernelCall *call) {
    const ResizeAttrs *attrs = call->attrs;
    float items[4] = {1, 1, 1, 1};
    const KernelTensor list = {.present = true, .dtype = DTYPE_FLOAT, .count = 4, .data = items};
    ResizeAxes axes;
    if (call->inputs[0].rank != 4 || !attrs->height_scale.count || !attrs->width_scale.count)
        return kernel_fail(call, "it needs rank 4, height_scale and width_scale");
    items[2] = attrs->height_scale.items[0];
    items[3] = attrs->width_scale.items[0];
    return resize_axes_list(call, &axes) && resize_axes_scale(call, axes, &list) &&
           resize_run(call, axes);
}
