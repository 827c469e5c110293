// SPDX-License-Identifier: Apache-2.0
/* QMean: means of bytes over any axes. Sums are integers, and so exact; what is made of one is
 * computed in double and rounded once. A mean of nothing is NaN, or the zero point. */
#include "byte_operands.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_rows.h"
#include "reduce_run.h"
#include "simd_baseline.h"

enum {
    X_ZERO = 2,
    Y_ZERO,
    FACTOR,
    RUN_LEAST = 8,      /* elements of a run */
    RUN_MOST = 1 << 16, /* that one thread adds up alone, */
    RESULTS_LEAST = 16, /* of fewer results */
};

typedef struct MeanJob {
    const int64_t *sums;
    void *y;
    Dtype to;
    int64_t less;  /* zero points that a sum has */
    double factor; /* that of the operator by the number of elements */
    double zero;   /* the result's */
} MeanJob;

/* v + 1.5 * 2^52 rounds to nearest. */
ROW_CLONES static void make_bytes(const MeanJob *job, uint64_t first, uint64_t end) {
    const double least = job->to == DTYPE_INT8 ? INT8_MIN : 0;
    const double low = least - job->zero, high = low + UINT8_MAX, factor = job->factor;
    const int32_t zero = (int32_t)job->zero;
    const int64_t *sums = job->sums, less = job->less;
    uint8_t *y = job->y;
    ROW_LOOP
    for (uint64_t i = first; i < end; i++) {
        double v = (double)(sums[i] - less) * factor;
        v = v > low ? v : low;
        v = v < high ? v : high;
        y[i] = (uint8_t)((int32_t)((v + 6755399441055744.0) - 6755399441055744.0) + zero);
    }
}

static void make_means(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const MeanJob *job = data;
    (void)lane;
    if (job->to != DTYPE_FLOAT) {
        make_bytes(job, first, end);
        return;
    }
    for (uint64_t i = first; i < end; i++)
        ((float *)job->y)[i] = (float)((double)(job->sums[i] - job->less) * job->factor);
}

/* ---- runs of bytes --------------------------------------------------------------------------- */

typedef struct RunsJob {
    const ReduceLoops *loops;
    const uint8_t *x;
    bool is_signed;
    int64_t *sums;
} RunsJob;

/* int8 are moved by 128 while they are added. */
static int64_t add_bytes(const uint8_t *x, uint64_t n, bool is_signed) {
    const int64_t sum = (int64_t)simd_sum_bytes(x, n, is_signed);
    return is_signed ? sum - (int64_t)(128 * n) : sum;
}

static void add_runs(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const RunsJob *job = data;
    const ReduceLoops *loops = job->loops;
    (void)lane;
    for (uint64_t o = first; o < end; o++) {
        const uint8_t *x = job->x + reduce_offset(&loops->outer, o);
        int64_t sum = 0;
        for (uint64_t r = 0; r < loops->run_count; r++)
            sum += add_bytes(x + reduce_offset(&loops->runs, r), loops->length, job->is_signed);
        job->sums[o] = sum;
    }
}

/* Sums of runs where those are long and the threads have enough of them. */
static bool add_all(KernelCall *call, const ReduceLoops *loops, int64_t *sums) {
    const KernelTensor *x = &call->inputs[0];
    const bool is_signed = x->dtype == DTYPE_INT8;
    if (loops->width > 1 || loops->length < RUN_LEAST ||
        (loops->outer_count < RESULTS_LEAST && loops->reduced > RUN_MOST))
        return reduce_run(call, is_signed ? &reduce_total_int8_t : &reduce_total_uint8_t, loops, x,
                          sums);
    const RunsJob job = {loops, x->data, is_signed, sums};
    kernel_run_parts(call->workers,
                     kernel_work_cut(call, (double)x->count / 16, loops->outer_count), add_runs,
                     &job);
    return true;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

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
    job->factor = count || job->to == DTYPE_FLOAT ? (double)factor / (double)count : 0;
    job->zero = y_point;
    return true;
}

bool kernel_q_mean(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0];
    KernelTensor *y = &call->outputs[0];
    ReduceLoops loops;
    MeanJob job;
    bool *reduced = ARENA_ARRAY(call->scratch, bool, x->rank + 1);
    if (x->dtype != DTYPE_INT8 && x->dtype != DTYPE_UINT8)
        return kernel_fail(call, "an operand of %s", dtype_name(x->dtype));
    if (!reduce_find(call, reduced)) return false;
    reduce_loops(call->scratch, x, reduced, &loops);
    if (loops.results != y->count) return kernel_fail(call, "the output has different dims");
    if (!read_job(call, loops.reduced, &job)) return false;
    if (y->count == 0) return true;
    int64_t *sums = kernel_workspace(call, y->count * sizeof *sums);
    if (!sums || !add_all(call, &loops, sums)) return false;
    job.sums = sums;
    kernel_run_parts(call->workers, kernel_work_cut(call, (double)y->count, y->count), make_means,
                     &job);
    return true;
}
