// SPDX-License-Identifier: Apache-2.0
/* How tensors that broadcast lie: axes of a result, and an operand's strides along them, with
 * neighbors merged that no operand tells apart. */
#ifndef DEMI_CUDA_BROADCAST_H
#define DEMI_CUDA_BROADCAST_H

#include "cuda_call.h"
#include "pointwise_args.h"

/* Fills sizes, strides, rank and count for inputs[0, n) of the call, aligned to the result from the
 * right as ONNX has it, and data. Fails where an operand does not broadcast to the result, or more
 * than POINTWISE_RANK axes are left. */
bool cuda_broadcast(KernelCall *call, const KernelTensor *const *inputs, uint32_t n,
                    const KernelTensor *out, BroadcastArgs *args);

/* Elements that a thread may take at once: where the last axis is a multiple of it, and data is
 * aligned to 16 bytes. 1 or 16 / element size. */
uint32_t cuda_broadcast_pack(const BroadcastArgs *args, uint32_t n, size_t element_size);

/* y += scale x, which broadcasts to y and has its type, a float's. */
bool cuda_add_scaled(KernelCall *call, const KernelTensor *x, float scale, const KernelTensor *y);

#endif
