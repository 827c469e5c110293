// SPDX-License-Identifier: Apache-2.0
/* Attention of operands that were found, for the rows that find them. */
#ifndef DEMI_CUDA_ATTENTION_H
#define DEMI_CUDA_ATTENTION_H

#include "attention_args.h"
#include "cuda_call.h"

/* By the way that is the best for what there is much of; keys and values are of type `common`. */
bool cuda_attend(KernelCall *call, const AttentionArgs *args, Dtype common);

/* What kernels of a warp a row are launched with, all but the kernel; `args` may be replaced. */
bool cuda_attend_rows(KernelCall *call, const AttentionArgs *args, CudaLaunch *launch);

#endif
