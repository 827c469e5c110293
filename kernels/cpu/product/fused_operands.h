// SPDX-License-Identifier: Apache-2.0
/* Attributes of demi.fused's Conv and MatMul, which all rows of theirs share. */
#ifndef DEMI_FUSED_OPERANDS_H
#define DEMI_FUSED_OPERANDS_H

#include "epilogue.h"
#include "window.h"

typedef struct ActivationChoice {
    int64_t activation; /* an Activation, -1 for none of them */
    AttrFloats params;
} ActivationChoice;

typedef struct FusedConvAttrs {
    WindowAttrs w; /* first: it is what convolutions see */
    ActivationChoice act;
} FusedConvAttrs;

typedef struct FusedMatmulAttrs {
    int64_t trans_a, trans_b;
    float alpha;
    ActivationChoice act;
} FusedMatmulAttrs;

/* Sets the epilogue's activation. False with the error set. */
bool fused_read_activation(KernelCall *call, const ActivationChoice *choice, Epilogue *epilogue);

/* True where Z, if it is there, has Y's shape. False with the error set. */
bool fused_check_residual(KernelCall *call);

#endif
