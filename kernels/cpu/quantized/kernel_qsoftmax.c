// SPDX-License-Identifier: Apache-2.0
/* QSoftmax: a row's elements lie so many steps below its largest, 255 at most, and so all that can
 * be is in a table of exponentials. Its row's sum makes a table of results of it. */
#include <math.h>

#include "byte_operands.h"
#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_reduce.h"
#include "kernel_rows.h"
#include "op_attrs.h"

enum { STEP = 1, FACTOR, Y_ZERO, LEVELS = 256, FLIP = 128, FEW = 48, LANES = 4 };

typedef struct SoftJob {
    const uint8_t *x;
    void *y;
    AxisLoops loops;
    Dtype to;
    uint8_t flip; /* what makes unsigned bytes of x */
    float factor, zero;
    float powers[LEVELS]; /* [k]: exp(-k step) */
} SoftJob;

/* To where YZero is added: v + 1.5 * 2^23 rounds to nearest, ties to even. */
ROW_CLONES static void make_bytes(uint8_t *to, const SoftJob *job, const float *powers, float scale,
                                  uint64_t n) {
    const float least = job->to == DTYPE_INT8 ? INT8_MIN : 0, low = least - job->zero;
    const float high = low + UINT8_MAX;
    const int32_t zero = (int32_t)job->zero;
    ROW_LOOP
    for (uint64_t i = 0; i < n; i++) {
        float v = powers[i] * scale;
        v = v > low ? v : low;
        v = v < high ? v : high;
        to[i] = (uint8_t)((int32_t)((v + 12582912.0f) - 12582912.0f) + zero);
    }
}

KERNEL_INLINE uint8_t largest(const SoftJob *job, const uint8_t *x, uint64_t step) {
    const uint64_t n = job->loops.n;
    uint8_t top = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t item = x[i * step] ^ job->flip;
        top = item > top ? item : top;
    }
    return top;
}

KERNEL_INLINE double sum_up(const SoftJob *job, const uint8_t *x, uint8_t top, uint64_t step) {
    const uint64_t n = job->loops.n;
    double sums[LANES] = {0};
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (uint64_t k = 0; k < LANES; k++)
            sums[k] += (double)job->powers[top - (x[(i + k) * step] ^ job->flip)];
    for (; i < n; i++) sums[0] += (double)job->powers[top - (x[i * step] ^ job->flip)];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static void make_floats(const SoftJob *job, const uint8_t *x, float *y, uint8_t top, float scale) {
    const uint64_t n = job->loops.n, step = job->loops.inner;
    for (uint64_t i = 0; i < n; i++)
        y[i * step] = job->powers[top - (x[i * step] ^ job->flip)] * scale;
}

/* Of the row from element `at` on, whose elements lie `step` apart. */
KERNEL_INLINE void row_of(const SoftJob *job, uint64_t at, uint64_t step) {
    const uint64_t n = job->loops.n;
    const uint8_t *x = job->x;
    const uint8_t top = largest(job, x + at, step);
    const float scale = (float)((double)job->factor / sum_up(job, x + at, top, step));
    uint8_t table[LEVELS];
    float own[FEW] = {0};
    x += at;
    if (job->to == DTYPE_FLOAT) {
        make_floats(job, x, (float *)job->y + at, top, scale);
        return;
    }
    uint8_t *y = (uint8_t *)job->y + at;
    if (n <= FEW) {
        for (uint64_t i = 0; i < n; i++) own[i] = job->powers[top - (x[i * step] ^ job->flip)];
        make_bytes(table, job, own, scale, n);
        for (uint64_t i = 0; i < n; i++) y[i * step] = table[i];
        return;
    }
    make_bytes(table, job, job->powers, scale, LEVELS);
    for (uint64_t i = 0; i < n; i++) y[i * step] = table[top - (x[i * step] ^ job->flip)];
}

ROW_CLONES static void plain_row(const SoftJob *job, uint64_t at) {
    row_of(job, at, 1);
}

static void run_rows(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const SoftJob *job = data;
    const uint64_t inner = job->loops.inner;
    (void)lane;
    for (uint64_t r = first; r < end; r++)
        if (inner == 1)
            plain_row(job, r * job->loops.n);
        else
            row_of(job, r / inner * job->loops.n * inner + r % inner, inner);
}

/* False with the error set. */
static bool read_job(KernelCall *call, SoftJob *job) {
    const KernelTensor *x = &call->inputs[0], *y_zero = kernel_input(call, Y_ZERO);
    KernelTensor *y = &call->outputs[0];
    float step = 1, factor = 1;
    int32_t zero;
    *job = (SoftJob){.x = x->data, .y = y->data, .to = y_zero ? y_zero->dtype : DTYPE_FLOAT};
    if (y->dtype != job->to || (y_zero && job->to != DTYPE_INT8 && job->to != DTYPE_UINT8))
        return kernel_fail(call, "the result is %s", dtype_name(y->dtype));
    if (!byte_zero(call, Y_ZERO, job->to, &zero) || !byte_number(call, STEP, &step) ||
        !byte_number(call, FACTOR, &factor))
        return false;
    if (!(step >= 0)) return kernel_fail(call, "a step of %g", (double)step);
    job->factor = factor;
    job->zero = (float)zero;
    job->flip = x->dtype == DTYPE_INT8 ? FLIP : 0;
    for (int k = 0; k < LEVELS; k++) job->powers[k] = (float)exp(-k * (double)step);
    return true;
}

bool kernel_q_softmax(KernelCall *call) {
    const NormAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0];
    uint32_t axis;
    SoftJob job;
    if (x->dtype != DTYPE_INT8 && x->dtype != DTYPE_UINT8)
        return kernel_fail(call, "an operand of %s", dtype_name(x->dtype));
    if (call->outputs[0].count != x->count) return kernel_fail(call, "the output has other dims");
    if (!read_job(call, &job)) return false;
    job.loops = (AxisLoops){1, 1, 1};
    if (x->rank > 0) {
        if (!kernel_axis(call, attrs->axis, x->rank, &axis)) return false;
        job.loops = axis_loops(x, axis);
    }
    if (x->count == 0) return true;
    const uint64_t rows = job.loops.outer * job.loops.inner;
    kernel_run_parts(call->workers, kernel_work_cut(call, (double)x->count * 2, rows), run_rows,
                     &job);
    return true;
}
