// SPDX-License-Identifier: Apache-2.0
/* Convolutions computed window by window rather than as products of matrices: those of many small
 * groups (depthwise ones above all), and those in double; and what all kinds are given. */
#ifndef DEMI_CONV_DIRECT_H
#define DEMI_CONV_DIRECT_H

#include "epilogue.h"
#include "window.h"

/* Operands of a checked convolution. `bias` may be NULL; weights are [filters, channels, taps]. */
typedef struct ConvOperands {
    const Window *window;
    const void *x, *weights, *bias;
    void *y;
    uint64_t images, channels, filters; /* channels and filters of one group */
    Dtype narrow; /* of weights of 16 bits, which conv_direct does not take; else UNDEFINED */
    const Epilogue *epilogue; /* of float, or NULL: without a bias; its residual is of y's shape */
} ConvOperands;

/* Conv on call's first three operands, with that epilogue (which may be NULL, and is of float). */
bool conv_run(KernelCall *call, const Epilogue *epilogue);

/* The same of checked operands of float, in the way that suits them; weights are not narrow. False with
 * the error set. */
bool conv_floats(KernelCall *call, const ConvOperands *conv);

/* float; true where it is the better way: groups of few filters over one or two axes. */
bool conv_direct_suits(const ConvOperands *conv);
void conv_direct(KernelCall *call, const ConvOperands *conv);

/* Any number of axes, in double. */
void conv_double(KernelCall *call, const ConvOperands *conv);

#endif
