// SPDX-License-Identifier: Apache-2.0
/* See byte_operands.h. */
#include "byte_operands.h"

bool byte_zero(KernelCall *call, uint32_t i, Dtype dtype, int32_t *zero) {
    const KernelTensor *tensor = kernel_input(call, i);
    *zero = 0;
    if (!tensor) return true;
    if (tensor->dtype != dtype || tensor->count != 1)
        return kernel_fail(call, "operand %u is not a zero point for %s", i, dtype_name(dtype));
    *zero = dtype == DTYPE_INT8 ? *(const int8_t *)tensor->data : *(const uint8_t *)tensor->data;
    return true;
}

bool byte_number(KernelCall *call, uint32_t i, float *number) {
    const KernelTensor *tensor = kernel_input(call, i);
    if (!tensor) return true;
    if (tensor->dtype != DTYPE_FLOAT || tensor->count != 1)
        return kernel_fail(call, "operand %u is not a single float", i);
    *number = *(const float *)tensor->data;
    return true;
}
