// SPDX-License-Identifier: Apache-2.0
/* Adagrad, Adam and Momentum: one step of training, as the operators' definitions give it.
 *
 * Inputs: learning rate R, update count T, then the tensors in groups of k: values X, gradients G
 * and one or two accumulators. Outputs: new X, then the new accumulators. Computed in double.
 */
#include <math.h>

#include "kernel_functions.h"
#include "kernel_reals.h"

/* One tensor's arrays; the second accumulator only of Adam. */
typedef struct OptimizerStep {
    const OptimizerAttrs *attrs;
    double rate;
    int64_t updates;
    uint64_t count;
    const double *x, *g, *v, *h;
    double *new_x, *new_v, *new_h;
} OptimizerStep;
typedef void (*OptimizerFunction)(const OptimizerStep *s);

static void adagrad(const OptimizerStep *s) {
    double rate = s->rate / (1 + (double)s->updates * (double)s->attrs->decay);
    for (uint64_t i = 0; i < s->count; i++) {
        double g = (double)s->attrs->norm * s->x[i] + s->g[i], v = s->v[i] + g * g;
        s->new_v[i] = v;
        s->new_x[i] = s->x[i] - rate * g / (sqrt(v) + (double)s->attrs->epsilon);
    }
}

static void adam(const OptimizerStep *s) {
    double alpha = (double)s->attrs->alpha, beta = (double)s->attrs->beta, rate = s->rate;
    double t = (double)s->updates;
    if (s->updates > 0) rate *= sqrt(1 - pow(beta, t)) / (1 - pow(alpha, t));
    for (uint64_t i = 0; i < s->count; i++) {
        double g = (double)s->attrs->norm * s->x[i] + s->g[i];
        double v = alpha * s->v[i] + (1 - alpha) * g, h = beta * s->h[i] + (1 - beta) * g * g;
        double x = s->x[i] - rate * v / (sqrt(h) + (double)s->attrs->epsilon);
        s->new_v[i] = v;
        s->new_h[i] = h;
        s->new_x[i] = (1 - (double)s->attrs->norm_post) * x;
    }
}

static void momentum(const OptimizerStep *s) {
    double alpha = (double)s->attrs->alpha;
    double beta = s->updates > 0 ? (double)s->attrs->beta : 1;
    for (uint64_t i = 0; i < s->count; i++) {
        double g = (double)s->attrs->norm * s->x[i] + s->g[i], v = alpha * s->v[i] + beta * g;
        s->new_v[i] = v;
        s->new_x[i] = s->x[i] - s->rate * (s->attrs->mode == NESTEROV ? g + alpha * v : v);
    }
}

/* Tensor i of k in `groups` groups of inputs. */
static bool step(KernelCall *call, OptimizerStep *s, uint32_t i, uint32_t groups) {
    uint32_t k = (call->input_count - 2) / groups;
    const double *in[4] = {NULL};
    double *out[3] = {NULL};
    for (uint32_t g = 0; g < groups; g++) {
        const KernelTensor *tensor = kernel_input(call, 2 + g * k + i);
        if (!tensor) return kernel_fail(call, "an input is missing");
        if (g && !kernel_want_count(call, tensor, s->count, "an accumulator")) return false;
        s->count = tensor->count;
        if (!(in[g] = kernel_doubles(call, tensor))) return false;
    }
    for (uint32_t g = 0; g + 1 < groups; g++) {
        const KernelTensor *tensor = kernel_result(call, g * k + i);
        out[g] = tensor ? kernel_reals_for(call, tensor, DTYPE_DOUBLE)
                        : ARENA_ARRAY(call->scratch, double, s->count + 1);
        if (!out[g] || (tensor && !kernel_want_count(call, tensor, s->count, "an output")))
            return false;
    }
    s->x = in[0], s->g = in[1], s->v = in[2], s->h = in[3];
    s->new_x = out[0], s->new_v = out[1], s->new_h = out[2];
    return true;
}

static bool optimize(KernelCall *call, uint32_t groups, OptimizerFunction function) {
    OptimizerStep s = {.attrs = call->attrs};
    const KernelTensor *rate = &call->inputs[0], *updates = &call->inputs[1];
    const int64_t *t = kernel_ints(call, updates);
    if (!t || !kernel_want_count(call, rate, 1, "the rate") ||
        !kernel_want_count(call, updates, 1, "the update count"))
        return false;
    s.rate = kernel_real(rate, 0);
    s.updates = t[0];
    uint32_t tensors = call->input_count - 2, k = tensors / groups;
    if (tensors % groups || call->output_count != k * (groups - 1))
        return kernel_fail(call, "%u tensors are not in groups of %u", tensors, groups);
    for (uint32_t i = 0; i < k; i++) {
        if (!step(call, &s, i, groups)) return false;
        function(&s);
        const double *made[] = {s.new_x, s.new_v, s.new_h};
        for (uint32_t g = 0; g + 1 < groups; g++)
            if (kernel_result(call, g * k + i))
                kernel_reals_done(&call->outputs[g * k + i], made[g], DTYPE_DOUBLE);
    }
    return true;
}

bool kernel_adagrad(KernelCall *call) {
    return optimize(call, 3, adagrad);
}
bool kernel_adam(KernelCall *call) {
    return optimize(call, 4, adam);
}
bool kernel_momentum(KernelCall *call) {
    const OptimizerAttrs *attrs = call->attrs;
    if (attrs->mode < 0) return kernel_fail(call, "mode is neither nesterov nor standard");
    return optimize(call, 3, momentum);
}
