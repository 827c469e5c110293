// SPDX-License-Identifier: Apache-2.0
/* ConvLast: convolutions of channels-last data. Each output pixel is a row of products by packed
 * weights (igemm.h) of the pixels that its taps see, wherever they lie; depthwise ones go channel by
 * channel. Where a pixel has few channels, the taps of a row are one run of memory: the input is
 * copied with its padding, and each row of taps is one tap of that many channels. Where it takes less
 * time, 3x3 taps of constant weights, and 3 or 5 in a line, are computed by tiles (winograd.h).
 *
 * Of bfloat16 it is the same with words of two channels, where the processor multiplies them, and weights
 * of depthwise ones are widened once; an odd number of channels is the float row's, but in rows of
 * taps. There each pixel is filled up to whole words, but those of one channel, where a word is two taps. */
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
    bool by_channel;  /* depthwise: groups are channels, of any number of filters */
    bool by_row;      /* rows of taps are one tap */
    IgemmKind kind;   /* of float or bfloat16 */
    uint64_t element; /* bytes of one of x's and y's */
    IsaSet cpu;
    IgemmWay way;
    WinogradBlocks blocks;
    bool large;                         /* tiles */
    uint64_t images, channels, filters; /* channels and filters of a group */
    WeightLayout layout;
    const void *tiles;   /* weights for winograd.h, or NULL */
    const void *weights; /* packed; NULL: where a run needs them */
    const void *zero;    /* for padding */
    Epilogue epilogue;
    const uint16_t *z; /* the residual of bfloat16 */
} ConvLast;

/* ---- weights --------------------------------------------------------------------------------- */

/* Taps of the last axis. */
static uint64_t row_taps(const ConvLast *conv) {
    return (uint64_t)conv->axes[conv->window.rank - 1].taps;
}

/* Whether a word is of two neighboring taps of one channel, instead of one that is filled up. Of an odd number
 * of taps the last word would have a pixel beside the window, which 0 does not make 0 where it is infinite. */
static bool pairs_taps(const ConvLast *conv) {
    return conv->by_row && conv->channels == 1 && row_taps(conv) % 2 == 0 &&
           conv->kind == IGEMM_BFLOATS;
}

static IgemmWeights weights_of(const ConvLast *conv) {
    const uint64_t taps = conv->window.taps;
    if (pairs_taps(conv))
        return (IgemmWeights){.kind = conv->kind,
                              .taps = taps / row_taps(conv),
                              .depth = row_taps(conv),
                              .columns = conv->filters,
                              .tap = row_taps(conv),
                              .row = 1,
                              .column = taps,
                              .way = conv->way};
    return (IgemmWeights){.kind = conv->kind,
                          .taps = taps,
                          .depth = conv->channels,
                          .columns = conv->filters,
                          .tap = 1,
                          .row = taps,
                          .column = conv->channels * taps,
                          .way = conv->way};
}

static WeightLayout layout_of(const ConvLast *conv) {
    if (conv->by_channel)
        return igemm_channels_layout(conv->window.taps, conv->window.groups * conv->filters);
    const IgemmWeights weights = weights_of(conv);
    WeightLayout layout = igemm_layout(&weights, conv->cpu);
    layout.groups = conv->window.groups;
    layout.group = conv->filters * weights.column;
    return layout;
}

static WinogradWeights tile_weights(const ConvLast *conv) {
    return (WinogradWeights){conv->channels, conv->filters, conv->window.taps, conv->cpu,
                             conv->large};
}

static WinogradSizes tile_sizes(const ConvLast *conv) {
    return (WinogradSizes){&conv->window, conv->images, conv->channels, conv->filters};
}

/* What the call may choose: tiles, in blocks of three sizes; taps, by the rule or another way of
 * igemm.h; or tiles of the form that the rule does not take. */
enum {
    CHOICE_TILES = 1,
    CHOICE_TAPS = CHOICE_TILES + WINOGRAD_LARGE + 1,
    CHOICE_OTHER_TILES = CHOICE_TAPS + IGEMM_WAY_COUNT,
    CHOICE_COUNT = CHOICE_OTHER_TILES
};

static bool chooses_tiles(const KernelCall *call) {
    return call->choice && (call->choice < CHOICE_TAPS || call->choice == CHOICE_OTHER_TILES);
}

static bool can_tiles(const ConvLast *conv) {
    const WinogradSizes sizes = tile_sizes(conv);
    return conv->kind == IGEMM_FLOAT && winograd_can(&sizes);
}

static bool ruled_by_tiles(const KernelCall *call, const ConvLast *conv) {
    const WinogradSizes sizes = tile_sizes(conv);
    return can_tiles(conv) && kernel_is_constant(call, 1) && call->inputs[1].count &&
           winograd_takes(&sizes);
}

static bool takes_large(const KernelCall *call, const ConvLast *conv) {
    const WinogradSizes sizes = tile_sizes(conv);
    return winograd_takes_large(&sizes) != (call->choice == CHOICE_OTHER_TILES);
}

/* False where the choice can't be, or would be what the rule does. */
static bool takes_choice(const KernelCall *call, const ConvLast *conv) {
    const bool by_rule = ruled_by_tiles(call, conv);
    const IgemmWeights weights = weights_of(conv);
    if (!call->choice) return true;
    if (conv->by_channel || !kernel_is_constant(call, 1) || !call->inputs[1].count) return false;
    if (call->choice == CHOICE_OTHER_TILES) {
        const WinogradSizes sizes = tile_sizes(conv);
        return can_tiles(conv) && winograd_can_large(&sizes);
    }
    if (call->choice < CHOICE_TAPS)
        return (call->choice > CHOICE_TILES || !by_rule) && can_tiles(conv);
    if (call->choice == CHOICE_TAPS) return by_rule;
    return igemm_has_way(call, &weights, conv->images * conv->window.out, conv->cpu);
}

/* The constant weights, packed for what is fastest. Where that is tiles, plans that are made with
 * packed weights have both; others pack those that are rarely used when they are. */
static void share_weights(KernelCall *call, ConvLast *conv) {
    if (conv->by_channel && conv->kind == IGEMM_BFLOATS) {
        conv->weights = conv_share_channels(call, 1, &conv->layout);
        return;
    }
    if (call->choice ? chooses_tiles(call) : ruled_by_tiles(call, conv)) {
        conv->large = takes_large(call, conv);
        const WinogradWeights weights = tile_weights(conv);
        const WeightLayout layout = winograd_layout(&weights);
        conv->tiles = kernel_weights(call, 1, &layout);
    }
    const bool keeps = !conv->tiles || call->cpu;
    conv->weights = keeps ? kernel_weights(call, 1, &conv->layout)
                          : kernel_stored_weights(call, 1, &conv->layout);
    if (conv->tiles || conv->weights) kernel_set_unread(call, 1);
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
    conv->cpu = kernel_cpu(call);
    conv->images = (uint64_t)x->dims[0];
    conv->channels = (uint64_t)w->dims[1];
    conv->filters = (uint64_t)w->dims[0] / window->groups;
    conv->by_channel = window->groups > 1 && conv->channels == 1;
    conv->by_row = takes_rows(conv);
    if (call->choice > CHOICE_TAPS && call->choice < CHOICE_OTHER_TILES)
        conv->way = (IgemmWay)(call->choice - CHOICE_TAPS);
    else if (call->choice && call->choice < CHOICE_TAPS)
        conv->blocks = (WinogradBlocks)(call->choice - CHOICE_TILES);
    conv->layout = layout_of(conv);
    return true;
}

/* Words are of two channels: what is copied for rows of taps is filled up. */
static bool suits_bfloats(const KernelCall *call, const ConvLast *conv) {
    if (!call->inputs[1].count || !call->inputs[0].count) return false;
    if (conv->by_channel) return kernel_is_constant(call, 1);
    return conv->by_row || conv->channels % 2 == 0;
}

static KernelReady make(KernelCall *call, IgemmKind kind) {
    ConvLast *conv = kernel_keep(call, sizeof *conv);
    if (!conv) return KERNEL_DECLINED;
    call->prepared = conv;
    conv->kind = kind;
    conv->element = kind == IGEMM_FLOAT ? sizeof(float) : sizeof(uint16_t);
    if (!conv_make(call, conv)) return KERNEL_FAILED;
    if (!takes_choice(call, conv) || (kind == IGEMM_BFLOATS && !suits_bfloats(call, conv)))
        return KERNEL_DECLINED;
    const uint64_t pixel = conv->channels * conv->window.groups;
    const uint64_t zeros = conv->by_row ? pixel * row_taps(conv) : pixel;
    conv->zero = kernel_keep(call, (zeros + 1) * sizeof(float));
    if (!conv->zero) return KERNEL_DECLINED;
    if (kernel_is_constant(call, 1) && call->inputs[1].count) share_weights(call, conv);
    /* depthwise weights of bfloat16 are nowhere else */
    const bool lacks = conv->by_channel && kind == IGEMM_BFLOATS && !conv->weights;
    return lacks ? KERNEL_DECLINED : KERNEL_READY;
}

static KernelReady make_conv_last(KernelCall *call) {
    return make(call, IGEMM_FLOAT);
}

const KernelPrepare kernel_prepare_conv_last = {make_conv_last, NULL, CHOICE_COUNT};

static KernelReady make_bfloat_conv_last(KernelCall *call) {
    const KernelTensor *z = kernel_input(call, 3);
    const bool bfloats =
        call->inputs[0].dtype == DTYPE_BFLOAT16 && call->inputs[1].dtype == DTYPE_BFLOAT16 &&
        call->outputs[0].dtype == DTYPE_BFLOAT16 && (!z || z->dtype == DTYPE_BFLOAT16);
    if (!bfloats || call->faithful || call->provider == KERNEL_PROVIDER_ONEDNN ||
        !igemm_has_bfloats(kernel_cpu(call)))
        return KERNEL_DECLINED;
    return make(call, IGEMM_BFLOATS);
}

const KernelPrepare kernel_prepare_bfloat_conv_last = {make_bfloat_conv_last, NULL, CHOICE_COUNT};

/* ---- running --------------------------------------------------------------------------------- */

/* Images with the padding of their rows. */
typedef struct PadJob {
    const char *from;
    char *to;
    uint64_t row, begin, padded; /* bytes: of a row, before it, of it and its padding */
    uint64_t pixel, whole;       /* bytes: of a pixel, and of one filled up to whole words */
} PadJob;

/* Pixels of three halves, as images have them, but for the last one, behind which nothing may be read. */
static uint64_t copy_colors(char *to, const char *from, uint64_t pixels) {
    uint64_t i = 0;
    for (; i + 1 < pixels; i++) {
        uint64_t pixel;
        memcpy(&pixel, from + i * 6, sizeof pixel);
        pixel &= (UINT64_C(1) << 48) - 1; /* bfloat16 is of little-endian processors alone */
        memcpy(to + i * 8, &pixel, sizeof pixel);
    }
    return i;
}

/* Pixels of an odd number of halves, each filled up with a 0 to whole words. */
static void copy_pixels(const PadJob *job, char *to, const char *from) {
    const uint64_t pixels = job->row / job->pixel, words = job->pixel / 4;
    const uint64_t done = job->pixel == 6 ? copy_colors(to, from, pixels) : 0;
    from += done * job->pixel;
    to += done * job->whole;
    for (uint64_t i = done; i < pixels; i++, from += 2, to += 4) {
        for (uint64_t k = 0; k < words; k++, from += 4, to += 4) memcpy(to, from, 4);
        uint16_t half;
        memcpy(&half, from, sizeof half);
        const uint32_t word = half;
        memcpy(to, &word, sizeof word);
    }
}

static void pad_rows(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const PadJob *job = data;
    (void)lane;
    for (uint64_t i = first; i < end; i++) {
        char *to = job->to + i * job->padded;
        const char *from = job->from + i * job->row;
        const uint64_t behind = job->begin + job->row / job->pixel * job->whole;
        memset(to, 0, job->begin);
        if (job->pixel == job->whole)
            memcpy(to + job->begin, from, job->row);
        else
            copy_pixels(job, to + job->begin, from);
        memset(to + behind, 0, job->padded - behind);
    }
}

/* A window of rows of taps: its axis x has one tap, whose pixels overlap. */
typedef struct RowWindow {
    Window window;
    WindowAxis axes[CONV_LAST_RANK];
} RowWindow;

/* Bytes of a pixel in rows of taps. */
static uint64_t row_pixel(const ConvLast *conv) {
    return pairs_taps(conv) ? conv->element : igemm_words(conv->kind, conv->channels) * 4;
}

static const char *row_window(KernelCall *call, const ConvLast *conv, RowWindow *rows) {
    const uint32_t last = conv->window.rank - 1;
    const WindowAxis *x = &conv->axes[last];
    const int64_t needed = (x->out - 1) * x->stride + x->taps;
    const int64_t padded = needed > x->begin + x->in ? needed : x->begin + x->in;
    const uint64_t count = conv->images * (conv->window.in / (uint64_t)x->in);
    const uint64_t pixel = conv->channels * conv->element, whole = row_pixel(conv);
    const PadJob job = {.from = call->inputs[0].data,
                        .to = kernel_workspace(call, count * (uint64_t)padded * whole),
                        .row = (uint64_t)x->in * pixel,
                        .begin = (uint64_t)x->begin * whole,
                        .padded = (uint64_t)padded * whole,
                        .pixel = pixel,
                        .whole = whole};
    if (!job.to) return NULL;
    const double work = (double)count * (double)job.padded / 2;
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

static bool run_by_channel(KernelCall *call, const ConvLast *conv, Igemm product) {
    IgemmLines lines;
    product.spread = conv->filters;
    if (conv->filters == 1 && conv_lines(&conv->axes[conv->window.rank - 1], &lines))
        product.lines = &lines;
    return igemm_channels(call, &product, conv->cpu);
}

/* Words of a tap of rows of taps, or of a pixel. */
static uint64_t tap_words(const ConvLast *conv) {
    if (pairs_taps(conv)) return igemm_words(conv->kind, row_taps(conv));
    return igemm_words(conv->kind, conv->channels) * (conv->by_row ? row_taps(conv) : 1);
}

static bool run_groups(KernelCall *call, const ConvLast *conv, const void *weights) {
    RowWindow rows;
    const uint64_t groups = conv->by_channel ? 1 : conv->window.groups;
    const uint64_t pixel = conv->channels * conv->window.groups;
    ConvPixels pixels = {&conv->window, call->inputs[0].data, conv->zero, pixel * conv->element};
    if (conv->by_row) {
        pixels.x = row_window(call, conv, &rows);
        pixels.window = &rows.window;
        pixels.pixel = row_pixel(conv);
        if (!pixels.x) return false;
    }
    const Igemm product = {.kind = conv->kind,
                           .way = conv->way,
                           .rows = conv->images * conv->window.out,
                           .taps = pixels.window->taps,
                           .depth = tap_words(conv),
                           .columns = conv->filters * (conv->window.groups / groups),
                           .find = conv_pixels_find,
                           .source = &pixels,
                           .weights = weights,
                           .y = call->outputs[0].data,
                           .y_row = conv->filters * conv->window.groups,
                           .epilogue = &conv->epilogue,
                           .z = conv->z,
                           .groups = groups,
                           .group_weights = weight_layout_group(&conv->layout)};
    return conv->by_channel ? run_by_channel(call, conv, product)
                            : igemm_run(call, &product, conv->cpu);
}

static WinogradEnd run_tiles(KernelCall *call, const ConvLast *conv) {
    const Winograd job = {.weights = tile_weights(conv),
                          .blocks = conv->blocks,
                          .window = &conv->window,
                          .images = conv->images,
                          .packed = conv->tiles,
                          .x = call->inputs[0].data,
                          .zero = conv->zero,
                          .y = call->outputs[0].data,
                          .epilogue = &conv->epilogue};
    return winograd_run(call, &job);
}

/* Weights of one run. NULL with the error set past the memory budget. */
static const void *pack_weights(KernelCall *call, const ConvLast *conv) {
    const KernelTensor *w =
        kernel_is_constant(call, 1) ? kernel_constant(call, 1) : &call->inputs[1];
    void *packed = w ? kernel_workspace(call, weight_layout_size(&conv->layout)) : NULL;
    if (packed) weight_layout_pack(&conv->layout, w->data, packed);
    return packed;
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
    conv.epilogue.bias = fused_floats(call, bias);
    if (conv.kind == IGEMM_BFLOATS)
        conv.z = z ? z->data : NULL;
    else
        conv.epilogue.residual = z ? z->data : NULL;
    conv.epilogue.residual_row = (uint64_t)w->dims[0];
    if (call->outputs[0].count == 0) return true;
    if (w->count == 0 || call->inputs[0].count == 0) {
        run_nothing(call, &conv);
        return true;
    }
    if (conv.tiles) {
        const WinogradEnd end = run_tiles(call, &conv);
        if (end != WINOGRAD_UNSOUND) return end == WINOGRAD_DONE;
    }
    const void *weights = conv.weights ? conv.weights : pack_weights(call, &conv);
    return weights && run_groups(call, &conv, weights);
}
