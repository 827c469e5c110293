// SPDX-License-Identifier: Apache-2.0
/* Operators that slide a window over spatial axes: convolutions, pools, and their inverses. All
 * take (N, C, spatial …), those of demi.fused for channels-last data (N, spatial …, C).
 *
 * Formulas are those of the operators' definitions: with effective = (kernel - 1) * dilation + 1,
 *     explicit pads: out = floor((in + pads - effective) / stride) + 1   (ceil with ceil_mode,
 *                    less a last window that would begin in the right padding)
 *     SAME_*:        out = ceil(in / stride)
 *     VALID:         as with explicit pads of 0; so implementations do, while the pools' prose
 *                    would have ceil_mode change nothing
 * Transposed:
 *     out = stride * (in - 1) + output_padding + effective - pads
 * where SAME_* chooses pads for out = in * stride, but none below 0.
 */
#include "shape_calc.h"

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

/* One spatial axis. `pads` is the sum of both sides; begin the first. */
typedef struct Window {
    ShapeNum kernel;
    int64_t stride, dilation, begin, end;
} Window;

/* Attribute lists hold one number per spatial axis (pads: two), all at least `least`. */
static bool list_check(ShapeCall *call, const AttrInts *list, uint64_t count, int64_t least) {
    if (!list->present) return true;
    if (list->count != count)
        return shape_invalid(call, "an attribute has %u numbers for %llu spatial axes", list->count,
                             (unsigned long long)count);
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i] < least)
            return shape_invalid(call, "%lld among kernel, strides, dilations or pads",
                                 (long long)list->items[i]);
    return true;
}

static bool window_check(ShapeCall *call, uint32_t spatial) {
    const WindowAttrs *attrs = call->attrs;
    if (attrs->auto_pad < 0) return shape_invalid(call, "auto_pad is an unknown mode");
    return list_check(call, &attrs->kernel_shape, spatial, 1) &&
           list_check(call, &attrs->strides, spatial, 1) &&
           list_check(call, &attrs->dilations, spatial, 1) &&
           list_check(call, &attrs->pads, (uint64_t)spatial * 2, 0) &&
           list_check(call, &attrs->output_padding, spatial, 0);
}

/* The window of spatial axis i of `spatial`; attributes are checked. */
static Window window_at(const WindowAttrs *attrs, const ShapeOperand *weights, uint32_t i,
                        uint32_t spatial) {
    Window window = {.kernel = unknown, .stride = 1, .dilation = 1};
    if (attrs->kernel_shape.present)
        window.kernel = num_known(attrs->kernel_shape.items[i]);
    else if (weights && weights->rank == spatial + 2)
        window.kernel = weights->dims[i + 2];
    if (attrs->strides.present) window.stride = attrs->strides.items[i];
    if (attrs->dilations.present) window.dilation = attrs->dilations.items[i];
    if (attrs->pads.present && attrs->auto_pad == WINDOW_NOTSET) {
        window.begin = attrs->pads.items[i];
        window.end = attrs->pads.items[i + spatial];
    }
    return window;
}

static ShapeNum window_effective(const Window *window) {
    ShapeNum span = num_mul(num_sub(window->kernel, num_known(1)), num_known(window->dilation));
    return num_add(span, num_known(1));
}

/* How many windows fit an axis of `in` elements. */
static bool window_count(ShapeCall *call, const Window *window, ShapeNum in, ShapeNum *out) {
    const WindowAttrs *attrs = call->attrs;
    *out = unknown;
    if (attrs->auto_pad == WINDOW_SAME_UPPER || attrs->auto_pad == WINDOW_SAME_LOWER) {
        *out = num_ceil_div(in, window->stride);
        return true;
    }
    ShapeNum pads = num_add(num_known(window->begin), num_known(window->end));
    /* pads less effective first: 3x3 with pads 1 and stride 1 leaves a symbol as it is */
    ShapeNum change = num_sub(pads, window_effective(window));
    if (window->stride == 1) {
        *out = num_add(in, num_add(change, num_known(1)));
        if (out->kind == SHAPE_KNOWN && out->value < 1)
            return shape_invalid(call, "the window is larger than the padded input");
        return true;
    }
    ShapeNum room = num_add(in, change);
    if (room.kind != SHAPE_KNOWN || in.kind != SHAPE_KNOWN) return true;
    if (room.value < 0) return shape_invalid(call, "the window is larger than the padded input");
    bool ceil = attrs->ceil_mode != 0;
    int64_t steps = room.value / window->stride + (ceil && room.value % window->stride != 0);
    /* steps * stride < room + stride: it fits, unless the sum below overflowed to unknown */
    ShapeNum last = num_mul(num_known(steps), num_known(window->stride));
    ShapeNum limit = num_add(in, num_known(window->begin));
    if (ceil && last.kind == SHAPE_KNOWN && limit.kind == SHAPE_KNOWN && last.value >= limit.value)
        steps--;
    *out = num_add(num_known(steps), num_known(1));
    return true;
}

/* The first spatial axis of data, and its channels'. */
static uint32_t spatial_axis(const ShapeCall *call) {
    return ((const WindowAttrs *)call->attrs)->channels_last ? 1 : 2;
}
static uint32_t channel_axis(const ShapeCall *call, uint32_t rank) {
    return spatial_axis(call) == 1 ? rank - 1 : 1;
}

/* Spatial dims of a forward window operator. */
static bool window_dims(ShapeCall *call, const ShapeOperand *x, const ShapeOperand *weights,
                        ShapeNum *dims) {
    uint32_t spatial = x->rank - 2, first = spatial_axis(call);
    for (uint32_t i = 0; i < spatial; i++) {
        Window window = window_at(call->attrs, weights, i, spatial);
        if (!window_count(call, &window, x->dims[i + first], &dims[i + first])) return false;
    }
    return true;
}

static bool spatial_rank(ShapeCall *call, uint32_t rank) {
    return rank >= 2 || shape_invalid(call, "rank %u leaves no spatial axes", rank);
}

/* A convolution by `w` whose result's channels are the first dim of `filters`; NULL: of no known
 * rank. */
static bool conv_shape(ShapeCall *call, const ShapeOperand *w, const ShapeOperand *filters) {
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!x && !w) return true;
    uint32_t rank = x ? x->rank : w->rank;
    if (call->strict && rank < 3)
        return shape_invalid(call, "rank %u leaves no spatial axes", rank);
    if (!spatial_rank(call, rank) || !window_check(call, rank - 2)) return false;
    if ((w && w->rank != rank) || (filters && filters->rank != rank))
        return shape_invalid(call, "data has rank %u, weights %u", rank,
                             w && w->rank != rank ? w->rank : filters->rank);
    ShapeNum *dims = shape_output(call, 0, rank);
    if (!dims) return false;
    if (filters) dims[channel_axis(call, rank)] = filters->dims[0];
    if (!x) return true;
    dims[0] = x->dims[0];
    return window_dims(call, x, w, dims);
}

bool shape_conv(ShapeCall *call) {
    const ShapeOperand *w = shape_ranked(call, call->row->variant == SHAPE_INPUTS_0_3 ? 3 : 1);
    return conv_shape(call, w, w);
}

/* com.microsoft: weights are channels-last, too. */
bool shape_conv_nhwc(ShapeCall *call) {
    const ShapeOperand *w = shape_ranked(call, 1);
    if (!w || w->rank < 2) return conv_shape(call, w, w);
    ShapeOperand first = *w;
    ShapeNum *dims = ARENA_ARRAY(call->arena, ShapeNum, w->rank);
    dims[0] = w->dims[0];
    dims[1] = w->dims[w->rank - 1];
    for (uint32_t i = 2; i < w->rank; i++) dims[i] = w->dims[i - 1];
    first.dims = dims;
    return conv_shape(call, &first, &first);
}

bool shape_separable_conv(ShapeCall *call) {
    const ShapeOperand *w = shape_ranked(call, 1);
    return conv_shape(call, w, shape_input(call, 5)->present ? shape_ranked(call, 5) : w);
}

bool shape_pool(ShapeCall *call) {
    const WindowAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!x) return true;
    if (!spatial_rank(call, x->rank) || !window_check(call, x->rank - 2)) return false;
    if (!attrs->kernel_shape.present && x->rank > 2)
        return shape_invalid(call, "kernel_shape is missing");
    ShapeNum *dims = shape_output(call, 0, x->rank);
    const uint32_t channels = channel_axis(call, x->rank);
    dims[0] = x->dims[0];
    dims[channels] = x->dims[channels];
    if (!window_dims(call, x, NULL, dims)) return false;
    if (call->output_count > 1) shape_same_as(call, 1, &call->outputs[0]); /* Indices */
    return true;
}

bool shape_global_pool(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!x) return true;
    if (!spatial_rank(call, x->rank)) return false;
    ShapeNum *dims = shape_output(call, 0, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) dims[i] = i < 2 ? x->dims[i] : num_known(1);
    return true;
}

/* stride * (in - 1) + extra + effective - pads */
static ShapeNum transposed_size(const Window *window, ShapeNum in, int64_t extra) {
    ShapeNum size = num_mul(num_sub(in, num_known(1)), num_known(window->stride));
    size = num_add(size, num_add(window_effective(window), num_known(extra)));
    ShapeNum pads = num_add(num_known(window->begin), num_known(window->end));
    if (in.kind != SHAPE_KNOWN || pads.kind != SHAPE_KNOWN) return unknown;
    return num_sub(size, pads);
}

/* in * stride, or what there is without pads where that is less. */
static ShapeNum same_size(const Window *window, ShapeNum in, int64_t extra) {
    ShapeNum wanted = num_mul(in, num_known(window->stride));
    ShapeNum whole = transposed_size(window, in, extra);
    if (wanted.kind == SHAPE_KNOWN && whole.kind == SHAPE_KNOWN)
        return whole.value < wanted.value ? whole : wanted;
    return window->stride == 1 ? wanted : unknown;
}

/* output_shape gives the spatial sizes; some exporters give all dimensions. */
static bool given_sizes(ShapeCall *call, const AttrInts *sizes, uint32_t rank, ShapeNum *dims) {
    if (sizes->count != rank - 2 && sizes->count != rank)
        return shape_invalid(call, "output_shape has %u numbers for rank %u", sizes->count, rank);
    const uint32_t first = spatial_axis(call), skip = sizes->count == rank ? 2 : 0;
    for (uint32_t i = 0; i < rank - 2; i++) dims[i + first] = num_known(sizes->items[i + skip]);
    return true;
}

bool shape_conv_transpose(ShapeCall *call) {
    const WindowAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *w = shape_ranked(call, 1);
    if (!x && !w) return true;
    uint32_t rank = x ? x->rank : w->rank, spatial = rank - 2;
    if (!spatial_rank(call, rank) || !window_check(call, spatial)) return false;
    if (x && w && x->rank != w->rank)
        return shape_invalid(call, "data has rank %u, weights %u", x->rank, w->rank);
    if (attrs->group < 1) return shape_invalid(call, "group is %lld", (long long)attrs->group);
    ShapeNum *dims = shape_output(call, 0, rank);
    if (!dims) return false;
    if (x) dims[0] = x->dims[0];
    const uint32_t first = spatial_axis(call);
    if (w) dims[channel_axis(call, rank)] = num_mul(w->dims[1], num_known(attrs->group));
    if (attrs->output_shape.present) return given_sizes(call, &attrs->output_shape, rank, dims);
    bool same = attrs->auto_pad == WINDOW_SAME_UPPER || attrs->auto_pad == WINDOW_SAME_LOWER;
    for (uint32_t i = 0; x && i < spatial; i++) {
        Window window = window_at(attrs, w, i, spatial);
        ShapeNum in = x->dims[i + first];
        int64_t extra = attrs->output_padding.present ? attrs->output_padding.items[i] : 0;
        dims[i + first] =
            same ? same_size(&window, in, extra) : transposed_size(&window, in, extra);
    }
    return true;
}

bool shape_max_unpool(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0), *wanted = shape_input(call, 2);
    if (call->strict && !shape_want_rank(call, 2, 1)) return false;
    if (!x) return true;
    if (!spatial_rank(call, x->rank) || !window_check(call, x->rank - 2)) return false;
    ShapeNum *dims = shape_output(call, 0, x->rank);
    uint32_t spatial = x->rank - 2;
    ShapeNum sizes = shape_length(wanted);
    if (call->strict && sizes.kind == SHAPE_KNOWN && sizes.value != x->rank)
        return shape_invalid(call, "%lld sizes for rank %u", (long long)sizes.value, x->rank);
    if (wanted->present) {
        for (uint32_t i = 0; i < x->rank && wanted->item_count == x->rank; i++)
            dims[i] = shape_item(wanted, i);
        return true;
    }
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    for (uint32_t i = 0; i < spatial; i++) {
        Window window = window_at(call->attrs, NULL, i, spatial);
        dims[i + 2] = transposed_size(&window, x->dims[i + 2], 0);
    }
    return true;
}

/* (N, C * block, L) to (N, C, image …) */
bool shape_col2im(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    const ShapeOperand *image = shape_input(call, 1), *block = shape_input(call, 2);
    ShapeNum length = shape_length(image);
    if (length.kind != SHAPE_KNOWN) length = shape_length(block);
    if (!shape_want_rank(call, 0, 3)) return false;
    if (length.kind != SHAPE_KNOWN) return true;
    ShapeNum *dims = shape_output(call, 0, (uint64_t)length.value + 2);
    if (!dims) return false;
    for (uint32_t i = 0; i < (uint32_t)length.value; i++) dims[i + 2] = shape_item(image, i);
    if (!x) return true;
    dims[0] = x->dims[0];
    if (!block->items) return true;
    ShapeNum size = num_product(block->items, 0, block->item_count);
    if (size.kind != SHAPE_KNOWN || size.value < 1) return true;
    if (x->dims[1].kind == SHAPE_KNOWN && x->dims[1].value % size.value != 0)
        return shape_invalid(call, "%lld channels are not a multiple of the block's %lld elements",
                             (long long)x->dims[1].value, (long long)size.value);
    dims[1] = num_floor_div(x->dims[1], size.value);
    return true;
}

/* output as the input; the state holds the k - 1 last positions of weight (C, 1, k) */
bool shape_causal_conv(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0), *w = shape_ranked(call, 1);
    for (uint32_t i = 0; i < 4; i++)
        if (!shape_want_rank(call, i, i == 2 ? 1 : 3)) return false;
    shape_same_as(call, 0, shape_input(call, 0));
    ShapeNum *state = shape_output(call, 1, 3);
    if (x) state[0] = x->dims[0];
    if (x) state[1] = x->dims[1];
    if (w) state[2] = num_sub(w->dims[2], num_known(1));
    return true;
}

static bool roi_dims(ShapeCall *call, ShapeNum *dims, uint32_t roi_rank) {
    const ShapeOperand *x = shape_ranked(call, 0), *rois = shape_ranked(call, 1);
    if (!shape_want_rank(call, 0, 4) || !shape_want_rank(call, 1, roi_rank)) return false;
    if (rois) dims[0] = rois->dims[0];
    if (x) dims[1] = x->dims[1];
    return true;
}

bool shape_roi_align(ShapeCall *call) {
    const RoiAttrs *attrs = call->attrs;
    const ShapeOperand *batch = shape_ranked(call, 2);
    ShapeNum *dims = shape_output(call, 0, 4);
    dims[2] = num_known(attrs->output_height);
    dims[3] = num_known(attrs->output_width);
    if (!roi_dims(call, dims, 2) || !shape_want_rank(call, 2, 1)) return false;
    return !batch || shape_unify(call, &dims[0], batch->dims[0]);
}

bool shape_max_roi_pool(ShapeCall *call) {
    const RoiAttrs *attrs = call->attrs;
    ShapeNum *dims = shape_output(call, 0, 4);
    if (attrs->pooled_shape.count != 2)
        return shape_invalid(call, "pooled_shape has %u numbers", attrs->pooled_shape.count);
    dims[2] = num_known(attrs->pooled_shape.items[0]);
    dims[3] = num_known(attrs->pooled_shape.items[1]);
    return roi_dims(call, dims, 2);
}
