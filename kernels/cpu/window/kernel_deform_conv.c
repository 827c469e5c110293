// SPDX-License-Identifier: Apache-2.0
/* DeformConv: a convolution whose taps are displaced. Tap t of output o reads channel c of the
 * input at o * stride + t * dilation - begin + offset[g, t, axis, o], interpolated linearly between
 * the 2^rank neighbors (those outside of the input are 0), times mask[g, t, o]; g is the offset
 * group of c.
 *
 * The samples are packed as the second factor of a product of matrices with the weights. Positions
 * are computed in double; double operands are sampled and summed by plain loops.
 */
#include <math.h>
#include <string.h>

#include "checked.h"
#include "gemm.h"
#include "kernel_functions.h"
#include "kernel_pace.h"
#include "window.h"

typedef struct Deform {
    const Window *window;
    const void *x, *offset, *mask;           /* mask NULL: 1 */
    uint64_t channels;                       /* of a group */
    uint64_t offset_groups, offset_channels; /* channels of an offset group */
    bool wide;                               /* double, otherwise float */
} Deform;

static double real_at(const Deform *d, const void *data, uint64_t i) {
    return d->wide ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

enum { RANK_MOST = 8 }; /* 2^rank neighbors */

/* The interpolated element of a plane at `at`. */
static double sample(const Deform *d, uint64_t plane, const double *at) {
    const Window *w = d->window;
    int64_t low[RANK_MOST];
    double part[RANK_MOST], sum = 0;
    for (uint32_t i = 0; i < w->rank; i++) {
        if (!(at[i] > -1 && at[i] < (double)w->axes[i].in)) return 0; /* NaN, too */
        low[i] = (int64_t)floor(at[i]);
        part[i] = at[i] - (double)low[i];
    }
    for (uint32_t corner = 0; corner < 1u << w->rank; corner++) {
        double weight = 1;
        int64_t place = 0;
        bool inside = true;
        for (uint32_t i = 0; i < w->rank; i++) {
            int64_t k = low[i] + (corner >> i & 1);
            weight *= corner >> i & 1 ? part[i] : 1 - part[i];
            inside = inside && k >= 0 && k < w->axes[i].in;
            place = place * w->axes[i].in + k;
        }
        if (inside && weight != 0)
            sum += weight * real_at(d, d->x, plane * w->in + (uint64_t)place);
    }
    return sum;
}

/* Row `row` (channel, tap) and output o of the matrix of samples of `batch`. */
static double element(const Deform *d, uint64_t batch, uint64_t row, uint64_t o) {
    const Window *w = d->window;
    uint64_t image = batch / w->groups, channel = batch % w->groups * d->channels + row / w->taps;
    uint64_t tap = row % w->taps, group = image * d->offset_groups + channel / d->offset_channels;
    uint64_t first = (group * w->taps + tap) * w->rank * w->out + o, rest = o, tap_rest = tap;
    double at[RANK_MOST];
    for (uint32_t i = w->rank; i-- > 0;) {
        const WindowAxis *axis = &w->axes[i];
        int64_t out = (int64_t)(rest % (uint64_t)axis->out);
        int64_t k = (int64_t)(tap_rest % (uint64_t)axis->taps);
        rest /= (uint64_t)axis->out;
        tap_rest /= (uint64_t)axis->taps;
        at[i] = (double)(out * axis->stride + k * axis->dilation - axis->begin) +
                real_at(d, d->offset, first + i * w->out);
    }
    double factor = d->mask ? real_at(d, d->mask, (group * w->taps + tap) * w->out + o) : 1;
    return sample(d, image * w->groups * d->channels + channel, at) * factor;
}

static void pack_samples(const void *source, const GemmBlock *block, void *to) {
    const Deform *d = source;
    for (uint64_t j = 0; j < block->lanes; j++)
        for (uint64_t k = 0; k < block->depth; k++) {
            uint64_t panel = j / block->width * block->depth + k;
            ((float *)to)[panel * block->width + j % block->width] =
                (float)element(d, block->batch, block->k + k, block->lane + j);
        }
}

static void run_double(KernelCall *call, const Deform *d, const KernelTensor *w,
                       const KernelTensor *bias, KernelTensor *y) {
    const Window *window = d->window;
    uint64_t depth = d->channels * window->taps, filters = (uint64_t)w->dims[0];
    double *to = y->data;
    KernelPace pace = {call, 0};
    for (uint64_t i = 0; i < y->count; i++) {
        uint64_t filter = i / window->out % filters, image = i / window->out / filters;
        uint64_t batch = image * window->groups + filter / (filters / window->groups);
        to[i] = bias ? ((const double *)bias->data)[filter] : 0;
        for (uint64_t k = 0; k < depth; k++) {
            kernel_pace(&pace, 1 << window->rank);
            to[i] += ((const double *)w->data)[filter * depth + k] *
                     element(d, batch, k, i % window->out);
        }
    }
}

static bool run_float(KernelCall *call, const Deform *d, const KernelTensor *w,
                      const KernelTensor *bias, KernelTensor *y) {
    const Window *window = d->window;
    uint64_t depth = d->channels * window->taps, filters = (uint64_t)w->dims[0] / window->groups;
    uint64_t batches = (uint64_t)y->dims[0] * window->groups;
    uint64_t *weights = ARENA_ARRAY(call->scratch, uint64_t, batches);
    for (uint64_t i = 0; i < batches; i++) weights[i] = i % window->groups * filters * depth;
    const GemmMatrix a = {w->data, weights, depth, 1, DTYPE_UNDEFINED};
    const Gemm product = {.kind = GEMM_FLOAT,
                          .batches = batches,
                          .m = filters,
                          .n = window->out,
                          .k = depth,
                          .a = &a,
                          .pack_b = pack_samples,
                          .b = d,
                          .c = y->data,
                          .bias = bias ? bias->data : NULL,
                          .bias_batches = window->groups};
    return gemm_run(call, &product);
}

/* True where a tensor is (images, groups * taps * each, outputs …) of x's type. */
static bool fits(const KernelCall *call, const KernelTensor *t, const Window *w,
                 uint64_t channels) {
    const KernelTensor *y = &call->outputs[0];
    if (t->rank != y->rank || t->dtype != y->dtype || t->dims[0] != y->dims[0] ||
        (uint64_t)t->dims[1] != channels)
        return false;
    for (uint32_t i = 0; i < w->rank; i++)
        if (t->dims[i + 2] != y->dims[i + 2]) return false;
    return true;
}

bool kernel_deform_conv(KernelCall *call) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1], *offset = &call->inputs[2];
    const KernelTensor *bias = kernel_input(call, 3), *mask = kernel_input(call, 4);
    KernelTensor *y = &call->outputs[0];
    Window window;
    if (!window_make(call, attrs, w, &window) || !window_check_conv(call, &window, x, w, bias))
        return false;
    if (window.rank > RANK_MOST) return kernel_fail(call, "%u spatial axes", window.rank);
    if (attrs->offset_group < 1 || x->dims[1] % attrs->offset_group)
        return kernel_fail(call, "%lld channels for %lld offset groups", (long long)x->dims[1],
                           (long long)attrs->offset_group);
    if (y->count == 0) return true;
    if (w->count == 0) window.taps = 0;
    uint64_t groups = (uint64_t)attrs->offset_group, taps, all;
    if (!checked_mul(window.taps, groups, &taps) || !checked_mul(taps, window.rank, &all) ||
        (w->count &&
         (!fits(call, offset, &window, all) || (mask && !fits(call, mask, &window, taps)))))
        return kernel_fail(call, "offset or mask does not fit");
    const Deform d = {.window = &window,
                      .x = x->data,
                      .offset = offset->data,
                      .mask = mask ? mask->data : NULL,
                      .channels = (uint64_t)w->dims[1],
                      .offset_groups = groups,
                      .offset_channels = (uint64_t)x->dims[1] / groups,
                      .wide = x->dtype == DTYPE_DOUBLE};
    if (!d.wide) return run_float(call, &d, w, bias, y);
    run_double(call, &d, w, bias, y);
    return true;
}
