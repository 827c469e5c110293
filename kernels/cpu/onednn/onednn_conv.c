// SPDX-License-Identifier: Apache-2.0
/* Conv, the fused Conv and ConvTranspose by oneDNN, of float and of bfloat16 (float sums, rounded once).
 *
 * oneDNN is asked for the layout it likes, and data goes there and back by a reorder each, but for
 * windows of one element over planes that are not tiny: those are fastest as the matrix product
 * that they are on data as it lies. Constant weights are reordered once for all contexts of a plan.
 * What is fused into one is applied to its float sums, with channels last, on their way to the
 * result (onednn_result.h). What a window may be is decided here, more narrowly than by oneDNN; the
 * rest is the own rows'.
 */
#include "fused_operands.h"
#include "kernel_functions.h"
#include "onednn_chain.h"
#include "onednn_result.h"
#include "onednn_rules.h"
#include "window.h"

enum { SPATIAL_MOST = 3, PLAIN_COLUMNS = 128 };

/* Of a part's images; what all of them have in common is the first one's. */
typedef struct OnednnConv {
    OnednnChain chain; /* first: onednn_chains_release */
    int x, w, bias, y;
    OnednnShare images;
    const void *weights; /* packed; NULL: the call's */
    bool channels_last;  /* of a fused one: y is float sums of all images, in the workspace */
    uint64_t image_count, filters, columns;
    Epilogue epilogue;
} OnednnConv;

/* A convolution in oneDNN's terms. */
typedef struct ConvShape {
    int rank; /* of x and y */
    dnnl_data_type_t type;
    dnnl_dims_t x, w, y, bias, strides, dilations, begin,
        end;                              /* w: with groups in front if grouped */
    dnnl_dims_t w_steps;                  /* of a transposed one: weights lie by input channels */
    bool grouped, has_bias, plain, fused; /* fused: y is float, and has no bias yet */
    bool transposed;
} ConvShape;

static bool data_type(Dtype dtype, dnnl_data_type_t *type) {
    *type = dtype == DTYPE_BFLOAT16 ? dnnl_bf16 : dnnl_f32;
    return dtype == DTYPE_BFLOAT16 || dtype == DTYPE_FLOAT;
}

/* Padding is less than a window, as kernels of oneDNN expect, and all numbers are small. */
static bool axis_suits(const WindowAxis *axis) {
    int64_t span = (axis->taps - 1) * axis->dilation + 1;
    return axis->taps < INT16_MAX && axis->dilation < INT16_MAX && axis->stride < INT16_MAX &&
           axis->begin < span && axis->end < span && axis->in + axis->begin + axis->end < INT32_MAX;
}

static bool shape_axes(const Window *w, ConvShape *shape) {
    if (w->rank < 1 || w->rank > SPATIAL_MOST) return false;
    shape->plain = true;
    for (uint32_t i = 0; i < w->rank; i++) {
        const WindowAxis *axis = &w->axes[i];
        if (!axis_suits(axis)) return false;
        shape->strides[i] = axis->stride;
        shape->dilations[i] = axis->dilation - 1;
        shape->begin[i] = axis->begin;
        shape->end[i] = axis->end;
        shape->plain =
            shape->plain && axis->taps == 1 && axis->stride == 1 && !axis->begin && !axis->end;
    }
    return true;
}

static bool types_suit(const KernelCall *call, ConvShape *shape) {
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1], *bias = kernel_input(call, 2);
    if (!data_type(x->dtype, &shape->type) || w->dtype != x->dtype) return false;
    return shape->fused ||
           (call->outputs[0].dtype == x->dtype && (!bias || bias->dtype == x->dtype));
}

static bool shape_make(KernelCall *call, const Window *window, ConvShape *shape) {
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1], *y = &call->outputs[0];
    dnnl_dims_t plain;
    if (!types_suit(call, shape) || !onednn_dims(x, shape->x) || !onednn_dims(y, shape->y) ||
        !onednn_dims(w, plain) || !shape_axes(window, shape))
        return false;
    shape->rank = (int)x->rank;
    shape->has_bias = kernel_input(call, 2) && !shape->fused;
    shape->grouped = window->groups > 1;
    shape->plain = shape->plain && !shape->grouped && window->out >= PLAIN_COLUMNS;
    dnnl_dim_t groups = (dnnl_dim_t)window->groups;
    shape->bias[0] = shape->y[1];
    int at = 0;
    if (shape->grouped) shape->w[at++] = groups;
    shape->w[at++] = plain[0] / groups;
    for (int i = 1; i < shape->rank; i++) shape->w[at++] = plain[i];
    return true;
}

static dnnl_primitive_desc_t conv_desc(OnednnConv *conv, const ConvShape *s,
                                       const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t y,
                                       dnnl_status_t *status) {
    OnednnChain *chain = &conv->chain;
    const Onednn *lib = chain->lib;
    dnnl_primitive_desc_t desc = NULL;
    const_dnnl_memory_desc_t w = onednn_desc_any(chain, s->type, s->rank + s->grouped, s->w);
    const_dnnl_memory_desc_t bias =
        s->has_bias ? onednn_desc(chain, s->type, 1, s->bias, NULL) : NULL;
    dnnl_primitive_attr_t attr = onednn_attr(chain);
    if (chain->failed) return NULL;
    if (s->transposed)
        *status = lib->deconvolution_forward_primitive_desc_create(
            &desc, lib->engine, dnnl_forward_inference, dnnl_deconvolution_direct, x, w, bias, y,
            s->strides, s->dilations, s->begin, s->end, attr);
    else
        *status = lib->convolution_forward_primitive_desc_create(
            &desc, lib->engine, dnnl_forward_inference, dnnl_convolution_direct, x, w, bias, y,
            s->strides, s->dilations, s->begin, s->end, attr);
    lib->primitive_attr_destroy(attr);
    return desc;
}

/* Memory of the layout that the convolution wants: the call's own, or one in the workspace. */
static int operand(OnednnChain *chain, const_dnnl_memory_desc_t plain,
                   const_dnnl_memory_desc_t wanted, int given) {
    if (chain->failed || chain->lib->memory_desc_equal(plain, wanted)) return given;
    return onednn_within(chain, wanted);
}

/* The weights: packed once, for all parts, or reordered at each call, by each. */
static int weights(KernelCall *call, OnednnConv *conv, const_dnnl_memory_desc_t plain,
                   const_dnnl_memory_desc_t wanted) {
    OnednnChain *chain = &conv->chain;
    OnednnConv *first = call->prepared;
    if (conv == first) {
        conv->weights = onednn_pack_shared(call, 1, plain);
        if (conv->weights) kernel_set_unread(call, 1);
    } else if (first->weights) {
        onednn_refuse_other_weights(call, chain);
    }
    if (first->weights) return conv->w = onednn_given(chain, wanted);
    conv->w = onednn_given(chain, plain);
    return operand(chain, plain, wanted, conv->w);
}

/* Steps run in the order they are made in, but what the convolution wants is known only once it is
 * made: its reorders are made after it and moved before it. */
static void move_last_before(OnednnChain *chain, int place) {
    ChainStep moved = chain->steps[chain->step_count - 1];
    for (int i = chain->step_count - 1; i > place; i--) chain->steps[i] = chain->steps[i - 1];
    chain->steps[place] = moved;
}

/* Float sums with channels last. */
static const_dnnl_memory_desc_t last_desc(OnednnChain *chain, const ConvShape *s) {
    dnnl_dims_t steps = {0};
    dnnl_dim_t step = s->y[1];
    steps[1] = 1;
    for (int i = s->rank; i-- > 2; step *= s->y[i]) steps[i] = step;
    steps[0] = step;
    return onednn_desc(chain, dnnl_f32, s->rank, s->y, steps);
}

static void chain_make(KernelCall *call, OnednnConv *conv, const ConvShape *s) {
    OnednnChain *chain = &conv->chain;
    dnnl_status_t status = dnnl_runtime_error;
    bool last = s->fused && !s->plain;
    const_dnnl_memory_desc_t x = onednn_desc(chain, s->type, s->rank, s->x, NULL);
    const_dnnl_memory_desc_t y =
        last ? last_desc(chain, s)
             : onednn_desc(chain, s->fused ? dnnl_f32 : s->type, s->rank, s->y, NULL);
    const_dnnl_memory_desc_t any_x = s->plain ? x : onednn_desc_any(chain, s->type, s->rank, s->x);
    const_dnnl_memory_desc_t any_y =
        s->plain || last ? y : onednn_desc_any(chain, s->type, s->rank, s->y);
    const_dnnl_memory_desc_t w =
        onednn_desc(chain, s->type, s->rank + s->grouped, s->w, s->transposed ? s->w_steps : NULL);
    dnnl_primitive_desc_t desc = conv_desc(conv, s, any_x, any_y, &status);
    if (!onednn_step(chain, status, desc)) return;
    onednn_refuse_reference(chain);
    const_dnnl_memory_desc_t like_x = onednn_wanted(chain, dnnl_query_src_md);
    const_dnnl_memory_desc_t like_w = onednn_wanted(chain, dnnl_query_weights_md);
    const_dnnl_memory_desc_t like_y = onednn_wanted(chain, dnnl_query_dst_md);
    conv->x = onednn_given(chain, x);
    conv->y = onednn_given(chain, y);
    conv->channels_last = last;
    conv->bias = CHAIN_NONE;
    int to_x = operand(chain, x, like_x, conv->x), to_w = weights(call, conv, w, like_w);
    int from_y = operand(chain, y, like_y, conv->y);
    if (s->has_bias)
        conv->bias = onednn_given(chain, onednn_desc(chain, s->type, 1, s->bias, NULL));
    const ChainArg args[] = {{DNNL_ARG_SRC, to_x},
                             {DNNL_ARG_WEIGHTS, to_w},
                             {DNNL_ARG_BIAS, conv->bias},
                             {DNNL_ARG_DST, from_y}};
    onednn_args(chain, args, 4);
    int before = 0;
    if (!chain->failed && to_x != conv->x) {
        onednn_reorder(chain, x, conv->x, like_x, to_x);
        move_last_before(chain, before++);
    }
    if (!chain->failed && to_w != conv->w) {
        onednn_reorder(chain, w, conv->w, like_w, to_w);
        move_last_before(chain, before);
    }
    if (!chain->failed && from_y != conv->y) onednn_reorder(chain, like_y, from_y, y, conv->y);
}

static OnednnWork work_of(const KernelCall *call, const Window *window) {
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1];
    return (OnednnWork){.family = ONEDNN_CONV,
                        .dtype = x->dtype,
                        .batches = (uint64_t)x->dims[0],
                        .groups = window->groups,
                        .rows = (uint64_t)w->dims[0] / window->groups,
                        .columns = window->out,
                        .depth = (uint64_t)w->dims[1] * window->taps,
                        .constant = kernel_is_constant(call, 1)};
}

/* A chain for each part of the images. */
static KernelReady make_chains(KernelCall *call, const OnednnWork *work, ConvShape *shape) {
    const Onednn *lib = onednn_for(call, work);
    OnednnConv *first = lib ? onednn_chains_new(call, work, work->batches, sizeof *first) : NULL;
    if (!first) return KERNEL_DECLINED;
    first->image_count = work->batches;
    first->filters = (uint64_t)shape->y[1];
    first->columns = work->columns;
    int before = onednn_enter(lib);
    for (unsigned i = 0; i < first->chain.parts; i++) {
        OnednnConv *conv = onednn_part(first, i);
        conv->images = onednn_share(first, work->batches, i);
        shape->x[0] = shape->y[0] = (dnnl_dim_t)conv->images.count;
        chain_make(call, conv, shape);
    }
    onednn_leave(lib, before);
    return onednn_chains_failed(first) ? KERNEL_DECLINED : KERNEL_READY;
}

static KernelReady make(KernelCall *call, bool fused) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1];
    Window window;
    ConvShape shape = {.fused = fused};
    if (!onednn_allowed(call, ONEDNN_CONV, x->dtype)) return KERNEL_DECLINED;
    if (!window_make(call, attrs, w, &window) ||
        !window_check_conv(call, &window, x, w, kernel_input(call, 2)))
        return KERNEL_FAILED;
    const OnednnWork work = work_of(call, &window);
    return shape_make(call, &window, &shape) ? make_chains(call, &work, &shape) : KERNEL_DECLINED;
}

/* ---- ConvTranspose --------------------------------------------------------------------------- */

/* What is left of the full result at an axis' end is padding; what it lacks there, which
 * output_padding adds, less than none. */
static bool transposed_axes(const Window *w, ConvShape *shape) {
    if (w->rank < 1 || w->rank > SPATIAL_MOST) return false;
    for (uint32_t i = 0; i < w->rank; i++) {
        WindowAxis axis = w->axes[i]; /* its `in` is our result's size */
        const int64_t span = (axis.taps - 1) * axis.dilation + 1;
        axis.end = axis.stride * (axis.out - 1) + span - axis.begin - axis.in;
        if (!axis_suits(&axis) || axis.begin < 0 || axis.end + axis.stride <= 0) return false;
        shape->strides[i] = axis.stride;
        shape->dilations[i] = axis.dilation - 1;
        shape->begin[i] = axis.begin;
        shape->end[i] = axis.end;
    }
    return true;
}

/* Weights are [groups, channels, filters, taps] in memory. */
static void transposed_weights(const dnnl_dims_t plain, dnnl_dim_t groups, ConvShape *shape) {
    const dnnl_dim_t channels = plain[0] / groups, filters = plain[1];
    dnnl_dim_t taps = 1;
    int at = 0;
    for (int i = 2; i < shape->rank; i++) taps *= plain[i];
    if (shape->grouped) {
        shape->w[at] = groups;
        shape->w_steps[at++] = channels * filters * taps;
    }
    shape->w[at] = filters;
    shape->w_steps[at++] = taps;
    shape->w[at] = channels;
    shape->w_steps[at++] = filters * taps;
    for (int i = 2; i < shape->rank; i++) {
        taps /= plain[i];
        shape->w[at] = plain[i];
        shape->w_steps[at++] = taps;
    }
}

static KernelReady make_transposed(KernelCall *call) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1], *y = &call->outputs[0];
    const KernelTensor *bias = kernel_input(call, 2);
    const dnnl_dim_t groups = (dnnl_dim_t)attrs->group;
    Window window;
    dnnl_dims_t plain;
    ConvShape shape = {.transposed = true, .rank = (int)x->rank, .has_bias = bias != NULL};
    if (!onednn_allowed(call, ONEDNN_DECONV, x->dtype) || attrs->channels_last)
        return KERNEL_DECLINED;
    if (!window_make_transposed(call, attrs, &window)) return KERNEL_FAILED;
    if (!types_suit(call, &shape) || !onednn_dims(x, shape.x) || !onednn_dims(y, shape.y) ||
        !onednn_dims(w, plain) || !transposed_axes(&window, &shape))
        return KERNEL_DECLINED;
    if (plain[0] != shape.x[1] || plain[0] % groups || plain[1] * groups != shape.y[1] ||
        shape.x[0] != shape.y[0] || (bias && bias->count != (uint64_t)shape.y[1]))
        return KERNEL_DECLINED; /* what is wrong the own row says */
    shape.grouped = groups > 1;
    shape.bias[0] = shape.y[1];
    transposed_weights(plain, groups, &shape);
    const OnednnWork work = {.family = ONEDNN_DECONV,
                             .dtype = x->dtype,
                             .batches = (uint64_t)x->dims[0],
                             .groups = window.groups,
                             .rows = (uint64_t)plain[1],
                             .columns = window.out,
                             .depth = (uint64_t)(plain[0] / groups) * window.taps,
                             .constant = kernel_is_constant(call, 1)};
    return make_chains(call, &work, &shape);
}

const KernelPrepare kernel_prepare_onednn_conv_transpose = {make_transposed, onednn_chains_release,
                                                            ONEDNN_CHOICES};

/* ---- Conv, and the fused one ----------------------------------------------------------------- */

static KernelReady make_conv(KernelCall *call) {
    return make(call, false);
}

const KernelPrepare kernel_prepare_onednn_conv = {make_conv, onednn_chains_release, ONEDNN_CHOICES};

static KernelReady make_fused_conv(KernelCall *call) {
    const WindowAttrs *attrs = call->attrs;
    Epilogue epilogue = {0};
    if (!fused_read_activation(call, &attrs->act, &epilogue) || !fused_check_residual(call))
        return KERNEL_FAILED;
    KernelReady ready = make(call, true);
    if (ready == KERNEL_READY) ((OnednnConv *)call->prepared)->epilogue = epilogue;
    return ready;
}

const KernelPrepare kernel_prepare_onednn_fused_conv = {make_fused_conv, onednn_chains_release,
                                                        ONEDNN_CHOICES};

/* Where a part's images begin in a tensor. */
static void *images_at(const KernelTensor *tensor, const OnednnConv *conv) {
    const uint64_t image = kernel_stride(tensor, 0) * (tensor->dtype == DTYPE_FLOAT ? 4 : 2);
    return (char *)tensor->data + conv->images.first * image;
}

/* What all parts read; NULL: no bias. */
static void set_operands(const KernelCall *call, const KernelTensor *bias) {
    const OnednnConv *first = call->prepared;
    for (unsigned i = 0; i < first->chain.parts; i++) {
        OnednnConv *conv = onednn_part(first, i);
        onednn_set(&conv->chain, conv->x, images_at(&call->inputs[0], conv));
        onednn_set(&conv->chain, conv->w, first->weights ? first->weights : call->inputs[1].data);
        onednn_set(&conv->chain, conv->bias, bias ? bias->data : NULL);
    }
}

bool kernel_onednn_conv(KernelCall *call) {
    const OnednnConv *first = call->prepared;
    void *workspace = onednn_workspace(call);
    if (!workspace) return false;
    set_operands(call, kernel_input(call, 2));
    for (unsigned i = 0; i < first->chain.parts; i++) {
        OnednnConv *conv = onednn_part(first, i);
        onednn_set(&conv->chain, conv->y, images_at(&call->outputs[0], conv));
    }
    return onednn_chains_run(call, workspace);
}

bool kernel_onednn_conv_transpose(KernelCall *call) {
    return kernel_onednn_conv(call);
}

bool kernel_onednn_fused_conv(KernelCall *call) {
    const OnednnConv *first = call->prepared;
    const uint64_t image = first->filters * first->columns;
    void *workspace = onednn_workspace(call);
    float *sums = kernel_workspace(call, first->image_count * image * sizeof *sums);
    if (!workspace || !sums) return false;
    set_operands(call, NULL);
    for (unsigned i = 0; i < first->chain.parts; i++) {
        OnednnConv *conv = onednn_part(first, i);
        onednn_set(&conv->chain, conv->y, sums + conv->images.first * image);
    }
    if (!onednn_chains_run(call, workspace)) return false;
    OnednnResult result = {.sums = sums,
                           .channels_last = first->channels_last,
                           .images = first->image_count,
                           .rows = first->filters,
                           .columns = first->columns,
                           .epilogue = first->epilogue,
                           .residual = kernel_input(call, 3),
                           .y = &call->outputs[0]};
    result.epilogue.bias = fused_floats(call, kernel_input(call, 2));
    result.epilogue.bias_of_rows = true;
    onednn_store(call, &result);
    return true;
}
