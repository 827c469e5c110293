// SPDX-License-Identifier: Apache-2.0
/* Sequence operators that carry a state from call to call: LinearAttention, CausalConvWithState.
 *
 * LinearAttention, token by token: S = exp(decay) S; S += k (beta (v - S^T k)), or k v where there
 * is no beta; o = scale q S. A query head reads the state of its group's key head.
 * CausalConvWithState: each channel is convolved with the k - 1 elements before it, from past_state
 * or 0.
 */
#include <math.h>
#include <string.h>

#include "checked.h"
#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_pace.h"
#include "kernel_math.h"
#include "kernel_reals.h"

/* All reals are of the call's type. */
typedef struct Linear {
    uint64_t batch, length, kv_heads, group, d_k, d_v;
    const void *q, *k, *v; /* (batch, length, heads, size) */
    const void *decay;     /* (batch, length, kv heads), or one a key element, or NULL */
    const void *beta;      /* (batch, length, kv heads), or one a token, or NULL */
    bool decay_each, beta_each;
    void *state, *y, *space; /* (batch, kv heads, d_k, d_v); as q but d_v; [d_v] */
    double scale;
    KernelPace *pace;
} Linear;

typedef struct LinearStep {
    uint64_t d_k, d_v;
    const void *k, *v;        /* of this token and head */
    const void *decay, *beta; /* the same; may be NULL */
    void *space;              /* [d_v] */
    bool decay_each;
    double scale;
} LinearStep;

typedef struct CausalConv {
    uint64_t batch, channels, length, kernel;
    const void *x, *weight, *bias, *past; /* bias and past may be NULL */
    void *y, *present, *space;            /* present may be NULL; [kernel - 1 + length] */
    bool silu;
    KernelPace *pace;
} CausalConv;

#include "real_float.inc"
#include "kernel_state_body.inc"
#include "real_end.inc"
#include "real_double.inc"
#include "kernel_state_body.inc"
#include "real_end.inc"

static bool state_reals(KernelCall *call, uint32_t i, uint64_t count, const void **data) {
    const KernelTensor *t = kernel_input(call, i);
    if (!t) return true;
    if (t->count != count)
        return kernel_fail(call, "input %u has %llu elements, not %llu", i,
                           (unsigned long long)t->count, (unsigned long long)count);
    *data = kernel_reals(call, t, kernel_reals_dtype(call));
    return *data != NULL;
}

/* ---- LinearAttention ------------------------------------------------------------------------- */

static bool linear_sizes(KernelCall *call, Linear *job) {
    const LinearAttentionAttrs *attrs = call->attrs;
    const KernelTensor *in[] = {&call->inputs[0], &call->inputs[1], &call->inputs[2]};
    int64_t heads[] = {attrs->q_heads, attrs->kv_heads, attrs->kv_heads};
    if (heads[0] < 1 || heads[1] < 1 || heads[0] % heads[1])
        return kernel_fail(call, "%lld query heads on %lld key heads", (long long)heads[0],
                           (long long)heads[1]);
    for (uint32_t i = 0; i < 3; i++) {
        if (in[i]->rank != 3) return kernel_fail(call, "input %u does not have rank 3", i);
        if (in[i]->dims[0] != in[0]->dims[0] || in[i]->dims[1] != in[0]->dims[1] ||
            in[i]->dims[2] % heads[i])
            return kernel_fail(call, "input %u has different dims", i);
    }
    *job = (Linear){.batch = (uint64_t)in[0]->dims[0],
                    .length = (uint64_t)in[0]->dims[1],
                    .kv_heads = (uint64_t)heads[1],
                    .group = (uint64_t)(heads[0] / heads[1]),
                    .d_k = (uint64_t)(in[0]->dims[2] / heads[0]),
                    .d_v = (uint64_t)(in[2]->dims[2] / heads[1])};
    if (in[1]->dims[2] / heads[1] != in[0]->dims[2] / heads[0])
        return kernel_fail(call, "queries and keys have different sizes");
    job->scale = attrs->scale != 0 ? (double)attrs->scale : 1 / sqrt((double)job->d_k);
    return true;
}

/* Decay and update rate, which the rule asks for or forbids. */
static bool linear_gates(KernelCall *call, Linear *job) {
    const LinearAttentionAttrs *attrs = call->attrs;
    const KernelTensor *decay = kernel_input(call, 4), *beta = kernel_input(call, 5);
    bool gated = attrs->rule == RULE_GATED || attrs->rule == RULE_GATED_DELTA;
    bool delta = attrs->rule == RULE_DELTA || attrs->rule == RULE_GATED_DELTA;
    uint64_t tokens = job->batch * job->length, heads = tokens * job->kv_heads;
    if (attrs->window) return kernel_fail(call, "states of several tokens are not supported");
    if (attrs->rule < 0) return kernel_fail(call, "update_rule is unknown");
    if (gated != (decay != NULL) || delta != (beta != NULL))
        return kernel_fail(call, "the inputs decay and beta do not match the rule");
    if ((decay && decay->rank != 3) || (beta && beta->rank != 3))
        return kernel_fail(call, "decay or beta does not have rank 3");
    job->decay_each = decay && (uint64_t)decay->dims[2] != job->kv_heads;
    job->beta_each = beta && (uint64_t)beta->dims[2] == job->kv_heads;
    return state_reals(call, 4, job->decay_each ? heads * job->d_k : heads, &job->decay) &&
           state_reals(call, 5, job->beta_each ? heads : tokens, &job->beta);
}

bool kernel_linear_attention(KernelCall *call) {
    Linear job = {.batch = 0};
    Dtype dtype = kernel_reals_dtype(call);
    size_t size = kernel_element_size(dtype);
    if (!linear_sizes(call, &job) || !linear_gates(call, &job)) return false;
    uint64_t rows = job.batch * job.length * job.kv_heads, space, states;
    if (!checked_mul(job.d_k, job.d_v, &space) ||
        !checked_mul(space, job.batch * job.kv_heads, &states))
        return kernel_fail(call, "the state is too large");
    const KernelTensor *y = &call->outputs[0], *present = kernel_result(call, 1);
    const void *past = NULL;
    if (!state_reals(call, 0, rows * job.group * job.d_k, &job.q) ||
        !state_reals(call, 1, rows * job.d_k, &job.k) ||
        !state_reals(call, 2, rows * job.d_v, &job.v) || !state_reals(call, 3, states, &past) ||
        !kernel_want_count(call, y, rows * job.group * job.d_v, "the output") ||
        (present && !kernel_want_count(call, present, states, "present_state")))
        return false;
    KernelPace pace = {call, 0};
    job.pace = &pace;
    job.state = arena_array(call->scratch, states + 1, size);
    job.space = arena_array(call->scratch, job.d_v + 1, size);
    if (past) memcpy(job.state, past, states * size);
    if (!(job.y = kernel_reals_for(call, y, dtype))) return false;
    if (job.d_k == 0 && job.d_v == 0) return true; /* however many tokens */
    if (dtype == DTYPE_FLOAT)
        run_linear_float(&job);
    else
        run_linear_double(&job);
    kernel_reals_done(y, job.y, dtype);
    if (!present) return true;
    void *to = kernel_reals_for(call, present, dtype);
    if (!to) return false;
    memcpy(to, job.state, states * size);
    kernel_reals_done(present, to, dtype);
    return true;
}

/* ---- CausalConvWithState --------------------------------------------------------------------- */

static bool causal_sizes(KernelCall *call, CausalConv *job) {
    const CausalConvAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1];
    if (attrs->window || attrs->channels_last || attrs->axes != 1 || attrs->dilation != 1)
        return kernel_fail(call, "state_window, channels_last, ndim, or dilation is not supported");
    if (x->rank != 3 || w->rank != 3)
        return kernel_fail(call, "input or weight does not have rank 3");
    if (w->dims[0] != x->dims[1] || w->dims[1] != 1 || w->dims[2] < 1)
        return kernel_fail(call, "the dims of the weight are not (channels, 1, k)");
    if (attrs->activation < 0) return kernel_fail(call, "activation is unknown");
    *job = (CausalConv){.batch = (uint64_t)x->dims[0],
                        .channels = (uint64_t)x->dims[1],
                        .length = (uint64_t)x->dims[2],
                        .kernel = (uint64_t)w->dims[2],
                        .silu = attrs->activation != 0};
    return true;
}

bool kernel_causal_conv(KernelCall *call) {
    CausalConv job = {.batch = 0};
    Dtype dtype = kernel_reals_dtype(call);
    const KernelTensor *y = &call->outputs[0], *present = kernel_result(call, 1);
    uint64_t states, padded;
    if (!causal_sizes(call, &job)) return false;
    if (!checked_mul(job.batch * job.channels, job.kernel - 1, &states) ||
        !checked_add(job.kernel, job.length, &padded))
        return kernel_fail(call, "the state is too large");
    if (!kernel_want_count(call, y, call->inputs[0].count, "the output") ||
        (present && !kernel_want_count(call, present, states, "present_state")) ||
        !state_reals(call, 0, call->inputs[0].count, &job.x) ||
        !state_reals(call, 1, call->inputs[1].count, &job.weight) ||
        !state_reals(call, 2, job.channels, &job.bias) || !state_reals(call, 3, states, &job.past))
        return false;
    KernelPace pace = {call, 0};
    job.pace = &pace;
    job.space = arena_array(call->scratch, padded, kernel_element_size(dtype));
    job.y = kernel_reals_for(call, y, dtype);
    job.present = present ? kernel_reals_for(call, present, dtype) : NULL;
    if (!job.y || (present && !job.present)) return false;
    if (job.length == 0 && !present) return true; /* however many rows */
    if (dtype == DTYPE_FLOAT)
        run_causal_float(&job);
    else
        run_causal_double(&job);
    kernel_reals_done(y, job.y, dtype);
    if (present) kernel_reals_done(present, job.present, dtype);
    return true;
}
