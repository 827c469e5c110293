// SPDX-License-Identifier: Apache-2.0
/* What the attributes and operands of Pad say, for kernels of any backend. */
#ifndef DEMI_PAD_AXES_H
#define DEMI_PAD_AXES_H

#include "kernel.h"

/* One axis: elements before the kept ones in the input, in the output, and how many are kept. */
typedef struct PadAxis {
    int64_t crop, before, kept;
} PadAxis;

/* The pads by axis, from attribute or inputs, in scratch memory. NULL with the error set. */
PadAxis *pad_axes_read(KernelCall *call);

/* What surrounds the middle in mode constant; NULL means zero. False with the error set. */
bool pad_value_read(KernelCall *call, const void **value);

/* Which of `kept` elements stands at `at`, counted from the first of them; by a PadMode that
 * repeats. */
int64_t pad_repeated(int64_t mode, int64_t at, int64_t kept);

#endif
