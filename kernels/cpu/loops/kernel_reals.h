// SPDX-License-Identifier: Apache-2.0
/* Operands of float and double that a kernel reads as one of the two, whatever mixture of types its
 * operator allows (statistics in float beside data in double, for instance), and checks that many
 * kernels make of their operands. */
#ifndef DEMI_KERNEL_REALS_H
#define DEMI_KERNEL_REALS_H

#include "kernel.h"

/* The elements as `dtype` (FLOAT or DOUBLE): the tensor's own, or converted ones in scratch. NULL
 * with the error set where the tensor is of another type. An empty tensor gives a valid pointer. */
const void *kernel_reals(KernelCall *call, const KernelTensor *tensor, Dtype dtype);
const float *kernel_floats(KernelCall *call, const KernelTensor *tensor);
const double *kernel_doubles(KernelCall *call, const KernelTensor *tensor);

/* Where to compute an output's elements as `dtype`: its own memory, or an array in scratch that
 * kernel_reals_done then rounds into it. NULL with the error set where it is neither float nor
 * double. */
void *kernel_reals_for(KernelCall *call, const KernelTensor *tensor, Dtype dtype);
void kernel_reals_done(const KernelTensor *tensor, const void *reals, Dtype dtype);

/* As kernel_reals, broadcast to the dims of `like` as numpy does: the tensor's dims, aligned at the
 * right, are those or 1. Of `like` only rank and dims are read. */
const void *kernel_reals_expand(KernelCall *call, const KernelTensor *tensor,
                                const KernelTensor *like, Dtype dtype);

/* DOUBLE where any operand of the call is double, else FLOAT. */
Dtype kernel_reals_dtype(const KernelCall *call);

/* False with the error set where the operand is missing or has not as many elements; `what` names
 * it in the message. */
bool kernel_want_count(KernelCall *call, const KernelTensor *tensor, uint64_t count,
                       const char *what);
/* False with the error set where output 0 has not as many elements as input 0. */
bool kernel_want_same_count(KernelCall *call);

#endif
