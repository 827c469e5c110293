// SPDX-License-Identifier: Apache-2.0
/* Products within rows of other operators. */
#ifndef DEMI_CUDA_PRODUCT_H
#define DEMI_CUDA_PRODUCT_H

#include "cuda_call.h"

/* y (m, n) = a (m, k) b (k, n), in so many batches. */
typedef struct CudaInnerShape {
    Dtype types[3]; /* of a, b and y, floats */
    uint64_t batches, m, n, k;
    bool turned; /* b is (n, k) */
} CudaInnerShape;

/* It refers to itself: not to be copied. */
typedef struct CudaInner {
    KernelTensor operands[2], y;
    int64_t dims[3][3];
    bool turned;
    void *prepared;
} CudaInner;

void cuda_inner_init(CudaInner *inner, const CudaInnerShape *shape);

/* For `make`, and the end of what it made there. */
KernelReady cuda_inner_ready(KernelCall *call, CudaInner *inner);
void cuda_inner_release(CudaInner *inner);

/* All on the device. */
bool cuda_inner_run(KernelCall *call, CudaInner *inner, const void *a, const void *b, void *y);

#endif
