// SPDX-License-Identifier: Apache-2.0
/* ConvTransposeLast: transposed convolutions of channels-last data, of one group, along one axis or two.
 *
 * Where each input makes outputs of its own, a stride's, as those that double an image do, a row of inputs
 * by the weights of a row of taps is a row of outputs, as it lies: nothing is moved. All else is computed
 * phase by phase (conv_phases.h), whose results go to their places behind the product. Of bfloat16 it is
 * phases of words of two channels, where the processor multiplies them. */
#include <string.h>

#include "conv_last.h"
#include "conv_phases.h"
#include "fused_operands.h"
#include "kernel_functions.h"
#include "kernel_parts.h"

typedef struct TransposedLast {
    WindowAxis axes[PHASE_AXES];
    IgemmKind kind; /* of float or bfloat16 */
    size_t element; /* bytes of one of x's and y's */
    IsaSet cpu;
    uint64_t images, channels, filters;
    bool apart;          /* each input makes outputs of its own */
    const void *weights; /* packed; NULL: in every run */
    const void *zero;    /* a pixel, for padding */
} TransposedLast;

/* ---- weights --------------------------------------------------------------------------------- */

enum { LINE = 64 };

/* A row of taps of all filters; or a phase's. [tap][channel][filter] */
static IgemmWeights row_weights(const TransposedLast *t, const void *data) {
    const uint64_t columns = (uint64_t)t->axes[1].taps * t->filters;
    return (IgemmWeights){.kind = t->kind,
                          .data = data,
                          .taps = 1,
                          .depth = t->channels,
                          .columns = columns,
                          .row = columns,
                          .column = 1};
}
static IgemmWeights phase_weights(const TransposedLast *t, const ConvPhases *p, const void *data) {
    IgemmWeights weights = conv_phase_weights(p, t->channels, t->filters);
    weights.kind = t->kind;
    weights.data = data;
    return weights;
}

static uint64_t size_of(const TransposedLast *t, const IgemmWeights *weights) {
    return (igemm_packed_size(weights, t->cpu) + LINE - 1) / LINE * LINE;
}
static uint64_t row_size(const TransposedLast *t) {
    const IgemmWeights weights = row_weights(t, NULL);
    return size_of(t, &weights);
}
static uint64_t phase_size(const TransposedLast *t, const ConvPhases *p) {
    const IgemmWeights weights = phase_weights(t, p, NULL);
    return size_of(t, &weights);
}

static uint64_t packed_size(const TransposedLast *t) {
    ConvPhases p = conv_phases_first(t->axes);
    uint64_t size = 0;
    if (t->apart) return row_size(t) * (uint64_t)t->axes[0].taps;
    do size += phase_size(t, &p);
    while (conv_phases_next(&p));
    return size;
}

/* Row `y` of taps as [channel][tap][filter]. */
static void pick_row(const TransposedLast *t, int64_t y, const float *from, float *to) {
    const uint64_t taps = (uint64_t)t->axes[1].taps, all = (uint64_t)t->axes[0].taps * taps;
    from += (uint64_t)y * taps;
    for (uint64_t c = 0; c < t->channels; c++, from += t->filters * all)
        for (uint64_t k = 0; k < taps; k++)
            for (uint64_t f = 0; f < t->filters; f++) *to++ = from[f * all + k];
}

/* False past the memory budget. */
static bool pack_weights(KernelCall *call, const TransposedLast *t, const void *data, char *to) {
    const uint64_t taps = (uint64_t)(t->axes[0].taps * t->axes[1].taps);
    const uint64_t pairs = t->channels * t->filters;
    void *picked = kernel_workspace(call, (taps + 1) * pairs * t->element);
    ConvPhases p = conv_phases_first(t->axes);
    if (!picked) return false;
    for (int64_t y = 0; t->apart && y < t->axes[0].taps; y++, to += row_size(t)) {
        const IgemmWeights weights = row_weights(t, picked);
        pick_row(t, y, data, picked);
        igemm_pack(to, &weights, t->cpu);
    }
    if (t->apart) return true;
    do {
        const IgemmWeights weights = phase_weights(t, &p, picked);
        conv_phase_pick(&p, pairs, t->element, data, picked);
        igemm_pack(to, &weights, t->cpu);
        to += phase_size(t, &p);
    } while (conv_phases_next(&p));
    return true;
}

static bool pack(KernelCall *call, const KernelPackJob *job) {
    return pack_weights(call, call->prepared, job->from->data, job->to);
}

/* ---- getting ready --------------------------------------------------------------------------- */

static bool check_sizes(KernelCall *call, const Window *window) {
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1], *y = &call->outputs[0];
    const KernelTensor *bias = kernel_input(call, 2);
    const uint32_t axis = window->channel_axis;
    if (!conv_phases_check(call, window)) return false;
    if (w->dims[0] != x->dims[axis] || w->dims[1] != y->dims[axis] || x->dims[0] != y->dims[0] ||
        (bias && (bias->rank != 1 || bias->dims[0] != w->dims[1])))
        return kernel_fail(call, "channels, weights and bias do not fit");
    if (w->dtype != x->dtype || y->dtype != x->dtype)
        return kernel_fail(call, "operands of different types");
    return true;
}

/* igemm_multiply's products, one for each row of inputs. */
static bool lies_apart(const TransposedLast *t) {
    for (int i = 0; i < PHASE_AXES; i++) {
        const WindowAxis *axis = &t->axes[i];
        if (axis->taps != axis->stride || axis->begin || axis->in != axis->out * axis->stride ||
            (axis->dilation != 1 && axis->taps > 1))
            return false;
    }
    return t->kind == IGEMM_FLOAT && t->channels <= IGEMM_BLOCK_DEPTH;
}

static bool has_products(const KernelCall *call) {
    return call->inputs[0].count && call->inputs[1].count && call->outputs[0].count;
}

static bool transposed_make(KernelCall *call, IgemmKind kind, TransposedLast *t) {
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1];
    Window window;
    if (!window_make_transposed(call, call->attrs, &window) || !check_sizes(call, &window))
        return false;
    conv_phases_axes(&window, t->axes);
    t->kind = kind;
    t->element = kind == IGEMM_FLOAT ? sizeof(float) : sizeof(uint16_t);
    t->cpu = kernel_cpu(call);
    t->images = (uint64_t)x->dims[0];
    t->channels = (uint64_t)w->dims[0];
    t->filters = (uint64_t)w->dims[1];
    t->apart = has_products(call) && lies_apart(t);
    return true;
}

static KernelReady make(KernelCall *call, IgemmKind kind) {
    TransposedLast *t = kernel_keep(call, sizeof *t);
    if (!t) return KERNEL_DECLINED;
    call->prepared = t;
    if (!transposed_make(call, kind, t)) return KERNEL_FAILED;
    if (!has_products(call)) return kind == IGEMM_FLOAT ? KERNEL_READY : KERNEL_DECLINED;
    if (kind == IGEMM_BFLOATS && t->channels % 2) return KERNEL_DECLINED;
    t->zero = kernel_keep(call, t->channels * t->element);
    if (!t->zero) return KERNEL_DECLINED;
    const uint64_t variant = conv_phases_variant(t->axes) << 17 | (uint64_t)t->cpu << 1 | t->apart;
    if (kernel_is_constant(call, 1))
        t->weights = kernel_share(call, 1, pack, variant, packed_size(t));
    if (t->weights) kernel_set_unread(call, 1);
    return KERNEL_READY;
}

static KernelReady make_conv_transpose_last(KernelCall *call) {
    return make(call, IGEMM_FLOAT);
}

static KernelReady make_bfloat_conv_transpose_last(KernelCall *call) {
    const bool bfloats = call->inputs[0].dtype == DTYPE_BFLOAT16 &&
                         call->inputs[1].dtype == DTYPE_BFLOAT16 &&
                         call->outputs[0].dtype == DTYPE_BFLOAT16;
    if (!bfloats || call->faithful || call->provider == KERNEL_PROVIDER_ONEDNN ||
        !igemm_has_bfloats(kernel_cpu(call)))
        return KERNEL_DECLINED;
    return make(call, IGEMM_BFLOATS);
}

const KernelPrepare kernel_prepare_conv_transpose_last = {make_conv_transpose_last, NULL, 0};
const KernelPrepare kernel_prepare_bfloat_conv_transpose_last = {make_bfloat_conv_transpose_last,
                                                                 NULL, 0};

/* ---- outputs of their own -------------------------------------------------------------------- */

typedef struct RowsJob {
    const TransposedLast *t;
    const float *x;
    float *y;
    const char *weights;
    Epilogue bias; /* for each of a row's taps */
} RowsJob;

/* Rows of inputs, counted through all images, each of which makes a row of outputs for each row of
 * taps. */
static void rows_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const RowsJob *job = data;
    const TransposedLast *t = job->t;
    const uint64_t inputs = (uint64_t)t->axes[1].out, taps = (uint64_t)t->axes[0].taps;
    const uint64_t columns = (uint64_t)t->axes[1].taps * t->filters, size = row_size(t);
    (void)lane;
    for (uint64_t i = first * taps; i < end * taps; i++) {
        const float *x = job->x + i / taps * inputs * t->channels;
        float *y = job->y + i * inputs * columns;
        for (uint64_t at = 0, rows; at < inputs; at += rows) {
            rows = inputs - at < IGEMM_BLOCK_ROWS ? inputs - at : IGEMM_BLOCK_ROWS;
            const IgemmBlock block = {.rows = rows,
                                      .depth = t->channels,
                                      .columns = columns,
                                      .x = x + at * t->channels,
                                      .weights = job->weights + i % taps * size,
                                      .y = y + at * columns,
                                      .epilogue = job->bias.bias ? &job->bias : NULL};
            igemm_multiply(&block, igemm_isa_for(t->kind, t->cpu, inputs));
        }
    }
}

static bool run_rows(KernelCall *call, const TransposedLast *t, const char *weights,
                     const float *bias) {
    const uint64_t taps = (uint64_t)t->axes[1].taps, columns = taps * t->filters;
    const uint64_t rows = t->images * (uint64_t)t->axes[0].out;
    RowsJob job = {t, call->inputs[0].data, call->outputs[0].data, weights, {.bias = NULL}};
    if (bias) {
        float *repeated = ARENA_ARRAY(call->scratch, float, columns);
        for (uint64_t i = 0; i < columns; i++) repeated[i] = bias[i % t->filters];
        job.bias.bias = repeated;
    }
    const double work = (double)call->outputs[0].count * (double)t->channels;
    kernel_run_parts(call->workers, kernel_work_cut(call, work / 4, rows), rows_part, &job);
    return true;
}

/* ---- phases ---------------------------------------------------------------------------------- */

/* `count` pixels of nothing but the bias. */
static void fill(const TransposedLast *t, const float *bias, uint64_t count, void *to) {
    const IgemmNarrow pixel = {to, t->filters, 1, (uint32_t)t->filters, (uint32_t)t->filters};
    const size_t size = t->filters * t->element;
    if (!bias)
        memset(to, 0, size);
    else if (t->kind == IGEMM_FLOAT)
        memcpy(to, bias, size);
    else
        igemm_round_rows(&pixel, bias);
    for (uint64_t i = 1; i < count; i++) memcpy((char *)to + i * size, to, size);
}

static bool run_phases(KernelCall *call, const TransposedLast *t, const char *weights,
                       const float *bias) {
    ConvPhases p = conv_phases_first(t->axes);
    const uint64_t most = t->images * (uint64_t)(p.at[0].axis.out * p.at[1].axis.out);
    const Epilogue epilogue = {.bias = bias};
    PhaseResults results = {
        .images = t->images, .filters = t->filters, .last = true, .size = t->element};
    void *made = kernel_workspace(call, most * t->filters * t->element);
    if (!made) return false;
    results.made = made;
    results.y = call->outputs[0].data;
    do {
        WindowAxis axes[PHASE_AXES];
        const Window window = conv_phase_window(&p, axes);
        const ConvPixels pixels = {&window, call->inputs[0].data, t->zero,
                                   t->channels * t->element};
        const Igemm product = {.kind = t->kind,
                               .rows = t->images * window.out,
                               .taps = window.taps,
                               .depth = igemm_words(t->kind, t->channels),
                               .columns = t->filters,
                               .find = conv_pixels_find,
                               .source = &pixels,
                               .weights = weights,
                               .y = made,
                               .y_row = t->filters,
                               .epilogue = &epilogue};
        if (conv_phase_empty(&p))
            fill(t, bias, product.rows, made);
        else if (!igemm_run(call, &product, t->cpu))
            return false;
        conv_phase_spread(call, &p, &results);
        weights += phase_size(t, &p);
    } while (conv_phases_next(&p));
    return true;
}

bool kernel_conv_transpose_last(KernelCall *call) {
    const TransposedLast *t = call->prepared;
    const KernelTensor *w = &call->inputs[1], *y = &call->outputs[0];
    const float *bias = fused_floats(call, kernel_input(call, 2));
    const char *weights = t->weights;
    if (y->count == 0) return true;
    if (!has_products(call)) {
        fill(t, bias, y->count / t->filters, y->data);
        return true;
    }
    if (!weights) {
        char *packed = kernel_workspace(call, packed_size(t));
        if (kernel_is_constant(call, 1)) w = kernel_constant(call, 1);
        if (!packed || !w || !pack_weights(call, t, w->data, packed)) return false;
        weights = packed;
    }
    return (t->apart ? run_rows : run_phases)(call, t, weights, bias);
}
