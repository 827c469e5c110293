// SPDX-License-Identifier: Apache-2.0
/* ConvInteger and QLinearConv: convolutions of 8-bit operands less their zero points (padding is
 * the zero point), summed in int32 modulo 2^32. QLinearConv adds its int32 bias, multiplies with
 * x_scale * w_scale[m] / y_scale, rounds to nearest even, adds y's zero point and saturates.
 */
#include "checked.h"
#include "conv_columns.h"
#include "conv_quantized.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "quantized.h"

enum { STORE_WORK = 16 }; /* multiply-adds that rounding and storing a sum takes as long as */

static bool is_byte(const KernelTensor *t) {
    return t->dtype == DTYPE_INT8 || t->dtype == DTYPE_UINT8;
}

/* Zero points of operand i: one for all, or one for each of `count`. 0 where it is missing. */
static bool zero_points(KernelCall *call, uint32_t i, uint64_t count, ZeroPoints *zeros) {
    const KernelTensor *t = kernel_input(call, i);
    *zeros = (ZeroPoints){.points = ARENA_ARRAY(call->scratch, int64_t, 1)};
    if (!t) return true;
    if (!is_byte(t) || (t->count != 1 && t->count != count))
        return kernel_fail(call, "%llu zero points of %s instead of 1 or %llu",
                           (unsigned long long)t->count, dtype_name(t->dtype),
                           (unsigned long long)count);
    zeros->points = kernel_ints(call, t);
    zeros->row = t->count > 1;
    return true;
}

static bool conv_byte_sums(KernelCall *call, const ConvBytes *at, const int32_t *bias,
                           int32_t *sums) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *w = kernel_input(call, at->w);
    Window window;
    ZeroPoints x_zero, w_zero;
    if (!w || !is_byte(x) || !is_byte(w)) return kernel_fail(call, "operands are not 8-bit");
    if (!window_make(call, attrs, w, &window) || !window_check_conv(call, &window, x, w, NULL) ||
        !zero_points(call, at->x_zero, 1, &x_zero) ||
        !zero_points(call, at->w_zero, (uint64_t)w->dims[0], &w_zero))
        return false;
    if (call->outputs[0].count == 0) return true;
    if (w->count == 0) window.taps = 0;
    uint64_t channels = (uint64_t)w->dims[1], filters = (uint64_t)w->dims[0];
    uint64_t depth = channels * window.taps, width = quantized_width(depth);
    uint64_t batches = (uint64_t)x->dims[0] * window.groups;
    uint64_t padded;
    if (!checked_mul(filters + 1, width * sizeof(int16_t), &padded))
        return kernel_fail(call, "the weights are too many");
    int16_t *wide_x = kernel_workspace(call, (x->count + 1) * sizeof *wide_x);
    int16_t *wide_w = kernel_workspace(call, padded);
    if (!wide_x || !wide_w) return false;
    quantized_widen(wide_x, &(WideRows){x->data, x->dtype, 1, x->count, x_zero}, x->count);
    quantized_widen(wide_w, &(WideRows){w->data, w->dtype, filters, depth, w_zero}, width);
    uint64_t *weights = ARENA_ARRAY(call->scratch, uint64_t, batches);
    for (uint64_t i = 0; i < batches; i++)
        weights[i] = i % window.groups * (filters / window.groups) * (width / 2);
    /* pairs of weights travel as floats do */
    const GemmMatrix a = {wide_w, weights, width / 2, 1, DTYPE_UNDEFINED};
    const ConvColumns columns = conv_columns_make(call, &window, wide_x, channels);
    const Gemm product = {.kind = GEMM_PAIRS,
                          .batches = batches,
                          .m = filters / window.groups,
                          .n = window.out,
                          .k = width / 2,
                          .a = &a,
                          .pack_b = conv_pack_pairs,
                          .b = &columns,
                          .c = sums,
                          .bias = bias,
                          .bias_batches = window.groups};
    return gemm_run(call, &product);
}

const ConvBytes conv_integer_operands = {1, 2, 3}, qlinear_conv_operands = {3, 2, 5};

bool conv_integer_by(KernelCall *call, ConvSums *conv_sums) {
    KernelTensor *y = &call->outputs[0];
    if (y->dtype != DTYPE_INT32) return kernel_fail(call, "the result is not int32");
    return conv_sums(call, &conv_integer_operands, NULL, y->data);
}

bool kernel_conv_integer(KernelCall *call) {
    return conv_integer_by(call, conv_byte_sums);
}

static bool is_float(const KernelTensor *t, uint64_t count) {
    return t && t->dtype == DTYPE_FLOAT && (t->count == 1 || t->count == count);
}

typedef struct StoreJob {
    const int32_t *sums;
    const KernelTensor *y, *w_scale;
    uint64_t filters, plane;
    double of_all, zero; /* the scale but for w_scale's part; y's zero point */
} StoreJob;

static void store_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const StoreJob *job = data;
    (void)lane;
    for (uint64_t i = first; i < end; i++) {
        uint64_t filter = job->w_scale->count > 1 ? i % job->filters : 0;
        const Requantize how = {.scale = job->of_all * kernel_real(job->w_scale, filter),
                                .zero = job->zero,
                                .dtype = job->y->dtype};
        quantized_store(&how, job->sums + i * job->plane, (uint8_t *)job->y->data + i * job->plane,
                        job->plane);
    }
}

bool qlinear_conv_by(KernelCall *call, ConvSums *conv_sums) {
    KernelTensor *y = &call->outputs[0];
    const KernelTensor *w = &call->inputs[3], *bias = kernel_input(call, 8);
    const KernelTensor *x_scale = kernel_input(call, 1), *w_scale = kernel_input(call, 4);
    const KernelTensor *y_scale = kernel_input(call, 6), *y_zero = kernel_input(call, 7);
    if (w->rank < 2 || y->rank < 2 || !is_byte(y))
        return kernel_fail(call, "operands are not 8-bit");
    uint64_t filters = (uint64_t)w->dims[0];
    if (!is_float(x_scale, 1) || !is_float(w_scale, filters) || !is_float(y_scale, 1))
        return kernel_fail(call, "a scale is not a float, or has a wrong size");
    if ((y_zero && (y_zero->dtype != y->dtype || y_zero->count != 1)) ||
        (bias && (bias->dtype != DTYPE_INT32 || bias->count != filters)))
        return kernel_fail(call, "the result's zero point or the bias does not fit");
    int32_t *sums = kernel_workspace(call, y->count * sizeof *sums + 1);
    if (!sums || !conv_sums(call, &qlinear_conv_operands, bias ? bias->data : NULL, sums))
        return false;
    if (y->count == 0) return true;
    double zero = y_zero ? kernel_real(y_zero, 0) : 0;
    double of_all = kernel_real(x_scale, 0) / kernel_real(y_scale, 0);
    uint64_t plane = kernel_span(y, 2, y->rank), rows = y->count / plane;
    const StoreJob job = {sums, y, w_scale, filters, plane, of_all, zero};
    kernel_run_parts(call->workers, kernel_work_cut(call, (double)y->count * STORE_WORK, rows),
                     store_part, &job);
    return true;
}

bool kernel_qlinear_conv(KernelCall *call) {
    return qlinear_conv_by(call, conv_byte_sums);
}
