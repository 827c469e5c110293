// SPDX-License-Identifier: Apache-2.0
/* QMean: means of bytes over any axes. Sums are integers, and so exact; what is made of one is
 * computed in double and rounded once. A mean of nothing is NaN, or the zero point. */
#include <math.h>

#include "byte_operands.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "reduce_run.h"

enum { X_ZERO = 2, Y_ZERO, FACTOR };

typedef struct MeanJob {
    const int64_t *sums;
    void *y;
    Dtype to;
    int64_t less;  /* zero points that a sum has */
    double factor; /* that of the operator by the number of elements */
    double zero;   /* the result's */
} MeanJob;

static double finish(const MeanJob *job, uint64_t i) {
    return (double)(job->sums[i] - job->less) * job->factor;
}

static void make_means(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const MeanJob *job = data;
    const double low = job->to == DTYPE_INT8 ? INT8_MIN : 0;
    const double high = job->to == DTYPE_INT8 ? INT8_MAX : UINT8_MAX;
    (void)lane;
    if (job->to == DTYPE_FLOAT) {
        for (uint64_t i = first; i < end; i++) ((float *)job->y)[i] = (float)finish(job, i);
        return;
    }
    for (uint64_t i = first; i < end; i++) {
        double v = nearbyint(finish(job, i)) + job->zero;
        if (v != v) v = job->zero;
        v = v > low ? v : low;
        ((uint8_t *)job->y)[i] = (uint8_t)(int32_t)(v < high ? v : high);
    }
}

/* What is done with sums of `count` elements each; false with the error set. */
static bool read_job(KernelCall *call, uint64_t count, MeanJob *job) {
    const KernelTensor *x = &call->inputs[0], *y_zero = kernel_input(call, Y_ZERO);
    KernelTensor *y = &call->outputs[0];
    int32_t x_point, y_point;
    float factor = 1;
    *job = (MeanJob){.y = y->data, .to = y_zero ? y_zero->dtype : DTYPE_FLOAT};
    if (y->dtype != job->to || (y_zero && job->to != DTYPE_INT8 && job->to != DTYPE_UINT8))
        return kernel_fail(call, "the result is %s", dtype_name(y->dtype));
    if (!byte_zero(call, X_ZERO, x->dtype, &x_point) ||
        !byte_zero(call, Y_ZERO, job->to, &y_point) || !byte_number(call, FACTOR, &factor))
        return false;
    job->less = (int64_t)((uint64_t)x_point * count);
    job->factor = (double)factor / (double)count;
    job->zero = y_point;
    return true;
}

bool kernel_q_mean(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0];
    KernelTensor *y = &call->outputs[0];
    const bool is_signed = x->dtype == DTYPE_INT8;
    ReduceLoops loops;
    MeanJob job;
    bool *reduced = ARENA_ARRAY(call->scratch, bool, x->rank + 1);
    if (!is_signed && x->dtype != DTYPE_UINT8)
        return kernel_fail(call, "an operand of %s", dtype_name(x->dtype));
    if (!reduce_find(call, reduced)) return false;
    reduce_loops(call->scratch, x, reduced, &loops);
    if (loops.results != y->count) return kernel_fail(call, "the output has other dims");
    if (!read_job(call, loops.reduced, &job)) return false;
    if (y->count == 0) return true;
    int64_t *sums = kernel_workspace(call, y->count * sizeof *sums);
    if (!sums || !reduce_run(call, is_signed ? &reduce_total_int8_t : &reduce_total_uint8_t, &loops,
                             x, sums))
        return false;
    job.sums = sums;
    kernel_run_parts(call->workers, kernel_work_cut(call, (double)y->count, y->count), make_means,
                     &job);
    return true;
}
