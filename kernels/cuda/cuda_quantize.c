// SPDX-License-Identifier: Apache-2.0
/* QuantizeLinear and DequantizeLinear on a CUDA device: 8 and 16 bits; biases of 32, and
 * weights of 4, are read. */
#include "cuda_functions.h"
#include "quantize_args.h"
#include "scale_map.h"

enum { THREADS = 256 };

static bool launch(KernelCall *call, const char *kernel, QuantizeArgs *args) {
    const KernelTensor *x = &call->inputs[0], *scale = &call->inputs[1];
    const KernelTensor *zero = kernel_input(call, 2), *y = &call->outputs[0];
    ScaleMap map;
    if (x->count != y->count || !scale_map_make(call, x, scale, zero, &map))
        return call->err->code != ERR_NONE ? false
                                           : kernel_fail(call, "its result has a different size");
    args->x = x->data;
    args->scale = scale->data;
    args->zero = zero ? zero->data : NULL;
    args->y = y->data;
    args->count = (int64_t)x->count;
    args->axis = (int64_t)map.axis;
    args->inner = (int64_t)map.inner;
    args->block = (int64_t)map.block;
    args->axis_scales = (int64_t)map.axis_scales;
    args->blocked = map.blocked;
    args->x_type = (int32_t)x->dtype;
    args->scale_type = (int32_t)scale->dtype;
    args->y_type = (int32_t)y->dtype;
    const CudaLaunch launch = {.family = CUDA_quantize,
                               .kernel = kernel,
                               .blocks = {cuda_blocks_full(call, x->count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = args};
    return !x->count || cuda_launch(call, &launch);
}

static bool is_float(Dtype dtype) {
    return dtype_is_working(dtype);
}

bool cuda_quantize(KernelCall *call) {
    const QuantizeAttrs *attrs = call->attrs;
    const KernelTensor *scale = &call->inputs[1], *zero = kernel_input(call, 2);
    const Dtype x = call->inputs[0].dtype, y = call->outputs[0].dtype;
    const Dtype precision = attrs->precision ? (Dtype)attrs->precision : scale->dtype;
    if (!is_float(x) || !is_float(scale->dtype) || !is_float(precision) || is_float(y) ||
        y == DTYPE_INT32 || (zero && zero->dtype != y))
        return kernel_decline(call, "the device does not support these types");
    QuantizeArgs args = {.precision = (int32_t)precision};
    return launch(call, "quantize", &args);
}

bool cuda_dequantize(KernelCall *call) {
    const KernelTensor *zero = kernel_input(call, 2);
    const Dtype x = call->inputs[0].dtype, scale = call->inputs[1].dtype;
    if (is_float(x) || !is_float(scale) || !is_float(call->outputs[0].dtype) ||
        (zero && zero->dtype != x))
        return kernel_decline(call, "the device does not support these types");
    QuantizeArgs args = {.precision = 0};
    return launch(call, "dequantize", &args);
}
