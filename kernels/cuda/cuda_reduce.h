// SPDX-License-Identifier: Apache-2.0
/* Reductions along any axes, for rows that bring elements into another order. */
#ifndef DEMI_CUDA_REDUCE_H
#define DEMI_CUDA_REDUCE_H

#include "cuda_call.h"
#include "reduce_args.h"

/* Appends an axis to those of ReduceArgs, merged with the last one where they are one; false where there
 * are too many. */
bool cuda_reduce_push(int64_t *sizes, int64_t *strides, int32_t *rank, int64_t size,
                      int64_t stride);

/* There is a result. */
bool cuda_reduce_launch(KernelCall *call, const ReduceArgs *args);

#endif
