// SPDX-License-Identifier: Apache-2.0
/* The table of CUDA's kernels: the CUDA rows of operators/. */
#include "cuda_device.h"
#include "cuda_functions.h"
#include "kernel_rows_find.h"

#define CUDA(since, function, layout, types, flags, host)                                          \
    ROW(since, cuda_##function, &op_attrs_##layout, types, flags, "cuda_" #function, NULL, host)
#define CUDA_PREPARED(since, function, layout, types, flags, host, prepare)                        \
    ROW(since, cuda_##function, &op_attrs_##layout, types, flags, "cuda_" #function,               \
        &cuda_prepare_##prepare, host)
#define OP_TABLE_TYPE KernelRow
#define OP_TABLE      kernels
#include "op_table.inc"

const KernelRow *cuda_find(const char *domain, const char *op, int64_t opset, size_t *count) {
    return kernel_rows_find(kernels, kernels_of[op_id(domain, op)], opset, count);
}
