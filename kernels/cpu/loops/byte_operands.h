// SPDX-License-Identifier: Apache-2.0
/* Operands of kernels that compute with quantized values: zero points and scales. */
#ifndef DEMI_BYTE_OPERANDS_H
#define DEMI_BYTE_OPERANDS_H

#include "kernel.h"

/* The zero point that operand i is, of x's type; 0 where it is absent. False with the error set. */
bool byte_zero(KernelCall *call, uint32_t i, Dtype dtype, int32_t *zero);

/* Operand i, a float; `number` stays as it is where it is absent. False with the error set. */
bool byte_number(KernelCall *call, uint32_t i, float *number);

#endif
