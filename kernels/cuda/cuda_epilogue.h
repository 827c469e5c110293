// SPDX-License-Identifier: Apache-2.0
/* What follows a product or convolution: y = act(scale x + bias + z), for rows of demi.fused. */
#ifndef DEMI_CUDA_EPILOGUE_H
#define DEMI_CUDA_EPILOGUE_H

#include "cuda_call.h"
#include "op_attrs.h"
#include "unary_args.h"

typedef struct CudaEpilogue {
    const KernelTensor *bias, *z; /* NULL: none */
    enum UnaryOp op;              /* UNARY_COPY: none */
    float p, q, scale;
    uint64_t inner, columns; /* element i is of column i / inner % columns, which has its bias */
} CudaEpilogue;

/* Sets op, p and q. False with the error set where parameters do not fit the activation. */
bool cuda_activation(KernelCall *call, const ActivationChoice *choice, CudaEpilogue *epilogue);

/* Runs it on what another launch of the call left: `count` elements of type `from` at x, to y of type `to`, which may be the same memory
 * where both types are. */
bool cuda_epilogue(KernelCall *call, const CudaEpilogue *epilogue, const void *x, Dtype from,
                   void *y, Dtype to, uint64_t count);

/* Elements at x, of `from`, as `to`; floats. */
bool cuda_convert(KernelCall *call, const void *x, Dtype from, void *y, Dtype to, uint64_t count);

#endif
