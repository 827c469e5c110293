// SPDX-License-Identifier: Apache-2.0
/* ConvInteger and QLinearConv with the sums as a parameter: what they check and store is the same
 * whatever computes the sums, and so are the results, since sums are exact. */
#ifndef DEMI_CONV_QUANTIZED_H
#define DEMI_CONV_QUANTIZED_H

#include "kernel.h"

/* Operand numbers, which differ between the two. */
typedef struct ConvBytes {
    uint32_t w, x_zero, w_zero;
} ConvBytes;
extern const ConvBytes conv_integer_operands, qlinear_conv_operands;

/* sums[images, filters, outputs] of the call's operands less their zero points, plus bias[filters]
 * (NULL: none), modulo 2^32. False with the error set. */
typedef bool ConvSums(KernelCall *call, const ConvBytes *at, const int32_t *bias, int32_t *sums);

bool conv_integer_by(KernelCall *call, ConvSums *sums);
bool qlinear_conv_by(KernelCall *call, ConvSums *sums);

#endif
