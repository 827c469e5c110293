// SPDX-License-Identifier: Apache-2.0
/* Operators whose output has the input's elements in their order (Reshape, Squeeze, Flatten, …),
 * and those that only ask for the input's dims: Shape and Size. */
#include <string.h>

#include "kernel_functions.h"

bool kernel_copy(KernelCall *call) {
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    if (in->count != out->count) return kernel_fail(call, "the number of elements changes");
    if (in->count) memcpy(out->data, in->data, in->count * kernel_element_size(in->dtype));
    return true;
}

/* The dims from `start` on; how many the output's dim says. */
bool kernel_shape(KernelCall *call) {
    const ShapeAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    int64_t rank = in->rank, start = attrs->start < 0 ? attrs->start + rank : attrs->start;
    if (start < 0) start = 0;
    if (out->count && (start > rank || out->count > (uint64_t)(rank - start)))
        return kernel_fail(call, "no dims from %lld on", (long long)attrs->start);
    if (out->count) memcpy(out->data, in->dims + start, out->count * sizeof *in->dims);
    return true;
}

bool kernel_size(KernelCall *call) {
    KernelTensor *out = &call->outputs[0];
    if (out->count != 1) return kernel_fail(call, "the output is not a scalar");
    *(int64_t *)out->data = (int64_t)call->inputs[0].count;
    return true;
}
