// SPDX-License-Identifier: Apache-2.0
/* Convolutions on a CUDA device: Conv, and demi.fused's Conv and ConvLast; pools, ConvTranspose.
 *
 * Depthwise ones of channels-last data are demi's own; others are cuDNN's where it has engines for all
 * that follows; 16-bit ones that it has none for, and those of few pixels with deep sums, go by tiles
 * (tile.cu); what is left is cuDNN's with a kernel behind it, or computed output by output. Weights of
 * channels-last convolutions are turned once, for all contexts. */
#include <string.h>

#include "cuda_dnn.h"
#include "cuda_epilogue.h"
#include "cuda_functions.h"
#include "cuda_tile.h"
#include "window.h"
#include "window_args.h"

enum { THREADS = 128, WORKSPACE = 256 << 20 };

/* How a convolution is computed, and what is kept of it. */
typedef enum ConvWay { CONV_DIRECT, CONV_DEPTHWISE, CONV_LIBRARY, CONV_TILE } ConvWay;

typedef struct Conv {
    ConvWay way;
    bool last;                     /* channels-last */
    Dtype dtype;                   /* of x, in which all is computed */
    CudaEpilogue all;              /* what follows; */
    bool biased, added, activated; /* what of it the library does */
    const void *weights; /* turned, on the device; NULL: as they are, or turned in every run */
    const CudaDnn *dnn;
    void *handle;
    DnnPlan *plan;
    WindowArgs args; /* without data */
    bool paired;     /* by tiles of pairs of pixels, */
    int32_t shift;   /* with so many columns before the first tap */
} Conv;

/* ---- weights --------------------------------------------------------------------------------- */

/* KernelPackJob.variant: which order they are in. */
enum { TURNED, BY_CHANNEL, PAIRED, PAIRED_SHIFTED };

/* (filters, channels, taps) to (filters, taps, channels), or of one channel to (taps, filters). */
static bool pack_weights(KernelCall *call, const KernelPackJob *job) {
    const KernelTensor *w = job->from;
    const uint64_t size = kernel_element_size(w->dtype);
    const uint64_t filters = (uint64_t)w->dims[0], channels = (uint64_t)w->dims[1];
    const uint64_t taps = kernel_span(w, 2, w->rank);
    const char *from = w->data;
    char *to = job->to;
    (void)call;
    for (uint64_t f = 0; f < filters; f++)
        for (uint64_t c = 0; c < channels; c++)
            for (uint64_t t = 0; t < taps; t++, from += size) {
                const uint64_t at =
                    job->variant == BY_CHANNEL ? t * filters + f : (f * taps + t) * channels + c;
                memcpy(to + at * size, from, size);
            }
    return true;
}

enum { PAIR = 6 }; /* elements of two pixels of three channels */

/* Pairs of a row of taps, so many that they are whole 16 bytes. */
static uint64_t pairs_of(uint64_t taps, uint64_t shift) {
    return ((taps + shift + 1) / 2 + 3) / 4 * 4;
}

/* (filters, 3, taps) to (filters, rows, pairs of taps, 2, 3), with zeros before and behind a row's taps. */
static bool pack_pairs(KernelCall *call, const KernelPackJob *job) {
    const KernelTensor *w = job->from;
    const uint64_t filters = (uint64_t)w->dims[0], channels = (uint64_t)w->dims[1];
    const uint64_t taps = (uint64_t)w->dims[w->rank - 1], shift = job->variant == PAIRED_SHIFTED;
    const uint64_t rows = kernel_span(w, 2, w->rank) / taps,
                   row_size = pairs_of(taps, shift) * PAIR;
    const uint16_t *from = w->data;
    uint16_t *to = job->to;
    (void)call;
    memset(to, 0, filters * rows * row_size * sizeof *to);
    for (uint64_t f = 0; f < filters; f++)
        for (uint64_t c = 0; c < channels; c++)
            for (uint64_t r = 0; r < rows; r++)
                for (uint64_t k = 0; k < taps; k++)
                    to[(f * rows + r) * row_size + (k + shift) * channels + c] = *from++;
    return true;
}

/* ---- getting ready --------------------------------------------------------------------------- */

static void fill_strides(const KernelTensor *t, bool last, uint32_t spatial, int64_t *image,
                         int64_t *channel, int64_t axis[WINDOW_AXES]) {
    const uint32_t first = last ? 1 : 2;
    *image = (int64_t)kernel_span(t, 1, t->rank);
    *channel = last ? 1 : (int64_t)kernel_span(t, 2, t->rank);
    for (uint32_t i = 0; i < spatial; i++)
        axis[WINDOW_AXES - spatial + i] = (int64_t)kernel_stride(t, first + i);
}

static void fill_args(const KernelCall *call, const Window *w, Conv *conv) {
    const KernelTensor *x = &call->inputs[0], *weights = &call->inputs[1], *y = &call->outputs[0];
    WindowArgs *a = &conv->args;
    for (uint32_t i = 0; i < WINDOW_AXES; i++)
        a->in[i] = a->out[i] = a->taps[i] = a->stride[i] = a->dilation[i] = 1;
    for (uint32_t i = 0; i < w->rank; i++) {
        const uint32_t k = WINDOW_AXES - w->rank + i;
        a->in[k] = (int32_t)w->axes[i].in;
        a->out[k] = (int32_t)w->axes[i].out;
        a->taps[k] = (int32_t)w->axes[i].taps;
        a->stride[k] = (int32_t)w->axes[i].stride;
        a->dilation[k] = (int32_t)w->axes[i].dilation;
        a->begin[k] = (int32_t)w->axes[i].begin;
        a->end[k] = (int32_t)w->axes[i].end;
        a->w_axis[k] = (int64_t)kernel_stride(weights, 2 + i);
    }
    fill_strides(x, conv->last, w->rank, &a->x_image, &a->x_channel, a->x_axis);
    fill_strides(y, conv->last, w->rank, &a->y_image, &a->y_channel, a->y_axis);
    a->w_filter = (int64_t)kernel_span(weights, 1, weights->rank);
    a->w_channel = (int64_t)kernel_span(weights, 2, weights->rank);
    a->images = (int32_t)x->dims[0];
    a->filters = (int32_t)weights->dims[0];
    a->channels = (int32_t)weights->dims[1];
    a->group_filters = (int32_t)((uint64_t)weights->dims[0] / w->groups);
    a->channels_last = conv->last;
    a->op = (int32_t)conv->all.op;
    a->p = conv->all.p;
    a->q = conv->all.q;
}

/* The dims and strides of x or y, in the order N, C, spatial …; one axis more where there is one. */
static void describe_data(const KernelTensor *t, bool last, uint32_t axes, int64_t *dims,
                          int64_t *strides) {
    const uint32_t channel = last ? t->rank - 1 : 1, spatial = t->rank - 2;
    const uint32_t extra = axes - t->rank;
    dims[0] = t->dims[0];
    strides[0] = (int64_t)kernel_stride(t, 0);
    dims[1] = t->dims[channel];
    strides[1] = (int64_t)kernel_stride(t, channel);
    for (uint32_t i = 0; i < spatial; i++) {
        const uint32_t axis = (last ? 1 : 2) + i;
        dims[2 + extra + i] = t->dims[axis];
        strides[2 + extra + i] = (int64_t)kernel_stride(t, axis);
    }
    if (extra) {
        dims[2] = 1;
        strides[2] = dims[3] * strides[3];
    }
}

static void describe_weights(const KernelTensor *w, bool last, uint32_t axes, int64_t *dims,
                             int64_t *strides) {
    const uint32_t extra = axes - w->rank;
    for (uint32_t i = 0; i < axes; i++)
        dims[i] = i < 2 ? w->dims[i] : i < 2 + extra ? 1 : w->dims[i - extra];
    int64_t step = 1;
    if (last) strides[1] = step, step *= dims[1];
    for (uint32_t i = axes; i-- > 2;) strides[i] = step, step *= dims[i];
    if (!last) strides[1] = step, step *= dims[1];
    strides[0] = step;
}

static void describe(const KernelCall *call, const Window *w, const Conv *conv, DnnConv *to) {
    const uint32_t axes = w->rank == 1 ? 4 : w->rank + 2, extra = axes - 2 - w->rank;
    *to = (DnnConv){.dtype = conv->dtype, .axes = axes};
    describe_data(&call->inputs[0], conv->last, axes, to->x, to->x_strides);
    describe_data(&call->outputs[0], conv->last, axes, to->y, to->y_strides);
    describe_weights(&call->inputs[1], conv->last, axes, to->w, to->w_strides);
    for (uint32_t i = 0; i < axes - 2; i++) to->strides[i] = to->dilations[i] = 1;
    for (uint32_t i = 0; i < w->rank; i++) {
        to->strides[extra + i] = w->axes[i].stride;
        to->dilations[extra + i] = w->axes[i].dilation;
        to->begins[extra + i] = w->axes[i].begin;
        to->ends[extra + i] = w->axes[i].end;
    }
}

/* With all that follows, or else alone. False with the error set. */
static bool plan_library(KernelCall *call, const Window *w, Conv *conv) {
    const CudaEpilogue *e = &conv->all;
    const Dtype y = call->outputs[0].dtype;
    DnnConv described;
    describe(call, w, conv, &described);
    Err failed = {0};
    described.workspace = WORKSPACE;
    described.tf32 = call->queue->tf32;
    const bool same = y == conv->dtype;
    described.residual = same && e->z && e->z->dtype == y;
    described.bias = same && e->bias && e->bias->dtype == y && (described.residual || !e->z);
    const bool ends = same && (described.bias || !e->bias) && (described.residual || !e->z);
    described.relu = ends && e->op == UNARY_RELU; /* bounded ones have engines, but slow ones */
    conv->plan = dnn_plan_new(conv->dnn, conv->handle, &described, false, &failed);
    if (!conv->plan && described.relu && (described.residual || described.bias)) {
        described.relu = false;
        conv->plan = dnn_plan_new(conv->dnn, conv->handle, &described, false, &failed);
    }
    if (!conv->plan && (described.residual || described.bias || described.relu)) {
        described.residual = described.bias = described.relu = false;
        conv->plan = dnn_plan_new(conv->dnn, conv->handle, &described, false, &failed);
    }
    if (!conv->plan) conv->plan = dnn_plan_new(conv->dnn, conv->handle, &described, true, &failed);
    conv->added = described.residual;
    conv->biased = described.bias;
    conv->activated = described.relu;
    if (conv->plan) conv->way = CONV_LIBRARY;
    if (!failed.code) return true;
    *call->err = failed;
    return false;
}

static bool find_library(KernelCall *call, const Window *w, Conv *conv) {
    CudaDevice *device = cuda_device_of(call);
    if (w->rank > DNN_SPATIAL || !w->rank || !cuda_is_there(device) || !call->inputs[0].count)
        return true; /* of no channels there are only biases */
    if (!cuda_dnn(&conv->dnn, call->err)) return false;
    if (!conv->dnn) {
        cuda_without(call);
        return true;
    }
    if (!cuda_enter(device, call->err)) return false;
    conv->handle = cuda_dnn_handle(device, conv->dnn, call->err);
    const bool ok = conv->handle && plan_library(call, w, conv);
    cuda_leave(device);
    return ok;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static uint64_t pixels_of(const Conv *conv) {
    const WindowArgs *a = &conv->args;
    return (uint64_t)a->images * (uint64_t)a->out[1] * (uint64_t)a->out[2];
}

/* How far x reaches, and what lies before and behind it that taps would be at. */
static uint64_t reach_of(const WindowArgs *a) {
    double reach = (double)a->images * (double)a->x_image;
    for (uint32_t i = 0; i < WINDOW_AXES; i++)
        reach += ((double)a->begin[i] + (double)a->end[i] + (double)a->taps[i] * a->dilation[i]) *
                 (double)a->x_axis[i];
    return reach < (double)INT64_MAX ? (uint64_t)reach : INT64_MAX;
}

/* Nanoseconds that the library's kernel is likely to take, and one behind it for what it leaves: fitted as in
 * cuda_tile.c, for blocks that all run at once, and by bytes and products for more. */
static uint64_t library_time(const KernelCall *call, const CudaTile *tile, uint64_t depth,
                             bool whole) {
    enum { START = 5000, STEP = 120, DEPTH = 64, BEHIND = 2000, BYTES = 3000, PRODUCTS = 200000 };
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    const uint64_t size = kernel_element_size(x->dtype), behind = 2 * y->count * size / BYTES;
    const uint64_t moved = (x->count + y->count) * size / BYTES;
    const uint64_t products = y->count * depth / PRODUCTS;
    const uint64_t one = tile->at_once      ? (depth + DEPTH - 1) / DEPTH * STEP
                         : moved > products ? moved
                                            : products;
    return START + one + (whole ? 0 : BEHIND + (tile->at_once ? 0 : behind));
}

static void take_tile(Conv *conv) {
    if (conv->plan) dnn_plan_free(conv->dnn, conv->plan);
    conv->plan = NULL;
    conv->way = CONV_TILE;
}

/* Pixels of three channels, where windows begin at every second one: the library has kernels that pad x and
 * weights in every run, and engines that are slow where it has none of this type. */
static void find_pairs(const KernelCall *call, Conv *conv) {
    /* nanoseconds, and picoseconds an element of y, of ResNet-50's first layer on an H200 */
    enum { START = 8000, FLOAT16 = 4, BFLOAT16 = 11 };
    const WindowArgs *a = &conv->args;
    const KernelTensor *w = &call->inputs[1], *y = &call->outputs[0];
    if (a->channels != 3 || a->stride[2] % 2 || a->in[2] % 2 || a->dilation[2] != 1 ||
        a->taps[2] > INT16_MAX || w->dtype != conv->dtype || !kernel_is_constant(call, 1))
        return;
    const int32_t shift = a->begin[2] & 1;
    const uint64_t row = pairs_of((uint64_t)a->taps[2], (uint64_t)shift) * PAIR;
    const uint64_t depth = (uint64_t)a->taps[1] * row, filters = (uint64_t)a->filters;
    if (!cuda_tile_takes(conv->dtype, 8, pixels_of(conv), filters, depth, reach_of(a))) return;
    const CudaTile tile = cuda_tile_for_pairs(call, pixels_of(conv), filters, depth);
    const uint64_t each = conv->dtype == DTYPE_FLOAT16 ? FLOAT16 : BFLOAT16;
    const bool slower = tile.time >= START + y->count * each / 1000;
    if (!tile.blocks || (conv->way == CONV_LIBRARY && slower)) return;
    conv->paired = true;
    conv->shift = shift;
    take_tile(conv);
}

/* Where the library does not do all that follows: one kernel of our own rather than two; and where there are
 * so few pixels that its blocks would leave most of the device idle. False with the error set. */
static bool find_tile(KernelCall *call, const Window *w, Conv *conv) {
    const WindowArgs *a = &conv->args;
    const bool whole = conv->biased == (conv->all.bias != NULL) &&
                       conv->added == (conv->all.z != NULL) &&
                       (conv->activated || conv->all.op == UNARY_COPY);
    const uint64_t taps = (uint64_t)a->taps[1] * (uint64_t)a->taps[2];
    const uint64_t depth = (uint64_t)a->channels * taps, filters = (uint64_t)a->filters;
    if (!conv->last || w->rank > 2 || w->groups != 1 || call->outputs[0].dtype != conv->dtype)
        return true;
    find_pairs(call, conv);
    if (conv->paired || !cuda_tile_takes(conv->dtype, (uint64_t)a->channels, pixels_of(conv),
                                         filters, depth, reach_of(a)))
        return true;
    const CudaTile tile = cuda_tile_for(call, pixels_of(conv), filters, depth);
    if (conv->way == CONV_LIBRARY &&
        ((whole && !tile.at_once) || tile.time >= library_time(call, &tile, depth, whole)))
        return true;
    take_tile(conv);
    return cuda_tile_ready(call, &tile);
}

/* Columns become pairs of them. */
static void pair_up(const Conv *conv, TileArgs *args) {
    const int32_t taps = args->taps[1], shift = conv->shift, last = shift + taps;
    args->pairs = (last + 1) / 2;
    args->beside[0] = shift ? 0 : -1;
    args->beside[1] = last % 2 ? last * 3 : -1;
    args->taps[1] = (int32_t)pairs_of((uint64_t)taps, (uint64_t)shift);
    args->in[1] /= 2;
    args->stride[1] /= 2;
    args->begin[1] = (args->begin[1] + shift) / 2;
    args->x_column = PAIR;
    args->depth = args->taps[0] * args->taps[1] * PAIR;
}

static bool run_tile(KernelCall *call, const Conv *conv, const void *weights, void *y) {
    const WindowArgs *a = &conv->args;
    const KernelTensor *bias = conv->all.bias, *z = conv->all.z;
    TileArgs args = {.x = call->inputs[0].data,
                     .w = weights,
                     .bias = bias ? bias->data : NULL,
                     .z = z ? z->data : NULL,
                     .y = y,
                     .x_image = (int32_t)a->x_image,
                     .x_row = (int32_t)a->x_axis[1],
                     .x_column = (int32_t)a->x_axis[2],
                     .pixels = (int32_t)pixels_of(conv),
                     .filters = a->filters,
                     .channels = a->channels,
                     .depth = a->channels * a->taps[1] * a->taps[2],
                     .bias_type = bias ? (int32_t)bias->dtype : 0,
                     .z_type = z ? (int32_t)z->dtype : 0,
                     .op = a->op,
                     .constant = conv->weights != NULL,
                     .p = a->p,
                     .q = a->q};
    for (uint32_t i = 0; i < 2; i++) {
        args.in[i] = a->in[1 + i];
        args.out[i] = a->out[1 + i];
        args.taps[i] = a->taps[1 + i];
        args.stride[i] = a->stride[1 + i];
        args.dilation[i] = a->dilation[1 + i];
        args.begin[i] = a->begin[1 + i];
    }
    if (conv->paired) pair_up(conv, &args);
    return cuda_tile(call, &args, conv->dtype);
}

/* ---- preparing ------------------------------------------------------------------------------- */

/* True for demi.fused's. */
static bool is_fused(const KernelCall *call) {
    return call->row->layout != &op_attrs_conv;
}

static bool read_conv(KernelCall *call, Conv *conv) {
    const WindowAttrs *attrs = call->attrs;
    const bool fused = is_fused(call);
    conv->all = (CudaEpilogue){.op = UNARY_COPY, .scale = 1, .bias = kernel_input(call, 2)};
    conv->last = attrs->channels_last;
    conv->dtype = call->inputs[0].dtype;
    if (!fused) return true;
    conv->all.z = kernel_input(call, 3);
    if (conv->all.z && conv->all.z->count != call->outputs[0].count)
        return kernel_fail(call, "the shapes of Z and Y differ");
    return cuda_activation(call, &attrs->act, &conv->all);
}

static bool turns(const Conv *conv) {
    return conv->last && conv->way != CONV_DIRECT;
}

static KernelReady make(KernelCall *call) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *weights = &call->inputs[1];
    Window w;
    Conv *conv = kernel_keep(call, sizeof *conv);
    if (!conv || !window_make(call, attrs, weights, &w) || !read_conv(call, conv) ||
        !window_check_conv(call, &w, &call->inputs[0], weights, conv->all.bias))
        return KERNEL_FAILED;
    call->prepared = conv;
    if (w.rank > WINDOW_AXES) {
        kernel_decline(call, "the device does not support convolutions over so many axes");
        return KERNEL_FAILED;
    }
    if (!call->outputs[0].count) return KERNEL_READY;
    fill_args(call, &w, conv);
    const bool by_channel =
        conv->last && weights->dims[1] == 1 && w.groups == (uint64_t)weights->dims[0];
    if (by_channel && w.rank <= 2)
        conv->way = CONV_DEPTHWISE;
    else if (!find_library(call, &w, conv) || !find_tile(call, &w, conv))
        return KERNEL_FAILED;
    if (turns(conv) && weights->count && kernel_is_constant(call, 1) &&
        weights->dtype == conv->dtype) {
        const uint64_t size = kernel_element_size(weights->dtype);
        const uint64_t taps = (uint64_t)conv->args.taps[2], shift = (uint64_t)conv->shift;
        const uint64_t paired = weights->count / taps * pairs_of(taps, shift) * 2;
        conv->weights =
            conv->paired
                ? kernel_share(call, 1, pack_pairs, shift ? PAIRED_SHIFTED : PAIRED, paired * size)
                : kernel_share(call, 1, pack_weights,
                               conv->way == CONV_DEPTHWISE ? BY_CHANNEL : TURNED,
                               weights->count * size);
        if (!conv->weights) {
            err_set(call->err, ERR_ENV, "the device has no memory left for weights");
            return KERNEL_FAILED;
        }
        kernel_set_unread(call, 1);
    }
    return KERNEL_READY;
}

static void release(void *prepared) {
    Conv *conv = prepared;
    if (conv->plan) dnn_plan_free(conv->dnn, conv->plan);
}

const KernelPrepare cuda_prepare_conv = {make, release, 0};

/* ---- running --------------------------------------------------------------------------------- */

/* As many images at a time as kernels can count the elements of. */
static bool launch(KernelCall *call, const char *kernel, const WindowArgs *all, Dtype dtype,
                   uint32_t each) {
    const uint64_t image = kernel_span(&call->outputs[0], 1, call->outputs[0].rank);
    const uint64_t most = image ? INT32_MAX / image : 1, size = kernel_element_size(dtype);
    const uint64_t z_size = call->input_count > 3 && call->inputs[3].present
                                ? kernel_element_size(call->inputs[3].dtype)
                                : 0;
    if (!most) return kernel_decline(call, "the device does not support such a large image");
    for (uint64_t i = 0; i < (uint64_t)all->images; i += most) {
        const uint64_t count = (uint64_t)all->images - i < most ? (uint64_t)all->images - i : most;
        WindowArgs args = *all;
        args.x = (const char *)all->x + i * (uint64_t)all->x_image * size;
        args.y = (char *)all->y + i * image * size;
        if (all->z) args.z = (const char *)all->z + i * image * z_size;
        args.images = (int32_t)count;
        args.count = (uint32_t)(count * image);
        const CudaLaunch l = {.family = CUDA_window,
                              .kernel = kernel,
                              .blocks = {cuda_blocks(args.count, THREADS, each)},
                              .threads = {THREADS},
                              .args = &args};
        if (args.count && !cuda_launch(call, &l)) return false;
    }
    return true;
}

/* Weights (filters, channels, taps) as (filters, taps, channels). */
static bool turn(KernelCall *call, const WindowArgs *args, Dtype dtype) {
    const CudaLaunch l = {.family = CUDA_window,
                          .kernel = dtype == DTYPE_FLOAT ? "turn_x4" : "turn_x2",
                          .blocks = {cuda_blocks(args->count, THREADS, 1)},
                          .threads = {THREADS},
                          .args = args};
    return cuda_launch(call, &l);
}

/* Weights in the order and type that the way reads; NULL with the error set. */
static const void *get_weights(KernelCall *call, const Conv *conv) {
    const KernelTensor *w = &call->inputs[1];
    if (conv->weights) return conv->weights;
    const void *from = w->data;
    if (w->dtype != conv->dtype) {
        void *same = kernel_workspace(call, w->count * kernel_element_size(conv->dtype));
        if (!same || !cuda_convert(call, from, w->dtype, same, conv->dtype, w->count)) return NULL;
        from = same;
    }
    if (!turns(conv)) return from;
    void *to = kernel_workspace(call, w->count * kernel_element_size(conv->dtype));
    if (!to) return NULL;
    if (w->count > INT32_MAX) {
        kernel_decline(call, "the device does not support so many computed weights");
        return NULL;
    }
    WindowArgs args = {.x = from, .y = to, .count = (uint32_t)w->count};
    /* one channel, many filters: as if it was one filter of many channels */
    args.channels = conv->way == CONV_DEPTHWISE ? (int32_t)w->dims[0] : (int32_t)w->dims[1];
    args.taps[0] = (int32_t)kernel_span(w, 2, w->rank);
    cuda_between(call, w->count * kernel_element_size(conv->dtype));
    return turn(call, &args, conv->dtype) ? to : NULL;
}

static bool run_own(KernelCall *call, const Conv *conv, const void *weights, void *y) {
    WindowArgs args = conv->args;
    const KernelTensor *x = &call->inputs[0], *bias = conv->all.bias, *z = conv->all.z;
    const uint32_t pack = (uint32_t)(16 / kernel_element_size(conv->dtype));
    const bool packs = conv->way == CONV_DEPTHWISE && (uint32_t)args.filters % pack == 0;
    const int32_t square = args.taps[1] == args.taps[2] ? args.taps[1] : 0;
    const char *kernel = conv->way == CONV_DIRECT ? "direct"
                         : packs && square == 3   ? "depthwise_3x3"
                         : packs && square == 5   ? "depthwise_5x5"
                         : packs                  ? "depthwise_pack"
                                                  : "depthwise";
    const CudaName name = cuda_name(kernel, cuda_suffix(conv->dtype), "");
    args.x = x->data;
    args.w = weights;
    args.y = y;
    if (bias) args.bias = bias->data, args.bias_type = (int32_t)bias->dtype;
    if (z) args.z = z->data, args.z_type = (int32_t)z->dtype;
    return launch(call, name.text, &args, conv->dtype, packs ? pack : 1);
}

static bool run_library(KernelCall *call, const Conv *conv, const void *weights, void *y) {
    CudaDevice *device = cuda_device_of(call);
    const int64_t size = dnn_plan_workspace(conv->plan);
    DnnData data = {.x = call->inputs[0].data,
                    .w = weights,
                    .bias = conv->biased ? conv->all.bias->data : NULL,
                    .residual = conv->added ? conv->all.z->data : NULL,
                    .y = y};
    if (size && !(data.workspace = kernel_workspace(call, (uint64_t)size))) return false;
    if (!cuda_enter(device, call->err)) return false;
    pthread_mutex_lock(&device->lock); /* the handle has one stream at a time */
    const bool ok =
        dnn_plan_run(conv->dnn, conv->handle, cuda_stream_of(call), conv->plan, &data, call->err);
    pthread_mutex_unlock(&device->lock);
    cuda_leave(device);
    call->queue->counts.launches++;
    call->queue->counts.tf32 += conv->dtype == DTYPE_FLOAT && call->queue->tf32;
    return ok;
}

/* Operands are this call's, as the epilogue in `prepared` knows those of the first. */
static bool convolve(KernelCall *call) {
    Conv conv = *(const Conv *)call->prepared;
    const KernelTensor *y = &call->outputs[0];
    if (!y->count) return true;
    if (conv.way == CONV_DIRECT && !cuda_is_there(cuda_device_of(call)))
        return true;                                /* a library's to say */
    const bool empty_sums = !call->inputs[1].count; /* whose data is nowhere */
    const void *weights = empty_sums ? NULL : get_weights(call, &conv);
    const bool same = conv.dtype == y->dtype;
    void *to = same ? y->data : kernel_workspace(call, y->count * kernel_element_size(conv.dtype));
    if ((!weights && !empty_sums) || !to) return false;
    CudaEpilogue left = {.op = UNARY_COPY, .scale = 1};
    if (conv.way == CONV_LIBRARY) {
        if (!run_library(call, &conv, weights, to)) return false;
        left = conv.all;
        if (conv.biased) left.bias = NULL;
        if (conv.added) left.z = NULL;
        if (conv.activated) left.op = UNARY_COPY;
        left.columns = (uint64_t)conv.args.filters;
        left.inner = conv.last ? 1 : kernel_span(y, 2, y->rank);
    } else if (!(conv.way == CONV_TILE ? run_tile : run_own)(call, &conv, weights, to)) {
        return false;
    }
    const bool empty = !left.bias && !left.z && left.op == UNARY_COPY && same;
    return empty || cuda_epilogue(call, &left, to, conv.dtype, y->data, y->dtype, y->count);
}

bool cuda_conv(KernelCall *call) {
    Conv *conv = call->prepared;
    conv->all.bias = kernel_input(call, 2);
    if (is_fused(call)) conv->all.z = kernel_input(call, 3);
    return convolve(call);
}

/* ---- pools ----------------------------------------------------------------------------------- */

static bool run_pool(KernelCall *call, enum PoolOp op) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    Conv conv = {.last = attrs->channels_last, .dtype = x->dtype};
    Window w;
    if (!window_make(call, attrs, NULL, &w)) return false;
    if (w.rank > WINDOW_AXES)
        return kernel_decline(call, "the device does not support pooling over so many axes");
    if (!y->count) return true;
    WindowArgs *a = &conv.args;
    /* pools have no weights: theirs are taken for x's, whose strides are not read */
    KernelTensor operands[2] = {*x, *x};
    KernelCall with_weights = *call;
    with_weights.inputs = operands;
    fill_args(&with_weights, &w, &conv);
    a->x = x->data;
    a->y = y->data;
    a->filters = (int32_t)y->dims[w.channel_axis];
    a->pool = (int32_t)op;
    const uint32_t pack = (uint32_t)(16 / kernel_element_size(x->dtype));
    const bool packs = conv.last && w.rank <= 2 && (uint32_t)a->filters % pack == 0;
    const CudaName name = cuda_name(packs ? "pool_pack" : "pool", cuda_suffix(x->dtype), "");
    return launch(call, name.text, a, x->dtype, packs ? pack : 1);
}

bool cuda_max_pool(KernelCall *call) {
    return run_pool(call, POOL_MAX);
}

bool cuda_average_pool(KernelCall *call) {
    const WindowAttrs *attrs = call->attrs;
    return run_pool(call, attrs->count_include_pad ? POOL_MEAN_PADDED : POOL_MEAN);
}

/* ---- ConvTranspose --------------------------------------------------------------------------- */

/* The window is that of the convolution whose inverse it is: an output sees the inputs that it would
 * have been read by. */
bool cuda_conv_transpose(KernelCall *call) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *weights = &call->inputs[1];
    const KernelTensor *bias = kernel_input(call, 2), *y = &call->outputs[0];
    Conv conv = {.dtype = x->dtype, .all = {.op = UNARY_COPY, .scale = 1}};
    Window w;
    if (!window_make_transposed(call, attrs, &w)) return false;
    const int64_t groups = (int64_t)w.groups;
    if (w.rank > WINDOW_AXES)
        return kernel_decline(call, "the device does not support convolutions over so many axes");
    if (x->dims[1] % groups || weights->dims[0] != x->dims[1] || y->dims[1] % groups ||
        weights->dims[1] != y->dims[1] / groups || y->dims[0] != x->dims[0] ||
        (bias && bias->count != (uint64_t)y->dims[1]) || weights->dtype != x->dtype)
        return kernel_fail(call, "channels, groups, weights and bias do not fit");
    for (uint32_t i = 0; i < w.rank; i++) /* the kernel counts in 32 bits */
        if (w.axes[i].taps * w.axes[i].dilation > INT32_MAX / 4 ||
            w.axes[i].in + w.axes[i].begin > INT32_MAX / 4 || w.axes[i].begin < -(INT32_MAX / 4))
            return kernel_decline(call, "the device does not support such a large window");
    if (!y->count) return true;
    fill_args(call, &w, &conv);
    WindowArgs *a = &conv.args;
    for (uint32_t i = 0; i < WINDOW_AXES; i++) {
        const int32_t of_x = a->out[i];
        a->out[i] = a->in[i];
        a->in[i] = of_x;
    }
    const int64_t of_channel = a->w_filter; /* weights are (channels, filters of a group, taps) */
    a->w_filter = a->w_channel;
    a->w_channel = of_channel;
    a->filters = (int32_t)y->dims[1];
    a->channels = (int32_t)(x->dims[1] / groups);
    a->group_filters = (int32_t)weights->dims[1];
    a->x = x->data;
    a->w = weights->data;
    a->y = y->data;
    if (bias) a->bias = bias->data, a->bias_type = (int32_t)bias->dtype;
    return launch(call, cuda_name("transposed", cuda_suffix(x->dtype), "").text, a, x->dtype, 1);
}
