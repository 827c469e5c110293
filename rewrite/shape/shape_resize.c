// SPDX-License-Identifier: Apache-2.0
/* Resize and Upsample. A size is floor(input * scale) in float arithmetic, as implementations
 * compute it, or given; keep_aspect_ratio_policy makes all resized axes share one scale. */
#include <math.h>

#include "shape_calc.h"

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

/* floor(size * scale); a scale of 1 keeps what is not known, too. */
static bool scaled(ShapeCall *call, ShapeNum size, ShapeNum scale, ShapeNum *result) {
    *result = unknown;
    if (scale.kind != SHAPE_REAL) return true;
    if (!(scale.real > 0) || isinf(scale.real))
        return shape_invalid(call, "a scale is %g", scale.real);
    if (scale.real == 1) *result = size;
    if (scale.real == 1 || size.kind != SHAPE_KNOWN) return true;
    float product = floorf((float)size.value * (float)scale.real);
    if (product < 9007199254740992.0f) *result = num_known((int64_t)product);
    return true;
}

static ShapeNum *copy_dims(ShapeCall *call, const ShapeOperand *from) {
    ShapeNum *dims = shape_output(call, 0, from->rank);
    for (uint32_t i = 0; i < from->rank; i++) dims[i] = from->dims[i];
    return dims;
}

bool shape_upsample(ShapeCall *call) {
    const ResizeAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *scales = shape_input(call, 1);
    if (!x) return true;
    ShapeNum *dims = copy_dims(call, x);
    uint32_t given = attrs->scales.present ? attrs->scales.count : scales->item_count;
    if ((attrs->scales.present || scales->items) && given != x->rank)
        return shape_invalid(call, "%u scales for rank %u", given, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) {
        ShapeNum scale = attrs->scales.present ? num_real((double)attrs->scales.items[i])
                                               : shape_item(scales, i);
        if (!scaled(call, x->dims[i], scale, &dims[i])) return false;
    }
    return true;
}

/* Upsample-1: attributes for the last two of four axes. */
bool shape_upsample_1(ShapeCall *call) {
    const ResizeAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!shape_want_rank(call, 0, 4)) return false;
    if (!x || !attrs->height_scale.count || !attrs->width_scale.count) return true;
    ShapeNum *dims = copy_dims(call, x);
    ShapeNum height = num_real((double)attrs->height_scale.items[0]);
    ShapeNum width = num_real((double)attrs->width_scale.items[0]);
    return scaled(call, x->dims[2], height, &dims[2]) && scaled(call, x->dims[3], width, &dims[3]);
}

/* ---- Resize since 11 ------------------------------------------------------------------------- */

typedef struct ResizeAxes {
    const uint32_t *axis; /* [count] */
    uint32_t count;
} ResizeAxes;

static bool resize_axes(ShapeCall *call, const ShapeOperand *x, ResizeAxes *axes) {
    const ResizeAttrs *attrs = call->attrs;
    axes->count = attrs->axes.present ? attrs->axes.count : x->rank;
    uint32_t *list = ARENA_ARRAY(call->arena, uint32_t, axes->count);
    axes->axis = list;
    for (uint32_t i = 0; i < axes->count; i++) {
        list[i] = i;
        if (attrs->axes.present && !shape_axis(call, attrs->axes.items[i], x->rank, &list[i]))
            return false;
        for (uint32_t k = 0; call->strict && k < i; k++)
            if (list[k] == list[i]) return shape_invalid(call, "axis %u is named twice", list[i]);
    }
    return true;
}

/* One scale for all axes: the smallest or largest of size / input; sizes round half up. */
static void resize_keeping_aspect(ShapeCall *call, const ShapeOperand *sizes, ResizeAxes axes,
                                  const ShapeOperand *x, ShapeNum *dims) {
    const ResizeAttrs *attrs = call->attrs;
    double best = 0;
    for (uint32_t i = 0; i < axes.count; i++) {
        ShapeNum size = shape_item(sizes, i), in = x->dims[axes.axis[i]];
        if (size.kind != SHAPE_KNOWN || in.kind != SHAPE_KNOWN || in.value == 0) best = -1;
        if (best < 0) break;
        double scale = (double)size.value / (double)in.value;
        bool better = attrs->aspect == ASPECT_NOT_LARGER ? scale < best : scale > best;
        if (i == 0 || better) best = scale;
    }
    for (uint32_t i = 0; i < axes.count; i++) {
        ShapeNum in = x->dims[axes.axis[i]];
        double size = best < 0 ? -1 : floor(best * (double)in.value + 0.5);
        bool usable = best >= 0 && size < 9007199254740992.0;
        dims[axes.axis[i]] = usable ? num_known((int64_t)size) : unknown;
    }
}

static bool resize_to_sizes(ShapeCall *call, const ShapeOperand *sizes, ResizeAxes axes,
                            const ShapeOperand *x) {
    const ResizeAttrs *attrs = call->attrs;
    ShapeNum *dims = copy_dims(call, x);
    ShapeNum length = shape_length(sizes);
    if (attrs->aspect < 0) return shape_invalid(call, "keep_aspect_ratio_policy is unknown");
    if (length.kind == SHAPE_KNOWN && length.value != axes.count)
        return shape_invalid(call, "%lld sizes for %u axes", (long long)length.value, axes.count);
    if (attrs->aspect != ASPECT_STRETCH) {
        resize_keeping_aspect(call, sizes, axes, x, dims);
        return true;
    }
    for (uint32_t i = 0; i < axes.count; i++) {
        ShapeNum size = shape_item(sizes, i);
        dims[axes.axis[i]] = size.kind == SHAPE_REAL ? unknown : size;
    }
    return true;
}

/* With tf_crop_and_resize the region of interest scales, too, and readings of the definition
 * differ unless it is the whole axis: unknown. */
static ShapeNum crop_scale(const ShapeOperand *roi, ResizeAxes axes, uint32_t i, ShapeNum scale) {
    ShapeNum start = shape_item(roi, i), end = shape_item(roi, i + axes.count);
    bool whole =
        start.kind == SHAPE_REAL && end.kind == SHAPE_REAL && start.real == 0 && end.real == 1;
    return whole ? scale : unknown;
}

bool shape_resize(ShapeCall *call) {
    const ResizeAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *roi = shape_input(call, 1);
    const ShapeOperand *scales = shape_input(call, 2), *sizes = shape_input(call, 3);
    ResizeAxes axes;
    if (call->strict && (!shape_want_rank(call, 2, 1) || !shape_want_rank(call, 3, 1)))
        return false;
    if (!x) return true;
    if (!resize_axes(call, x, &axes)) return false;
    const ShapeOperand *given = sizes->present ? sizes : scales;
    bool one = scales->present != sizes->present && !num_is(shape_length(given), 0);
    if (call->strict && call->row->since >= 13 && !one)
        return shape_invalid(call, "either sizes or scales are required");
    /* before 13 an unused input was given as an empty tensor */
    if (sizes->present && !num_is(shape_length(sizes), 0))
        return resize_to_sizes(call, sizes, axes, x);
    ShapeNum *dims = copy_dims(call, x);
    ShapeNum length = shape_length(scales);
    if (scales->present && length.kind == SHAPE_KNOWN && length.value != axes.count)
        return shape_invalid(call, "%lld scales for %u axes", (long long)length.value, axes.count);
    for (uint32_t i = 0; i < axes.count; i++) {
        ShapeNum scale = shape_item(scales, i);
        if (attrs->coordinates == RESIZE_TF_CROP) scale = crop_scale(roi, axes, i, scale);
        if (!scaled(call, x->dims[axes.axis[i]], scale, &dims[axes.axis[i]])) return false;
    }
    return true;
}
