// SPDX-License-Identifier: Apache-2.0
/* Resize and Upsample on a CUDA device. Scales, sizes and regions are the host's, so outputs have the
 * sizes that were found before. */
#include "cuda_functions.h"
#include "resize_args.h"
#include "resize_axes.h"

#include <math.h>

enum { THREADS = 128 };

_Static_assert((int)AT_CUBIC == (int)RESIZE_CUBIC && (int)AT_TF_CROP == (int)RESIZE_TF_CROP &&
                   (int)AT_ASYMMETRIC == (int)RESIZE_ASYMMETRIC && (int)AT_CEIL == (int)RESIZE_CEIL,
               "they are the same numbers");

/* Whether anything changes along the axis; a region that is all of it is none. */
static bool changes(const ResizeAttrs *attrs, const ResizeAxis *axis) {
    const bool cut = attrs->coordinates == RESIZE_TF_CROP && (axis->start != 0 || axis->end != 1);
    return cut || attrs->coordinates == RESIZE_TF_HALF_PIXEL_FOR_NN || axis->scale != 1 ||
           axis->in != axis->out;
}

enum { LONGEST = 1 << 28 };

static bool add_changed(KernelCall *call, const ResizeAxis *axis, ResizeArgs *args) {
    const ResizeAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    const bool shrinks = attrs->antialias && args->mode != AT_NEAREST && axis->scale < 1;
    const double shrink = shrinks ? axis->scale : 1;
    const double radius = ceil((args->mode == AT_CUBIC ? 2 : 1) / shrink);
    if (args->changed == RESIZE_MOST || axis->in > LONGEST)
        return kernel_decline(call,
                              "the device does not support so many or such long resized axes");
    if (args->mode != AT_NEAREST && !(radius <= 4.0 * (double)axis->in + 8 && radius < LONGEST))
        return kernel_fail(call, "axis %u: a scale of %g is too small for %lld elements",
                           axis->axis, axis->scale, (long long)axis->in);
    args->axes[args->changed++] = (ResizeArgsAxis){
        .out = axis->out,
        .stride = (int64_t)kernel_stride(x, axis->axis),
        .below = (int64_t)kernel_stride(y, axis->axis),
        .scale = axis->scale,
        .length = axis->length,
        .start = axis->start,
        .end = axis->end,
        .shrink = (float)shrink,
        .in = (int32_t)axis->in,
        .radius = args->mode == AT_NEAREST ? 0 : (int32_t)radius,
    };
    return true;
}

/* Those that do not change and lie next to each other are one. */
static bool add_kept(KernelCall *call, uint32_t i, bool joined, ResizeArgs *args) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    int64_t size = y->dims[i];
    if (joined) size *= args->kept_size[--args->kept];
    if (args->kept == RESIZE_KEPT)
        return kernel_decline(call, "the device does not support so many axes");
    args->kept_size[args->kept] = size;
    args->kept_below[args->kept] = (int64_t)kernel_stride(y, i);
    args->kept_stride[args->kept++] = (int64_t)kernel_stride(x, i);
    return true;
}

static bool fill_axes(KernelCall *call, ResizeAxes axes, ResizeArgs *args) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    bool kept = false; /* the axis before */
    for (uint32_t i = 0; i < x->rank; i++) {
        const ResizeAxis *axis = NULL;
        for (uint32_t k = 0; k < axes.count; k++)
            if (axes.items[k].axis == i) axis = &axes.items[k];
        if ((axis ? axis->out : x->dims[i]) != y->dims[i])
            return kernel_fail(call, "axis %u has a different size than before", i);
        const bool changed = axis && changes(call->attrs, axis);
        if (!(changed ? add_changed(call, axis, args) : add_kept(call, i, kept, args)))
            return false;
        kept = !changed;
    }
    return true;
}

static bool resize(KernelCall *call, ResizeAxes axes) {
    const ResizeAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    if (attrs->mode < 0 || attrs->coordinates < 0 || attrs->nearest < 0 || attrs->aspect < 0)
        return kernel_fail(call, "a mode is unknown");
    if (attrs->coordinates == RESIZE_TF_CROP && !resize_axes_region(call, axes)) return false;
    const bool filters = attrs->mode != RESIZE_NEAREST;
    ResizeArgs args = {.x = x->data,
                       .y = y->data,
                       .count = (int64_t)y->count,
                       .cubic = attrs->cubic,
                       .outside = attrs->extrapolation,
                       .mode = (int32_t)attrs->mode,
                       .coordinates = (int32_t)attrs->coordinates,
                       .nearest = (int32_t)attrs->nearest,
                       .exclude_outside = filters && attrs->exclude_outside,
                       .divide = filters && (attrs->exclude_outside || attrs->antialias)};
    if (!y->count) return true;
    if (!x->count) return kernel_fail(call, "cannot enlarge an empty axis");
    if (!fill_axes(call, axes, &args)) return false;
    const CudaName name = cuda_name("resize", cuda_suffix(x->dtype), "");
    const CudaLaunch launch = {.family = CUDA_resize,
                               .kernel = name.text,
                               .blocks = {cuda_blocks_full(call, y->count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = &args};
    return cuda_launch(call, &launch);
}

bool cuda_resize(KernelCall *call) {
    ResizeAxes axes;
    return resize_axes_find(call, &axes) && resize(call, axes);
}

bool cuda_upsample(KernelCall *call) {
    ResizeAxes axes;
    return resize_axes_upsample(call, &axes) && resize(call, axes);
}

/* ---- GridSample ------------------------------------------------------------------------------ */

_Static_assert((int)AT_GRID_CUBIC == (int)GRID_CUBIC && (int)AT_GRID_NEAREST == (int)GRID_NEAREST &&
                   (int)AT_GRID_REFLECTION == (int)GRID_REFLECTION &&
                   (int)AT_GRID_BORDER == (int)GRID_BORDER,
               "they are the same numbers");

bool cuda_grid_sample(KernelCall *call) {
    enum { GRID_THREADS = 128 };
    const GridAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *grid = &call->inputs[1], *out = &call->outputs[0];
    if (attrs->mode < 0 || attrs->padding < 0) return kernel_fail(call, "the mode is unknown");
    if (in->rank < 3 || grid->dims[grid->rank - 1] != in->rank - 2)
        return kernel_fail(call, "grid points of %lld numbers for rank %u",
                           (long long)grid->dims[grid->rank - 1], in->rank);
    if (in->rank - 2 > GRID_SPATIAL)
        return kernel_decline(call, "the device does not support so many axes");
    if (!out->count) return true;
    if (!in->count) return kernel_fail(call, "there is nothing to sample");
    GridArgs args = {.x = in->data,
                     .grid = grid->data,
                     .y = out->data,
                     .count = (int64_t)out->count,
                     .channels = in->dims[1],
                     .points = (int64_t)kernel_span(out, 2, out->rank),
                     .area = (int64_t)kernel_span(in, 2, in->rank),
                     .sizes = {1, 1, 1},
                     .spatial = (int32_t)in->rank - 2,
                     .mode = (int32_t)attrs->mode,
                     .padding = (int32_t)attrs->padding,
                     .align = attrs->align != 0,
                     .x_type = (int32_t)in->dtype,
                     .grid_type = (int32_t)grid->dtype,
                     .y_type = (int32_t)out->dtype};
    for (uint32_t i = 2; i < in->rank; i++) {
        args.sizes[GRID_SPATIAL - in->rank + i] = in->dims[i];
        args.steps[GRID_SPATIAL - in->rank + i] = (int64_t)kernel_stride(in, i);
    }
    const CudaLaunch launch = {.family = CUDA_resize,
                               .kernel = "grid_sample",
                               .blocks = {cuda_blocks_full(call, out->count, GRID_THREADS, 1)},
                               .threads = {GRID_THREADS},
                               .args = &args};
    return cuda_launch(call, &launch);
}
