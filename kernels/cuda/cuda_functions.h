// SPDX-License-Identifier: Apache-2.0
/* Declares every function that the CUDA rows of operators/ name. */
#ifndef DEMI_CUDA_FUNCTIONS_H
#define DEMI_CUDA_FUNCTIONS_H

#include "cuda_call.h"
#include "op_attrs.h"

#define OPERATOR(domain, name, ...)                       __VA_ARGS__
#define CUDA(since, function, layout, types, flags, host) bool cuda_##function(KernelCall *call);
#define CUDA_PREPARED(since, function, layout, types, flags, host, prepare)                        \
    bool cuda_##function(KernelCall *call);                                                        \
    extern const KernelPrepare cuda_prepare_##prepare;
#include "operators.def"

#endif
