// SPDX-License-Identifier: Apache-2.0
/* Conv: y[n, m, o] = bias[m] + sum over channels c of m's group and taps t of
 * w[m, c, t] * x[n, c, o * stride + t * dilation - pad].
 *
 * In float a product of matrices per image and group, weights by windows, whose second factor is
 * packed from the input on the way (conv_columns.h); groups of few filters and double go window by
 * window.
 */
#include "conv_columns.h"
#include "conv_direct.h"
#include "kernel_functions.h"

static bool conv_gemm(KernelCall *call, const ConvOperands *conv) {
    const Window *w = conv->window;
    uint64_t batches = conv->images * w->groups, depth = conv->channels * w->taps;
    uint64_t *weights = ARENA_ARRAY(call->scratch, uint64_t, batches);
    uint64_t *inputs = ARENA_ARRAY(call->scratch, uint64_t, batches);
    for (uint64_t i = 0; i < batches; i++) {
        weights[i] = i % w->groups * conv->filters * depth;
        inputs[i] = i * conv->channels * w->in;
    }
    const GemmMatrix a = {conv->weights, weights, depth, 1, conv->narrow};
    if (conv_is_plain(w)) {
        const GemmMatrices product = {.batches = batches,
                                      .m = conv->filters,
                                      .n = w->out,
                                      .k = depth,
                                      .a = a,
                                      .b = {conv->x, inputs, w->in, 1, DTYPE_UNDEFINED},
                                      .c = conv->y,
                                      .bias = conv->bias,
                                      .bias_batches = w->groups,
                                      .epilogue = conv->epilogue};
        return gemm_matrices(call, &product);
    }
    const ConvColumns columns = conv_columns_make(call, w, conv->x, conv->channels);
    const Gemm product = {.kind = GEMM_FLOAT,
                          .batches = batches,
                          .m = conv->filters,
                          .n = w->out,
                          .k = depth,
                          .a = &a,
                          .pack_b = conv_pack_floats,
                          .b = &columns,
                          .c = conv->y,
                          .bias = conv->bias,
                          .bias_batches = w->groups,
                          .epilogue = conv->epilogue};
    return gemm_run(call, &product);
}

/* Those of small groups are few, and read window by window. */
static bool widen_weights(KernelCall *call, const KernelTensor *w, ConvOperands *conv) {
    if (!conv->narrow) return true;
    float *wide = kernel_workspace(call, w->count * sizeof *wide);
    const GemmMatrix all = {.data = w->data, .narrow = conv->narrow};
    if (wide) gemm_widen(&all, wide, w->data, w->count);
    conv->weights = wide;
    conv->narrow = DTYPE_UNDEFINED;
    return wide;
}

bool conv_floats(KernelCall *call, const ConvOperands *conv) {
    if (!conv_direct_suits(conv)) return conv_gemm(call, conv);
    conv_direct(call, conv);
    return true;
}

bool conv_run(KernelCall *call, const Epilogue *epilogue) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1], *bias = kernel_input(call, 2);
    KernelTensor *y = &call->outputs[0];
    Window window;
    if (!window_make(call, attrs, w, &window) || !window_check_conv(call, &window, x, w, bias))
        return false;
    const Dtype narrow = x->dtype == DTYPE_FLOAT ? gemm_narrow(w) : DTYPE_UNDEFINED;
    if ((w->dtype != x->dtype && !narrow) || y->dtype != x->dtype ||
        (bias && bias->dtype != x->dtype))
        return kernel_fail(call, "operands of different types");
    if (y->count == 0) return true;
    if (w->count == 0) window.taps = 0; /* nothing but the bias; taps may be any number */
    ConvOperands conv = {.window = &window,
                         .x = x->data,
                         .weights = w->data,
                         .bias = bias ? bias->data : NULL,
                         .y = y->data,
                         .images = (uint64_t)x->dims[0],
                         .channels = (uint64_t)w->dims[1],
                         .filters = (uint64_t)w->dims[0] / window.groups,
                         .narrow = narrow,
                         .epilogue = epilogue};
    if (x->dtype == DTYPE_DOUBLE)
        conv_double(call, &conv);
    else if (x->dtype != DTYPE_FLOAT)
        return kernel_fail(call, "%s", dtype_name(x->dtype));
    else if (conv_direct_suits(&conv) && w->count)
        return widen_weights(call, w, &conv) && (conv_direct(call, &conv), true);
    else
        return conv_gemm(call, &conv);
    return true;
}

/* Weights are widened once, or stay as the plan has them where memory comes first. */
static KernelReady make_conv(KernelCall *call) {
    if (call->small) kernel_take_stored(call, 1);
    return KERNEL_READY;
}

const KernelPrepare kernel_prepare_conv = {make_conv, NULL, 0};

bool kernel_conv(KernelCall *call) {
    return conv_run(call, NULL);
}
