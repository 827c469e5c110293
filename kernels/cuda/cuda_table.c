// SPDX-License-Identifier: Apache-2.0
/* The table of CUDA's kernels: the CUDA rows of operators/. */
#include "cuda_device.h"
#include "cuda_functions.h"
#include "kernel_rows_find.h"

#define OPERATOR(domain, name, ...) [OP_##domain##_##name] = OP_ROWS(KernelRow, __VA_ARGS__),
#define CUDA(since, function, layout, types, flags, host)                                          \
    {since, cuda_##function, &op_attrs_##layout, types, flags, "cuda_" #function, NULL, host},
#define CUDA_PREPARED(since, function, layout, types, flags, host, prepare)                        \
    {since, cuda_##function,   &op_attrs_##layout,      types,                                     \
     flags, "cuda_" #function, &cuda_prepare_##prepare, host},
static const OpRows table[OP_ID_COUNT] = {
#include "operators.def"
};

const KernelRow *cuda_find(const char *domain, const char *op, int64_t opset, size_t *count) {
    return kernel_rows_find(&table[op_id(domain, op)], opset, count);
}
