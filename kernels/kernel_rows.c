// SPDX-License-Identifier: Apache-2.0
/* Runs functions over whole tensors; see kernel_rows.h. */
#include "kernel_rows.h"

bool kernel_unary(KernelCall *call, const UnaryFunction functions[DTYPE_COUNT], Dtype result,
                  const UnaryNumbers *numbers) {
    static const UnaryNumbers none = {0, 0};
    const KernelTensor *in = kernel_input(call, 0), *out = kernel_result(call, 0);
    if (!in || !out) return kernel_fail(call, "an operand is missing");
    if (!functions[in->dtype] || out->dtype != (result == DTYPE_UNDEFINED ? in->dtype : result))
        return kernel_fail(call, "it is not defined from %s to %s", dtype_name(in->dtype),
                           dtype_name(out->dtype));
    if (in->count != out->count) return kernel_fail(call, "the number of elements changes");
    if (out->count)
        functions[in->dtype](out->data, in->data, out->count, numbers ? numbers : &none);
    return true;
}
