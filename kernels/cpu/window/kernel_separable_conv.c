// SPDX-License-Identifier: Apache-2.0
/* SeparableConvLast: a convolution by channel of channels-last data, with the products of each pixel's
 * channels before it, that expand them, and behind it, that mix them; one of both may be absent. What
 * is between are the largest values of such networks, and as tensors they would leave the cache: here
 * they are made a band of rows at a time and read while they are there. A thread has bands of its own;
 * expanded rows that two bands see are kept from one to the next. Sums are those of the convolutions
 * one by one, to the bit, as they are of bfloat16: there what is between is rounded as its tensors are. */
#include <stdalign.h>
#include <string.h>

#include "conv_last.h"
#include "fused_operands.h"
#include "igemm.h"
#include "kernel_functions.h"
#include "kernel_parts.h"

enum { INPUT_X, INPUT_W, INPUT_B, INPUT_V, INPUT_C, INPUT_U, INPUT_D, INPUT_Z };

/* Of a band's rows: in the second-level cache with all else. The call may choose others. */
enum { BAND_BYTES = 384 << 10, CHOICE_SMALL = 1, CHOICE_LARGE, CHOICE_COUNT = CHOICE_LARGE };

/* A product of each pixel's channels. */
typedef struct Product {
    bool is_there;
    uint64_t depth, columns;
    WeightLayout layout;
    const void *weights; /* packed; NULL: in every run */
    Epilogue epilogue;
} Product;

typedef struct SeparableConv {
    Window window; /* of the convolution by channel */
    WindowAxis axes[CONV_LAST_RANK];
    IgemmKind kind;   /* of float or bfloat16 */
    uint64_t element; /* bytes of one of x's and y's */
    IsaSet cpu;
    uint64_t band_bytes;       /* most of a band's rows, if it is more than one */
    uint64_t images, channels; /* channels: of the convolution */
    Product before, behind;
    WeightLayout layout;
    const void *taps; /* packed, float; NULL: in every run */
    const void *zero; /* [channels], for padding */
    Epilogue epilogue;
    const uint16_t *z; /* the residual of bfloat16 */
} SeparableConv;

/* ---- getting ready --------------------------------------------------------------------------- */

static bool is_vector(const KernelTensor *tensor, uint64_t count) {
    return !tensor || (tensor->rank == 1 && tensor->count == count);
}

/* The product by operand `weights` of so many channels. */
static bool make_product(KernelCall *call, Product *product, uint32_t weights, int64_t depth) {
    const KernelTensor *w = kernel_input(call, weights);
    *product = (Product){.is_there = w != NULL};
    if (!w) return true;
    if (w->rank != 4 || w->dims[1] != depth || w->dims[2] != 1 || w->dims[3] != 1)
        return kernel_fail(call, "the shape of the weights is not (columns, channels, 1, 1)");
    if (depth > IGEMM_BLOCK_DEPTH) /* fuse-separable makes none */
        return kernel_fail(call, "%lld channels are too many", (long long)depth);
    product->depth = (uint64_t)depth;
    product->columns = (uint64_t)w->dims[0];
    return is_vector(kernel_input(call, weights + 1), product->columns) ||
           kernel_fail(call, "the shapes of a bias and its product differ");
}

static bool check_residual(KernelCall *call, const SeparableConv *conv) {
    const KernelTensor *z = kernel_input(call, INPUT_Z), *y = &call->outputs[0];
    bool same = !z || (conv->behind.is_there && z->rank == y->rank);
    for (uint32_t i = 0; z && same && i < z->rank; i++) same = z->dims[i] == y->dims[i];
    return same || kernel_fail(call, "the shapes of Z and Y differ");
}

static bool check_conv(KernelCall *call, SeparableConv *conv) {
    const KernelTensor *x = &call->inputs[INPUT_X], *w = &call->inputs[INPUT_W];
    const KernelTensor *y = &call->outputs[0];
    const int64_t channels = w->dims[0];
    if (w->dims[1] != 1 || conv->window.groups != (uint64_t)channels)
        return kernel_fail(call, "the convolution is not depthwise");
    if (!is_vector(kernel_input(call, INPUT_B), (uint64_t)channels))
        return kernel_fail(call, "the shape of B is not (M)");
    if (!make_product(call, &conv->before, INPUT_V, x->dims[3]) ||
        !make_product(call, &conv->behind, INPUT_U, channels))
        return false;
    const uint64_t seen = conv->before.is_there ? conv->before.columns : (uint64_t)x->dims[3];
    const uint64_t made = conv->behind.is_there ? conv->behind.columns : (uint64_t)channels;
    if (seen != (uint64_t)channels || y->dims[0] != x->dims[0] || (uint64_t)y->dims[3] != made)
        return kernel_fail(call, "the operands' channels do not fit together");
    return check_residual(call, conv);
}

static WeightLayout product_layout(const SeparableConv *conv, const Product *product) {
    const IgemmWeights weights = {.kind = conv->kind,
                                  .taps = 1,
                                  .depth = product->depth,
                                  .columns = product->columns,
                                  .row = 1,
                                  .column = product->depth};
    return igemm_layout(&weights, conv->cpu);
}

static bool conv_make(KernelCall *call, SeparableConv *conv) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[INPUT_X], *w = &call->inputs[INPUT_W];
    if (x->rank != 4) return kernel_fail(call, "data of rank %u", x->rank);
    if (!window_make(call, attrs, w, &conv->window) || !check_conv(call, conv) ||
        !fused_read_activation(call, &attrs->act, &conv->epilogue) ||
        !fused_read_activation(call, &attrs->inner, &conv->before.epilogue) ||
        !fused_read_activation(call, &attrs->outer, &conv->behind.epilogue))
        return false;
    memcpy(conv->axes, conv->window.axes, sizeof conv->axes);
    conv->cpu = kernel_cpu(call);
    conv->band_bytes = call->choice == CHOICE_SMALL   ? BAND_BYTES / 3
                       : call->choice == CHOICE_LARGE ? 3 * BAND_BYTES
                                                      : BAND_BYTES;
    conv->images = (uint64_t)x->dims[0];
    conv->channels = (uint64_t)w->dims[0];
    conv->before.layout = product_layout(conv, &conv->before);
    conv->behind.layout = product_layout(conv, &conv->behind);
    conv->layout = igemm_channels_layout(conv->window.taps, conv->channels);
    return true;
}

static const void *share(KernelCall *call, uint32_t i, const WeightLayout *layout) {
    if (!kernel_is_constant(call, i) || !call->inputs[i].present || !call->inputs[i].count)
        return NULL;
    const void *packed = kernel_weights(call, i, layout);
    if (packed) kernel_set_unread(call, i);
    return packed;
}

/* Words are of two channels. */
static bool suits_bfloats(const KernelCall *call, const SeparableConv *conv) {
    return kernel_is_constant(call, INPUT_W) && call->inputs[INPUT_W].count &&
           conv->before.depth % 2 == 0 && conv->channels % 2 == 0;
}

static KernelReady make(KernelCall *call, IgemmKind kind) {
    SeparableConv *conv = kernel_keep(call, sizeof *conv);
    if (!conv) return KERNEL_DECLINED;
    call->prepared = conv;
    conv->kind = kind;
    conv->element = kind == IGEMM_FLOAT ? sizeof(float) : sizeof(uint16_t);
    if (!conv_make(call, conv)) return KERNEL_FAILED;
    if (kind == IGEMM_BFLOATS && !suits_bfloats(call, conv)) return KERNEL_DECLINED;
    conv->zero = kernel_keep(call, (conv->channels + 1) * sizeof(float));
    if (!conv->zero) return KERNEL_DECLINED;
    conv->taps = kind == IGEMM_FLOAT ? share(call, INPUT_W, &conv->layout)
                                     : conv_share_channels(call, INPUT_W, &conv->layout);
    if (kind == IGEMM_BFLOATS && !conv->taps) return KERNEL_DECLINED;
    conv->before.weights = share(call, INPUT_V, &conv->before.layout);
    conv->behind.weights = share(call, INPUT_U, &conv->behind.layout);
    return KERNEL_READY;
}

static KernelReady make_separable_conv(KernelCall *call) {
    return make(call, IGEMM_FLOAT);
}

static bool is_bfloat(const KernelCall *call, uint32_t i) {
    const KernelTensor *tensor = kernel_input(call, i);
    return !tensor || tensor->dtype == DTYPE_BFLOAT16;
}

/* Biases are read as they are, of float or bfloat16. */
static KernelReady make_bfloat_separable_conv(KernelCall *call) {
    static const uint32_t operands[] = {INPUT_X, INPUT_W, INPUT_V, INPUT_U, INPUT_Z};
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        if (!is_bfloat(call, operands[i])) return KERNEL_DECLINED;
    if (call->outputs[0].dtype != DTYPE_BFLOAT16 || call->faithful ||
        call->provider == KERNEL_PROVIDER_ONEDNN || !igemm_has_bfloats(kernel_cpu(call)))
        return KERNEL_DECLINED;
    return make(call, IGEMM_BFLOATS);
}

const KernelPrepare kernel_prepare_separable_conv = {make_separable_conv, NULL, CHOICE_COUNT};
const KernelPrepare kernel_prepare_bfloat_separable_conv = {make_bfloat_separable_conv, NULL,
                                                            CHOICE_COUNT};

/* ---- bands ----------------------------------------------------------------------------------- */

typedef struct Job {
    const SeparableConv *conv; /* its weights are packed */
    const char *x;
    char *y;
    uint64_t band;        /* most result rows of one */
    uint64_t seen, mixed; /* bytes that a lane has for what is before and behind the convolution */
    uint64_t table;       /* addresses of a lane */
    char *space;          /* [lanes][seen + mixed] */
    const void **tables;
    uint64_t rest; /* floats of a lane for igemm_channels_block */
    float *rests;
    struct Band *bands; /* [lanes] */
} Job;

/* What a lane has of an image: expanded rows [first, end), and a result of the convolution. */
typedef struct Band {
    alignas(64) uint64_t next; /* the result row behind those that were made last */
    uint64_t image;
    int64_t first, end;
    char *seen, *mixed;
    const void **table;
    float *rest;
} Band;

/* Products of so many pixels, a block of rows at a time; `all` are those of the whole run. */
typedef struct Pixels {
    uint64_t count, all;
    const char *x;
    char *y;
    const uint16_t *z;
} Pixels;

static void multiply(const SeparableConv *conv, const Product *p, const Pixels *pixels) {
    const IgemmIsa *isa = igemm_isa_for(conv->kind, conv->cpu, pixels->all);
    Epilogue epilogue = p->epilogue;
    for (uint64_t i = 0, rows; i < pixels->count; i += rows) {
        const uint64_t left = pixels->count - i;
        rows = left < IGEMM_BLOCK_ROWS ? left : IGEMM_BLOCK_ROWS;
        const IgemmBlock block = {.kind = conv->kind,
                                  .rows = rows,
                                  .depth = igemm_words(conv->kind, p->depth),
                                  .columns = p->columns,
                                  .x = pixels->x + i * p->depth * conv->element,
                                  .weights = p->weights,
                                  .y = pixels->y + i * p->columns * conv->element,
                                  .epilogue = &epilogue,
                                  .z = pixels->z ? pixels->z + i * p->columns : NULL};
        igemm_multiply(&block, isa);
        if (epilogue.residual) epilogue.residual += rows * epilogue.residual_row;
    }
}

/* Expanded rows [first, end): of those that are there the memory moves, the others are made. */
static void fill_band(const Job *job, Band *band, int64_t first, int64_t end) {
    const SeparableConv *conv = job->conv;
    const uint64_t width = (uint64_t)conv->axes[1].in;
    const uint64_t row = width * conv->channels * conv->element;
    int64_t at = first; /* the first that is to be made */
    if (first < band->end) {
        memmove(band->seen, band->seen + (uint64_t)(first - band->first) * row,
                (uint64_t)(band->end - first) * row);
        at = band->end;
    }
    const uint64_t from = band->image * conv->window.in + (uint64_t)at * width;
    if (at < end)
        multiply(conv, &conv->before,
                 &(Pixels){.count = (uint64_t)(end - at) * width,
                           .all = conv->images * conv->window.in,
                           .x = job->x + from * conv->before.depth * conv->element,
                           .y = band->seen + (uint64_t)(at - first) * row});
    band->first = first;
    band->end = at < end ? end : at;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The convolution's rows [from, to) into y. */
static void convolve(const Job *job, Band *band, int64_t from, int64_t to, char *result) {
    const SeparableConv *conv = job->conv;
    const WindowAxis *y = &conv->axes[0], *x = &conv->axes[1];
    const int64_t top = from * y->stride - y->begin;
    const int64_t bottom = (to - 1) * y->stride - y->begin + (y->taps - 1) * y->dilation + 1;
    const int64_t first = least(most(top, 0), y->in), end = most(least(bottom, y->in), first);
    const uint64_t pixel = conv->channels * conv->element, row = (uint64_t)x->in * pixel;
    const char *seen = job->x + band->image * conv->window.in * pixel + (uint64_t)first * row;
    if (conv->before.is_there) {
        fill_band(job, band, first, end);
        seen = band->seen;
    }
    WindowAxis axes[CONV_LAST_RANK] = {*y, *x};
    axes[0].in = end - first;
    axes[0].out = to - from;
    axes[0].begin = first - top;
    Window window = conv->window;
    window.axes = axes;
    window.in = (uint64_t)(axes[0].in * x->in);
    window.out = (uint64_t)(axes[0].out * x->out);
    const ConvPixels pixels = {&window, seen, conv->zero, pixel};
    IgemmLines lines;
    const Igemm product = {.kind = conv->kind,
                           .rows = window.out,
                           .lines = conv_lines(x, &lines) ? &lines : NULL,
                           .taps = window.taps,
                           .depth = 1,
                           .columns = conv->channels,
                           .find = conv_pixels_find,
                           .source = &pixels,
                           .weights = conv->taps,
                           .y = result,
                           .y_row = conv->channels,
                           .epilogue = &conv->epilogue};
    igemm_channels_block(&product, conv->cpu, band->table, band->rest);
}

static void run_band(const Job *job, Band *band, int64_t from, int64_t to) {
    const SeparableConv *conv = job->conv;
    const uint64_t width = (uint64_t)conv->axes[1].out;
    const uint64_t place = band->image * conv->window.out + (uint64_t)from * width;
    if (!conv->behind.is_there) {
        convolve(job, band, from, to, job->y + place * conv->channels * conv->element);
        return;
    }
    Product behind = conv->behind;
    convolve(job, band, from, to, band->mixed);
    if (behind.epilogue.residual) behind.epilogue.residual += place * behind.columns;
    const uint64_t result = place * behind.columns;
    multiply(conv, &behind,
             &(Pixels){.count = (uint64_t)(to - from) * width,
                       .all = conv->images * conv->window.out,
                       .x = band->mixed,
                       .y = job->y + result * conv->element,
                       .z = conv->z ? conv->z + result : NULL});
}

/* Result rows, counted through all images. */
static void run_rows(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Job *job = data;
    const uint64_t high = (uint64_t)job->conv->axes[0].out;
    Band *band = &job->bands[lane];
    for (uint64_t row = first, count; row < end; row += count) {
        const uint64_t from = row % high, left = high - from < end - row ? high - from : end - row;
        if (row != band->next || from == 0) { /* nothing is there of rows above */
            band->image = row / high;
            band->first = band->end = 0;
        }
        count = left < job->band ? left : job->band;
        run_band(job, band, (int64_t)from, (int64_t)(from + count));
        band->next = row + count;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* Rows that so many result rows see. */
static uint64_t rows_seen(const WindowAxis *y, uint64_t results) {
    const uint64_t span = (uint64_t)((y->taps - 1) * y->dilation) + 1;
    const uint64_t seen = (results - 1) * (uint64_t)y->stride + span;
    return seen < (uint64_t)y->in ? seen : (uint64_t)y->in;
}

/* Bytes of a band of so many result rows, before and behind the convolution. */
static void size_band(Job *job, uint64_t rows) {
    const SeparableConv *conv = job->conv;
    const WindowAxis *y = &conv->axes[0], *x = &conv->axes[1];
    job->band = rows;
    const uint64_t pixel = conv->channels * conv->element;
    job->seen = conv->before.is_there ? rows_seen(y, rows) * (uint64_t)x->in * pixel : 0;
    job->mixed = conv->behind.is_there ? rows * (uint64_t)x->out * pixel : 0;
}

static double work_of(const SeparableConv *conv) {
    const double in = (double)conv->images * (double)conv->window.in;
    const double out = (double)conv->images * (double)conv->window.out;
    const Product *a = &conv->before, *b = &conv->behind;
    return in * (double)a->depth * (double)a->columns / 4 +
           out * (double)b->depth * (double)b->columns / 4 +
           out * (double)conv->channels * (double)conv->window.taps;
}

/* Of one lane: addresses, and floats beside them. */
static void size_lane(Job *job) {
    const SeparableConv *conv = job->conv;
    IgemmLines lines;
    const Igemm product = {.kind = conv->kind,
                           .taps = conv->window.taps,
                           .columns = conv->channels,
                           .epilogue = &conv->epilogue,
                           .lines = conv_lines(&conv->axes[1], &lines) ? &lines : NULL};
    job->table = igemm_channels_table(&product);
    job->rest = igemm_channels_rest(&product);
}

/* False with the error set past the memory budget. */
static bool get_bands(KernelCall *call, Job *job) {
    const unsigned lanes = kernel_threads(call);
    job->space = kernel_workspace(call, (job->seen + job->mixed + 1) * lanes);
    job->tables = kernel_workspace(call, job->table * lanes * sizeof *job->tables);
    job->rests = kernel_workspace(call, (job->rest * lanes + 1) * sizeof *job->rests);
    job->bands = kernel_workspace(call, lanes * sizeof *job->bands);
    if (!job->space || !job->tables || !job->rests || !job->bands) return false;
    for (unsigned i = 0; i < lanes; i++) {
        char *space = job->space + i * (job->seen + job->mixed);
        job->bands[i] = (Band){.next = UINT64_MAX,
                               .seen = space,
                               .mixed = space + job->seen,
                               .table = job->tables + i * job->table,
                               .rest = job->rests + i * job->rest};
    }
    return true;
}

static bool run_bands(KernelCall *call, const Job *job) {
    const double work = work_of(job->conv);
    const uint64_t rows = job->conv->images * (uint64_t)job->conv->axes[0].out;
    KernelCut cut = kernel_cut(rows, job->band, kernel_work_threads(call, work, rows), work);
    cut.grain = 1;
    kernel_run_parts(call->workers, cut, run_rows, job);
    return true;
}

static bool run(KernelCall *call, Job *job) {
    const SeparableConv *conv = job->conv;
    size_band(job, 1);
    for (uint64_t band = 2; band <= (uint64_t)conv->axes[0].out; band++) {
        const Job smaller = *job;
        size_band(job, band);
        if (job->seen + job->mixed <= conv->band_bytes) continue;
        *job = smaller;
        break;
    }
    size_lane(job);
    return get_bands(call, job) && run_bands(call, job);
}

/* False with the error set past the memory budget. */
static bool pack(KernelCall *call, uint32_t i, const WeightLayout *layout, const void **weights) {
    if (*weights) return true;
    void *packed = kernel_workspace(call, weight_layout_size(layout));
    if (packed) weight_layout_pack(layout, call->inputs[i].data, packed);
    *weights = packed;
    return packed != NULL;
}

bool kernel_separable_conv(KernelCall *call) {
    SeparableConv conv = *(const SeparableConv *)call->prepared;
    Product *before = &conv.before, *behind = &conv.behind;
    if (call->outputs[0].count == 0) return true;
    if (!conv.window.in || !conv.window.taps || !conv.channels ||
        (before->is_there && !before->depth))
        return kernel_fail(call, "data or weights are empty");
    if (!pack(call, INPUT_W, &conv.layout, &conv.taps) ||
        (before->is_there && !pack(call, INPUT_V, &before->layout, &before->weights)) ||
        (behind->is_there && !pack(call, INPUT_U, &behind->layout, &behind->weights)))
        return false;
    conv.window.axes = conv.axes;
    const KernelTensor *z = kernel_input(call, INPUT_Z);
    conv.epilogue.bias = fused_floats(call, kernel_input(call, INPUT_B));
    before->epilogue.bias = fused_floats(call, kernel_input(call, INPUT_C));
    behind->epilogue.bias = fused_floats(call, kernel_input(call, INPUT_D));
    if (z && conv.kind == IGEMM_BFLOATS) conv.z = z->data;
    if (z && conv.kind == IGEMM_FLOAT) behind->epilogue.residual = z->data;
    behind->epilogue.residual_row = behind->columns;
    Job job = {.conv = &conv, .x = call->inputs[INPUT_X].data, .y = call->outputs[0].data};
    return run(call, &job);
}
