// SPDX-License-Identifier: Apache-2.0
/* Resampling along axes: Resize's arithmetic without its operands. Interpolation is separable, so
 * one axis after the other is resampled by a table that says for each output position which input
 * positions count how much. */
#ifndef DEMI_KERNEL_RESIZE_H
#define DEMI_KERNEL_RESIZE_H

#include "resize_axes.h"

typedef struct ResizeHow {
    int64_t mode, coordinates, nearest; /* of the enums above */
    bool antialias, exclude_outside;
    double cubic; /* Keys' coefficient */
} ResizeHow;

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
