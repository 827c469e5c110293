// SPDX-License-Identifier: Apache-2.0
/* Which axes a Resize or Upsample makes how large; see resize_axes.h. */
#include "resize_axes.h"

#include <math.h>

bool resize_axes_list(KernelCall *call, ResizeAxes *axes) {
    const ResizeAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    axes->count = attrs->axes.present ? attrs->axes.count : in->rank;
    axes->items = ARENA_ARRAY(call->scratch, ResizeAxis, axes->count);
    bool *seen = ARENA_ARRAY(call->scratch, bool, in->rank);
    for (uint32_t i = 0; i < axes->count; i++) {
        ResizeAxis *axis = &axes->items[i];
        axis->axis = i;
        if (attrs->axes.present && !kernel_axis(call, attrs->axes.items[i], in->rank, &axis->axis))
            return false;
        if (seen[axis->axis]) return kernel_fail(call, "axis %u is named twice", axis->axis);
        seen[axis->axis] = true;
        axis->in = in->dims[axis->axis];
        axis->end = 1;
    }
    return true;
}

static bool set_scale(KernelCall *call, ResizeAxis *axis, double scale) {
    float size = floorf((float)axis->in * (float)scale);
    if (!(scale > 0) || isinf(scale) || !(size < 0x1p62f))
        return kernel_fail(call, "axis %u of %lld elements is scaled by %g", axis->axis,
                           (long long)axis->in, scale);
    axis->scale = scale;
    axis->length = (double)axis->in * scale;
    axis->out = scale == 1 ? axis->in : (int64_t)size;
    return true;
}

bool resize_axes_scale(KernelCall *call, ResizeAxes axes, const KernelTensor *scales) {
    if (scales->count != axes.count)
        return kernel_fail(call, "%llu scales for %u axes", (unsigned long long)scales->count,
                           axes.count);
    for (uint32_t i = 0; i < axes.count; i++)
        if (!set_scale(call, &axes.items[i], kernel_real(scales, i))) return false;
    return true;
}

/* All axes get the smallest or largest of the scales; sizes round half up. */
static void share_scale(ResizeAxes axes, bool largest) {
    double best = axes.count ? axes.items[0].scale : 1;
    for (uint32_t i = 1; i < axes.count; i++) {
        double scale = axes.items[i].scale;
        if (largest ? scale > best : scale < best) best = scale;
    }
    for (uint32_t i = 0; i < axes.count; i++) {
        ResizeAxis *axis = &axes.items[i];
        double size = floor(best * (double)axis->in + 0.5);
        axis->scale = best;
        axis->length = best * (double)axis->in;
        axis->out = size < 0x1p62 ? (int64_t)size : INT64_MAX;
    }
}

static bool set_sizes(KernelCall *call, ResizeAxes axes, const KernelTensor *sizes) {
    const ResizeAttrs *attrs = call->attrs;
    const int64_t *items = kernel_ints(call, sizes);
    if (!items) return false;
    if (sizes->count != axes.count)
        return kernel_fail(call, "%llu sizes for %u axes", (unsigned long long)sizes->count,
                           axes.count);
    for (uint32_t i = 0; i < axes.count; i++) {
        ResizeAxis *axis = &axes.items[i];
        if (items[i] < 0 || (axis->in == 0 && items[i] > 0))
            return kernel_fail(call, "axis %u of %lld elements cannot have %lld", axis->axis,
                               (long long)axis->in, (long long)items[i]);
        axis->out = items[i];
        axis->length = (double)items[i];
        axis->scale = axis->in ? axis->length / (double)axis->in : 1;
    }
    if (attrs->aspect != ASPECT_STRETCH) share_scale(axes, attrs->aspect == ASPECT_NOT_SMALLER);
    return true;
}

bool resize_axes_region(KernelCall *call, ResizeAxes axes) {
    const KernelTensor *roi = kernel_input(call, 1);
    uint64_t needed = 2 * (uint64_t)axes.count;
    if (!roi || roi->count != needed)
        return kernel_fail(call, "roi does not have %llu numbers", (unsigned long long)needed);
    for (uint32_t i = 0; i < axes.count; i++) {
        axes.items[i].start = kernel_real(roi, i);
        axes.items[i].end = kernel_real(roi, (uint64_t)i + axes.count);
    }
    return true;
}

bool resize_axes_find(KernelCall *call, ResizeAxes *axes) {
    const KernelTensor *scales = kernel_input(call, 2), *sizes = kernel_input(call, 3);
    if (!resize_axes_list(call, axes)) return false;
    /* before 13 an unused input was given as an empty tensor */
    bool by_size = sizes && (sizes->count || !scales);
    if (!by_size && !scales) return kernel_fail(call, "neither scales nor sizes are given");
    return by_size ? set_sizes(call, *axes, sizes) : resize_axes_scale(call, *axes, scales);
}

/* Resize-10 and Upsample: scales for all axes, as attribute or input. */
bool resize_axes_upsample(KernelCall *call, ResizeAxes *axes) {
    const ResizeAttrs *attrs = call->attrs;
    const KernelTensor *scales = kernel_input(call, 1);
    KernelTensor list = {.present = true,
                         .dtype = DTYPE_FLOAT,
                         .count = attrs->scales.count,
                         .data = (void *)(uintptr_t)attrs->scales.items};
    if (attrs->scales.present) scales = &list;
    if (!scales) return kernel_fail(call, "scales are missing");
    return resize_axes_list(call, axes) && resize_axes_scale(call, *axes, scales);
}
