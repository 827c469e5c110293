// SPDX-License-Identifier: Apache-2.0
/* Resampling along axes: Resize's arithmetic without its operands. Interpolation is separable, so
 * one axis after the other is resampled by a table that says for each output position which input
 * positions count how much. */
#ifndef DEMI_KERNEL_RESIZE_H
#define DEMI_KERNEL_RESIZE_H

#include "kernel.h"
#include "op_attrs.h"

typedef struct ResizeHow {
    int64_t mode, coordinates, nearest; /* of the enums above */
    bool antialias, exclude_outside;
    double cubic; /* Keys' coefficient */
} ResizeHow;

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

/* For output i, taps input elements from first[i] on, with weights from i * taps on. All within the
 * axis. outside[i]: RESIZE_TF_CROP looks beyond the input there. */
typedef struct ResizeTable {
    int64_t taps;
    int64_t *first;  /* [out] */
    double *weights; /* [out * taps] */
    bool *outside;   /* [out] */
    bool identity;   /* nothing changes along this axis */
} ResizeTable;

/* Makes an axis' table in scratch; in is at least 1. False with the error set where the scale is so
 * small that a filter would not fit the axis. */
bool resize_table(KernelCall *call, const ResizeHow *how, const ResizeAxis *axis,
                  ResizeTable *table);

#endif
