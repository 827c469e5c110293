// SPDX-License-Identifier: Apache-2.0
/* NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss, computed in double.
 *
 * Scores (N, C, …) seen as (N, C, D), targets (N, …) as (N, D): the loss of a target t is
 * -score[n][t][d] * weight[t], 0 where t is ignore_index. Their mean is over the weights, so it is
 * NaN where every target is ignored. The cross entropy is that of the scores' log-softmax over C.
 */
#include <math.h>

#include "kernel_functions.h"
#include "kernel_reals.h"
#include "kernel_reduce.h"

typedef struct LossJob {
    AxisLoops loops;                /* (N, C, D) */
    const double *scores, *weights; /* weights [C], NULL for ones */
    const int64_t *targets;         /* [N * D] */
    double *losses;                 /* [N * D], NULL where only the sums are wanted */
    double sum, weight;
} LossJob;

static bool add_losses(KernelCall *call, LossJob *job) {
    const LossAttrs *attrs = call->attrs;
    AxisLoops a = job->loops;
    for (uint64_t i = 0; i < a.outer * a.inner; i++) {
        int64_t t = job->targets[i];
        if (job->losses) job->losses[i] = 0;
        if (attrs->ignore_index != ATTR_ABSENT && t == attrs->ignore_index) continue;
        if (t < 0 || (uint64_t)t >= a.n)
            return kernel_fail(call, "target %lld of %llu classes", (long long)t,
                               (unsigned long long)a.n);
        uint64_t o = i / a.inner, at = (o * a.n + (uint64_t)t) * a.inner + i % a.inner;
        double weight = job->weights ? job->weights[t] : 1, loss = -job->scores[at] * weight;
        if (job->losses) job->losses[i] = loss;
        job->sum += loss;
        job->weight += weight;
    }
    return true;
}

static bool find_operands(KernelCall *call, LossJob *job) {
    const KernelTensor *x = &call->inputs[0], *target = &call->inputs[1];
    const KernelTensor *weights = kernel_input(call, 2);
    if (x->rank < 2) return kernel_fail(call, "scores of rank %u", x->rank);
    job->loops = axis_loops(x, 1);
    if (!kernel_want_count(call, target, job->loops.outer * job->loops.inner, "the target") ||
        (weights && !kernel_want_count(call, weights, job->loops.n, "weight")))
        return false;
    job->scores = kernel_doubles(call, x);
    job->targets = kernel_ints(call, target);
    if (weights) job->weights = kernel_doubles(call, weights);
    return job->scores && job->targets && (!weights || job->weights);
}

static bool put_loss(KernelCall *call, LossJob *job) {
    const LossAttrs *attrs = call->attrs;
    KernelTensor *out = &call->outputs[0];
    uint64_t count = job->loops.outer * job->loops.inner;
    bool each = attrs->reduction == LOSS_NONE;
    if (attrs->reduction < 0) return kernel_fail(call, "reduction is an unknown mode");
    if (!kernel_want_count(call, out, each ? count : 1, "the loss")) return false;
    double *to = kernel_reals_for(call, out, DTYPE_DOUBLE);
    if (!to) return false;
    if (each) job->losses = to;
    if (!add_losses(call, job)) return false;
    if (!each) to[0] = attrs->reduction == LOSS_SUM ? job->sum : job->sum / job->weight;
    kernel_reals_done(out, to, DTYPE_DOUBLE);
    return true;
}

bool kernel_nll_loss(KernelCall *call) {
    LossJob job = {.sum = 0};
    return find_operands(call, &job) && put_loss(call, &job);
}

/* y = x - log(sum(exp(x))) over the n of one sample; scratch: [2 * inner] */
static void log_softmax(AxisLoops a, const double *x, double *y, double *scratch) {
    double *top = scratch, *sum = scratch + a.inner;
    for (uint64_t i = 0; i < a.inner; i++) {
        top[i] = -INFINITY;
        sum[i] = 0;
    }
    for (uint64_t k = 0; k < a.n; k++)
        for (uint64_t i = 0; i < a.inner; i++) {
            double v = x[k * a.inner + i];
            top[i] = v > top[i] || v != v ? v : top[i];
        }
    for (uint64_t k = 0; k < a.n; k++)
        for (uint64_t i = 0; i < a.inner; i++) sum[i] += exp(x[k * a.inner + i] - top[i]);
    for (uint64_t k = 0; k < a.n; k++)
        for (uint64_t i = 0; i < a.inner; i++)
            y[k * a.inner + i] = x[k * a.inner + i] - top[i] - log(sum[i]);
}

bool kernel_cross_entropy(KernelCall *call) {
    LossJob job = {.sum = 0};
    if (!find_operands(call, &job)) return false;
    KernelTensor *prob = kernel_result(call, 1);
    AxisLoops a = job.loops;
    double *y = ARENA_ARRAY(call->scratch, double, call->inputs[0].count + 1);
    double *scratch = ARENA_ARRAY(call->scratch, double, 2 * a.inner + 1);
    for (uint64_t o = 0; call->inputs[0].count && o < a.outer; o++)
        log_softmax(a, job.scores + o * a.n * a.inner, y + o * a.n * a.inner, scratch);
    job.scores = y;
    if (prob) {
        double *to = kernel_reals_for(call, prob, DTYPE_DOUBLE);
        if (!to || !kernel_want_count(call, prob, call->inputs[0].count, "log_prob")) return false;
        for (uint64_t i = 0; i < prob->count; i++) to[i] = y[i];
        kernel_reals_done(prob, to, DTYPE_DOUBLE);
    }
    return put_loss(call, &job);
}
