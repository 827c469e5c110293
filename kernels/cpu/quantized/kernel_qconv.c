// SPDX-License-Identifier: Apache-2.0
/* QConv, QConvLast: convolutions of bytes whose sums are scaled, bounded and rounded where they are
 * in registers. Channels are last while they are computed (igemm.h): data with the channels second
 * is turned before and after. Depthwise ones go channel by channel. */
#include <math.h>
#include <string.h>

#include "byte_channels.h"
#include "byte_operands.h"
#include "byte_rows.h"
#include "conv_last.h"
#include "kernel_functions.h"

/* Channels of a pixel up to which rows of taps are taken together. */
enum { FEW_CHANNELS = 16, X_ZERO = 2, Z = 8, V_FACTOR, Z_FACTOR, SUM_SHIFT, SUM_LOW, SUM_HIGH };

typedef struct QConv {
    Window window;
    WindowAxis axes[CONV_LAST_RANK];
    bool last, by_channel, by_row;
    IsaSet cpu;
    IgemmKind kind;
    IgemmWay way;                       /* the call's choice, where that is one */
    uint64_t images, channels, filters; /* channels and filters of a group */
    uint64_t depth;                     /* elements of a row: channels, filled up to words */
    WeightLayout layout;
    const void *weights; /* packed, and behind them the sums of each filter's; NULL: in every run */
} QConv;

/* ---- weights --------------------------------------------------------------------------------- */

/* Rows of taps are one tap whose channels are those of all its pixels, in this order. */
static IgemmWeights weights_of(const QConv *conv) {
    const uint64_t taps = conv->window.taps, channels = conv->channels;
    const uint64_t across = conv->by_row ? (uint64_t)conv->axes[conv->window.rank - 1].taps : 1;
    return (IgemmWeights){.kind = conv->kind,
                          .taps = taps / across,
                          .depth = channels * across,
                          .columns = conv->filters,
                          .tap = across,
                          .row = taps,
                          .column = channels * taps,
                          .way = conv->way};
}

static WeightLayout layout_of(const QConv *conv) {
    const uint64_t taps = conv->window.taps, channels = conv->channels;
    const IgemmWeights weights = weights_of(conv);
    WeightLayout layout = igemm_layout(&weights, conv->cpu);
    layout.has_sums = 1;
    layout.groups = conv->window.groups;
    layout.group = conv->filters * channels * taps;
    layout.inner = channels;
    layout.outer = 1;
    return layout;
}

/* Where the sums of filters begin. */
static uint64_t sums_at(const QConv *conv) {
    if (!conv->by_channel) return weight_layout_sums(&conv->layout);
    const ByteChannelsIsa *isa = byte_channels_isa(conv->cpu);
    const uint64_t size = byte_channels_size(isa, conv->window.groups, conv->window.taps);
    return (size + 63) / 64 * 64;
}

static uint64_t packed_size(const QConv *conv) {
    if (!conv->by_channel) return weight_layout_size(&conv->layout);
    return sums_at(conv) + conv->window.groups * sizeof(int32_t);
}

static void pack_weights(const QConv *conv, const int8_t *data, void *to) {
    const uint64_t taps = conv->window.taps, channels = conv->window.groups;
    if (!conv->by_channel) {
        weight_layout_pack(&conv->layout, data, to);
        return;
    }
    int32_t *sums = (int32_t *)(void *)((char *)to + sums_at(conv));
    for (uint64_t c = 0; c < channels; c++) {
        uint32_t sum = 0; /* modulo 2^32, as those of products */
        for (uint64_t t = 0; t < taps; t++) {
            const int32_t weight = data[c * taps + t];
            sum += (uint32_t)weight;
        }
        sums[c] = (int32_t)sum;
    }
    byte_channels_pack(byte_channels_isa(conv->cpu), to, data, channels, taps);
}

static bool pack(KernelCall *call, const KernelPackJob *job) {
    pack_weights(call->prepared, job->from->data, job->to);
    return true;
}

/* Of the constant weights; NULL past the memory budget. */
static const void *share_weights(KernelCall *call, const QConv *conv) {
    return conv->by_channel ? kernel_share(call, 1, pack, (uint64_t)conv->cpu, packed_size(conv))
                            : kernel_weights(call, 1, &conv->layout);
}

/* ---- getting ready --------------------------------------------------------------------------- */

static bool check_types(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1];
    if ((x->dtype == DTYPE_INT8 || x->dtype == DTYPE_UINT8) && w->dtype == DTYPE_INT8) return true;
    return kernel_fail(call, "data of %s and weights of %s", dtype_name(x->dtype),
                       dtype_name(w->dtype));
}

static bool conv_make(KernelCall *call, QConv *conv) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1];
    Window *window = &conv->window;
    if (!check_types(call) || !window_make(call, attrs, w, window) ||
        !window_check_conv(call, window, x, w, NULL))
        return false;
    if (window->rank < 1 || window->rank > CONV_LAST_RANK)
        return kernel_fail(call, "data of rank %u", x->rank);
    memcpy(conv->axes, window->axes, window->rank * sizeof *conv->axes);
    const WindowAxis *across = &conv->axes[window->rank - 1];
    conv->last = attrs->channels_last != 0;
    conv->cpu = kernel_cpu(call);
    conv->kind = igemm_bytes_kind(conv->cpu);
    conv->images = (uint64_t)x->dims[0];
    conv->channels = (uint64_t)w->dims[1];
    conv->filters = (uint64_t)w->dims[0] / window->groups;
    conv->by_channel = window->groups > 1 && conv->channels == 1 && conv->filters == 1;
    conv->by_row = window->groups == 1 && conv->channels <= FEW_CHANNELS && across->taps > 1 &&
                   across->dilation == 1;
    const uint64_t each = sizeof(uint32_t) / byte_rows_element(conv->kind);
    conv->depth = igemm_words(conv->kind, conv->channels) * each;
    conv->way = (IgemmWay)call->choice;
    if (!conv->by_channel) conv->layout = layout_of(conv);
    return true;
}

static KernelReady make_q_conv(KernelCall *call) {
    QConv *conv = kernel_keep(call, sizeof *conv);
    if (!conv) return KERNEL_DECLINED;
    call->prepared = conv;
    if (!conv_make(call, conv)) return KERNEL_FAILED;
    conv->window.axes = conv->axes;
    const IgemmWeights weights = weights_of(conv);
    if (call->choice &&
        (conv->by_channel ||
         !igemm_has_way(call, &weights, conv->images * conv->window.out, conv->cpu)))
        return KERNEL_DECLINED;
    if (kernel_is_constant(call, 1) && call->inputs[1].count)
        conv->weights = share_weights(call, conv);
    if (conv->weights) kernel_set_unread(call, 1);
    return KERNEL_READY;
}

const KernelPrepare kernel_prepare_q_conv = {make_q_conv, NULL, IGEMM_WAY_COUNT - 1};

/* ---- channel by channel ---------------------------------------------------------------------- */

static bool run_channels(KernelCall *call, const QConv *conv, const void *x, int32_t zero,
                         const Igemm *given) {
    const uint64_t channels = conv->window.groups;
    unsigned char *padding = kernel_workspace(call, channels);
    if (!padding) return false;
    memset(padding, zero, channels);
    const ConvPixels pixels = {&conv->window, x, padding, channels};
    Igemm product = *given;
    product.taps = conv->window.taps;
    product.columns = channels;
    product.find = conv_pixels_find;
    product.source = &pixels;
    product.is_signed = call->inputs[0].dtype == DTYPE_INT8;
    return byte_channels_run(call, &product, byte_channels_isa(conv->cpu));
}

/* ---- products -------------------------------------------------------------------------------- */

/* The window of what is packed: rows of taps are one tap. */
typedef struct Words {
    Window window;
    WindowAxis axes[CONV_LAST_RANK];
    ByteRows rows;
    ConvPixels pixels;
} Words;

static bool words_make(KernelCall *call, const QConv *conv, const void *x, Words *words) {
    const KernelTensor *tensor = &call->inputs[0];
    const uint64_t lines = conv->images * conv->window.in, groups = conv->window.groups;
    const size_t element = byte_rows_element(conv->kind);
    words->window = conv->window;
    memcpy(words->axes, conv->axes, sizeof words->axes);
    words->window.axes = words->axes;
    words->rows.kind = conv->kind;
    words->rows.from = x;
    words->rows.dtype = tensor->dtype;
    words->rows.rows = lines * groups;
    words->rows.length = conv->channels;
    words->rows.padded = conv->depth;
    words->pixels.pixel = conv->depth * groups * element;
    if (conv->by_row) {
        WindowAxis *across = &words->axes[conv->window.rank - 1];
        const int64_t needed = (across->out - 1) * across->stride + across->taps;
        const int64_t least = across->begin + across->in;
        words->rows.rows = lines / (uint64_t)across->in;
        words->rows.length = (uint64_t)across->in * conv->channels;
        words->rows.begin = (uint64_t)across->begin * conv->channels;
        words->rows.padded = (uint64_t)(needed > least ? needed : least) * conv->channels;
        words->pixels.pixel = conv->channels * element;
        words->window.taps = conv->window.taps / (uint64_t)across->taps;
        across->in = needed > least ? needed : least;
        words->window.in = words->rows.rows / conv->images * (uint64_t)across->in;
        across->taps = 1;
        across->begin = 0;
    }
    words->pixels.window = &words->window;
    words->pixels.x = byte_rows_make(call, &words->rows);
    return words->pixels.x;
}

static bool run_groups(KernelCall *call, const QConv *conv, const void *x, Words *words,
                       const Igemm *first) {
    Igemm product = *first;
    const uint64_t across = (uint64_t)conv->axes[conv->window.rank - 1].taps;
    const uint64_t deep = conv->by_row ? conv->channels * across : conv->channels;
    if (!words_make(call, conv, x, words)) return false;
    product.taps = words->window.taps;
    product.depth = igemm_words(conv->kind, deep);
    product.groups = conv->window.groups;
    product.group_weights = weight_layout_group(&conv->layout);
    const uint64_t zeros = product.groups * product.depth * sizeof(uint32_t);
    char *zero = kernel_workspace(call, zeros);
    if (!zero) return false;
    byte_rows_fill(&words->rows, zero, zeros);
    words->pixels.zero = zero;
    product.find = conv_pixels_find;
    product.source = &words->pixels;
    return igemm_run(call, &product, conv->cpu);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* What is said of bytes that are added to the result. False with the error set. */
static bool read_sum(KernelCall *call, const QConv *conv, ByteScale *scale, IgemmByteSum *sum) {
    const KernelTensor *z = kernel_input(call, Z), *y = &call->outputs[0];
    if (!z) return true;
    *sum = (IgemmByteSum){.is_signed = z->dtype == DTYPE_INT8,
                          .z_row = conv->filters * conv->window.groups,
                          .v_factor = 1,
                          .z_factor = 1,
                          .low = scale->bounds.p,
                          .high = scale->bounds.q};
    scale->bounds.p = -HUGE_VALF;
    scale->bounds.q = HUGE_VALF;
    if (conv->by_channel || y->dtype == DTYPE_FLOAT ||
        (z->dtype != DTYPE_INT8 && z->dtype != DTYPE_UINT8))
        return kernel_fail(call, "cannot add %s", dtype_name(z->dtype));
    if (!byte_number(call, V_FACTOR, &sum->v_factor) ||
        !byte_number(call, Z_FACTOR, &sum->z_factor) ||
        !byte_number(call, SUM_SHIFT, &sum->shift) ||
        !byte_number(call, SUM_LOW, &scale->bounds.p) ||
        !byte_number(call, SUM_HIGH, &scale->bounds.q))
        return false;
    if (!(scale->bounds.p <= scale->bounds.q)) return kernel_fail(call, "SumLow is above SumHigh");
    scale->scale.sum = sum;
    return true;
}

/* Operands with their channels last. */
typedef struct ConvData {
    const void *x, *z;
    void *y;
} ConvData;

static bool run_conv(KernelCall *call, const QConv *conv, const ConvData *data) {
    const uint64_t filters = conv->filters * conv->window.groups;
    const char *weights = conv->weights;
    ByteScale scale;
    IgemmByteSum sum;
    int32_t zero;
    if (!weights) {
        char *packed = kernel_workspace(call, packed_size(conv));
        if (!packed) return false;
        pack_weights(conv, call->inputs[1].data, packed);
        weights = packed;
    }
    if (!byte_zero(call, X_ZERO, call->inputs[0].dtype, &zero)) return false;
    Words words = {.rows = {.kind = conv->kind, .dtype = call->inputs[0].dtype, .zero = zero}};
    const bool as_is = conv->by_channel && conv->kind != IGEMM_QUADS;
    const int32_t moved = as_is ? zero : byte_rows_zero(&words.rows);
    const int32_t *sums = (const int32_t *)(const void *)(weights + sums_at(conv));
    if (!byte_scale_make(call, sums, moved, filters, &scale) || !read_sum(call, conv, &scale, &sum))
        return false;
    sum.z = data->z;
    const Igemm product = {.kind = conv->kind,
                           .way = conv->way,
                           .rows = conv->images * conv->window.out,
                           .columns = conv->filters,
                           .weights = weights,
                           .y = data->y,
                           .y_row = filters,
                           .epilogue = &scale.bounds,
                           .scale = &scale.scale};
    return conv->by_channel ? run_channels(call, conv, data->x, zero, &product)
                            : run_groups(call, conv, data->x, &words, &product);
}

bool kernel_q_conv(KernelCall *call) {
    QConv conv = *(const QConv *)call->prepared;
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1], *z = kernel_input(call, Z);
    KernelTensor *y = &call->outputs[0];
    const uint64_t channels = conv.channels * conv.window.groups;
    const uint64_t filters = conv.filters * conv.window.groups;
    const size_t size = kernel_element_size(y->dtype);
    conv.window.axes = conv.axes;
    if (y->count == 0) return true;
    if (w->count == 0 || x->count == 0) return kernel_fail(call, "there is nothing to multiply");
    if (z && (z->count != y->count || kernel_element_size(z->dtype) != 1))
        return kernel_fail(call, "cannot add %s of a different size", dtype_name(z->dtype));
    if (conv.last) return run_conv(call, &conv, &(ConvData){x->data, z ? z->data : NULL, y->data});
    void *turned = kernel_workspace(call, x->count), *result = NULL;
    if (turned) result = kernel_workspace(call, y->count * size);
    void *other = result && z ? kernel_workspace(call, z->count) : NULL;
    if (!result || (z && !other)) return false;
    const uint64_t before[] = {conv.images, channels, conv.window.in};
    const uint64_t added[] = {conv.images, filters, conv.window.out};
    const uint64_t after[] = {conv.images, conv.window.out, filters};
    byte_rows_turn(call, turned, x->data, before, 1);
    if (z) byte_rows_turn(call, other, z->data, added, 1);
    if (!run_conv(call, &conv, &(ConvData){turned, other, result})) return false;
    byte_rows_turn(call, y->data, result, after, size);
    return true;
}
