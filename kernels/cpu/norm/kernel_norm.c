// SPDX-License-Identifier: Apache-2.0
/* LayerNormalization (demi.fused's, too), RMSNormalization, GroupNormalization,
 * InstanceNormalization and BatchNormalization: (x - mean) / sqrt(variance + epsilon) * scale + bias, over different sets.
 *
 * Statistics are made in double in two passes, whatever stash_type asks for: it is a lower bound of
 * the precision. Variances are those of the population. Parameters may be of another float type
 * than the data.
 */
#include <math.h>
#include <string.h>

#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_math.h"
#include "kernel_parts.h"
#include "kernel_reals.h"
#include "kernel_rows.h"

enum { NORM_LANES = 32, NORM_WEIGHT = 4 };

/* Rows of n elements. scale and bias begin anew with each row (step 0) or go on (step n). */
typedef struct NormRows {
    uint64_t rows, n, scale_step, bias_step;
    const void *x, *scale, *bias; /* bias may be NULL, as may be: */
    const void *skip;             /* is added to x; their sum goes to: */
    void *sum;
    void *y, *means, *inverses; /* [rows], may be NULL */
    double epsilon;
    bool rms;
} NormRows;

/* (batch, channels, size) */
typedef struct NormChannels {
    uint64_t batch, channels, size;
    const void *x;
    void *y;
    const double *scale, *bias, *mean, *var; /* [channels] */
    double epsilon;
} NormChannels;

#include "real_float.inc"
#include "kernel_norm_body.inc"
#include "real_end.inc"
#include "real_double.inc"
#include "kernel_norm_body.inc"
#include "real_end.inc"

/* ---- rows ------------------------------------------------------------------------------------ */

/* A scale or bias of the rows, which may broadcast over them, or even vary from row to row. */
static const void *row_factor(KernelCall *call, const KernelTensor *factor, uint32_t axis,
                              uint64_t *step) {
    const KernelTensor *x = &call->inputs[0];
    KernelTensor row = {.rank = x->rank - axis, .dims = x->dims + axis};
    uint32_t leading = factor->rank > row.rank ? factor->rank - row.rank : 0;
    bool same = true;
    for (uint32_t i = 0; i < leading; i++) same = same && factor->dims[i] == 1;
    *step = same ? 0 : kernel_span(x, axis, x->rank);
    if (!same) return kernel_reals_expand(call, factor, x, kernel_reals_dtype(call));
    KernelTensor trailing = *factor;
    trailing.rank -= leading;
    trailing.dims += leading;
    return kernel_reals_expand(call, &trailing, &row, kernel_reals_dtype(call));
}

static bool statistic(KernelCall *call, uint32_t i, uint64_t rows, void **data) {
    KernelTensor *out = kernel_result(call, i);
    if (!out) return true;
    if (!kernel_want_count(call, out, rows, "a statistic")) return false;
    *data = kernel_reals_for(call, out, kernel_reals_dtype(call));
    return *data != NULL;
}

/* Rows [row, row + rows) of a job on elements of that size. */
static NormRows some_rows(const NormRows *job, uint64_t row, uint64_t rows, size_t size) {
    NormRows part = *job;
    part.rows = rows;
    part.x = (const char *)job->x + row * job->n * size;
    part.y = (char *)job->y + row * job->n * size;
    if (job->skip) part.skip = (const char *)job->skip + row * job->n * size;
    if (job->sum) part.sum = (char *)job->sum + row * job->n * size;
    part.scale = (const char *)job->scale + row * job->scale_step * size;
    if (job->bias) part.bias = (const char *)job->bias + row * job->bias_step * size;
    if (job->means) part.means = (char *)job->means + row * size;
    if (job->inverses) part.inverses = (char *)job->inverses + row * size;
    return part;
}

static void float_part(const void *job, uint64_t first, uint64_t end, unsigned lane) {
    const NormRows part = some_rows(job, first, end - first, sizeof(float));
    (void)lane;
    norm_rows_float(&part);
}

static void double_part(const void *job, uint64_t first, uint64_t end, unsigned lane) {
    const NormRows part = some_rows(job, first, end - first, sizeof(double));
    (void)lane;
    norm_rows_double(&part);
}

static void run_rows(const KernelCall *call, const NormRows *job, Dtype dtype) {
    const uint64_t elements = job->rows * job->n;
    const unsigned parts = kernel_parts(kernel_threads(call), elements, NORM_WEIGHT);
    kernel_run_parts(call->workers, kernel_element_cut(job->rows, 1, parts, elements),
                     dtype == DTYPE_FLOAT ? float_part : double_part, job);
}

/* Which inputs are what. */
typedef struct NormPlaces {
    uint32_t scale, bias, skip;
    bool rms, statistics; /* the further outputs are means and inverse deviations */
} NormPlaces;
enum { NOWHERE = UINT32_MAX };

static bool find_statistics(KernelCall *call, NormRows *job) {
    return statistic(call, 1, job->rows, &job->means) &&
           statistic(call, 2, job->rows, &job->inverses);
}

/* Skip and the sum, of x's dims; all are float. */
static bool find_skip(KernelCall *call, const KernelTensor *skip, NormRows *job) {
    const KernelTensor *x = &call->inputs[0], *sum = kernel_result(call, 1);
    if (sum && !skip) return kernel_fail(call, "a sum without Skip");
    if (!skip) return true;
    bool same = skip->rank == x->rank;
    for (uint32_t i = 0; same && i < x->rank; i++) same = skip->dims[i] == x->dims[i];
    if (!same || (sum && sum->count != x->count))
        return kernel_fail(call, "the shapes of Skip and X differ");
    job->skip = skip->data;
    job->sum = sum ? sum->data : NULL;
    return true;
}

static bool norm_rows(KernelCall *call, const NormPlaces *places) {
    const NormAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *scale = &call->inputs[places->scale];
    const KernelTensor *bias = kernel_input(call, places->bias), *y = &call->outputs[0];
    Dtype dtype = kernel_reals_dtype(call);
    uint32_t axis;
    if (!kernel_want_count(call, y, x->count, "the output") ||
        !kernel_axis(call, attrs->axis, x->rank, &axis))
        return false;
    NormRows job = {.rows = kernel_span(x, 0, axis),
                    .n = kernel_span(x, axis, x->rank),
                    .x = kernel_reals(call, x, dtype),
                    .y = kernel_reals_for(call, y, dtype),
                    .epsilon = (double)attrs->epsilon,
                    .rms = places->rms};
    if (!job.x || !job.y) return false;
    job.scale = row_factor(call, scale, axis, &job.scale_step);
    if (bias) job.bias = row_factor(call, bias, axis, &job.bias_step);
    if (!job.scale || (bias && !job.bias)) return false;
    if (places->skip != NOWHERE && !find_skip(call, kernel_input(call, places->skip), &job))
        return false;
    if (places->statistics && !find_statistics(call, &job)) return false;
    if (job.n == 0 && !job.means && !job.inverses) return true; /* however many rows */
    run_rows(call, &job, dtype);
    kernel_reals_done(y, job.y, dtype);
    if (job.means) kernel_reals_done(&call->outputs[1], job.means, dtype);
    if (job.inverses) kernel_reals_done(&call->outputs[2], job.inverses, dtype);
    return true;
}

bool kernel_layer_norm(KernelCall *call) {
    return norm_rows(call, &(NormPlaces){1, 2, NOWHERE, false, true});
}
bool kernel_rms_norm(KernelCall *call) {
    return norm_rows(call, &(NormPlaces){1, NOWHERE, NOWHERE, true, false});
}
/* demi.fused's: (X, Skip, Scale, Bias) => (Y, X + Skip, Y), of which the host rounds each. */
bool kernel_skip_layer_norm(KernelCall *call) {
    const NormAttrs *attrs = call->attrs;
    const KernelTensor *y = &call->outputs[0], *low = kernel_result(call, 2);
    if ((low && !kernel_want_count(call, low, y->count, "the second result")) ||
        !norm_rows(call, &(NormPlaces){2, 3, 1, attrs->rms != 0, false}))
        return false;
    if (low && y->count) memcpy(low->data, y->data, y->count * sizeof(float));
    return true;
}

/* ---- channels -------------------------------------------------------------------------------- */

/* Operand i, of a number a channel or, where there are fewer, a group of channels. */
static const double *channel_factor(KernelCall *call, uint32_t i, uint64_t channels,
                                    uint64_t groups) {
    const KernelTensor *tensor = kernel_input(call, i);
    uint64_t count = tensor && tensor->count == groups ? groups : channels;
    if (!kernel_want_count(call, tensor, count, "scale, bias or a statistic")) return NULL;
    const double *have = kernel_doubles(call, tensor);
    if (!have || count == channels) return have;
    double *each = ARENA_ARRAY(call->scratch, double, channels + 1);
    for (uint64_t c = 0; c < channels; c++) each[c] = have[c / (channels / groups)];
    return each;
}

static bool norm_groups(KernelCall *call, uint64_t groups, bool by_group) {
    const ChannelNormAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0];
    uint64_t channels = (uint64_t)x->dims[1];
    NormChannels job = {.batch = (uint64_t)x->dims[0],
                        .channels = channels,
                        .size = kernel_span(x, 2, x->rank),
                        .x = x->data,
                        .y = call->outputs[0].data,
                        .epsilon = (double)attrs->epsilon};
    job.scale = channel_factor(call, 1, channels, by_group ? groups : channels);
    job.bias = job.scale ? channel_factor(call, 2, channels, by_group ? groups : channels) : NULL;
    if (!job.bias) return false;
    if (x->count == 0) return true;
    if (x->dtype == DTYPE_FLOAT)
        norm_groups_float(&job, groups);
    else if (x->dtype == DTYPE_DOUBLE)
        norm_groups_double(&job, groups);
    else
        return kernel_fail(call, "no floating-point values");
    return true;
}

bool kernel_group_norm(KernelCall *call) {
    const ChannelNormAttrs *attrs = call->attrs;
    if (!kernel_want_same_count(call)) return false;
    const KernelTensor *x = &call->inputs[0];
    if (x->rank < 2) return kernel_fail(call, "rank %u has no channels", x->rank);
    if (attrs->groups < 1 || x->dims[1] % attrs->groups)
        return kernel_fail(call, "%lld channels cannot be divided into %lld groups",
                           (long long)x->dims[1], (long long)attrs->groups);
    return norm_groups(call, (uint64_t)attrs->groups, call->row->since < 21);
}

bool kernel_instance_norm(KernelCall *call) {
    if (!kernel_want_same_count(call)) return false;
    const KernelTensor *x = &call->inputs[0];
    if (x->rank < 2) return kernel_fail(call, "rank %u has no channels", x->rank);
    return norm_groups(call, (uint64_t)x->dims[1], false);
}

/* ---- BatchNormalization ---------------------------------------------------------------------- */

/* Version 14 says it; 7 to 13 train where running statistics are wanted; 1 and 6 unless testing. */
static bool is_training(const KernelCall *call) {
    const ChannelNormAttrs *attrs = call->attrs;
    if (call->row->since >= 14) return attrs->training_mode != 0;
    if (call->row->since < 7) return attrs->is_test == 0;
    for (uint32_t i = 1; i < call->output_count; i++)
        if (call->outputs[i].present) return true;
    return false;
}

/* Output i: weight * before + (1 - weight) * now, of each channel. */
static bool put_statistic(KernelCall *call, uint32_t i, const NormChannels *job, bool training) {
    const ChannelNormAttrs *attrs = call->attrs;
    const KernelTensor *out = kernel_result(call, i);
    const double *now = i % 2 ? job->mean : job->var;
    double weight = training && i < 3 ? (double)attrs->momentum : 0;
    if (!out) return true;
    if (!kernel_want_count(call, out, job->channels, "a statistic")) return false;
    const double *before = channel_factor(call, i % 2 ? 3 : 4, job->channels, job->channels);
    double *to = kernel_reals_for(call, out, DTYPE_DOUBLE);
    if (!before || !to) return false;
    for (uint64_t c = 0; c < job->channels; c++)
        to[c] = weight == 0 ? now[c] : weight * before[c] + (1 - weight) * now[c];
    kernel_reals_done(out, to, DTYPE_DOUBLE);
    return true;
}

static bool batch_norm(KernelCall *call, NormChannels *job) {
    bool training = is_training(call), wide = call->inputs[0].dtype == DTYPE_DOUBLE;
    const double **factors[] = {&job->scale, &job->bias, &job->mean, &job->var};
    for (uint32_t i = 0; i < 4; i++) {
        *factors[i] = channel_factor(call, i + 1, job->channels, job->channels);
        if (!*factors[i]) return false;
    }
    if (training) {
        double *mean = ARENA_ARRAY(call->scratch, double, job->channels + 1);
        double *var = ARENA_ARRAY(call->scratch, double, job->channels + 1);
        if (wide)
            channel_moments_double(job, mean, var);
        else
            channel_moments_float(job, mean, var);
        job->mean = mean;
        job->var = var;
    }
    for (uint32_t i = 1; i < call->output_count; i++)
        if (!put_statistic(call, i, job, training)) return false;
    if (call->inputs[0].count == 0) return true;
    if (wide)
        norm_channels_double(job);
    else
        norm_channels_float(job);
    return true;
}

bool kernel_batch_norm(KernelCall *call) {
    const ChannelNormAttrs *attrs = call->attrs;
    if (!kernel_want_same_count(call)) return false;
    const KernelTensor *x = &call->inputs[0];
    if (x->dtype != DTYPE_FLOAT && x->dtype != DTYPE_DOUBLE)
        return kernel_fail(call, "no floating-point values");
    NormChannels job = {.batch = x->rank ? (uint64_t)x->dims[0] : 1,
                        .channels = 1,
                        .size = 1,
                        .x = x->data,
                        .y = call->outputs[0].data,
                        .epsilon = (double)attrs->epsilon};
    if (x->rank > 1) job.channels = (uint64_t)x->dims[1];
    if (x->rank > 2) job.size = kernel_span(x, 2, x->rank);
    if (!attrs->spatial && call->row->since < 9) {
        job.channels *= job.size;
        job.size = 1;
    }
    return batch_norm(call, &job);
}
