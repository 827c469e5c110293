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

#endif
