// SPDX-License-Identifier: Apache-2.0
/* cuBLASLt, libcublasLt.so.13, loaded when a product first asks for it; types and numbers are those
 * of its binary interface. */
#ifndef DEMI_CUDA_BLAS_H
#define DEMI_CUDA_BLAS_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_device.h"

typedef struct BlasAlgorithm {
    uint64_t data[8];
} BlasAlgorithm;
typedef struct BlasFound {
    BlasAlgorithm algorithm;
    size_t workspace;
    int status; /* 0: it may be used */
    float waves;
    int reserved[4];
} BlasFound;

enum {
    BLAS_FLOAT = 0, /* cudaDataType */
    BLAS_DOUBLE = 1,
    BLAS_FLOAT16 = 2,
    BLAS_BFLOAT16 = 14,
    BLAS_COMPUTE_32F = 68, /* cublasComputeType_t */
    BLAS_COMPUTE_64F = 70,
    BLAS_COMPUTE_TF32 = 77, /* of float factors */
    BLAS_TRANSPOSED_A = 3,  /* attributes of a product: int32, 1 where transposed */
    BLAS_TRANSPOSED_B = 4,
    BLAS_EPILOGUE = 7,
    BLAS_BIAS = 8,
    BLAS_EPILOGUE_NONE = 1,
    BLAS_EPILOGUE_RELU = 2,
    BLAS_EPILOGUE_BIAS = 4,
    BLAS_EPILOGUE_GELU = 32, /* its tanh form */
    BLAS_BATCHES = 5,        /* attributes of a layout: int32 */
    BLAS_BATCH_STRIDE = 6,   /* int64, elements */
    BLAS_WORKSPACE = 1,      /* attributes of a preference: uint64, bytes */
    BLAS_ALIGNMENT_A = 5,    /* uint32, bytes that the matrix is at least aligned to; else 256 */
    BLAS_ALIGNMENT_B = 6,
    BLAS_ALIGNMENT_C = 7,
    BLAS_ALIGNMENT_D = 8,
};

typedef struct CudaBlas {
#define BLAS(name, symbol, arguments) int(*name) arguments;
#include "cuda_blas.def"
#undef BLAS
} CudaBlas;

/* The library, loaded if it is not yet; NULL with ERR_ENV where there is none. */
const CudaBlas *cuda_blas(Err *err);
/* The device's handle. NULL with the error set. The device's context is the thread's. */
void *cuda_blas_handle(CudaDevice *device, const CudaBlas *blas, Err *err);
/* True for 0; else false with the error set. */
bool cuda_blas_ok(int status, Err *err, const char *what);

#endif
