// SPDX-License-Identifier: Apache-2.0
/* Declares every function that cuda_rows.def names. */
#ifndef DEMI_CUDA_FUNCTIONS_H
#define DEMI_CUDA_FUNCTIONS_H

#include "cuda_call.h"
#include "op_attrs.h"

#define CUDA(domain, op, since, function, layout, types, flags, host)                              \
    bool cuda_##function(KernelCall *call);
#define CUDA_PREPARED(domain, op, since, function, layout, types, flags, host, prepare)            \
    CUDA(domain, op, since, function, layout, types, flags, host)                                  \
    extern const KernelPrepare cuda_prepare_##prepare;
#include "cuda_rows.def"
#undef CUDA
#undef CUDA_PREPARED

#endif
