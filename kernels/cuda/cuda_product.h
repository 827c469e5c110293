// SPDX-License-Identifier: Apache-2.0
/* Products within rows of other operators. */
#ifndef DEMI_CUDA_PRODUCT_H
#define DEMI_CUDA_PRODUCT_H

#include "cuda_call.h"

/* y = a b' of the call's inputs 0 and 1 as matrices (m, k) and (n, k) of `types`; y is float. It refers to itself:
 * not to be copied. */
typedef struct CudaInner {
    KernelTensor operands[2], y;
    int64_t dims[3][2];
    void *prepared;
} CudaInner;

void cuda_inner_init(CudaInner *inner, const Dtype types[2], uint64_t m, uint64_t n, uint64_t k);

/* For `make`, and the end of what it made there. */
KernelReady cuda_inner_ready(KernelCall *call, CudaInner *inner);
void cuda_inner_release(CudaInner *inner);

/* y: m n floats on the device. */
bool cuda_inner_run(KernelCall *call, CudaInner *inner, void *y);

#endif
