// SPDX-License-Identifier: Apache-2.0
/* ConvLast: convolutions of channels-last data. Each output pixel is a row of products by packed
 * weights (igemm.h) of the pixels that its taps see, wherever they lie; depthwise ones go channel by
 * channel. Where a pixel has few channels, the taps of a row are one run of memory: the input is
 * copied with its padding, and each row of taps is one tap of that many channels. Where it takes less
 * time, 3x3 taps of constant weights are computed by tiles (winograd.h). */
#include <string.h>

#include "conv_last.h"
#include "fused_operands.h"
#include "igemm.h"
#include "kernel_parts.h"
#include "kernel_functions.h"
#include "winograd.h"

/* Channels of a pixel up to which rows of taps are taken together. */
enum { FEW_CHANNELS = 16 };

typedef struct ConvLast {
    Window window;
    WindowAxis axes[CONV_LAST_RANK];
    bool by_channel; /* depthwise, a filter a channel */
    bool by_row;     /* rows of taps are one tap */
    bool by_tile;    /* `weights` are winograd.h's */
    IsaLevel level;
    uint64_t images, channels, filters; /* channels and filters of a group */
    uint64_t group_size;                /* bytes of a group's packed weights */
    const void *weights;                /* packed; NULL: in every run */
    const float *zero;                  /* for padding */
    Epilogue epilogue;
} ConvLast;

/* ---- weights --------------------------------------------------------------------------------- */

static IgemmWeights weights_of(const ConvLast *conv, const float *data) {
    const uint64_t taps = conv->window.taps, filter = conv->channels * taps;
    return (IgemmWeights){.data = data,
                          .taps = taps,
                          .depth = conv->channels,
                          .columns = conv->filters,
                          .tap = 1,
                          .row = taps,
                          .column = filter};
}

static uint64_t packed_size(const ConvLast *conv) {
    return conv->group_size * (conv->by_channel ? 1 : conv->window.groups);
}

static void pack_weights(const ConvLast *conv, const float *data, void *to) {
    const uint64_t taps = conv->window.taps, channels = conv->window.groups;
    float *by_tap = to;
    for (uint64_t c = 0; conv->by_channel && c < channels; c++)
        for (uint64_t t = 0; t < taps; t++) by_tap[t * channels + c] = data[c * taps + t];
    for (uint64_t g = 0; !conv->by_channel && g < channels; g++) {
        const IgemmWeights group =
            weights_of(conv, data + g * conv->filters * conv->channels * taps);
        igemm_pack((char *)to + g * conv->group_size, &group, conv->level);
    }
}

static bool pack(KernelCall *call, const KernelPackJob *job) {
    pack_weights(call->prepared, job->from->data, job->to);
    return true;
}

static WinogradWeights tile_weights(const ConvLast *conv) {
    return (WinogradWeights){conv->channels, conv->filters, conv->level};
}

static bool pack_tiles(KernelCall *call, const KernelPackJob *job) {
    const WinogradWeights weights = tile_weights(call->prepared);
    float *space = kernel_workspace(call, winograd_pack_space(&weights) * sizeof(float));
    if (!space) return false;
    winograd_pack(&weights, job->from->data, job->to, space);
    return true;
}

/* The constant weights, packed for what is fastest. */
static void share_weights(KernelCall *call, ConvLast *conv) {
    if (winograd_takes(&conv->window, conv->images, conv->channels, conv->filters)) {
        const WinogradWeights weights = tile_weights(conv);
        conv->weights = kernel_share(call, 1, pack_tiles, (uint64_t)conv->level,
                                     winograd_packed_size(&weights));
        conv->by_tile = conv->weights;
    }
    if (!conv->weights)
        conv->weights = kernel_share(call, 1, pack, (uint64_t)conv->level, packed_size(conv));
    if (conv->weights) kernel_set_unread(call, 1);
}

/* ---- getting ready --------------------------------------------------------------------------- */

/* Steps of 1 along the last axis's taps, so that their pixels lie side by side. */
static bool takes_rows(const ConvLast *conv) {
    const WindowAxis *x = &conv->axes[conv->window.rank - 1];
    return conv->window.groups == 1 && conv->channels <= FEW_CHANNELS && x->taps > 1 &&
           x->dilation == 1;
}

static bool conv_make(KernelCall *call, ConvLast *conv) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1];
    Window *window = &conv->window;
    if (!fused_read_activation(call, &attrs->act, &conv->epilogue) || !fused_check_residual(call) ||
        !window_make(call, attrs, w, window) ||
        !window_check_conv(call, window, x, w, kernel_input(call, 2)))
        return false;
    if (window->rank < 1 || window->rank > CONV_LAST_RANK)
        return kernel_fail(call, "data of rank %u", x->rank);
    memcpy(conv->axes, window->axes, window->rank * sizeof *conv->axes);
    window->axes = conv->axes;
    conv->level = isa_best();
    conv->images = (uint64_t)x->dims[0];
    conv->channels = (uint64_t)w->dims[1];
    conv->filters = (uint64_t)w->dims[0] / window->groups;
    conv->by_channel = window->groups > 1 && conv->channels == 1 && conv->filters == 1;
    conv->by_row = takes_rows(conv);
    const IgemmWeights group = weights_of(conv, NULL);
    conv->group_size =
        conv->by_channel ? w->count * sizeof(float) : igemm_packed_size(&group, conv->level);
    return true;
}

static KernelReady make_conv_last(KernelCall *call) {
    ConvLast *conv = kernel_keep(call, sizeof *conv);
    if (!conv) return KERNEL_DECLINED;
    call->prepared = conv;
    if (!conv_make(call, conv)) return KERNEL_FAILED;
    const WindowAxis *x = &conv->axes[conv->window.rank - 1];
    const uint64_t pixel = conv->channels * conv->window.groups;
    const uint64_t zeros = conv->by_row ? pixel * (uint64_t)x->taps : pixel;
    conv->zero = kernel_keep(call, (zeros + 1) * sizeof(float));
    if (!conv->zero) return KERNEL_DECLINED;
    if (kernel_is_constant(call, 1) && call->inputs[1].count) share_weights(call, conv);
    return KERNEL_READY;
}

const KernelPrepare kernel_prepare_conv_last = {make_conv_last, NULL};

/* ---- running --------------------------------------------------------------------------------- */

/* Images with the padding of their rows. */
typedef struct PadJob {
    const float *from;
    float *to;
    uint64_t row, begin, padded; /* elements: of a row, before it, of it and its padding */
} PadJob;

static void pad_rows(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const PadJob *job = data;
    (void)lane;
    for (uint64_t i = first; i < end; i++) {
        float *to = job->to + i * job->padded;
        memset(to, 0, job->begin * sizeof *to);
        memcpy(to + job->begin, job->from + i * job->row, job->row * sizeof *to);
        memset(to + job->begin + job->row, 0, (job->padded - job->begin - job->row) * sizeof *to);
    }
}

/* A window of rows of taps: its axis x has one tap, whose pixels overlap. */
typedef struct RowWindow {
    Window window;
    WindowAxis axes[CONV_LAST_RANK];
} RowWindow;

static const float *row_window(KernelCall *call, const ConvLast *conv, RowWindow *rows) {
    const uint32_t last = conv->window.rank - 1;
    const WindowAxis *x = &conv->axes[last];
    const int64_t needed = (x->out - 1) * x->stride + x->taps;
    const int64_t padded = needed > x->begin + x->in ? needed : x->begin + x->in;
    const uint64_t count = conv->images * (conv->window.in / (uint64_t)x->in);
    const PadJob job = {
        .from = call->inputs[0].data,
        .to = kernel_workspace(call, count * (uint64_t)padded * conv->channels * sizeof(float)),
        .row = (uint64_t)x->in * conv->channels,
        .begin = (uint64_t)x->begin * conv->channels,
        .padded = (uint64_t)padded * conv->channels};
    if (!job.to) return NULL;
    const double work = (double)count * (double)job.padded / 4;
    kernel_run_parts(call->workers, kernel_work_cut(call, work, count), pad_rows, &job);
    rows->window = conv->window;
    memcpy(rows->axes, conv->axes, sizeof rows->axes);
    rows->axes[last].in = padded;
    rows->axes[last].taps = 1;
    rows->axes[last].begin = 0;
    rows->window.axes = rows->axes;
    rows->window.in = conv->window.in / (uint64_t)x->in * (uint64_t)padded;
    rows->window.taps = conv->window.taps / (uint64_t)x->taps;
    return job.to;
}

static bool run_groups(KernelCall *call, const ConvLast *conv, const void *weights) {
    RowWindow rows;
    const uint64_t groups = conv->by_channel ? 1 : conv->window.groups;
    const uint64_t pixel = conv->channels * conv->window.groups;
    ConvPixels pixels = {&conv->window, call->inputs[0].data, conv->zero, pixel * sizeof(float)};
    if (conv->by_row) {
        pixels.x = (const char *)row_window(call, conv, &rows);
        pixels.window = &rows.window;
        if (!pixels.x) return false;
    }
    Epilogue epilogue = conv->epilogue;
    Igemm product = {.rows = conv->images * conv->window.out,
                     .taps = pixels.window->taps,
                     .depth = conv->channels * (conv->window.taps / pixels.window->taps),
                     .columns = conv->by_channel ? conv->window.groups : conv->filters,
                     .find = conv_pixels_find,
                     .source = &pixels,
                     .weights = weights,
                     .y = call->outputs[0].data,
                     .y_row = conv->filters * conv->window.groups,
                     .epilogue = &epilogue};
    if (conv->by_channel) return igemm_channels(call, &product, conv->level);
    for (uint64_t g = 0; g < groups; g++) {
        if (!igemm_run(call, &product, conv->level)) return false;
        pixels.x += conv->channels * sizeof(float);
        product.weights = (const char *)product.weights + conv->group_size;
        product.y = (float *)product.y + conv->filters;
        if (epilogue.bias) epilogue.bias += conv->filters;
        if (epilogue.residual) epilogue.residual += conv->filters;
    }
    return true;
}

static WinogradEnd run_tiles(KernelCall *call, const ConvLast *conv) {
    const Winograd job = {.weights = tile_weights(conv),
                          .window = &conv->window,
                          .images = conv->images,
                          .packed = conv->weights,
                          .x = call->inputs[0].data,
                          .zero = conv->zero,
                          .y = call->outputs[0].data,
                          .epilogue = &conv->epilogue};
    return winograd_run(call, &job);
}

/* The weights as the model has them, nearly, where they are kept for tiles alone. */
static const float *weights_of_tiles(KernelCall *call, const ConvLast *conv) {
    const WinogradWeights weights = tile_weights(conv);
    float *data = kernel_workspace(call, call->inputs[1].count * sizeof(float));
    if (data) winograd_unpack(&weights, conv->weights, data);
    return data;
}

/* Without weights, taps or channels there is the rest alone. */
static void run_nothing(KernelCall *call, const ConvLast *conv) {
    KernelTensor *y = &call->outputs[0];
    const uint64_t filters = (uint64_t)call->inputs[1].dims[0];
    memset(y->data, 0, y->count * sizeof(float));
    const EpilogueBlock whole = {
        .y = y->data, .y_row = filters, .rows = y->count / filters, .columns = filters};
    epilogue_run(call, &conv->epilogue, &whole);
}

bool kernel_conv_last(KernelCall *call) {
    ConvLast conv = *(const ConvLast *)call->prepared;
    const KernelTensor *w = &call->inputs[1], *bias = kernel_input(call, 2);
    const KernelTensor *z = kernel_input(call, 3);
    conv.window.axes = conv.axes;
    conv.epilogue.bias = bias ? bias->data : NULL;
    conv.epilogue.residual = z ? z->data : NULL;
    conv.epilogue.residual_row = (uint64_t)w->dims[0];
    if (call->outputs[0].count == 0) return true;
    if (w->count == 0 || call->inputs[0].count == 0) {
        run_nothing(call, &conv);
        return true;
    }
    if (conv.by_tile) {
        const WinogradEnd end = run_tiles(call, &conv);
        if (end != WINOGRAD_UNSOUND) return end == WINOGRAD_DONE;
    }
    const void *weights = conv.by_tile ? NULL : conv.weights;
    if (!weights) {
        const float *data = conv.by_tile ? weights_of_tiles(call, &conv) : w->data;
        void *packed = kernel_workspace(call, packed_size(&conv));
        if (!packed || !data) return false;
        pack_weights(&conv, data, packed);
        weights = packed;
    }
    return run_groups(call, &conv, weights);
}
