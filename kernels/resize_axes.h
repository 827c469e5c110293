// SPDX-License-Identifier: Apache-2.0
/* Which axes a Resize or Upsample makes how large, by its attributes and operands: for kernels of all
 * devices. */
#ifndef DEMI_RESIZE_AXES_H
#define DEMI_RESIZE_AXES_H

#include "kernel.h"
#include "op_attrs.h"

/* One axis. The output's size is not the scaled one where that is not whole. */
typedef struct ResizeAxis {
    uint32_t axis;
    int64_t in, out;
    double scale, length; /* out over in; in times scale */
    double start, end;    /* RESIZE_TF_CROP: the region, in [0, 1] of the axis where it is inside */
} ResizeAxis;

typedef struct ResizeAxes {
    uint32_t count;
    ResizeAxis *items;
} ResizeAxes;

/* The axes of a call of Resize, in scratch: as its attributes (ResizeAttrs) and operands 2 and 3,
 * scales and sizes, have them; but no region. False with the error set. */
bool resize_axes_find(KernelCall *call, ResizeAxes *axes);
/* The same of Upsample and Resize-10, whose scales are operand 1 or an attribute. */
bool resize_axes_upsample(KernelCall *call, ResizeAxes *axes);

/* Sets the region that operand 1 has. */
bool resize_axes_region(KernelCall *call, ResizeAxes axes);

/* The parts of these: the axes that the attributes name, not scaled, and scales for them. */
bool resize_axes_list(KernelCall *call, ResizeAxes *axes);
bool resize_axes_scale(KernelCall *call, ResizeAxes axes, const KernelTensor *scales);

#endif
