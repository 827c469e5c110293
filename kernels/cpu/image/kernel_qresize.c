// SPDX-License-Identifier: Apache-2.0
/* QResize: bytes that are interpolated along one axis, or two that lie behind each other. A line of
 * the input is made longer or shorter once, in float; lines of the result are mixed of those that are
 * at hand, and rounded once. No tensor of floats is made. */
#include <math.h>
#include <string.h>

#include "byte_operands.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_resize.h"
#include "kernel_rows.h"

enum { X_ZERO = 1, Y_ZERO = 4, FACTOR, PAIR = 2, STEP = 64 };

/* Data as outer x down x along x inner elements. Tables of axes that stay have one tap. */
typedef struct QResize {
    const char *x;
    char *y;
    bool is_signed;
    int32_t x_zero, y_zero;
    float factor, low, high; /* bounds: the type's, less the zero point */
    uint64_t outer, down_in, down_out, along_in, along_out, inner;
    ResizeTable down, along;
    uint64_t line_in, line_out; /* elements of a line, filled up to what loops go in best */
    int32_t *first;             /* [columns], of `along` */
    float *weights;             /* [taps of along][columns] */
    uint64_t columns;           /* along_out, filled up likewise where inner is 1 */
} QResize;

/* What a thread has of its own. */
typedef struct ResizeLane {
    float *line;    /* [line_in]: of the input */
    float *lines;   /* [taps of down][line_out]: line k is in slot k % taps */
    uint64_t *have; /* [taps of down]: which line of all, plus 1 */
    float *mixed;   /* [line_out] */
    uint8_t *bytes; /* [the larger of line_in and line_out] */
} ResizeLane;

/* ---- loops ----------------------------------------------------------------------------------- */

ROW_CLONES static void widen_i8(float *to, const void *data, uint64_t n, int32_t zero) {
    const int8_t *from = data;
    ROW_EACH(n, to[i] = (float)(from[i] - zero))
}
ROW_CLONES static void widen_u8(float *to, const void *data, uint64_t n, int32_t zero) {
    const uint8_t *from = data;
    ROW_EACH(n, to[i] = (float)(from[i] - zero))
}

/* to[i] = sum over t of weights[t][i] * from[first[i] + t] */
ROW_CLONES static void gather_pair(float *to, const float *from, const int32_t *first,
                                   const float *weights, uint64_t n) {
    const float *more = weights + n;
    ROW_LOOP
    for (uint64_t i = 0; i < n; i++)
        to[i] = weights[i] * from[first[i]] + more[i] * from[first[i] + 1];
}
ROW_CLONES static void gather_tap(float *to, const float *from, const int32_t *first,
                                  const float *weights, uint64_t n) {
    ROW_LOOP
    for (uint64_t i = 0; i < n; i++) to[i] += weights[i] * from[first[i]];
}

/* to[i] (+)= weight * from[i] */
ROW_CLONES static void scale_line(float *to, const float *from, float weight,
                                  uint64_t n){ROW_EACH(n, to[i] = weight * from[i])} ROW_CLONES
    static void add_line(float *to, const float *from, float weight,
                         uint64_t n){ROW_EACH(n, to[i] += weight * from[i])} ROW_CLONES
    static void mix_pair(float *to, const float *a, const float *b, const float *weights,
                         uint64_t n) {
    const float of_a = weights[0], of_b = weights[1];
    ROW_EACH(n, to[i] = of_a * a[i] + of_b * b[i])
}

/* v + 1.5 * 2^23 rounds to nearest. */
static inline uint8_t byte_of(float v, const QResize *r) {
    v *= r->factor;
    v = v > r->low ? v : r->low;
    v = v < r->high ? v : r->high;
    return (uint8_t)((int32_t)((v + 12582912.0f) - 12582912.0f) + r->y_zero);
}
ROW_CLONES static void round_line(uint8_t *y, const float *from, const QResize *given, uint64_t n) {
    const QResize r = *given;
    ROW_EACH(n, y[i] = byte_of(from[i], &r))
}
ROW_CLONES static void round_pair(uint8_t *y, const float *a, const float *b, const float *weights,
                                  const QResize *given, uint64_t n) {
    const float of_a = weights[0], of_b = weights[1];
    const QResize r = *given;
    ROW_EACH(n, y[i] = byte_of(of_a * a[i] + of_b * b[i], &r))
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* A line of the input, `from`, at its new length. */
static void resize_line(const QResize *r, const ResizeLane *lane, const char *from, float *to) {
    const uint64_t taps = (uint64_t)r->along.taps, n = r->columns, inner = r->inner;
    const float *line = lane->line;
    memcpy(lane->bytes, from, r->along_in * inner);
    (r->is_signed ? widen_i8 : widen_u8)(r->along.identity ? to : lane->line, lane->bytes,
                                         r->line_in, r->x_zero);
    if (r->along.identity) return;
    if (inner == 1 && taps == PAIR) {
        gather_pair(to, line, r->first, r->weights, n);
        return;
    }
    if (inner == 1) {
        memset(to, 0, n * sizeof *to);
        for (uint64_t t = 0; t < taps; t++)
            gather_tap(to, line + t, r->first, r->weights + t * n, n);
        return;
    }
    for (uint64_t i = 0; i < n; i++, to += inner) {
        const float *at = line + (uint64_t)r->first[i] * inner;
        if (taps == PAIR) {
            const float pair[PAIR] = {r->weights[i], r->weights[n + i]};
            mix_pair(to, at, at + inner, pair, inner);
            continue;
        }
        scale_line(to, at, r->weights[i], inner);
        for (uint64_t t = 1; t < taps; t++)
            add_line(to, at + t * inner, r->weights[t * n + i], inner);
    }
}

/* Line `at` of an image at its new length. */
static const float *line_of(const QResize *r, ResizeLane *lane, uint64_t image, uint64_t at) {
    const uint64_t number = image * r->down_in + at, slot = at % (uint64_t)r->down.taps;
    float *line = lane->lines + slot * r->line_out;
    if (lane->have[slot] == number + 1) return line;
    lane->have[slot] = number + 1;
    resize_line(r, lane, r->x + number * r->along_in * r->inner, line);
    return line;
}

/* A line of the result, rounded. */
static void make_bytes(const QResize *r, ResizeLane *lane, uint64_t image, uint64_t row) {
    const uint64_t taps = (uint64_t)r->down.taps, n = r->line_out;
    const uint64_t first = r->down.identity ? row : (uint64_t)r->down.first[row];
    const float *from = line_of(r, lane, image, first);
    if (r->down.identity) {
        round_line(lane->bytes, from, r, n);
        return;
    }
    const double *weights = r->down.weights + row * taps;
    if (taps == PAIR) {
        const float pair[PAIR] = {(float)weights[0], (float)weights[1]};
        const float *other = line_of(r, lane, image, first + 1);
        round_pair(lane->bytes, from, other, pair, r, n);
        return;
    }
    scale_line(lane->mixed, from, (float)weights[0], n);
    for (uint64_t t = 1; t < taps; t++)
        add_line(lane->mixed, line_of(r, lane, image, first + t), (float)weights[t], n);
    round_line(lane->bytes, lane->mixed, r, n);
}

static void make_line(const QResize *r, ResizeLane *lane, uint64_t o) {
    const uint64_t size = r->along_out * r->inner;
    make_bytes(r, lane, o / r->down_out, o % r->down_out);
    memcpy(r->y + o * size, lane->bytes, size);
}

typedef struct ResizeJob {
    const QResize *resize;
    ResizeLane *lanes;
} ResizeJob;

static void make_lines(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const ResizeJob *job = data;
    for (uint64_t o = first; o < end; o++) make_line(job->resize, &job->lanes[lane], o);
}

/* ---- getting ready --------------------------------------------------------------------------- */

static bool read_numbers(KernelCall *call, QResize *r) {
    const KernelTensor *x = &call->inputs[0], *zero = &call->inputs[Y_ZERO];
    const Dtype to = call->outputs[0].dtype;
    r->is_signed = x->dtype == DTYPE_INT8;
    if (!r->is_signed && x->dtype != DTYPE_UINT8)
        return kernel_fail(call, "an operand of %s", dtype_name(x->dtype));
    if ((to != DTYPE_INT8 && to != DTYPE_UINT8) || zero->dtype != to)
        return kernel_fail(call, "the result is %s", dtype_name(to));
    if (!byte_zero(call, X_ZERO, x->dtype, &r->x_zero) ||
        !byte_zero(call, Y_ZERO, to, &r->y_zero) || !byte_number(call, FACTOR, &r->factor))
        return false;
    r->low = (float)((to == DTYPE_INT8 ? INT8_MIN : 0) - r->y_zero);
    r->high = r->low + UINT8_MAX;
    return true;
}

static bool read_how(KernelCall *call, ResizeHow *how) {
    const ResizeAttrs *attrs = call->attrs;
    *how = (ResizeHow){.mode = attrs->mode,
                       .coordinates = attrs->coordinates,
                       .nearest = attrs->nearest,
                       .antialias = attrs->antialias != 0,
                       .exclude_outside = attrs->exclude_outside != 0,
                       .cubic = (double)attrs->cubic};
    if (how->coordinates < 0 || attrs->aspect < 0) return kernel_fail(call, "a mode is unknown");
    if ((how->mode != RESIZE_LINEAR && how->mode != RESIZE_CUBIC) ||
        how->coordinates == RESIZE_TF_CROP)
        return kernel_fail(call, "8-bit data can only be interpolated, without a region");
    return true;
}

/* The tables of the axes that change, of which there are two neighbors at most: `along` is the
 * last. */
static bool find_axes(KernelCall *call, const ResizeHow *how, ResizeAxes axes, QResize *r) {
    const KernelTensor *x = &call->inputs[0];
    uint32_t along = x->rank ? x->rank - 1 : 0, found = 0;
    r->down = r->along = (ResizeTable){.taps = 1, .identity = true};
    for (uint32_t axis = x->rank; axis-- > 0;) {
        ResizeTable table = {.identity = true};
        for (uint32_t i = 0; i < axes.count; i++)
            if (axes.items[i].axis == axis && !resize_table(call, how, &axes.items[i], &table))
                return false;
        if (table.identity) continue;
        if (found == 2 || (found == 1 && axis + 1 != along))
            return kernel_fail(call, "axes other than two adjacent ones change");
        if (found++ == 0) {
            along = axis;
            r->along = table;
        } else {
            r->down = table;
        }
    }
    const KernelTensor *y = &call->outputs[0];
    const uint32_t down = along ? along - 1 : 0;
    r->outer = kernel_span(x, 0, down);
    r->down_in = along ? (uint64_t)x->dims[down] : 1;
    r->down_out = along ? (uint64_t)y->dims[down] : 1;
    r->along_in = x->rank ? (uint64_t)x->dims[along] : 1;
    r->along_out = x->rank ? (uint64_t)y->dims[along] : 1;
    r->inner = x->rank ? kernel_span(x, along + 1, x->rank) : 1;
    return true;
}

static uint64_t in_steps(uint64_t size) {
    return (size + STEP - 1) / STEP * STEP;
}

/* How lines are gone over: the table of `along` by taps. */
static bool turn_table(KernelCall *call, QResize *r) {
    const uint64_t taps = (uint64_t)r->along.taps;
    r->line_in = in_steps(r->along_in * r->inner);
    r->line_out = in_steps(r->along_out * r->inner);
    r->columns = r->inner == 1 ? r->line_out : r->along_out;
    if (r->along.identity) return true;
    const uint64_t n = r->columns;
    if (r->along_in > INT32_MAX) return kernel_fail(call, "a line is too long");
    r->first = kernel_workspace(call, n * sizeof *r->first);
    r->weights = r->first ? kernel_workspace(call, taps * n * sizeof *r->weights) : NULL;
    if (!r->weights) return false;
    memset(r->first, 0, n * sizeof *r->first);
    memset(r->weights, 0, taps * n * sizeof *r->weights);
    for (uint64_t i = 0; i < r->along_out; i++) {
        r->first[i] = (int32_t)r->along.first[i];
        for (uint64_t t = 0; t < taps; t++)
            r->weights[t * n + i] = (float)r->along.weights[i * taps + t];
    }
    return true;
}

/* NULL with the error set past the memory budget. */
static ResizeLane *make_lanes(KernelCall *call, const QResize *r) {
    const unsigned threads = kernel_threads(call);
    const uint64_t taps = (uint64_t)r->down.taps, in = r->line_in, out = r->line_out;
    ResizeLane *lanes = ARENA_ARRAY(call->scratch, ResizeLane, threads);
    for (unsigned i = 0; i < threads; i++) {
        ResizeLane *lane = &lanes[i];
        lane->have = ARENA_ARRAY(call->scratch, uint64_t, taps);
        lane->line = kernel_workspace(call, (in + PAIR) * sizeof(float));
        if (lane->line) lane->lines = kernel_workspace(call, taps * out * sizeof(float));
        if (lane->lines) lane->mixed = kernel_workspace(call, out * sizeof(float));
        if (lane->mixed) lane->bytes = kernel_workspace(call, in > out ? in : out);
        if (!lane->bytes) return NULL;
        memset(lane->bytes, 0, in > out ? in : out);
        memset(lane->lines, 0, taps * out * sizeof(float)); /* nothing unset is read */
    }
    return lanes;
}

static bool run_resize(KernelCall *call, const ResizeHow *how, ResizeAxes axes, QResize *r) {
    if (!find_axes(call, how, axes, r) || !turn_table(call, r)) return false;
    const ResizeJob job = {r, make_lanes(call, r)};
    if (!job.lanes) return false;
    const uint64_t lines = r->outer * r->down_out;
    const double work = (double)call->outputs[0].count * (double)(r->down.taps + r->along.taps) / 4;
    kernel_run_parts(call->workers, kernel_work_cut(call, work, lines), make_lines, &job);
    return true;
}

bool kernel_q_resize(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0];
    ResizeHow how;
    ResizeAxes axes;
    QResize r = {0};
    if (!read_how(call, &how) || !resize_axes_find(call, &axes)) return false;
    int64_t *dims = arena_copy(call->scratch, x->dims, x->rank * sizeof *dims);
    for (uint32_t i = 0; i < axes.count; i++) dims[axes.items[i].axis] = axes.items[i].out;
    if (!kernel_output(call, 0, x->rank, dims) || !read_numbers(call, &r)) return false;
    if (call->outputs[0].count == 0) return true;
    if (x->count == 0) return kernel_fail(call, "cannot enlarge an empty axis");
    r.x = x->data;
    r.y = call->outputs[0].data;
    return run_resize(call, &how, axes, &r);
}
