// SPDX-License-Identifier: Apache-2.0
/* Declares every function that kernels.def names. */
#ifndef DEMI_KERNEL_FUNCTIONS_H
#define DEMI_KERNEL_FUNCTIONS_H

#include "kernel.h"
#include "op_attrs.h"

#define KERNEL(domain, op, since, function, layout, types, flags)                                  \
    bool kernel_##function(KernelCall *call);
#define KERNEL_PREPARED(domain, op, since, function, layout, types, flags, prepare)                \
    KERNEL(domain, op, since, function, layout, types, flags)                                      \
    extern const KernelPrepare kernel_prepare_##prepare;
#include "kernels.def"
#undef KERNEL
#undef KERNEL_PREPARED

#endif
