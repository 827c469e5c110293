// SPDX-License-Identifier: Apache-2.0
/* Element types of tensors, for all of demi's public headers. */
#ifndef DEMI_DTYPE_H
#define DEMI_DTYPE_H

/* The numbers are those of ONNX (TensorProto.DataType). */
typedef enum DemiDtype {
    DEMI_UNDEFINED = 0,
    DEMI_FLOAT = 1,
    DEMI_UINT8 = 2,
    DEMI_INT8 = 3,
    DEMI_UINT16 = 4,
    DEMI_INT16 = 5,
    DEMI_INT32 = 6,
    DEMI_INT64 = 7,
    DEMI_STRING = 8,
    DEMI_BOOL = 9,
    DEMI_FLOAT16 = 10,
    DEMI_DOUBLE = 11,
    DEMI_UINT32 = 12,
    DEMI_UINT64 = 13,
    DEMI_COMPLEX64 = 14,
    DEMI_COMPLEX128 = 15,
    DEMI_BFLOAT16 = 16,
    DEMI_FLOAT8E4M3FN = 17,
    DEMI_FLOAT8E4M3FNUZ = 18,
    DEMI_FLOAT8E5M2 = 19,
    DEMI_FLOAT8E5M2FNUZ = 20,
    DEMI_UINT4 = 21,
    DEMI_INT4 = 22,
    DEMI_FLOAT4E2M1 = 23,
    DEMI_FLOAT8E8M0 = 24,
    DEMI_UINT2 = 25,
    DEMI_INT2 = 26,
    DEMI_FLOAT6E2M3 = 27,
    DEMI_FLOAT6E3M2 = 28
} DemiDtype;

#endif
