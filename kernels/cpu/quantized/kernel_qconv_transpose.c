// SPDX-License-Identifier: Apache-2.0
/* QConvTranspose, QConvTransposeLast: transposed convolutions of bytes. Outputs that lie a stride
 * apart see the same taps, so that they are a convolution of stride 1 of its own (a phase), computed
 * as QConv's are: channels last, sums scaled, bounded and rounded in registers. A phase that sees no
 * tap has one whose weights are 0. Of one group, along one axis or two; one counts as two, the first
 * of size 1. */
#include <string.h>

#include "byte_operands.h"
#include "byte_rows.h"
#include "conv_last.h"
#include "kernel_functions.h"
#include "kernel_strided.h"

enum { X_ZERO = 2, AXES = 2, STRIDE_MOST = 16, LINE = 64 };

typedef struct QTransposed {
    WindowAxis axes[AXES]; /* of the convolution whose inverse this is: `in` is of the result */
    bool last;
    IsaLevel level;
    IgemmKind kind;
    uint64_t images, channels, filters;
    uint64_t depth;      /* elements of a pixel: channels, filled up to words */
    const void *weights; /* packed, phase by phase; NULL: in every run */
} QTransposed;

/* Outputs `first`, first + stride, … along an axis: taps t, t + step, … in descending order. */
typedef struct Phase {
    WindowAxis axis;          /* as a convolution */
    int64_t first, tap, step; /* tap: the last of them; axis.taps are 1, none of them real, if: */
    bool empty;
} Phase;

/* ---- phases ---------------------------------------------------------------------------------- */

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
static Phase phase_of(const WindowAxis *axis, int64_t first) {
    const int64_t stride = axis->stride, common = common_divisor(stride, axis->dilation);
    const int64_t at = first + axis->begin, step = stride / common;
    Phase p = {.first = first, .step = step, .empty = true};
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

/* ---- weights --------------------------------------------------------------------------------- */

static IgemmWeights weights_of(const QTransposed *t, const Phase phase[AXES], const int8_t *data) {
    return (IgemmWeights){.kind = t->kind,
                          .data = data,
                          .taps = (uint64_t)(phase[0].axis.taps * phase[1].axis.taps),
                          .depth = t->channels,
                          .columns = t->filters,
                          .tap = t->channels * t->filters,
                          .row = t->filters,
                          .column = 1};
}

static uint64_t whole_lines(uint64_t size) {
    return (size + LINE - 1) / LINE * LINE;
}

/* Bytes of a phase: what is packed, and behind it the sums of each filter's weights. */
static uint64_t sums_at(const QTransposed *t, const Phase phase[AXES]) {
    const IgemmWeights weights = weights_of(t, phase, NULL);
    return whole_lines(igemm_packed_size(&weights, t->level));
}
static uint64_t phase_size(const QTransposed *t, const Phase phase[AXES]) {
    return sums_at(t, phase) + whole_lines(t->filters * sizeof(int32_t));
}

/* All phases one after the other, those of the last axis first. */
typedef struct Phases {
    const QTransposed *t;
    int64_t place[AXES];
    Phase at[AXES];
} Phases;

static void phases_place(Phases *p) {
    for (int i = 0; i < AXES; i++) p->at[i] = phase_of(&p->t->axes[i], p->place[i]);
}
static bool phases_next(Phases *p) {
    bool more = false;
    for (int i = AXES; i-- > 0 && !more;) {
        more = ++p->place[i] < phase_count(&p->t->axes[i]);
        if (!more) p->place[i] = 0;
    }
    if (more) phases_place(p);
    return more;
}

static uint64_t packed_size(const QTransposed *t) {
    Phases p = {.t = t};
    uint64_t size = 0;
    phases_place(&p);
    do size += phase_size(t, p.at);
    while (phases_next(&p));
    return size;
}

/* Weights (channels, filters, rows, columns) of a phase as [tap][channel][filter]. */
static void pick_weights(const QTransposed *t, const Phase phase[AXES], const int8_t *from,
                         int8_t *to) {
    const uint64_t row = (uint64_t)t->axes[1].taps, taps = (uint64_t)t->axes[0].taps * row;
    const uint64_t pairs = t->channels * t->filters;
    if (phase[0].empty || phase[1].empty) {
        memset(to, 0, (uint64_t)(phase[0].axis.taps * phase[1].axis.taps) * pairs);
        return;
    }
    for (int64_t i = 0; i < phase[0].axis.taps; i++)
        for (int64_t k = 0; k < phase[1].axis.taps; k++, to += pairs) {
            const int64_t y = phase[0].tap - i * phase[0].step,
                          x = phase[1].tap - k * phase[1].step;
            const int8_t *tap = from + (uint64_t)y * row + (uint64_t)x;
            for (uint64_t n = 0; n < pairs; n++) to[n] = tap[n * taps];
        }
}

/* False past the memory budget. */
static bool pack_weights(KernelCall *call, const QTransposed *t, const int8_t *data, char *to) {
    const uint64_t taps = (uint64_t)(t->axes[0].taps * t->axes[1].taps);
    const uint64_t pairs = t->channels * t->filters;
    int8_t *picked = kernel_workspace(call, (taps + 1) * pairs);
    Phases p = {.t = t};
    if (!picked) return false;
    phases_place(&p);
    do {
        const IgemmWeights weights = weights_of(t, p.at, picked);
        int32_t *sums = (int32_t *)(void *)(to + sums_at(t, p.at));
        pick_weights(t, p.at, data, picked);
        igemm_pack(to, &weights, t->level);
        memset(sums, 0, t->filters * sizeof *sums);
        for (uint64_t i = 0; i < weights.taps * pairs; i++) {
            const uint32_t weight = (uint32_t)(int32_t)picked[i]; /* sums are modulo 2^32 */
            sums[i % t->filters] = (int32_t)((uint32_t)sums[i % t->filters] + weight);
        }
        to += phase_size(t, p.at);
    } while (phases_next(&p));
    return true;
}

static bool pack(KernelCall *call, const KernelPackJob *job) {
    return pack_weights(call, call->prepared, job->from->data, job->to);
}

/* What the packed bytes depend on beside the weights: strides are at most STRIDE_MOST. */
static uint64_t variant_of(const QTransposed *t) {
    uint64_t variant = (uint64_t)t->level;
    for (int i = 0; i < AXES; i++) {
        const WindowAxis *axis = &t->axes[i];
        variant = variant << 4 | (uint64_t)(axis->stride - 1);
        variant = variant << 4 | (uint64_t)(axis->begin % axis->stride);
        variant = variant << 4 | (uint64_t)(axis->dilation % axis->stride);
        variant = variant << 4 | (uint64_t)(phase_count(axis) - 1);
    }
    return variant;
}

/* ---- getting ready --------------------------------------------------------------------------- */

static bool check_sizes(KernelCall *call, const Window *window) {
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1], *y = &call->outputs[0];
    const uint32_t axis = window->channel_axis;
    if ((x->dtype != DTYPE_INT8 && x->dtype != DTYPE_UINT8) || w->dtype != DTYPE_INT8)
        return kernel_fail(call, "data of %s and weights of %s", dtype_name(x->dtype),
                           dtype_name(w->dtype));
    if (window->rank < 1 || window->rank > AXES || window->groups != 1)
        return kernel_fail(call, "data of rank %u in %llu groups", x->rank,
                           (unsigned long long)window->groups);
    if (w->dims[0] != x->dims[axis] || w->dims[1] != y->dims[axis] || x->dims[0] != y->dims[0])
        return kernel_fail(call, "channels and weights do not fit");
    for (uint32_t i = 0; i < window->rank; i++)
        if (window->axes[i].stride > STRIDE_MOST)
            return kernel_fail(call, "a stride of %lld", (long long)window->axes[i].stride);
    return true;
}

static bool transposed_make(KernelCall *call, QTransposed *t) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1];
    Window window;
    if (!window_make_transposed(call, attrs, &window) || !check_sizes(call, &window)) return false;
    t->axes[0] = (WindowAxis){.in = 1, .out = 1, .taps = 1, .stride = 1, .dilation = 1};
    memcpy(t->axes + AXES - window.rank, window.axes, window.rank * sizeof *t->axes);
    t->last = attrs->channels_last != 0;
    t->level = kernel_isa(call);
    t->kind = igemm_bytes_kind(t->level);
    t->images = (uint64_t)x->dims[0];
    t->channels = (uint64_t)w->dims[0];
    t->filters = (uint64_t)w->dims[1];
    t->depth = igemm_words(t->kind, t->channels) * (sizeof(uint32_t) / byte_rows_element(t->kind));
    return true;
}

static bool has_elements(const KernelCall *call) {
    return call->inputs[0].count && call->inputs[1].count && call->outputs[0].count;
}

static KernelReady make_q_transposed(KernelCall *call) {
    QTransposed *t = kernel_keep(call, sizeof *t);
    if (!t) return KERNEL_DECLINED;
    call->prepared = t;
    if (!transposed_make(call, t)) return KERNEL_FAILED;
    if (kernel_is_constant(call, 1) && has_elements(call))
        t->weights = kernel_share(call, 1, pack, variant_of(t), packed_size(t));
    if (t->weights) kernel_set_unread(call, 1);
    return KERNEL_READY;
}

const KernelPrepare kernel_prepare_q_conv_transpose = {make_q_transposed, NULL, 0};

/* ---- the kernel ------------------------------------------------------------------------------ */

/* What all phases read, and where each is made before it goes to its places. */
typedef struct PhaseRun {
    const QTransposed *t;
    ConvPixels pixels;
    int32_t moved; /* the zero point as rows have it */
    char *made;
} PhaseRun;

/* A phase's results, (images, rows, columns, filters), to their places in y: along its own lines, which a
 * pixel's filters would each be another one of. */
static void spread(KernelCall *call, const PhaseRun *run, const Phase phase[AXES]) {
    const QTransposed *t = run->t;
    KernelTensor *y = &call->outputs[0];
    const size_t size = kernel_element_size(y->dtype);
    const int64_t filters = (int64_t)t->filters, row = t->axes[1].in;
    const int64_t pixel = t->last ? filters : 1, channel = t->last ? 1 : t->axes[0].in * row;
    const int64_t rows = phase[0].axis.out, columns = phase[1].axis.out;
    StridedWalk walk = strided_new(call, 4);
    walk.axes[0] =
        (StridedAxis){(int64_t)t->images, t->axes[0].in * row * filters, rows * columns * filters};
    walk.axes[1] = (StridedAxis){rows, t->axes[0].stride * row * pixel, columns * filters};
    walk.axes[t->last ? 2 : 3] = (StridedAxis){columns, t->axes[1].stride * pixel, filters};
    walk.axes[t->last ? 3 : 2] = (StridedAxis){filters, channel, 1};
    const int64_t first = (phase[0].first * row + phase[1].first) * pixel;
    strided_copy(&walk, (char *)y->data + (uint64_t)first * size, run->made, size);
}

static bool run_phase(KernelCall *call, PhaseRun *run, const Phase phase[AXES],
                      const char *weights) {
    const QTransposed *t = run->t;
    const WindowAxis axes[AXES] = {phase[0].axis, phase[1].axis};
    const Window window = {.rank = AXES,
                           .axes = axes,
                           .in = (uint64_t)(axes[0].in * axes[1].in),
                           .out = (uint64_t)(axes[0].out * axes[1].out),
                           .taps = (uint64_t)(axes[0].taps * axes[1].taps),
                           .groups = 1};
    const int32_t *sums = (const int32_t *)(const void *)(weights + sums_at(t, phase));
    ByteScale scale;
    if (!byte_scale_make(call, sums, run->moved, t->filters, &scale)) return false;
    run->pixels.window = &window;
    const Igemm product = {.kind = t->kind,
                           .rows = t->images * window.out,
                           .taps = window.taps,
                           .depth = igemm_words(t->kind, t->channels),
                           .columns = t->filters,
                           .find = conv_pixels_find,
                           .source = &run->pixels,
                           .weights = weights,
                           .y = run->made,
                           .y_row = t->filters,
                           .epilogue = &scale.bounds,
                           .scale = &scale.scale};
    if (!igemm_run(call, &product, t->level)) return false;
    spread(call, run, phase);
    return true;
}

/* Rows of pixels; NULL with the error set. */
static const void *make_rows(KernelCall *call, PhaseRun *run) {
    const QTransposed *t = run->t;
    const KernelTensor *x = &call->inputs[0];
    const uint64_t pixels = (uint64_t)(t->axes[0].out * t->axes[1].out);
    ByteRows rows = {.kind = t->kind,
                     .from = x->data,
                     .dtype = x->dtype,
                     .rows = t->images * pixels,
                     .length = t->channels,
                     .padded = t->depth};
    const size_t size = t->depth * byte_rows_element(t->kind);
    char *zero = kernel_workspace(call, size);
    if (!zero || !byte_zero(call, X_ZERO, x->dtype, &rows.zero)) return NULL;
    byte_rows_fill(&rows, zero, size);
    run->moved = byte_rows_zero(&rows);
    run->pixels.zero = zero;
    run->pixels.pixel = size;
    if (!t->last) {
        void *turned = kernel_workspace(call, x->count);
        if (!turned) return NULL;
        byte_rows_turn(call, turned, x->data, (uint64_t[]){t->images, t->channels, pixels}, 1);
        rows.from = turned;
    }
    return byte_rows_make(call, &rows);
}

bool kernel_q_conv_transpose(KernelCall *call) {
    const QTransposed *t = call->prepared;
    const KernelTensor *y = &call->outputs[0];
    const char *weights = t->weights;
    PhaseRun run = {.t = t};
    Phases p = {.t = t};
    if (y->count == 0) return true;
    if (!has_elements(call)) return kernel_fail(call, "there is nothing to multiply");
    if (!weights) {
        char *packed = kernel_workspace(call, packed_size(t));
        if (!packed || !pack_weights(call, t, call->inputs[1].data, packed)) return false;
        weights = packed;
    }
    phases_place(&p); /* the first has most outputs */
    const uint64_t most = t->images * (uint64_t)(p.at[0].axis.out * p.at[1].axis.out);
    run.made = kernel_workspace(call, most * t->filters * kernel_element_size(y->dtype));
    if (!run.made) return false;
    run.pixels.x = make_rows(call, &run);
    if (!run.pixels.x) return false;
    do {
        if (!run_phase(call, &run, p.at, weights)) return false;
        weights += phase_size(t, p.at);
    } while (phases_next(&p));
    return true;
}
