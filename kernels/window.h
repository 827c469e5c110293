// SPDX-License-Identifier: Apache-2.0
/* Windows that slide over spatial axes: the geometry that convolutions and pools share.
 *
 * Along an axis, output o sees input position o * stride + t * dilation - begin for its taps t;
 * those outside of [0, in) are padding. With the sums that window_make has checked, no such
 * position overflows. The formulas are those of the operators' definitions, as in shape_window.c.
 */
#ifndef DEMI_WINDOW_H
#define DEMI_WINDOW_H

#include "kernel.h"
#include "op_attrs.h"

typedef struct WindowAxis {
    int64_t in, out, taps, stride, dilation, begin, end; /* begin, end: padding */
} WindowAxis;

typedef struct Window {
    uint32_t rank;          /* spatial axes */
    const WindowAxis *axes; /* [rank] */
    uint64_t in, out, taps; /* products over the axes */
    uint64_t groups;
    uint32_t channel_axis; /* of data: 1, or the last */
} Window;

/* The geometry of x (N, C, spatial …) and y (N, M, spatial …), or with attrs->channels_last of
 * (N, spatial …, C) and (N, spatial …, M). Taps are the spatial dims of
 * `weights`, or kernel_shape where it is NULL. False with the error set where they do not fit
 * together. In scratch. */
bool window_make(KernelCall *call, const WindowAttrs *attrs, const KernelTensor *weights,
                 Window *window);

/* The geometry of a transposed convolution: that of the convolution whose inverse it is, so that `in`
 * is of the result. x (N, C, spatial …), weights (C, M / groups, spatial …), or channels-last as above.
 * Given pads count, or for output_shape and SAME_* the total of stride * (in - 1) + output_padding +
 * (taps - 1) * dilation + 1 - out, of which the half rounded down is at the beginning for SAME_UPPER
 * and at the end otherwise; less than nothing means that the result's end stays empty. */
bool window_make_transposed(KernelCall *call, const WindowAttrs *attrs, Window *window);

/* Taps [*first, *last) of output o are those inside the input, or inside input and padding. */
void window_taps(const WindowAxis *axis, int64_t o, bool padded, int64_t *first, int64_t *last);

/* Steps the last index of `index` [rank] within the sizes `axes[i].out` (or .taps); false after the
 * last one. */
bool window_next_output(const Window *window, int64_t *index);
bool window_next_tap(const Window *window, int64_t *index);

/* The outputs that see one tap, row by row along the last axis. */
typedef struct WindowOverlap {
    int64_t *first, *last, *index; /* [rank], the caller's */
    int64_t count, step;           /* of a row: outputs, and input elements between them */
    int64_t in, out; /* where the row at hand begins in the input and the output plane */
} WindowOverlap;

/* False where no output sees the tap; else the first row is at hand. */
bool window_overlap(const Window *window, const int64_t *tap, WindowOverlap *overlap);
/* The next row; false after the last one. */
bool window_overlap_next(const Window *window, const int64_t *tap, WindowOverlap *overlap);

/* Checks a convolution: x of groups * C channels, weights (M, C, …), M a multiple of groups, y of as
 * many samples and M channels, bias (M) if present. */
bool window_check_conv(KernelCall *call, const Window *window, const KernelTensor *x,
                       const KernelTensor *weights, const KernelTensor *bias);

#endif
