// SPDX-License-Identifier: Apache-2.0
/* Softmax and normalizations on a CUDA device. */
#include "cuda_epilogue.h"
#include "cuda_functions.h"
#include "norm_args.h"

enum { THREADS = 256, SHARED = 48 << 10, GRID = 1 << 20 };

/* Threads for rows of n elements: whole warps, no more than there is work for. */
static uint32_t row_threads(uint64_t n) {
    uint32_t threads = 32;
    while (threads < THREADS && threads * 4 < n) threads *= 2;
    return threads;
}

static uint32_t row_blocks(uint64_t rows) {
    return rows < GRID ? (uint32_t)rows : GRID;
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* Before version 13 all axes from `axis` on are one. */
static bool softmax(KernelCall *call, bool log) {
    const NormAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0];
    uint32_t axis = 0;
    if (!x->count) return true;
    const bool flat = call->row->layout == &op_attrs_softmax_1;
    if (x->rank && !(flat && attrs->axis == (int64_t)x->rank) &&
        !kernel_axis(call, attrs->axis, x->rank, &axis))
        return false;
    const SoftmaxArgs args = {
        .x = x->data,
        .y = call->outputs[0].data,
        .outer = (int64_t)kernel_span(x, 0, axis),
        .n =
            x->rank ? (int64_t)(flat ? kernel_span(x, axis, x->rank) : (uint64_t)x->dims[axis]) : 1,
        .inner = flat || !x->rank ? 1 : (int64_t)kernel_span(x, axis + 1, x->rank),
        .x_type = (int32_t)x->dtype,
        .y_type = (int32_t)call->outputs[0].dtype,
        .log = log};
    const bool rows = args.inner == 1;
    const CudaLaunch launch = {
        .family = CUDA_norm,
        .kernel = rows ? "softmax_rows" : "softmax_columns",
        .blocks = {rows ? row_blocks((uint64_t)args.outer)
                        : cuda_blocks((uint64_t)(args.outer * args.inner), THREADS, 1)},
        .threads = {rows ? row_threads((uint64_t)args.n) : THREADS},
        .args = &args};
    return cuda_launch(call, &launch);
}

bool cuda_softmax(KernelCall *call) {
    return softmax(call, false);
}
bool cuda_log_softmax(KernelCall *call) {
    return softmax(call, true);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool lies_packed(const void *data, int32_t type) {
    return (uintptr_t)data % (4 * kernel_element_size((Dtype)type)) == 0;
}

static bool is_packed(const RowNormArgs *a) {
    return a->n % 4 == 0 && a->n <= 4 * NORM_PACKS * THREADS && a->rows <= INT32_MAX && !a->all &&
           a->span == 1 && a->scale_step == 1 && (!a->bias || a->bias_step == 1) &&
           lies_packed(a->x, a->x_type) && lies_packed(a->y, a->y_type) &&
           lies_packed(a->scale, a->scale_type) &&
           (!a->bias || lies_packed(a->bias, a->bias_type)) &&
           (!a->skip || lies_packed(a->skip, a->skip_type)) &&
           (!a->sum || lies_packed(a->sum, a->sum_type)) &&
           (!a->low || lies_packed(a->low, a->low_type));
}

/* Of few rows, each by a block of whole warps, a pack a thread as long as a block has threads; of many, by
 * a warp, so that all are under way at once. */
static bool launch_packs(KernelCall *call, const RowNormArgs *args) {
    enum { WARPS = THREADS / 32 };
    const uint32_t packs = (uint32_t)args->n / 4, threads = (packs + 31) / 32 * 32;
    if ((uint64_t)args->rows >= (uint64_t)cuda_width(call) * WARPS &&
        packs <= 32 * NORM_WARP_PACKS) {
        const CudaLaunch launch = {.family = CUDA_norm,
                                   .kernel = "norm_warps",
                                   .blocks = {cuda_blocks((uint64_t)args->rows, WARPS, 1)},
                                   .threads = {THREADS},
                                   .args = args};
        return cuda_launch(call, &launch);
    }
    const CudaLaunch launch = {.family = CUDA_norm,
                               .kernel = "norm_packs",
                               .blocks = {(uint32_t)args->rows},
                               .threads = {threads < THREADS ? threads : THREADS},
                               .args = args};
    return cuda_launch(call, &launch);
}

static bool launch_rows(KernelCall *call, RowNormArgs *args) {
    if (args->rows && args->n && is_packed(args)) return launch_packs(call, args);
    const uint64_t size = (uint64_t)args->n * sizeof(float);
    args->kept = size <= SHARED - 1024;
    const CudaLaunch launch = {.family = CUDA_norm,
                               .kernel = "norm_rows",
                               .blocks = {row_blocks((uint64_t)args->rows)},
                               .threads = {row_threads((uint64_t)args->n)},
                               .shared = args->kept ? (uint32_t)size : 0,
                               .args = args};
    return !args->rows || !args->n || cuda_launch(call, &launch);
}

/* Scale or bias: an element for each of the row's, or one. */
static bool take_factor(KernelCall *call, const KernelTensor *factor, uint64_t n, const void **data,
                        int32_t *type, int64_t *step) {
    if (factor->count != n && factor->count != 1)
        return kernel_decline(call, "the device does not support this shape of scale or bias");
    *data = factor->data;
    *type = (int32_t)factor->dtype;
    *step = factor->count > 1;
    return true;
}

static bool norm_rows(KernelCall *call, uint32_t scale_at, const KernelTensor *bias,
                      const KernelTensor *skip, bool rms) {
    const NormAttrs *attrs = call->attrs;
    const bool fused = call->row->layout == &op_attrs_fused_layer_norm;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    const KernelTensor *low = fused ? kernel_result(call, 2) : NULL;
    uint32_t axis;
    if (!kernel_axis(call, attrs->axis, x->rank, &axis)) return false;
    const uint64_t n = kernel_span(x, axis, x->rank);
    RowNormArgs args = {.x = x->data,
                        .y = y->data,
                        .rows = (int64_t)kernel_span(x, 0, axis),
                        .n = (int64_t)n,
                        .span = 1,
                        .epsilon = attrs->epsilon,
                        .rms = rms,
                        .x_type = (int32_t)x->dtype,
                        .y_type = (int32_t)y->dtype};
    if (!take_factor(call, &call->inputs[scale_at], n, &args.scale, &args.scale_type,
                     &args.scale_step) ||
        (bias && !take_factor(call, bias, n, &args.bias, &args.bias_type, &args.bias_step)))
        return false;
    if (skip) {
        const KernelTensor *sum = kernel_result(call, 1);
        if (skip->count != x->count) return kernel_fail(call, "the shapes of Skip and X differ");
        args.skip = skip->data;
        args.skip_type = (int32_t)skip->dtype;
        if (sum) args.sum = sum->data, args.sum_type = (int32_t)sum->dtype;
    }
    if (low) args.low = low->data, args.low_type = (int32_t)low->dtype;
    return launch_rows(call, &args);
}

bool cuda_layer_norm(KernelCall *call) {
    return norm_rows(call, 1, kernel_input(call, 2), NULL, false);
}
bool cuda_rms_norm(KernelCall *call) {
    return norm_rows(call, 1, NULL, NULL, true);
}
bool cuda_skip_layer_norm(KernelCall *call) {
    const NormAttrs *attrs = call->attrs;
    return norm_rows(call, 2, kernel_input(call, 3), kernel_input(call, 1), attrs->rms != 0);
}

/* ---- channels -------------------------------------------------------------------------------- */

static bool norm_groups(KernelCall *call, uint64_t groups) {
    const ChannelNormAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *scale = &call->inputs[1], *bias = &call->inputs[2];
    const uint64_t channels = (uint64_t)x->dims[1], inner = kernel_span(x, 2, x->rank);
    if (!groups || channels % groups) return kernel_fail(call, "channels do not fit the groups");
    const uint64_t each = channels / groups;
    if (scale->count != bias->count || (scale->count != channels && scale->count != groups))
        return kernel_fail(call, "scale and bias do not have one element per channel");
    const bool by_group = scale->count == groups && groups != channels;
    RowNormArgs args = {.x = x->data,
                        .y = call->outputs[0].data,
                        .scale = scale->data,
                        .bias = bias->data,
                        .rows = x->dims[0] * (int64_t)groups,
                        .n = (int64_t)(each * inner),
                        .span = (int64_t)(by_group ? each * inner : inner),
                        .scale_step = 1,
                        .bias_step = 1,
                        .channels = (int64_t)(by_group ? 1 : each),
                        .all = (int64_t)scale->count,
                        .epsilon = attrs->epsilon,
                        .x_type = (int32_t)x->dtype,
                        .y_type = (int32_t)call->outputs[0].dtype,
                        .scale_type = (int32_t)scale->dtype,
                        .bias_type = (int32_t)bias->dtype};
    return launch_rows(call, &args);
}

bool cuda_instance_norm(KernelCall *call) {
    return norm_groups(call, (uint64_t)call->inputs[0].dims[1]);
}
bool cuda_group_norm(KernelCall *call) {
    const ChannelNormAttrs *attrs = call->attrs;
    return norm_groups(call, (uint64_t)attrs->groups);
}

bool cuda_batch_norm(KernelCall *call) {
    const ChannelNormAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0];
    const uint64_t channels = x->rank > 1 ? (uint64_t)x->dims[1] : 1;
    for (uint32_t i = 1; i < 5; i++)
        if (call->inputs[i].count != channels)
            return kernel_fail(call, "a factor or statistic does not have one element per channel");
    if (attrs->training_mode) return kernel_decline(call, "the device does not support training");
    const BatchNormArgs args = {.x = x->data,
                                .scale = call->inputs[1].data,
                                .bias = call->inputs[2].data,
                                .mean = call->inputs[3].data,
                                .variance = call->inputs[4].data,
                                .y = call->outputs[0].data,
                                .count = (int64_t)x->count,
                                .channels = (int64_t)channels,
                                .inner = x->rank > 2 ? (int64_t)kernel_span(x, 2, x->rank) : 1,
                                .epsilon = attrs->epsilon,
                                .x_type = (int32_t)x->dtype,
                                .y_type = (int32_t)call->outputs[0].dtype,
                                .scale_type = (int32_t)call->inputs[1].dtype,
                                .bias_type = (int32_t)call->inputs[2].dtype,
                                .mean_type = (int32_t)call->inputs[3].dtype,
                                .variance_type = (int32_t)call->inputs[4].dtype};
    const CudaLaunch launch = {.family = CUDA_norm,
                               .kernel = "batch_norm",
                               .blocks = {cuda_blocks_full(call, x->count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = &args};
    return !x->count || cuda_launch(call, &launch);
}

bool cuda_affine(KernelCall *call) {
    const AffineAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    CudaEpilogue e;
    uint32_t axis;
    if (x->count != y->count) return kernel_fail(call, "its result has a different size");
    if (!kernel_axis(call, attrs->axis, x->rank, &axis) || !cuda_activation(call, &attrs->act, &e))
        return false;
    for (uint32_t i = 1; i < 4; i++)
        if (call->inputs[i].count != (uint64_t)x->dims[axis])
            return kernel_fail(call, "mean, scale, or shift does not have one element per channel");
    const AffineArgs args = {.x = x->data,
                             .mean = call->inputs[1].data,
                             .scale = call->inputs[2].data,
                             .shift = call->inputs[3].data,
                             .y = y->data,
                             .count = (int64_t)x->count,
                             .channels = x->dims[axis],
                             .inner = (int64_t)kernel_span(x, axis + 1, x->rank),
                             .x_type = (int32_t)x->dtype,
                             .y_type = (int32_t)y->dtype,
                             .mean_type = (int32_t)call->inputs[1].dtype,
                             .scale_type = (int32_t)call->inputs[2].dtype,
                             .shift_type = (int32_t)call->inputs[3].dtype,
                             .op = (int32_t)e.op,
                             .p = e.p,
                             .q = e.q};
    const CudaLaunch launch = {.family = CUDA_norm,
                               .kernel = "affine",
                               .blocks = {cuda_blocks_full(call, x->count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = &args};
    return !x->count || cuda_launch(call, &launch);
}

/* ---- neighbors, lines ----------------------------------------------------------------------- */

bool cuda_lrn(KernelCall *call) {
    const LrnAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0];
    if (x->rank < 2) return kernel_fail(call, "rank %u has no channels", x->rank);
    if (attrs->size < 1) return kernel_fail(call, "size = %lld", (long long)attrs->size);
    const LrnArgs args = {.x = x->data,
                          .y = call->outputs[0].data,
                          .count = (int64_t)x->count,
                          .channels = x->dims[1],
                          .inner = (int64_t)kernel_span(x, 2, x->rank),
                          .before = (attrs->size - 1) / 2,
                          .after = attrs->size / 2,
                          .factor = (float)((double)attrs->alpha / (double)attrs->size),
                          .bias = attrs->bias,
                          .beta = attrs->beta,
                          .x_type = (int32_t)x->dtype,
                          .y_type = (int32_t)call->outputs[0].dtype};
    const CudaLaunch launch = {.family = CUDA_norm,
                               .kernel = "lrn",
                               .blocks = {cuda_blocks_full(call, x->count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = &args};
    return !x->count || cuda_launch(call, &launch);
}

bool cuda_lp_norm(KernelCall *call) {
    const NormAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0];
    uint32_t axis = 0;
    if (attrs->p != 1 && attrs->p != 2) return kernel_fail(call, "p = %lld", (long long)attrs->p);
    if (x->rank && !kernel_axis(call, attrs->axis, x->rank, &axis)) return false;
    if (!x->count) return true;
    const int64_t n = x->rank ? x->dims[axis] : 1; /* of a scalar */
    const LpNormArgs args = {.x = x->data,
                             .y = call->outputs[0].data,
                             .lines = (int64_t)x->count / n,
                             .n = n,
                             .inner = x->rank ? (int64_t)kernel_span(x, axis + 1, x->rank) : 1,
                             .square = attrs->p == 2,
                             .x_type = (int32_t)x->dtype,
                             .y_type = (int32_t)call->outputs[0].dtype};
    const CudaLaunch launch = {.family = CUDA_norm,
                               .kernel = "lp_norm",
                               .blocks = {row_blocks((uint64_t)args.lines)},
                               .threads = {row_threads((uint64_t)args.n)},
                               .args = &args};
    return cuda_launch(call, &launch);
}
