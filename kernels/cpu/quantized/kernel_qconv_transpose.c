// SPDX-License-Identifier: Apache-2.0
/* QConvTranspose, QConvTransposeLast: transposed convolutions of bytes, phase by phase (conv_phases.h),
 * which are computed as QConv's are: channels last, sums scaled, bounded and rounded in registers. A
 * phase that sees no tap has one whose weights are 0. Of one group, along one axis or two. */
#include <string.h>

#include "byte_operands.h"
#include "byte_rows.h"
#include "conv_last.h"
#include "conv_phases.h"
#include "kernel_functions.h"

enum { X_ZERO = 2, LINE = 64 };

typedef struct QTransposed {
    WindowAxis axes[PHASE_AXES];
    bool last;
    IsaSet cpu;
    IgemmKind kind;
    uint64_t images, channels, filters;
    uint64_t depth;      /* elements of a pixel: channels, filled up to words */
    const void *weights; /* packed, phase by phase; NULL: in every run */
} QTransposed;

/* ---- weights --------------------------------------------------------------------------------- */

static IgemmWeights weights_of(const QTransposed *t, const ConvPhases *p, const int8_t *data) {
    IgemmWeights weights = conv_phase_weights(p, t->channels, t->filters);
    weights.kind = t->kind;
    weights.data = data;
    return weights;
}

static uint64_t whole_lines(uint64_t size) {
    return (size + LINE - 1) / LINE * LINE;
}

/* Bytes of a phase: what is packed, and behind it the sums of each filter's weights. */
static uint64_t sums_at(const QTransposed *t, const ConvPhases *p) {
    const IgemmWeights weights = weights_of(t, p, NULL);
    return whole_lines(igemm_packed_size(&weights, t->cpu));
}
static uint64_t phase_size(const QTransposed *t, const ConvPhases *p) {
    return sums_at(t, p) + whole_lines(t->filters * sizeof(int32_t));
}

static uint64_t packed_size(const QTransposed *t) {
    ConvPhases p = conv_phases_first(t->axes);
    uint64_t size = 0;
    do size += phase_size(t, &p);
    while (conv_phases_next(&p));
    return size;
}

/* False past the memory budget. */
static bool pack_weights(KernelCall *call, const QTransposed *t, const int8_t *data, char *to) {
    const uint64_t taps = (uint64_t)(t->axes[0].taps * t->axes[1].taps);
    const uint64_t pairs = t->channels * t->filters;
    int8_t *picked = kernel_workspace(call, (taps + 1) * pairs);
    ConvPhases p = conv_phases_first(t->axes);
    if (!picked) return false;
    do {
        const IgemmWeights weights = weights_of(t, &p, picked);
        int32_t *sums = (int32_t *)(void *)(to + sums_at(t, &p));
        conv_phase_pick(&p, pairs, 1, data, picked);
        igemm_pack(to, &weights, t->cpu);
        memset(sums, 0, t->filters * sizeof *sums);
        for (uint64_t i = 0; i < weights.taps * pairs; i++) {
            const uint32_t weight = (uint32_t)(int32_t)picked[i]; /* sums are modulo 2^32 */
            sums[i % t->filters] = (int32_t)((uint32_t)sums[i % t->filters] + weight);
        }
        to += phase_size(t, &p);
    } while (conv_phases_next(&p));
    return true;
}

static bool pack(KernelCall *call, const KernelPackJob *job) {
    return pack_weights(call, call->prepared, job->from->data, job->to);
}

/* What the packed bytes depend on beside the weights: strides are small. */
static uint64_t variant_of(const QTransposed *t) {
    return conv_phases_variant(t->axes) << 16 | t->cpu;
}

/* ---- getting ready --------------------------------------------------------------------------- */

static bool check_sizes(KernelCall *call, const Window *window) {
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1], *y = &call->outputs[0];
    const uint32_t axis = window->channel_axis;
    if ((x->dtype != DTYPE_INT8 && x->dtype != DTYPE_UINT8) || w->dtype != DTYPE_INT8)
        return kernel_fail(call, "data of %s and weights of %s", dtype_name(x->dtype),
                           dtype_name(w->dtype));
    if (!conv_phases_check(call, window)) return false;
    if (w->dims[0] != x->dims[axis] || w->dims[1] != y->dims[axis] || x->dims[0] != y->dims[0])
        return kernel_fail(call, "channels and weights do not fit");
    return true;
}

static bool transposed_make(KernelCall *call, QTransposed *t) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1];
    Window window;
    if (!window_make_transposed(call, attrs, &window) || !check_sizes(call, &window)) return false;
    conv_phases_axes(&window, t->axes);
    t->last = attrs->channels_last != 0;
    t->cpu = kernel_cpu(call);
    t->kind = igemm_bytes_kind(t->cpu);
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

static bool run_phase(KernelCall *call, PhaseRun *run, const ConvPhases *p, const char *weights) {
    const QTransposed *t = run->t;
    const KernelTensor *y = &call->outputs[0];
    WindowAxis axes[PHASE_AXES];
    const Window window = conv_phase_window(p, axes);
    const int32_t *sums = (const int32_t *)(const void *)(weights + sums_at(t, p));
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
    if (!igemm_run(call, &product, t->cpu)) return false;
    const PhaseResults made = {.images = t->images,
                               .filters = t->filters,
                               .last = t->last,
                               .size = kernel_element_size(y->dtype),
                               .made = run->made,
                               .y = y->data};
    conv_phase_spread(call, p, &made);
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
    ConvPhases p = conv_phases_first(t->axes);
    if (y->count == 0) return true;
    if (!has_elements(call)) return kernel_fail(call, "there is nothing to multiply");
    if (!weights) {
        char *packed = kernel_workspace(call, packed_size(t));
        if (!packed || !pack_weights(call, t, call->inputs[1].data, packed)) return false;
        weights = packed;
    }
    const uint64_t most = t->images * (uint64_t)(p.at[0].axis.out * p.at[1].axis.out);
    run.made = kernel_workspace(call, most * t->filters * kernel_element_size(y->dtype));
    if (!run.made) return false;
    run.pixels.x = make_rows(call, &run);
    if (!run.pixels.x) return false;
    do {
        if (!run_phase(call, &run, &p, weights)) return false;
        weights += phase_size(t, &p);
    } while (conv_phases_next(&p));
    return true;
}
