// SPDX-License-Identifier: Apache-2.0
/* The table of CUDA's kernels, made of cuda_rows.def. */
#include "cuda_device.h"
#include "cuda_functions.h"
#include "kernel_rows_find.h"

static const KernelRow rows[] = {
#define CUDA(domain, op, since, function, layout, types, flags, host)                              \
    {domain, op,  since, cuda_##function, &op_attrs_##layout, types, flags, "cuda_" #function,     \
     NULL,   host},
#define CUDA_PREPARED(domain, op, since, function, layout, types, flags, host, prepare)            \
    {domain,                                                                                       \
     op,                                                                                           \
     since,                                                                                        \
     cuda_##function,                                                                              \
     &op_attrs_##layout,                                                                           \
     types,                                                                                        \
     flags,                                                                                        \
     "cuda_" #function,                                                                            \
     &cuda_prepare_##prepare,                                                                      \
     host},
#include "cuda_rows.def"
#undef CUDA
#undef CUDA_PREPARED
};

const KernelRow *cuda_find(const char *domain, const char *op, int64_t opset, size_t *count) {
    return kernel_rows_find(rows, sizeof rows / sizeof *rows, domain, op, opset, count);
}
