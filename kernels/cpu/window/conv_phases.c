// SPDX-License-Identifier: Apache-2.0
/* Phases of transposed convolutions; see conv_phases.h. */
#include "conv_phases.h"

#include <string.h>

#include "kernel_strided.h"

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int64_t phase_count(const WindowAxis *axis) {
    return axis->stride < axis->in ? axis->stride : axis->in;
}

/* Output o and tap t are of input (o + begin - t * dilation) / stride, where that is whole. */
static ConvPhase phase_of(const WindowAxis *axis, int64_t first) {
    const int64_t stride = axis->stride, common = common_divisor(stride, axis->dilation);
    const int64_t at = first + axis->begin, step = stride / common;
    ConvPhase p = {.first = first, .step = step, .empty = true};
    p.axis = (WindowAxis){.in = axis->out,
                          .out = (axis->in - 1 - first) / stride + 1,
                          .taps = 1,
                          .stride = 1,
                          .dilation = 1};
    for (int64_t t = 0; t < step && t < axis->taps && p.empty; t++)
        if ((at - t * axis->dilation) % stride == 0) {
            p.axis.taps = (axis->taps - 1 - t) / step + 1;
            p.tap = t + (p.axis.taps - 1) * step;
            p.axis.begin = -((at - p.tap * axis->dilation) / stride);
            if (p.axis.taps > 1) p.axis.dilation = axis->dilation / common;
            p.empty = false;
        }
    return p;
}

bool conv_phases_check(KernelCall *call, const Window *window) {
    if (window->rank < 1 || window->rank > PHASE_AXES || window->groups != 1)
        return kernel_fail(call, "data of rank %u in %llu groups", call->inputs[0].rank,
                           (unsigned long long)window->groups);
    for (uint32_t i = 0; i < window->rank; i++)
        if (window->axes[i].stride > PHASE_STRIDE_MOST)
            return kernel_fail(call, "a stride of %lld", (long long)window->axes[i].stride);
    return true;
}

void conv_phases_axes(const Window *window, WindowAxis axes[PHASE_AXES]) {
    axes[0] = (WindowAxis){.in = 1, .out = 1, .taps = 1, .stride = 1, .dilation = 1};
    memcpy(axes + PHASE_AXES - window->rank, window->axes, window->rank * sizeof *axes);
}

static void place(ConvPhases *p) {
    for (int i = 0; i < PHASE_AXES; i++) p->at[i] = phase_of(&p->axes[i], p->place[i]);
}

ConvPhases conv_phases_first(const WindowAxis axes[PHASE_AXES]) {
    ConvPhases p = {.axes = axes};
    place(&p);
    return p;
}

bool conv_phases_next(ConvPhases *p) {
    bool more = false;
    for (int i = PHASE_AXES; i-- > 0 && !more;) {
        more = ++p->place[i] < phase_count(&p->axes[i]);
        if (!more) p->place[i] = 0;
    }
    if (more) place(p);
    return more;
}

Window conv_phase_window(const ConvPhases *p, WindowAxis axes[PHASE_AXES]) {
    for (int i = 0; i < PHASE_AXES; i++) axes[i] = p->at[i].axis;
    return (Window){.rank = PHASE_AXES,
                    .axes = axes,
                    .in = (uint64_t)(axes[0].in * axes[1].in),
                    .out = (uint64_t)(axes[0].out * axes[1].out),
                    .taps = (uint64_t)(axes[0].taps * axes[1].taps),
                    .groups = 1};
}

bool conv_phase_empty(const ConvPhases *p) {
    return p->at[0].empty || p->at[1].empty;
}

/* ---- weights --------------------------------------------------------------------------------- */

#define PICK(T)                                                                                    \
    static void pick_##T(const T *from, uint64_t apart, uint64_t count, T *to) {                   \
        for (uint64_t n = 0; n < count; n++) to[n] = from[n * apart];                              \
    }
PICK(uint8_t)
PICK(uint16_t)
PICK(uint32_t)

static void pick_tap(const char *from, uint64_t apart, uint64_t count, size_t size, char *to) {
    if (size == 1)
        pick_uint8_t((const void *)from, apart, count, (void *)to);
    else if (size == 2)
        pick_uint16_t((const void *)from, apart, count, (void *)to);
    else
        pick_uint32_t((const void *)from, apart, count, (void *)to);
}

void conv_phase_pick(const ConvPhases *p, uint64_t pairs, size_t size, const void *from, void *to) {
    const ConvPhase *y = &p->at[0], *x = &p->at[1];
    const uint64_t row = (uint64_t)p->axes[1].taps, taps = (uint64_t)p->axes[0].taps * row;
    char *at = to;
    if (conv_phase_empty(p)) {
        memset(to, 0, (uint64_t)(y->axis.taps * x->axis.taps) * pairs * size);
        return;
    }
    for (int64_t i = 0; i < y->axis.taps; i++)
        for (int64_t k = 0; k < x->axis.taps; k++, at += pairs * size) {
            const int64_t ty = y->tap - i * y->step, tx = x->tap - k * x->step;
            const char *tap = (const char *)from + ((uint64_t)ty * row + (uint64_t)tx) * size;
            pick_tap(tap, taps, pairs, size, at);
        }
}

IgemmWeights conv_phase_weights(const ConvPhases *p, uint64_t channels, uint64_t filters) {
    return (IgemmWeights){.taps = (uint64_t)(p->at[0].axis.taps * p->at[1].axis.taps),
                          .depth = channels,
                          .columns = filters,
                          .tap = channels * filters,
                          .row = filters,
                          .column = 1};
}

uint64_t conv_phases_variant(const WindowAxis axes[PHASE_AXES]) {
    uint64_t variant = 0;
    for (int i = 0; i < PHASE_AXES; i++) {
        const WindowAxis *axis = &axes[i];
        variant = variant << 4 | (uint64_t)(axis->stride - 1);
        variant = variant << 4 | (uint64_t)(axis->begin % axis->stride);
        variant = variant << 4 | (uint64_t)(axis->dilation % axis->stride);
        variant = variant << 4 | (uint64_t)(phase_count(axis) - 1);
    }
    return variant;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Along y's own lines, which a pixel's filters would each be another one of. */
void conv_phase_spread(KernelCall *call, const ConvPhases *p, const PhaseResults *r) {
    const WindowAxis *axes = p->axes;
    const int64_t filters = (int64_t)r->filters, row = axes[1].in;
    const int64_t pixel = r->last ? filters : 1, channel = r->last ? 1 : axes[0].in * row;
    const int64_t rows = p->at[0].axis.out, columns = p->at[1].axis.out;
    StridedWalk walk = strided_new(call, 4);
    walk.axes[0] =
        (StridedAxis){(int64_t)r->images, axes[0].in * row * filters, rows * columns * filters};
    walk.axes[1] = (StridedAxis){rows, axes[0].stride * row * pixel, columns * filters};
    walk.axes[r->last ? 2 : 3] = (StridedAxis){columns, axes[1].stride * pixel, filters};
    walk.axes[r->last ? 3 : 2] = (StridedAxis){filters, channel, 1};
    const int64_t first = (p->at[0].first * row + p->at[1].first) * pixel;
    strided_copy(&walk, (char *)r->y + (uint64_t)first * r->size, r->made, r->size);
}
