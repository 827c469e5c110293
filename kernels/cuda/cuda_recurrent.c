// SPDX-License-Identifier: Apache-2.0
/* RNN, GRU and LSTM on a CUDA device: the products of all inputs at once, then a launch for each step
 * in time (recurrent.cu). States are float between steps, whatever the operands are. */
#include <math.h>
#include <string.h>

#include "checked.h"
#include "cuda_functions.h"
#include "cuda_product.h"
#include "recurrent_args.h"
#include "recurrent_layer.h"
#include "unary_args.h"

enum { THREADS = 256, GRID_LIMIT = 65535 };

/* What is kept of a layer. */
typedef struct Layer {
    RecurrentKind kind;
    RecurrentSizes sizes;
    CudaInner product;
    RecurrentArgs args; /* all but addresses and the step */
} Layer;

/* ---- getting ready --------------------------------------------------------------------------- */

static RecurrentGate gate_of(const GateActivation *act) {
    const float alpha = (float)act->alpha, beta = (float)act->beta;
    switch (act->kind) {
    case ACT_NONE: break;
    case ACT_RELU: return (RecurrentGate){UNARY_RELU, 0, 0};
    case ACT_TANH: return (RecurrentGate){UNARY_TANH, 0, 0};
    case ACT_SIGMOID: return (RecurrentGate){UNARY_SIGMOID, 0, 0};
    case ACT_AFFINE: return (RecurrentGate){UNARY_AFFINE, alpha, beta};
    case ACT_LEAKY_RELU: return (RecurrentGate){UNARY_LEAKY, alpha, 0};
    case ACT_THRESHOLDED_RELU: /* alpha itself passes, unlike with the operator of that name */
        return (RecurrentGate){UNARY_THRESHOLDED, nextafterf(alpha, -HUGE_VALF), 0};
    case ACT_SCALED_TANH: return (RecurrentGate){UNARY_SCALED_TANH, alpha, beta};
    case ACT_HARD_SIGMOID: return (RecurrentGate){UNARY_HARD_SIGMOID, alpha, beta};
    case ACT_ELU: return (RecurrentGate){UNARY_ELU, alpha, 0};
    case ACT_SOFTSIGN: return (RecurrentGate){UNARY_SOFTSIGN, 0, 0};
    case ACT_SOFTPLUS: return (RecurrentGate){UNARY_SOFTPLUS, 0, 0};
    }
    return (RecurrentGate){UNARY_COPY, 0, 0};
}

static bool fits(const RecurrentSizes *s) {
    uint64_t rows, columns;
    return checked_mul(s->length, s->batch, &rows) &&
           checked_mul(s->directions, s->width, &columns) && rows <= INT32_MAX &&
           columns <= INT32_MAX && s->batch <= (uint64_t)GRID_LIMIT * RECURRENT_BATCH;
}

static bool read_layer(KernelCall *call, Layer *layer) {
    const RecurrentAttrs *attrs = call->attrs;
    RecurrentSizes *s = &layer->sizes;
    GateActivation activations[6] = {{ACT_NONE, 0, 0}};
    if (!recurrent_sizes(call, layer->kind, false, s) ||
        !recurrent_activations(call, layer->kind, s->directions, activations))
        return false;
    if (!fits(s)) return kernel_decline(call, "the device does not support such a large layer");
    layer->args = (RecurrentArgs){.length = (int32_t)s->length,
                                  .batch = (int32_t)s->batch,
                                  .hidden = (int32_t)s->hidden,
                                  .directions = (int32_t)s->directions,
                                  .backward = attrs->direction == 1,
                                  .batch_first = s->batch_first,
                                  .couple = attrs->input_forget != 0,
                                  .clip = attrs->clip.count ? attrs->clip.items[0] : 0};
    for (int i = 0; i < 6; i++) layer->args.gates[i / 3][i % 3] = gate_of(&activations[i]);
    return true;
}

static KernelReady make(KernelCall *call, RecurrentKind kind) {
    Layer *layer = kernel_keep(call, sizeof *layer);
    if (!layer) return KERNEL_FAILED;
    layer->kind = kind;
    call->prepared = layer;
    if (!read_layer(call, layer)) return KERNEL_FAILED;
    const RecurrentSizes *s = &layer->sizes;
    const Dtype x = call->inputs[0].dtype;
    const Dtype w = x == DTYPE_FLOAT ? DTYPE_UNDEFINED : kernel_take_stored(call, 1);
    const Dtype r = kernel_take_stored(call, 2);
    layer->args.r_type = (int32_t)(r ? r : call->inputs[2].dtype);
    const CudaInnerShape shape = {.types = {x, w ? w : call->inputs[1].dtype, DTYPE_FLOAT},
                                  .batches = 1,
                                  .m = s->length * s->batch,
                                  .n = s->directions * s->width,
                                  .k = s->input,
                                  .turned = true};
    cuda_inner_init(&layer->product, &shape);
    return cuda_inner_ready(call, &layer->product);
}

static void release(void *prepared) {
    cuda_inner_release(&((Layer *)prepared)->product);
}

static KernelReady make_rnn(KernelCall *call) {
    return make(call, RECURRENT_RNN);
}
static KernelReady make_gru(KernelCall *call) {
    return make(call, RECURRENT_GRU);
}
static KernelReady make_lstm(KernelCall *call) {
    return make(call, RECURRENT_LSTM);
}
const KernelPrepare cuda_prepare_rnn = {make_rnn, release, 0};
const KernelPrepare cuda_prepare_gru = {make_gru, release, 0};
const KernelPrepare cuda_prepare_lstm = {make_lstm, release, 0};

/* ---- running --------------------------------------------------------------------------------- */

/* The data of input i, of that many elements; NULL where it is omitted. */
static bool take_input(KernelCall *call, uint32_t i, uint64_t count, const void **data,
                       int32_t *type) {
    const KernelTensor *tensor = kernel_input(call, i);
    *data = tensor ? tensor->data : NULL;
    *type = tensor ? (int32_t)tensor->dtype : 0;
    return !tensor || tensor->count == count ||
           kernel_fail(call,
                       "input %u does not have the number of elements that the layer requires", i);
}

static bool take_output(KernelCall *call, uint32_t i, uint64_t count, void **data, int32_t *type) {
    const KernelTensor *tensor = kernel_result(call, i);
    *data = tensor && tensor->count ? tensor->data : NULL;
    *type = tensor ? (int32_t)tensor->dtype : 0;
    return !tensor || tensor->count == count ||
           kernel_fail(call,
                       "output %u does not have the number of elements that the layer computes", i);
}

static bool take_operands(KernelCall *call, const Layer *layer, RecurrentArgs *args) {
    const RecurrentSizes *s = &layer->sizes;
    const uint64_t states = s->directions * s->batch * s->hidden;
    const bool lstm = layer->kind == RECURRENT_LSTM;
    const void *lengths;
    int32_t whole;
    args->r = call->inputs[2].data;
    if (!take_input(call, 3, s->directions * 2 * s->width, &args->bias, &args->bias_type) ||
        !take_input(call, 4, s->batch, &lengths, &whole) ||
        !take_input(call, 5, states, &args->h_first, &args->h_first_type) ||
        (lstm && (!take_input(call, 6, states, &args->c_first, &args->c_first_type) ||
                  !take_input(call, 7, s->directions * 3 * s->hidden, &args->p, &args->p_type))))
        return false;
    args->lengths = lengths;
    return take_output(call, 0, s->length * states, &args->y, &args->y_type) &&
           take_output(call, 1, states, &args->h_last, &args->h_last_type) &&
           (!lstm || take_output(call, 2, states, &args->c_last, &args->c_last_type));
}

/* States before and after a step, by turns, and what a GRU of two launches has between them. */
static bool take_space(KernelCall *call, const Layer *layer, float *states[2][2],
                       RecurrentArgs *args) {
    const RecurrentSizes *s = &layer->sizes;
    const uint64_t size = s->directions * s->batch * s->hidden * sizeof(float);
    for (int i = 0; i < 2; i++) {
        if (!(states[i][0] = kernel_workspace(call, size))) return false;
        if (layer->kind == RECURRENT_LSTM && !(states[i][1] = kernel_workspace(call, size)))
            return false;
    }
    if (layer->kind != RECURRENT_GRU) return true;
    args->update = kernel_workspace(call, size);
    args->reset = kernel_workspace(call, size);
    return args->update && args->reset;
}

static bool begin(KernelCall *call, const RecurrentArgs *args) {
    const uint64_t count =
        (uint64_t)args->directions * (uint64_t)args->batch * (uint64_t)args->hidden;
    const CudaLaunch launch = {.family = CUDA_recurrent,
                               .kernel = "recurrent_begin",
                               .blocks = {cuda_blocks_full(call, count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = args};
    return cuda_launch(call, &launch);
}

static bool launch_step(KernelCall *call, const char *kernel, const RecurrentArgs *args) {
    const CudaName name = cuda_name(kernel, cuda_suffix((Dtype)args->r_type), "");
    const CudaLaunch launch = {.family = CUDA_recurrent,
                               .kernel = name.text,
                               .blocks = {cuda_blocks((uint64_t)args->hidden, RECURRENT_WARPS, 1),
                                          cuda_blocks((uint64_t)args->batch, RECURRENT_BATCH, 1),
                                          (uint32_t)args->directions},
                               .threads = {32 * RECURRENT_WARPS},
                               .args = args};
    return cuda_launch(call, &launch);
}

/* Beside the operands, which the host counts once: weights and states in every other step. */
static void count_steps(KernelCall *call, const Layer *layer) {
    const KernelTensor *r = &call->inputs[2];
    const RecurrentSizes *s = &layer->sizes;
    const uint64_t states = s->directions * s->batch * s->hidden * sizeof(float);
    const uint64_t each = layer->kind == RECURRENT_RNN ? 1 : layer->kind == RECURRENT_LSTM ? 2 : 3;
    if (s->length > 1)
        cuda_reread(call, (s->length - 1) * r->count * kernel_element_size(r->dtype));
    cuda_between(call, s->length * each * states);
}

static bool run_layer(KernelCall *call) {
    const RecurrentAttrs *attrs = call->attrs;
    Layer *layer = call->prepared;
    RecurrentArgs args = layer->args;
    float *states[2][2] = {{NULL, NULL}, {NULL, NULL}};
    if (!take_operands(call, layer, &args)) return false;
    if (!args.batch) return true;
    if (!take_space(call, layer, states, &args)) return false;
    float *products = NULL;
    if (args.length) {
        const uint64_t bytes = layer->product.y.count * sizeof(float);
        products = kernel_workspace(call, bytes);
        if (!products || !cuda_inner_run(call, &layer->product, call->inputs[0].data,
                                         call->inputs[1].data, products))
            return false;
        cuda_between(call, bytes);
    }
    args.products = products;
    args.h_next = states[0][0];
    args.c_next = states[0][1];
    if (!begin(call, &args)) return false;
    const bool twice = layer->kind == RECURRENT_GRU && !attrs->linear_before_reset;
    const char *kernel = layer->kind == RECURRENT_RNN    ? "rnn_step"
                         : layer->kind == RECURRENT_LSTM ? "lstm_step"
                         : twice                         ? "gru_candidate_step"
                                                         : "gru_step";
    for (args.step = 0; args.step < args.length; args.step++) {
        float *const *now = states[args.step % 2], *const *next = states[(args.step + 1) % 2];
        args.h = now[0], args.c = now[1];
        args.h_next = next[0], args.c_next = next[1];
        if (twice && !launch_step(call, "gru_gates_step", &args)) return false;
        if (!launch_step(call, kernel, &args)) return false;
    }
    count_steps(call, layer);
    return true;
}

bool cuda_rnn(KernelCall *call) {
    return run_layer(call);
}
bool cuda_gru(KernelCall *call) {
    return run_layer(call);
}
bool cuda_lstm(KernelCall *call) {
    return run_layer(call);
}
