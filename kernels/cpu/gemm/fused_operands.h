// SPDX-License-Identifier: Apache-2.0
/* What all rows of demi.fused's Conv and MatMul make of their attributes and of Z. */
#ifndef DEMI_FUSED_OPERANDS_H
#define DEMI_FUSED_OPERANDS_H

#include "epilogue.h"
#include "window.h"

/* Sets the epilogue's activation. False with the error set. */
bool fused_read_activation(KernelCall *call, const ActivationChoice *choice, Epilogue *epilogue);

/* True where Z, if it is there, has Y's shape. False with the error set. */
bool fused_check_residual(KernelCall *call);

/* Of MatMul: sets the epilogue's bias to operand 2, if it is there: one element a column of y, or one
 * for all. False with the error set. */
bool fused_read_bias(KernelCall *call, Epilogue *epilogue);

/* The elements of an operand of float or bfloat16, such as a bias, as floats of the call's; NULL of
 * none. */
const float *fused_floats(KernelCall *call, const KernelTensor *operand);

#endif
