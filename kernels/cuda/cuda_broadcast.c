// SPDX-License-Identifier: Apache-2.0
/* Broadcasting for the device's kernels; see cuda_broadcast.h. */
#include "cuda_broadcast.h"

#include <string.h>

/* The operand's stride along the result's axis: 0 where it is repeated; -1 where it does not fit. */
static int64_t stride_of(const KernelTensor *tensor, const KernelTensor *out, uint32_t axis) {
    const uint32_t ahead = out->rank - tensor->rank;
    if (tensor->rank > out->rank) return -1;
    if (axis < ahead) return 0;
    const int64_t size = tensor->dims[axis - ahead];
    if (size == 1) return 0;
    return size == out->dims[axis] ? (int64_t)kernel_span(tensor, axis - ahead + 1, tensor->rank)
                                   : -1;
}

/* Whether axis `with` of args and one behind it, of these strides, are one for all operands. */
static bool merges(const BroadcastArgs *args, uint32_t n, int64_t size, const int64_t *strides) {
    const int32_t with = args->rank - 1;
    for (uint32_t k = 0; k < n; k++)
        if (args->strides[k][with] != strides[k] * size) return false;
    return true;
}

bool cuda_broadcast(KernelCall *call, const KernelTensor *const *inputs, uint32_t n,
                    const KernelTensor *out, BroadcastArgs *args) {
    *args = (BroadcastArgs){.y = out->data, .count = (int64_t)out->count, .scale = 0x3f800000};
    for (uint32_t k = 0; k < n; k++) args->inputs[k] = inputs[k]->data;
    for (uint32_t axis = 0; axis < out->rank; axis++) {
        int64_t strides[POINTWISE_INPUTS] = {0};
        const int64_t size = out->dims[axis];
        for (uint32_t k = 0; k < n; k++) {
            strides[k] = stride_of(inputs[k], out, axis);
            if (strides[k] < 0) return kernel_fail(call, "its operands do not broadcast");
        }
        if (size == 1) continue;
        if (args->rank && merges(args, n, size, strides)) {
            args->sizes[args->rank - 1] *= size;
        } else {
            if (args->rank == POINTWISE_RANK)
                return kernel_decline(call,
                                      "the device does not support operands with so many axes");
            args->sizes[args->rank++] = size;
        }
        for (uint32_t k = 0; k < n; k++) args->strides[k][args->rank - 1] = strides[k];
    }
    if (!args->rank) args->sizes[args->rank++] = 1;
    return true;
}

uint32_t cuda_broadcast_pack(const BroadcastArgs *args, uint32_t n, size_t element_size) {
    const uint32_t pack = (uint32_t)(16 / element_size);
    const int32_t last = args->rank - 1;
    uintptr_t at = (uintptr_t)args->y;
    if (args->sizes[last] % pack) return 1;
    for (uint32_t k = 0; k < n; k++) {
        if (args->strides[k][last] > 1) return 1;
        if (!args->strides[k][last]) continue;
        at |= (uintptr_t)args->inputs[k];
        for (int32_t axis = 0; axis < last; axis++)
            if (args->strides[k][axis] % pack) return 1;
    }
    return at % 16 ? 1 : pack;
}
