// SPDX-License-Identifier: Apache-2.0
/* See recurrent_layer.h. */
#include "recurrent_layer.h"

#include "checked.h"
#include "op_attrs.h"

/* ---- activations ----------------------------------------------------------------------------- */

/* Names are matched in any case; alpha, beta where the lists do not give them. */
static const struct GateActivationName {
    const char *name;
    ActivationKind kind;
    bool takes_alpha, takes_beta;
    double alpha, beta;
} gate_activations[] = {
    {"relu", ACT_RELU, false, false, 0, 0},
    {"tanh", ACT_TANH, false, false, 0, 0},
    {"sigmoid", ACT_SIGMOID, false, false, 0, 0},
    {"affine", ACT_AFFINE, true, true, 1, 0},
    {"leakyrelu", ACT_LEAKY_RELU, true, false, 0.01, 0},
    {"thresholdedrelu", ACT_THRESHOLDED_RELU, true, false, 1, 0},
    {"scaledtanh", ACT_SCALED_TANH, true, true, 1, 1},
    {"hardsigmoid", ACT_HARD_SIGMOID, true, true, 0.2, 0.5},
    {"elu", ACT_ELU, true, false, 1, 0},
    {"softsign", ACT_SOFTSIGN, false, false, 0, 0},
    {"softplus", ACT_SOFTPLUS, false, false, 0, 0},
};

static bool same_name(const AttrText *text, const char *name) {
    uint32_t i = 0;
    for (; i < text->size && name[i]; i++) {
        char c = text->text[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        if (c != name[i]) return false;
    }
    return i == text->size && !name[i];
}

/* The k-th activation of all directions; used: how many alphas and betas earlier ones took. */
static bool find_activation(KernelCall *call, uint32_t k, uint32_t used[2], GateActivation *act) {
    const RecurrentAttrs *attrs = call->attrs;
    const AttrText *text = &attrs->activations.items[k];
    for (size_t i = 0; i < sizeof gate_activations / sizeof *gate_activations; i++) {
        const struct GateActivationName *name = &gate_activations[i];
        if (!same_name(text, name->name)) continue;
        *act = (GateActivation){name->kind, name->alpha, name->beta};
        if (name->takes_alpha && used[0] < attrs->alpha.count)
            act->alpha = (double)attrs->alpha.items[used[0]++];
        if (name->takes_beta && used[1] < attrs->beta.count)
            act->beta = (double)attrs->beta.items[used[1]++];
        return true;
    }
    return kernel_fail(call, "activation %.*s is unknown", text->size > 40 ? 40 : (int)text->size,
                       text->text);
}

bool recurrent_activations(KernelCall *call, RecurrentKind kind, uint64_t directions,
                           GateActivation *all) {
    static const ActivationKind usual[][3] = {[RECURRENT_RNN] = {ACT_TANH},
                                              [RECURRENT_GRU] = {ACT_SIGMOID, ACT_TANH},
                                              [RECURRENT_LSTM] = {ACT_SIGMOID, ACT_TANH, ACT_TANH}};
    const RecurrentAttrs *attrs = call->attrs;
    uint32_t each = (uint32_t)kind + 1, used[2] = {0, 0}, count = attrs->activations.count;
    if (count && (!attrs->activations.items || count < each * directions))
        return kernel_fail(call, "%u activations for %u gates", count, each * (unsigned)directions);
    for (uint32_t d = 0; d < directions; d++)
        for (uint32_t i = 0; i < each; i++) {
            GateActivation *act = &all[3 * d + i];
            if (!count)
                *act = (GateActivation){.kind = usual[kind][i]};
            else if (!find_activation(call, d * each + i, used, act))
                return false;
        }
    return true;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool has_dims(KernelCall *call, uint32_t i, uint64_t rows, uint64_t columns) {
    const KernelTensor *t = kernel_input(call, i);
    const RecurrentAttrs *attrs = call->attrs;
    uint64_t directions = attrs->direction == 2 ? 2 : 1;
    bool good = t && t->rank == (columns ? 3 : 2) && (uint64_t)t->dims[0] == directions &&
                (uint64_t)t->dims[1] == rows && (!columns || (uint64_t)t->dims[2] == columns);
    return good || kernel_fail(call, "the dims of input %u do not match the weights", i);
}

bool recurrent_sizes(KernelCall *call, RecurrentKind kind, bool turned, RecurrentSizes *sizes) {
    const RecurrentAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *r = &call->inputs[2];
    static const uint64_t gates[] = {1, 3, 4};
    uint64_t twice;
    if (x->rank != 3 || r->rank != 3) return kernel_fail(call, "X or R does not have rank 3");
    if (attrs->direction < 0) return kernel_fail(call, "direction is unknown");
    sizes->directions = attrs->direction == 2 ? 2 : 1;
    sizes->batch_first = attrs->layout != 0;
    sizes->length = (uint64_t)x->dims[sizes->batch_first ? 1 : 0];
    sizes->batch = (uint64_t)x->dims[sizes->batch_first ? 0 : 1];
    sizes->input = (uint64_t)x->dims[2];
    sizes->hidden = (uint64_t)r->dims[turned ? 1 : 2];
    if (!checked_mul(gates[kind], sizes->hidden, &sizes->width) ||
        !checked_mul(2, sizes->width, &twice) || sizes->hidden == 0)
        return kernel_fail(call, "%llu hidden units", (unsigned long long)sizes->hidden);
    if (attrs->hidden_size != ATTR_ABSENT && (uint64_t)attrs->hidden_size != sizes->hidden)
        return kernel_fail(call, "hidden_size is not that of the weights");
    if (sizes->input == 0) return kernel_fail(call, "empty inputs");
    const uint64_t width = sizes->width;
    return has_dims(call, 1, turned ? sizes->input : width, turned ? width : sizes->input) &&
           has_dims(call, 2, turned ? sizes->hidden : width, turned ? width : sizes->hidden) &&
           (!kernel_input(call, 3) || has_dims(call, 3, twice, 0)) &&
           (kind != RECURRENT_LSTM || !kernel_input(call, 7) ||
            has_dims(call, 7, 3 * sizes->hidden, 0));
}
