// SPDX-License-Identifier: Apache-2.0
/* From float sums of oneDNN's to a fused step's result: bias, residual, activation, one rounding to
 * the result's type, and from channels last to rows, in one pass over memory. */
#ifndef DEMI_ONEDNN_RESULT_H
#define DEMI_ONEDNN_RESULT_H

#include "epilogue.h"

typedef struct OnednnResult {
    const float *sums;  /* [images, rows, columns], or [images, columns, rows] */
    bool channels_last; /* the latter: a convolution's, whose rows are filters */
    uint64_t images, rows, columns;
    Epilogue epilogue; /* its bias is for rows of an image or columns; without a residual */
    const KernelTensor *residual; /* NULL: none; of y's shape, a float type of 16 or 32 bits */
    KernelTensor *y;              /* [images, rows, columns], such a type */
} OnednnResult;

/* `sums` and y may be one memory, where y is float and channels are not last. */
void onednn_store(KernelCall *call, const OnednnResult *result);

/* A bias of such a type in float: its own memory, or in scratch. NULL stays NULL. */
const float *onednn_bias(KernelCall *call, const KernelTensor *bias);

#endif
