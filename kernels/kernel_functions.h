// SPDX-License-Identifier: Apache-2.0
/* Declares every function that the KERNEL rows of operators/ name. */
#ifndef DEMI_KERNEL_FUNCTIONS_H
#define DEMI_KERNEL_FUNCTIONS_H

#include "kernel.h"
#include "op_attrs.h"

#define OPERATOR(domain, name, ...)                   __VA_ARGS__
#define KERNEL(since, function, layout, types, flags) bool kernel_##function(KernelCall *call);
#define KERNEL_PREPARED(since, function, layout, types, flags, prepare)                            \
    bool kernel_##function(KernelCall *call);                                                      \
    extern const KernelPrepare kernel_prepare_##prepare;
#include "operators.def"

#endif
