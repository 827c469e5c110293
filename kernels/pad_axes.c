// SPDX-License-Identifier: Apache-2.0
/* See pad_axes.h. */
#include "pad_axes.h"

#include "op_attrs.h"

static bool set_axis(KernelCall *call, uint32_t i, const int64_t pads[2], PadAxis *axis) {
    int64_t size = call->inputs[0].dims[i], total = call->outputs[0].dims[i], sum;
    int64_t cut_end = pads[1] < 0 ? (pads[1] < -size ? size : -pads[1]) : 0;
    if (__builtin_add_overflow(pads[0], pads[1], &sum) || __builtin_add_overflow(sum, size, &sum) ||
        sum != total)
        return kernel_fail(call, "axis %u of %lld elements is padded by %lld and %lld", i,
                           (long long)size, (long long)pads[0], (long long)pads[1]);
    axis->before = pads[0] > 0 ? pads[0] : 0;
    axis->crop = pads[0] < 0 ? (pads[0] < -size ? size : -pads[0]) : 0;
    axis->kept = size - axis->crop - cut_end;
    if (axis->kept < 0) axis->kept = 0;
    if (axis->before > total) axis->before = total; /* a crop took more than there was */
    if (axis->kept > total - axis->before) axis->kept = total - axis->before;
    return true;
}

PadAxis *pad_axes_read(KernelCall *call) {
    const PadAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *axes_input = kernel_input(call, 3);
    const KernelTensor *input = kernel_input(call, 1);
    PadAxis *axes = ARENA_ARRAY(call->scratch, PadAxis, in->rank);
    int64_t(*pads)[2] = arena_array(call->scratch, in->rank, sizeof *pads);
    const int64_t *list = attrs->pads.items, *along = NULL;
    uint64_t count = attrs->pads.count, each = in->rank;
    bool ok = true;
    if (call->opset >= 11) {
        if (input && !(list = kernel_ints(call, input))) return NULL;
        if (axes_input && !(along = kernel_ints(call, axes_input))) return NULL;
        count = input ? input->count : 0;
        each = axes_input ? axes_input->count : in->rank;
    }
    if (count / 2 != each || count % 2) {
        kernel_fail(call, "%llu pads for %llu axes", (unsigned long long)count,
                    (unsigned long long)each);
        return NULL;
    }
    for (uint64_t i = 0; ok && i < each; i++) {
        uint32_t axis = (uint32_t)i;
        ok = !along || kernel_axis(call, along[i], in->rank, &axis);
        if (!ok) break;
        pads[axis][0] = list[i];
        pads[axis][1] = list[i + each];
    }
    for (uint32_t i = 0; ok && i < in->rank; i++) ok = set_axis(call, i, pads[i], &axes[i]);
    return ok ? axes : NULL;
}

bool pad_value_read(KernelCall *call, const void **value) {
    const PadAttrs *attrs = call->attrs;
    const KernelTensor *input = call->opset >= 11 ? kernel_input(call, 2) : NULL;
    Dtype dtype = call->inputs[0].dtype;
    *value = NULL;
    if (input) {
        if (input->dtype != dtype || input->count > 1)
            return kernel_fail(call, "the padding value is not a scalar of the data's type");
        if (input->count) *value = input->data;
    } else if (call->opset < 11 && attrs->value != 0) {
        uint64_t *bits = ARENA_NEW(call->scratch, uint64_t);
        dtype_from_double(dtype, (double)attrs->value, bits);
        *value = bits;
    }
    return true;
}

int64_t pad_repeated(int64_t mode, int64_t at, int64_t kept) {
    if (mode == PAD_EDGE || kept == 1) return at < 0 ? 0 : at >= kept ? kept - 1 : at;
    int64_t period = mode == PAD_WRAP ? kept : 2 * (kept - 1);
    at = (at % period + period) % period;
    return at < kept ? at : period - at;
}
