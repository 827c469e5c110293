// SPDX-License-Identifier: Apache-2.0
/* LRN, LpNormalization and MeanVarianceNormalization, computed in double.
 *
 * LRN: x / (bias + alpha / size * sum of squares over neighboring channels) ^ beta.
 * LpNormalization: x over its row's p-norm, 0 where that is 0.
 * MeanVarianceNormalization: (x - mean) / (standard deviation + 1e-9), as its function body has it.
 */
#include <math.h>

#include "kernel_functions.h"
#include "kernel_pace.h"
#include "kernel_reals.h"
#include "kernel_reduce.h"

/* ---- LRN ------------------------------------------------------------------------------------- */

/* (n, inner) elements of one sample */
typedef struct LocalBlock {
    uint64_t n, inner;
    const double *x;
    double *y, *sum; /* sum: [inner] */
    KernelPace *pace;
} LocalBlock;

/* Of channels [range[0], range[1]). */
static void sum_squares(const LocalBlock *block, const uint64_t *range) {
    uint64_t inner = block->inner;
    const double *x = block->x;
    double *sum = block->sum;
    for (uint64_t i = 0; i < inner; i++) sum[i] = 0;
    for (uint64_t c = range[0]; c < range[1]; c++) {
        kernel_pace(block->pace, inner);
        for (uint64_t i = 0; i < inner; i++) sum[i] += x[c * inner + i] * x[c * inner + i];
    }
}

static void lrn_sample(const LrnAttrs *attrs, const LocalBlock *block) {
    uint64_t n = block->n, inner = block->inner;
    uint64_t before = (uint64_t)(attrs->size - 1) / 2, after = (uint64_t)attrs->size / 2;
    double factor = (double)attrs->alpha / (double)attrs->size;
    for (uint64_t c = 0; c < n; c++) {
        uint64_t range[] = {c > before ? c - before : 0, n - c > after ? c + after + 1 : n};
        sum_squares(block, range);
        for (uint64_t i = 0; i < inner; i++) {
            double base = (double)attrs->bias + factor * block->sum[i];
            block->y[c * inner + i] = block->x[c * inner + i] * pow(base, -(double)attrs->beta);
        }
    }
}

bool kernel_lrn(KernelCall *call) {
    const LrnAttrs *attrs = call->attrs;
    if (!kernel_want_same_count(call)) return false;
    const KernelTensor *in = &call->inputs[0], *out = &call->outputs[0];
    if (in->rank < 2) return kernel_fail(call, "rank %u has no channels", in->rank);
    if (attrs->size < 1) return kernel_fail(call, "size = %lld", (long long)attrs->size);
    AxisLoops a = axis_loops(in, 1);
    if (in->count == 0) return true; /* however many rows */
    const double *x = kernel_doubles(call, in);
    double *y = kernel_reals_for(call, out, DTYPE_DOUBLE);
    double *sum = ARENA_ARRAY(call->scratch, double, a.inner + 1);
    KernelPace pace = {call, 0};
    if (!x || !y) return false;
    for (uint64_t o = 0; o < a.outer; o++)
        lrn_sample(attrs, &(LocalBlock){a.n, a.inner, x + o * a.n * a.inner, y + o * a.n * a.inner,
                                        sum, &pace});
    kernel_reals_done(out, y, DTYPE_DOUBLE);
    return true;
}

/* ---- LpNormalization ------------------------------------------------------------------------- */

static void lp_block(const LocalBlock *block, bool square) {
    uint64_t n = block->n, inner = block->inner;
    const double *x = block->x;
    double *norm = block->sum;
    for (uint64_t i = 0; i < inner; i++) norm[i] = 0;
    for (uint64_t k = 0; k < n; k++)
        for (uint64_t i = 0; i < inner; i++) {
            double v = x[k * inner + i];
            norm[i] += square ? v * v : fabs(v);
        }
    for (uint64_t i = 0; square && i < inner; i++) norm[i] = sqrt(norm[i]);
    for (uint64_t k = 0; k < n; k++)
        for (uint64_t i = 0; i < inner; i++)
            block->y[k * inner + i] = norm[i] == 0 ? 0 : x[k * inner + i] / norm[i];
}

bool kernel_lp_norm(KernelCall *call) {
    const NormAttrs *attrs = call->attrs;
    uint32_t axis;
    if (!kernel_want_same_count(call)) return false;
    const KernelTensor *in = &call->inputs[0], *out = &call->outputs[0];
    AxisLoops a = {1, in->count, 1}; /* of a scalar */
    if (attrs->p != 1 && attrs->p != 2) return kernel_fail(call, "p = %lld", (long long)attrs->p);
    if (in->rank) {
        if (!kernel_axis(call, attrs->axis, in->rank, &axis)) return false;
        a = axis_loops(in, axis);
    }
    if (in->count == 0) return true; /* however many rows */
    const double *x = kernel_doubles(call, in);
    double *y = kernel_reals_for(call, out, DTYPE_DOUBLE);
    double *norm = ARENA_ARRAY(call->scratch, double, a.inner + 1);
    KernelPace pace = {call, 0};
    if (!x || !y) return false;
    for (uint64_t o = 0; o < a.outer; o++)
        lp_block(
            &(LocalBlock){a.n, a.inner, x + o * a.n * a.inner, y + o * a.n * a.inner, norm, &pace},
            attrs->p == 2);
    kernel_reals_done(out, y, DTYPE_DOUBLE);
    return true;
}

/* ---- MeanVarianceNormalization --------------------------------------------------------------- */

/* Adds to sum [width] the elements less `mean` (raised to `power`), of one step of the outer walk.
 */
static void mvn_sum(ReduceLoops *loops, const double *x, const double *mean, double *sum) {
    uint64_t run = loops->length * loops->width, step = loops->width > 1;
    for (uint64_t j = 0; j < loops->width; j++) sum[j] = 0;
    for (uint64_t r = 0; r < loops->run_count; r++, reduce_next(&loops->runs)) {
        const double *from = x + loops->outer.offset + loops->runs.offset;
        for (uint64_t k = 0; k < run; k++) {
            double v = mean ? from[k] - mean[k * step] : from[k];
            sum[k * step] += mean ? v * v : v;
        }
    }
    for (uint64_t j = 0; j < loops->width; j++) sum[j] /= (double)loops->reduced;
}

static void mvn_apply(ReduceLoops *loops, const double *x, double *y, const double *stats) {
    uint64_t run = loops->length * loops->width, step = loops->width > 1;
    const double *mean = stats, *var = stats + loops->width;
    for (uint64_t r = 0; r < loops->run_count; r++, reduce_next(&loops->runs)) {
        uint64_t at = loops->outer.offset + loops->runs.offset;
        for (uint64_t k = 0; k < run; k++)
            y[at + k] = (x[at + k] - mean[k * step]) / (sqrt(var[k * step]) + 1e-9);
    }
}

bool kernel_mvn(KernelCall *call) {
    static const int64_t usual[] = {0, 2, 3};
    const MvnAttrs *attrs = call->attrs;
    if (!kernel_want_same_count(call)) return false;
    const KernelTensor *in = &call->inputs[0], *out = &call->outputs[0];
    const AttrInts *axes = &attrs->axes;
    bool *reduced = ARENA_ARRAY(call->scratch, bool, in->rank + 1);
    if (!reduce_mark(call, axes->present ? axes->count : 3, axes->present ? axes->items : usual,
                     reduced))
        return false;
    for (uint32_t i = 0; axes->present && !axes->count && i < in->rank; i++) reduced[i] = true;
    ReduceLoops loops;
    reduce_loops(call->scratch, in, reduced, &loops);
    if (in->count == 0) return true; /* however many rows */
    const double *x = kernel_doubles(call, in);
    double *y = kernel_reals_for(call, out, DTYPE_DOUBLE);
    double *stats = ARENA_ARRAY(call->scratch, double, 2 * loops.width + 1);
    if (!x || !y) return false;
    for (uint64_t o = 0; in->count && o < loops.outer_count; o++, reduce_next(&loops.outer)) {
        mvn_sum(&loops, x, NULL, stats);
        mvn_sum(&loops, x, stats, stats + loops.width);
        mvn_apply(&loops, x, y, stats);
    }
    kernel_reals_done(out, y, DTYPE_DOUBLE);
    return true;
}
