// SPDX-License-Identifier: Apache-2.0
/* ConvInteger and QLinearConv by oneDNN: the same bits as the own rows'.
 *
 * oneDNN multiplies unsigned by signed bytes, exactly. The input (int8 moved by 128, with its zero
 * point) goes into a channels-last image that is padded with the zero point, as the operators
 * define padding, so that what the zero point adds to a filter's sums is the same everywhere and is
 * taken off here: zero * sum of the filter, while sums go from channels last to rows. Weights must
 * be constant, with a constant zero point, and fit int8 without it, as those of quantizers do;
 * other ones are the own rows'.
 */
#include <string.h>

#include "conv_quantized.h"
#include "gemm.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "onednn_chain.h"
#include "onednn_rules.h"
#include "window.h"

enum { SPATIAL_MOST = 3, RANK_MOST = SPATIAL_MOST + 2 };

/* Of a part's images; what all of them have in common is the first one's. */
typedef struct BytesConv {
    OnednnChain chain; /* first: onednn_chains_release */
    int x, image, w, y;
    OnednnShare part;
    bool padded;
    uint64_t image_size;
    const unsigned char *packed; /* weights, then int32 sums of filters at packed_size */
    uint64_t packed_size;
    uint64_t images, filters, columns;
    const ConvBytes *at; /* while preparing */
} BytesConv;

static bool is_byte(const KernelTensor *t) {
    return t && (t->dtype == DTYPE_INT8 || t->dtype == DTYPE_UINT8);
}

static uint64_t align(uint64_t size) {
    return (size + 63) / 64 * 64;
}

/* ---- weights --------------------------------------------------------------------------------- */

static int32_t byte_at(const KernelTensor *t, uint64_t i) {
    return t->dtype == DTYPE_INT8 ? ((const int8_t *)t->data)[i] : ((const uint8_t *)t->data)[i];
}

/* The weights less their zero points (NULL: 0), in `to`; false where one does not fit. */
static bool signed_weights(const KernelTensor *w, const KernelTensor *zeros, int8_t *to) {
    uint64_t filters = (uint64_t)w->dims[0], depth = w->count / filters;
    if (zeros && zeros->count != 1 && zeros->count != filters) return false;
    bool fits = true;
    for (uint64_t m = 0; m < filters; m++) {
        int32_t zero = zeros ? byte_at(zeros, zeros->count == 1 ? 0 : m) : 0;
        for (uint64_t i = m * depth; i < (m + 1) * depth; i++) {
            int32_t value = byte_at(w, i) - zero;
            fits = fits && value >= INT8_MIN && value <= INT8_MAX;
            to[i] = (int8_t)value;
        }
    }
    return fits;
}

/* KernelPack: job->variant is the hash of the layout and of the zero points. */
static bool pack(KernelCall *call, const KernelPackJob *job) {
    const BytesConv *conv = call->prepared;
    const OnednnChain *chain = &conv->chain;
    const KernelTensor *w = job->from, *zeros = kernel_constant(call, conv->at->w_zero);
    int8_t *bytes = kernel_workspace(call, w->count);
    if (!bytes || !signed_weights(w, zeros, bytes)) return false;
    uint64_t filters = (uint64_t)w->dims[0], depth = w->count / filters;
    int32_t *sums = (int32_t *)(void *)((char *)job->to + conv->packed_size);
    for (uint64_t m = 0; m < filters; m++) {
        sums[m] = 0;
        for (uint64_t i = 0; i < depth; i++) sums[m] += bytes[m * depth + i];
    }
    int before = onednn_enter(chain->lib);
    bool ok = onednn_copy(chain, chain->pack_from, bytes, chain->pack_to, job->to);
    onednn_leave(chain->lib, before);
    return ok;
}

/* Of the first part, for all. */
static void pack_shared(KernelCall *call, BytesConv *conv, const_dnnl_memory_desc_t w) {
    OnednnChain *chain = &conv->chain;
    if (conv != call->prepared) {
        onednn_refuse_other_weights(call, chain);
        return;
    }
    const KernelTensor *zeros = kernel_constant(call, conv->at->w_zero);
    chain->pack_from = w;
    chain->pack_to = onednn_wanted(chain, dnnl_query_weights_md);
    conv->packed_size = align(chain->lib->memory_desc_get_size(chain->pack_to));
    uint64_t hash = onednn_layout_hash(chain, chain->pack_to);
    for (uint64_t i = 0; zeros && i < zeros->count; i++)
        hash = (hash ^ (uint64_t)byte_at(zeros, i)) * UINT64_C(1099511628211);
    conv->packed = kernel_share(call, conv->at->w, pack, hash,
                                conv->packed_size + align(conv->filters * sizeof(int32_t)));
    if (conv->packed)
        kernel_set_unread(call, conv->at->w);
    else
        chain->failed = true;
}

/* ---- preparing ------------------------------------------------------------------------------- */

typedef struct BytesShape {
    int rank; /* of x and y */
    bool grouped, padded;
    dnnl_dims_t x, image, w, y, strides, dilations, begin, none;
} BytesShape;

static bool axis_suits(const WindowAxis *axis) {
    int64_t span = (axis->taps - 1) * axis->dilation + 1;
    return axis->taps < INT16_MAX && axis->dilation < INT16_MAX && axis->stride < INT16_MAX &&
           axis->begin < span && axis->end < span && axis->in + axis->begin + axis->end < INT32_MAX;
}

static bool shape_make(KernelCall *call, const Window *window, const KernelTensor *w,
                       BytesShape *s) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    dnnl_dims_t plain;
    if (window->rank < 1 || window->rank > SPATIAL_MOST || !onednn_dims(x, s->x) ||
        !onednn_dims(y, s->y) || !onednn_dims(w, plain))
        return false;
    s->rank = (int)x->rank;
    s->grouped = window->groups > 1;
    memcpy(s->image, s->x, sizeof s->image);
    for (uint32_t i = 0; i < window->rank; i++) {
        const WindowAxis *axis = &window->axes[i];
        if (!axis_suits(axis)) return false;
        s->strides[i] = axis->stride;
        s->dilations[i] = axis->dilation - 1;
        s->begin[i + 2] = axis->begin;
        s->image[i + 2] += axis->begin + axis->end;
        s->padded = s->padded || axis->begin || axis->end;
    }
    int at = 0;
    if (s->grouped) s->w[at++] = (dnnl_dim_t)window->groups;
    s->w[at++] = plain[0] / (dnnl_dim_t)window->groups;
    for (int i = 1; i < s->rank; i++) s->w[at++] = plain[i];
    return true;
}

/* Channels last. NULL where it is too large. */
static const_dnnl_memory_desc_t channels_last(OnednnChain *chain, dnnl_data_type_t type,
                                              const BytesShape *s, const dnnl_dim_t *dims) {
    dnnl_dims_t steps = {0};
    dnnl_dim_t step = dims[1];
    steps[1] = 1;
    for (int i = s->rank; i-- > 2; step *= dims[i]) steps[i] = step;
    steps[0] = step;
    return step > INT32_MAX / dims[0] ? NULL : onednn_desc(chain, type, s->rank, dims, steps);
}

static bool conv_step(BytesConv *conv, const BytesShape *s, const_dnnl_memory_desc_t image) {
    OnednnChain *chain = &conv->chain;
    const Onednn *lib = chain->lib;
    const_dnnl_memory_desc_t w = onednn_desc_any(chain, dnnl_s8, s->rank + s->grouped, s->w);
    const_dnnl_memory_desc_t y = channels_last(chain, dnnl_s32, s, s->y);
    dnnl_primitive_attr_t attr = onednn_attr(chain);
    dnnl_primitive_desc_t desc = NULL;
    if (!y) chain->failed = true;
    if (chain->failed) return false;
    dnnl_status_t status = lib->convolution_forward_primitive_desc_create(
        &desc, lib->engine, dnnl_forward_inference, dnnl_convolution_direct, image, w, NULL, y,
        s->strides, s->dilations, s->none, s->none, attr);
    lib->primitive_attr_destroy(attr);
    return onednn_step(chain, status, desc);
}

static void chain_make(KernelCall *call, BytesConv *conv, const BytesShape *s, uint64_t depth) {
    OnednnChain *chain = &conv->chain;
    const_dnnl_memory_desc_t image = channels_last(chain, dnnl_u8, s, s->image);
    if (!image || !conv_step(conv, s, image)) {
        chain->failed = true;
        return;
    }
    onednn_refuse_reference(chain);
    if (!onednn_sums_exactly(chain, depth)) {
        chain->failed = true;
        return;
    }
    ChainStep step = chain->steps[--chain->step_count]; /* the input's reorder goes first */
    const_dnnl_memory_desc_t x = onednn_desc(chain, dnnl_u8, s->rank, s->x, NULL);
    const_dnnl_memory_desc_t part = onednn_desc_part(chain, image, s->x, s->begin);
    const_dnnl_memory_desc_t w = onednn_desc(chain, dnnl_s8, s->rank + s->grouped, s->w, NULL);
    conv->x = onednn_given(chain, x);
    conv->image = onednn_within(chain, image);
    conv->image_size = chain->failed ? 0 : chain->lib->memory_desc_get_size(image);
    conv->padded = s->padded;
    if (!chain->failed)
        onednn_reorder(chain, x, conv->x, part, onednn_alias(chain, part, conv->image));
    chain->steps[chain->step_count++] = step;
    if (chain->failed) return;
    pack_shared(call, conv, w);
    conv->w = onednn_given(chain, onednn_wanted(chain, dnnl_query_weights_md));
    conv->y = onednn_given(chain, onednn_wanted(chain, dnnl_query_dst_md));
    const ChainArg args[] = {
        {DNNL_ARG_SRC, conv->image}, {DNNL_ARG_WEIGHTS, conv->w}, {DNNL_ARG_DST, conv->y}};
    onednn_args(chain, args, 3);
}

/* The weights and their zero points are constant and of a kind that suits. */
static bool weights_suit(KernelCall *call, const ConvBytes *at) {
    bool zeros = kernel_input(call, at->w_zero) != NULL;
    if (!kernel_is_constant(call, at->w) || (zeros && !kernel_is_constant(call, at->w_zero)))
        return false;
    return !zeros || is_byte(kernel_input(call, at->w_zero));
}

static KernelReady make(KernelCall *call, const ConvBytes *at) {
    const KernelTensor *x = &call->inputs[0], *w = kernel_input(call, at->w);
    const KernelTensor *x_zero = kernel_input(call, at->x_zero);
    Window window;
    BytesShape shape = {.rank = 0};
    if (!onednn_allowed(call, ONEDNN_CONV_BYTES, x->dtype) || !is_byte(w) ||
        (x_zero && (!is_byte(x_zero) || x_zero->count != 1)))
        return KERNEL_DECLINED;
    if (!window_make(call, call->attrs, w, &window) ||
        !window_check_conv(call, &window, x, w, NULL))
        return KERNEL_FAILED;
    if (!weights_suit(call, at) || !shape_make(call, &window, w, &shape)) return KERNEL_DECLINED;
    const OnednnWork work = {.family = ONEDNN_CONV_BYTES,
                             .dtype = DTYPE_UINT8,
                             .batches = (uint64_t)x->dims[0],
                             .groups = window.groups,
                             .rows = (uint64_t)w->dims[0] / window.groups,
                             .columns = window.out,
                             .depth = (uint64_t)w->dims[1] * window.taps,
                             .constant = true};
    const Onednn *lib = onednn_for(call, &work);
    BytesConv *first = lib ? onednn_chains_new(call, &work, work.batches, sizeof *first) : NULL;
    if (!first) return KERNEL_DECLINED;
    first->at = at;
    first->filters = (uint64_t)w->dims[0];
    first->columns = window.out;
    first->images = work.batches;
    int before = onednn_enter(lib);
    for (unsigned i = 0; i < first->chain.parts; i++) {
        BytesConv *conv = onednn_part(first, i);
        conv->part = onednn_share(first, work.batches, i);
        shape.x[0] = shape.image[0] = shape.y[0] = (dnnl_dim_t)conv->part.count;
        chain_make(call, conv, &shape, work.depth);
    }
    onednn_leave(lib, before);
    return onednn_chains_failed(first) ? KERNEL_DECLINED : KERNEL_READY;
}

static KernelReady make_conv_integer(KernelCall *call) {
    return make(call, &conv_integer_operands);
}
static KernelReady make_qlinear_conv(KernelCall *call) {
    return make(call, &qlinear_conv_operands);
}

const KernelPrepare kernel_prepare_onednn_conv_integer = {make_conv_integer, onednn_chains_release,
                                                          ONEDNN_CHOICES};
const KernelPrepare kernel_prepare_onednn_qlinear_conv = {make_qlinear_conv, onednn_chains_release,
                                                          ONEDNN_CHOICES};

/* ---- running --------------------------------------------------------------------------------- */

/* From sums with channels last to rows of filters: less what the zero point added, with the bias.
 */
typedef struct Transpose {
    const BytesConv *conv;
    const GemmLoops *loops;
    const float *from; /* [images, columns, filters]; int32, which the loop only moves */
    float *to;         /* [images, filters, columns] */
    const int32_t *bias;
    uint32_t zero;
} Transpose;

enum { TRANSPOSE_COLUMNS = 64, TRANSPOSE_FILTERS = 16 };

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Filters [first, first + count) of an image, part by part. */
static void transpose_filters(const Transpose *t, uint64_t image, uint64_t first, uint64_t count) {
    const BytesConv *conv = t->conv;
    const int32_t *sums = (const int32_t *)(const void *)(conv->packed + conv->packed_size);
    const float *from = t->from + image * conv->columns * conv->filters + first;
    float *to = t->to + (image * conv->filters + first) * conv->columns;
    for (uint64_t i = 0; i < conv->columns; i += TRANSPOSE_COLUMNS) {
        uint64_t columns = least(conv->columns - i, TRANSPOSE_COLUMNS);
        float part[TRANSPOSE_COLUMNS * TRANSPOSE_FILTERS + GEMM_SLACK];
        t->loops->transpose(part, TRANSPOSE_COLUMNS, from + i * conv->filters, conv->filters,
                            columns, count);
        for (uint64_t f = 0; f < count; f++) {
            uint32_t add = t->bias ? (uint32_t)t->bias[first + f] : 0;
            uint32_t *row = (uint32_t *)(void *)(to + f * conv->columns + i);
            const uint32_t *transposed =
                (const uint32_t *)(const void *)(part + f * TRANSPOSE_COLUMNS);
            add -= t->zero * (uint32_t)sums[first + f];
            for (uint64_t k = 0; k < columns; k++) row[k] = transposed[k] + add;
        }
    }
}

static void transpose_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Transpose *t = data;
    const uint64_t filters = t->conv->filters;
    const uint64_t parts = (filters + TRANSPOSE_FILTERS - 1) / TRANSPOSE_FILTERS;
    (void)lane;
    for (uint64_t i = first; i < end; i++) {
        uint64_t filter = i % parts * TRANSPOSE_FILTERS;
        transpose_filters(t, i / parts, filter, least(filters - filter, TRANSPOSE_FILTERS));
    }
}

static void transpose(KernelCall *call, const Transpose *t) {
    const BytesConv *conv = t->conv;
    uint64_t parts = (conv->filters + TRANSPOSE_FILTERS - 1) / TRANSPOSE_FILTERS;
    uint64_t tasks = conv->images * parts;
    double work = (double)tasks * TRANSPOSE_FILTERS * (double)conv->columns;
    kernel_run_parts(call->workers, kernel_work_cut(call, 4 * work, tasks), transpose_part, t);
}

static bool sums_by_onednn(KernelCall *call, const ConvBytes *at, const int32_t *bias,
                           int32_t *sums) {
    const BytesConv *first = call->prepared;
    const KernelTensor *x = &call->inputs[0], *x_zero = kernel_input(call, at->x_zero);
    const uint64_t image = first->filters * first->columns;
    bool is_signed = x->dtype == DTYPE_INT8;
    int32_t zero = (x_zero ? byte_at(x_zero, 0) : 0) + (is_signed ? 128 : 0);
    void *workspace = onednn_workspace(call);
    char *bytes = is_signed ? kernel_workspace(call, x->count) : x->data;
    float *last = kernel_workspace(call, first->images * image * sizeof *last); /* int32 sums */
    if (!workspace || !bytes || !last) return false;
    if (is_signed) onednn_flip(bytes, x->data, x->count);
    for (unsigned i = 0; i < first->chain.parts; i++) {
        BytesConv *conv = onednn_part(first, i);
        if (conv->padded)
            memset(onednn_at(call, i, conv->image, workspace), zero, conv->image_size);
        onednn_set(&conv->chain, conv->x, bytes + conv->part.first * kernel_stride(x, 0));
        onednn_set(&conv->chain, conv->w, first->packed);
        onednn_set(&conv->chain, conv->y, last + conv->part.first * image);
    }
    if (!onednn_chains_run(call, workspace)) return false;
    const Transpose t = {.conv = first,
                         .loops = gemm_loops(isa_here()),
                         .from = last,
                         .to = (float *)(void *)sums,
                         .bias = bias,
                         .zero = (uint32_t)zero};
    transpose(call, &t);
    return true;
}

bool kernel_onednn_conv_integer(KernelCall *call) {
    return conv_integer_by(call, sums_by_onednn);
}

bool kernel_onednn_qlinear_conv(KernelCall *call) {
    return qlinear_conv_by(call, sums_by_onednn);
}
