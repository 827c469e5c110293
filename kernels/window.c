// SPDX-License-Identifier: Apache-2.0
/* Geometry of windows; see window.h. */
#include "window.h"

#include "checked.h"

enum { POSITION_LIMIT_BITS = 61 };
#define POSITION_LIMIT (INT64_C(1) << POSITION_LIMIT_BITS)

static bool list_fits(KernelCall *call, const AttrInts *list, uint64_t count, int64_t least) {
    if (!list->present) return true;
    if (list->count != count)
        return kernel_fail(call, "an attribute has %u numbers for %llu", list->count,
                           (unsigned long long)count);
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i] < least || list->items[i] > POSITION_LIMIT)
            return kernel_fail(call, "%lld among kernel, strides, dilations or pads",
                               (long long)list->items[i]);
    return true;
}

static bool lists_fit(KernelCall *call, const WindowAttrs *attrs, uint32_t rank) {
    if (attrs->auto_pad < 0) return kernel_fail(call, "auto_pad is an unknown mode");
    return list_fits(call, &attrs->kernel_shape, rank, 1) &&
           list_fits(call, &attrs->strides, rank, 1) &&
           list_fits(call, &attrs->dilations, rank, 1) &&
           list_fits(call, &attrs->pads, 2 * (uint64_t)rank, 0);
}

/* Padding, and that the last window's last position is one that can be computed with. */
static bool axis_pads(KernelCall *call, const WindowAttrs *attrs, WindowAxis *axis) {
    uint64_t span, last;
    bool fits =
        axis->taps > 0 && checked_mul((uint64_t)axis->taps - 1, (uint64_t)axis->dilation, &span) &&
        checked_mul((uint64_t)(axis->out ? axis->out - 1 : 0), (uint64_t)axis->stride, &last) &&
        span < POSITION_LIMIT && last < POSITION_LIMIT && axis->in < POSITION_LIMIT;
    if (!fits) return kernel_fail(call, "a window is too large");
    if (attrs->auto_pad == WINDOW_NOTSET || attrs->auto_pad == WINDOW_VALID) return true;
    int64_t pads = (int64_t)(last + span + 1) - axis->in;
    if (pads < 0) pads = 0;
    axis->begin = attrs->auto_pad == WINDOW_SAME_UPPER ? pads / 2 : pads - pads / 2;
    axis->end = pads - axis->begin;
    return true;
}

bool window_make(KernelCall *call, const WindowAttrs *attrs, const KernelTensor *weights,
                 Window *window) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    if (x->rank < 2 || y->rank != x->rank || (weights && weights->rank != x->rank))
        return kernel_fail(call, "the ranks of data, weights and result differ");
    uint32_t rank = x->rank - 2, first = attrs->channels_last ? 1 : 2; /* of the spatial axes */
    if (!lists_fit(call, attrs, rank)) return false;
    if (!weights && rank && !attrs->kernel_shape.present)
        return kernel_fail(call, "kernel_shape is missing");
    WindowAxis *axes = ARENA_ARRAY(call->scratch, WindowAxis, rank + 1);
    for (uint32_t i = 0; i < rank; i++) {
        WindowAxis *axis = &axes[i];
        *axis = (WindowAxis){
            .in = x->dims[i + first], .out = y->dims[i + first], .stride = 1, .dilation = 1};
        axis->taps = weights ? weights->dims[i + 2] : attrs->kernel_shape.items[i];
        if (weights && attrs->kernel_shape.present && attrs->kernel_shape.items[i] != axis->taps)
            return kernel_fail(call, "kernel_shape is not that of the weights");
        if (attrs->strides.present) axis->stride = attrs->strides.items[i];
        if (attrs->dilations.present) axis->dilation = attrs->dilations.items[i];
        bool explicit_pads = attrs->pads.present && attrs->auto_pad == WINDOW_NOTSET;
        if (explicit_pads) axis->begin = attrs->pads.items[i];
        if (explicit_pads) axis->end = attrs->pads.items[i + rank];
        if (!axis_pads(call, attrs, axis)) return false;
    }
    if (attrs->group < 1) return kernel_fail(call, "group is %lld", (long long)attrs->group);
    *window = (Window){.rank = rank,
                       .axes = axes,
                       .in = kernel_span(x, first, first + rank),
                       .out = kernel_span(y, first, first + rank),
                       .taps = 1,
                       .groups = (uint64_t)attrs->group,
                       .channel_axis = attrs->channels_last ? x->rank - 1 : 1};
    if (weights) window->taps = kernel_span(weights, 2, weights->rank);
    return true;
}

/* ---- transposed convolutions ------------------------------------------------------------------ */

/* Sets begin where it follows from the sizes; `whole` is the output without pads. */
static bool transposed_begin(const WindowAttrs *attrs, WindowAxis *axis, int64_t whole) {
    bool same = attrs->auto_pad == WINDOW_SAME_UPPER || attrs->auto_pad == WINDOW_SAME_LOWER;
    if (!same && !attrs->output_shape.present) return true;
    int64_t total = whole - axis->in;
    if (total < 0) total = 0;
    axis->begin = attrs->auto_pad == WINDOW_SAME_UPPER ? total / 2 : total - total / 2;
    return true;
}

static bool transposed_axis(KernelCall *call, const WindowAttrs *attrs, uint32_t i,
                            WindowAxis *axis) {
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1], *y = &call->outputs[0];
    const uint32_t rank = x->rank - 2, first = attrs->channels_last ? 1 : 2;
    *axis = (WindowAxis){.in = y->dims[i + first],
                         .out = x->dims[i + first],
                         .taps = w->dims[i + 2],
                         .stride = 1,
                         .dilation = 1};
    int64_t extra = 0, span, last, whole;
    if (attrs->strides.present) axis->stride = attrs->strides.items[i];
    if (attrs->dilations.present) axis->dilation = attrs->dilations.items[i];
    if (attrs->output_padding.present) extra = attrs->output_padding.items[i];
    if (attrs->pads.present && attrs->auto_pad == WINDOW_NOTSET) axis->begin = attrs->pads.items[i];
    if (attrs->kernel_shape.present && attrs->kernel_shape.items[i] != axis->taps)
        return kernel_fail(call, "kernel_shape is not that of the weights");
    bool fits = axis->stride > 0 && axis->dilation > 0 && axis->begin >= 0 && extra >= 0 &&
                axis->begin < INT64_MAX / 8 && rank > i &&
                !__builtin_mul_overflow(axis->taps ? axis->taps - 1 : 0, axis->dilation, &span) &&
                !__builtin_mul_overflow(axis->out ? axis->out - 1 : 0, axis->stride, &last) &&
                span < INT64_MAX / 8 && last < INT64_MAX / 8 && extra < INT64_MAX / 8;
    if (!fits) return kernel_fail(call, "strides, dilations or pads are out of range");
    whole = last + span + 1 + extra;
    return transposed_begin(attrs, axis, whole);
}

static bool transposed_lists_fit(KernelCall *call, const WindowAttrs *attrs, uint32_t rank) {
    const AttrInts *lists[] = {&attrs->strides, &attrs->dilations, &attrs->kernel_shape,
                               &attrs->output_padding};
    for (int i = 0; i < 4; i++)
        if (lists[i]->present && lists[i]->count != rank)
            return kernel_fail(call, "an attribute has %u numbers for %u axes", lists[i]->count,
                               rank);
    if (attrs->pads.present && attrs->pads.count != 2 * (uint64_t)rank)
        return kernel_fail(call, "pads has %u numbers for %u axes", attrs->pads.count, rank);
    return true;
}

bool window_make_transposed(KernelCall *call, const WindowAttrs *attrs, Window *window) {
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1], *y = &call->outputs[0];
    if (x->rank < 2 || w->rank != x->rank || y->rank != x->rank)
        return kernel_fail(call, "the ranks of data, weights and result differ");
    const uint32_t rank = x->rank - 2, first = attrs->channels_last ? 1 : 2;
    if (!transposed_lists_fit(call, attrs, rank)) return false;
    if (attrs->group < 1) return kernel_fail(call, "group is %lld", (long long)attrs->group);
    WindowAxis *axes = ARENA_ARRAY(call->scratch, WindowAxis, rank + 1);
    for (uint32_t i = 0; i < rank; i++)
        if (!transposed_axis(call, attrs, i, &axes[i])) return false;
    *window = (Window){.rank = rank,
                       .axes = axes,
                       .in = kernel_span(y, first, first + rank),
                       .out = kernel_span(x, first, first + rank),
                       .taps = w->count ? kernel_span(w, 2, w->rank) : 0,
                       .groups = (uint64_t)attrs->group,
                       .channel_axis = attrs->channels_last ? x->rank - 1 : 1};
    return true;
}

/* ---- taps and outputs ------------------------------------------------------------------------- */

static int64_t ceil_div(int64_t a, int64_t b) {
    return a <= 0 ? 0 : b == 1 ? a : (a - 1) / b + 1;
}

void window_taps(const WindowAxis *axis, int64_t o, bool padded, int64_t *first, int64_t *last) {
    int64_t at = o * axis->stride - axis->begin, low = padded ? -axis->begin : 0;
    int64_t high = axis->in + (padded ? axis->end : 0);
    *first = ceil_div(low - at, axis->dilation);
    *last = ceil_div(high - at, axis->dilation);
    if (*last > axis->taps) *last = axis->taps;
    if (*first > *last) *first = *last;
}

/* Outputs [*first, *last) whose tap t is inside the input. */
static void window_outputs(const WindowAxis *axis, int64_t t, int64_t *first, int64_t *last) {
    int64_t at = t * axis->dilation - axis->begin;
    *first = ceil_div(-at, axis->stride);
    *last = ceil_div(axis->in - at, axis->stride);
    if (*last > axis->out) *last = axis->out;
    if (*first > *last) *first = *last;
}

bool window_next_output(const Window *window, int64_t *index) {
    for (uint32_t i = window->rank; i-- > 0; index[i] = 0)
        if (++index[i] < window->axes[i].out) return true;
    return false;
}

bool window_next_tap(const Window *window, int64_t *index) {
    for (uint32_t i = window->rank; i-- > 0; index[i] = 0)
        if (++index[i] < window->axes[i].taps) return true;
    return false;
}

static void overlap_place(const Window *w, const int64_t *tap, WindowOverlap *o) {
    o->in = o->out = 0;
    for (uint32_t i = 0; i < w->rank; i++) {
        const WindowAxis *axis = &w->axes[i];
        o->in =
            o->in * axis->in + o->index[i] * axis->stride + tap[i] * axis->dilation - axis->begin;
        o->out = o->out * axis->out + o->index[i];
    }
}

bool window_overlap(const Window *w, const int64_t *tap, WindowOverlap *o) {
    o->count = o->step = 1;
    for (uint32_t i = 0; i < w->rank; i++) {
        window_outputs(&w->axes[i], tap[i], &o->first[i], &o->last[i]);
        o->index[i] = o->first[i];
        o->count = o->last[i] - o->first[i];
        o->step = w->axes[i].stride;
        if (o->count <= 0) return false;
    }
    overlap_place(w, tap, o);
    return true;
}

bool window_overlap_next(const Window *w, const int64_t *tap, WindowOverlap *o) {
    for (uint32_t i = w->rank ? w->rank - 1 : 0; i-- > 0; o->index[i] = o->first[i]) {
        if (++o->index[i] >= o->last[i]) continue;
        overlap_place(w, tap, o);
        return true;
    }
    return false;
}

bool window_check_conv(KernelCall *call, const Window *window, const KernelTensor *x,
                       const KernelTensor *weights, const KernelTensor *bias) {
    const KernelTensor *y = &call->outputs[0];
    const uint32_t axis = window->channel_axis;
    uint64_t channels, filters = (uint64_t)weights->dims[0];
    if (!checked_mul((uint64_t)weights->dims[1], window->groups, &channels) ||
        channels != (uint64_t)x->dims[axis])
        return kernel_fail(call, "%lld channels, %llu groups and weights for %lld do not fit",
                           (long long)x->dims[axis], (unsigned long long)window->groups,
                           (long long)weights->dims[1]);
    if (filters % window->groups)
        return kernel_fail(call, "%llu filters are not a multiple of %llu groups",
                           (unsigned long long)filters, (unsigned long long)window->groups);
    if (y->dims[0] != x->dims[0] || (uint64_t)y->dims[axis] != filters)
        return kernel_fail(call, "the result's dimensions do not fit");
    if (bias && bias->count != filters)
        return kernel_fail(call, "%llu biases for %llu filters", (unsigned long long)bias->count,
                           (unsigned long long)filters);
    return true;
}
