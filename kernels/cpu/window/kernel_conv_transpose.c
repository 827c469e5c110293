// SPDX-License-Identifier: Apache-2.0
/* ConvTranspose: each input element adds its multiple of the kernel to the output: for input
 * position i and tap t, y[m, i * stride + t * dilation - begin] += w[c, m, t] * x[c, i].
 *
 * That is a product of matrices, weights transposed by input, whose rows (m, t) are then added to the
 * planes (float), or plain loops (double). With steps of 1 it is a convolution by the weights turned
 * round, whose sums are made at once: as gradients of convolutions mostly are.
 */
#include <string.h>

#include "checked.h"
#include "conv_direct.h"
#include "gemm.h"
#include "kernel_functions.h"
#include "kernel_pace.h"
#include "kernel_parts.h"
#include "window.h"

/* The window is that of the convolution whose inverse this is: its `in` is our output. */
typedef struct Transposed {
    Window window;
    const KernelTensor *x, *w, *bias;
    KernelTensor *y;
    uint64_t images, channels, filters; /* of one group */
} Transposed;

static bool transposed_make(KernelCall *call, Transposed *t) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1];
    KernelTensor *y = &call->outputs[0];
    *t = (Transposed){.x = x, .w = w, .y = y, .bias = kernel_input(call, 2)};
    uint64_t groups = (uint64_t)attrs->group, filters;
    if (!window_make_transposed(call, attrs, &t->window)) return false;
    if ((uint64_t)x->dims[1] % groups || w->dims[0] != x->dims[1] ||
        !checked_mul((uint64_t)w->dims[1], groups, &filters) || filters != (uint64_t)y->dims[1] ||
        y->dims[0] != x->dims[0] || (t->bias && t->bias->count != filters))
        return kernel_fail(call, "channels, groups, weights and bias do not fit");
    if (w->dtype != x->dtype || y->dtype != x->dtype || (t->bias && t->bias->dtype != x->dtype))
        return kernel_fail(call, "operands of different types");
    t->images = (uint64_t)x->dims[0];
    t->channels = (uint64_t)x->dims[1] / groups;
    t->filters = (uint64_t)w->dims[1];
    return true;
}

/* Adds columns [taps, inputs] of one filter to its plane, which begins as its bias. */
#define ADD_COLUMNS(T)                                                                             \
    static void add_columns_##T(const Window *w, const T *columns, T bias, int64_t *index, T *y) { \
        WindowOverlap o = {.first = index + w->rank,                                               \
                           .last = index + 2 * (uint64_t)w->rank,                                  \
                           .index = index + 3 * (uint64_t)w->rank};                                \
        memset(index, 0, w->rank * sizeof *index);                                                 \
        for (uint64_t i = 0; i < w->in; i++) y[i] = bias;                                          \
        for (uint64_t t = 0; t < w->taps; t++, columns += w->out, window_next_tap(w, index)) {     \
            bool more = window_overlap(w, index, &o);                                              \
            for (; more; more = window_overlap_next(w, index, &o))                                 \
                for (int64_t k = 0; k < o.count; k++) y[o.in + k * o.step] += columns[o.out + k];  \
        }                                                                                          \
    }
ADD_COLUMNS(float)
ADD_COLUMNS(double)

/* columns[(m, t), i] = sum over c of w[c, m, t] * x[c, i] */
static void double_columns(KernelCall *call, const Transposed *t, const double *x,
                           const double *weights, double *to) {
    uint64_t rows = t->filters * t->window.taps, inputs = t->window.out;
    KernelPace pace = {call, 0};
    memset(to, 0, rows * inputs * sizeof *to);
    for (uint64_t c = 0; c < t->channels; c++)
        for (uint64_t r = 0; r < rows; r++) {
            double weight = weights[c * rows + r];
            kernel_pace(&pace, inputs);
            for (uint64_t i = 0; i < inputs; i++) to[r * inputs + i] += weight * x[c * inputs + i];
        }
}

/* What becomes of a batch's columns, filter by filter. */
typedef struct FilterJob {
    const Transposed *t;
    const void *columns;
    uint64_t batch;
    int64_t *indices; /* `size` of them a lane */
    uint64_t size;
} FilterJob;

static void filter_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const FilterJob *job = data;
    const Transposed *t = job->t;
    const Window *w = &t->window;
    const uint64_t group = job->batch % w->groups;
    int64_t *index = job->indices + job->size * lane;
    for (uint64_t f = first; f < end; f++) {
        uint64_t plane = job->batch * t->filters + f, at = group * t->filters + f;
        if (t->x->dtype == DTYPE_DOUBLE)
            add_columns_double(w, (const double *)job->columns + f * w->taps * w->out,
                               t->bias ? ((const double *)t->bias->data)[at] : 0, index,
                               (double *)t->y->data + plane * w->in);
        else
            add_columns_float(w, (const float *)job->columns + f * w->taps * w->out,
                              t->bias ? ((const float *)t->bias->data)[at] : 0, index,
                              (float *)t->y->data + plane * w->in);
    }
}

static bool run_batch(KernelCall *call, const Transposed *t, uint64_t batch, void *columns) {
    const Window *w = &t->window;
    uint64_t group = batch % w->groups, rows = t->filters * w->taps;
    size_t size = kernel_element_size(t->x->dtype);
    const char *x = (const char *)t->x->data + batch * t->channels * w->out * size;
    const char *weights = (const char *)t->w->data + group * t->channels * rows * size;
    bool wide = t->x->dtype == DTYPE_DOUBLE;
    if (wide) {
        double_columns(call, t, (const void *)x, (const void *)weights, columns);
    } else {
        const GemmMatrices g = {.batches = 1,
                                .m = rows,
                                .n = w->out,
                                .k = t->channels,
                                .a = {(const void *)weights, NULL, 1, rows, DTYPE_UNDEFINED},
                                .b = {(const void *)x, NULL, w->out, 1, DTYPE_UNDEFINED},
                                .c = columns};
        if (!gemm_matrices(call, &g)) return false;
    }
    FilterJob job = {.t = t, .columns = columns, .batch = batch, .size = 4 * (uint64_t)w->rank + 8};
    job.indices = ARENA_ARRAY(call->scratch, int64_t, job.size * kernel_threads(call));
    kernel_run_parts(call->workers,
                     kernel_work_cut(call, (double)rows * (double)w->out, t->filters), filter_part,
                     &job);
    return true;
}

/* ---- steps of 1 ------------------------------------------------------------------------------ */

/* The convolution whose result is ours, on axes of the caller's; false where it is none. */
static bool turn_window(const Transposed *t, Window *window, WindowAxis *axes) {
    const Window *w = &t->window;
    *window = *w;
    window->axes = axes;
    window->in = w->out;
    window->out = w->in;
    for (uint32_t i = 0; i < w->rank; i++) {
        const WindowAxis *axis = &w->axes[i];
        const int64_t reach = (axis->taps - 1) * axis->dilation;
        axes[i] = *axis;
        axes[i].in = axis->out;
        axes[i].out = axis->in;
        axes[i].begin = reach - axis->begin;
        axes[i].end = reach - axis->end;
        if (axis->stride != 1 || axes[i].begin < 0 || axes[i].end < 0) return false;
    }
    return w->rank > 0;
}

/* [group, m, c, taps] of [group, c, m, taps], taps from the last to the first. */
static void turn_weights(const Transposed *t, float *to) {
    const float *from = t->w->data;
    const uint64_t taps = t->window.taps, each = t->channels * t->filters * taps;
    for (uint64_t g = 0; g < t->window.groups; g++, from += each, to += each)
        for (uint64_t m = 0; m < t->filters; m++)
            for (uint64_t c = 0; c < t->channels; c++) {
                const float *row = from + (c * t->filters + m) * taps;
                float *turned = to + (m * t->channels + c) * taps;
                for (uint64_t i = 0; i < taps; i++) turned[i] = row[taps - 1 - i];
            }
}

static bool run_turned(KernelCall *call, const Transposed *t, const Window *window) {
    float *weights = kernel_workspace(call, t->w->count * sizeof *weights);
    if (!weights) return false;
    turn_weights(t, weights);
    const ConvOperands conv = {.window = window,
                               .x = t->x->data,
                               .weights = weights,
                               .bias = t->bias ? t->bias->data : NULL,
                               .y = t->y->data,
                               .images = t->images,
                               .channels = t->channels,
                               .filters = t->filters,
                               .narrow = DTYPE_UNDEFINED};
    return conv_floats(call, &conv);
}

bool kernel_conv_transpose(KernelCall *call) {
    Transposed t;
    if (!transposed_make(call, &t)) return false;
    if (t.y->count == 0) return true;
    Window turned;
    WindowAxis *axes = ARENA_ARRAY(call->scratch, WindowAxis, t.window.rank + 1);
    if (t.x->dtype == DTYPE_FLOAT && t.w->count && t.x->count && turn_window(&t, &turned, axes))
        return run_turned(call, &t, &turned);
    const Window *w = &t.window;
    size_t size = kernel_element_size(t.x->dtype);
    uint64_t rows, count;
    if (!checked_mul(t.filters, w->taps, &rows) || !checked_mul(rows, w->out, &count))
        return kernel_fail(call, "the products are too many");
    if (t.channels == 0) t.window.taps = 0;
    void *columns = arena_array(call->scratch, count + 1, size);
    for (uint64_t batch = 0; batch < t.images * w->groups; batch++)
        if (!run_batch(call, &t, batch, columns)) return false;
    return true;
}
