// SPDX-License-Identifier: Apache-2.0
/* Windows over channels-last data, x [images, spatial…, channels], as addresses of pixels: what
 * igemm.h and the pools are given instead of copies. */
#ifndef DEMI_CONV_LAST_H
#define DEMI_CONV_LAST_H

#include "igemm.h"
#include "window.h"

enum { CONV_LAST_RANK = 2 }; /* most spatial axes, at least 1 */

typedef struct ConvPixels {
    const Window *window;
    const char *x;    /* of the first channel that is read */
    const void *zero; /* what padding is: as much as is read of a pixel */
    uint64_t pixel;   /* bytes from one to the next */
} ConvPixels;

/* An IgemmFind: the taps of output r, which are counted through all images in order. */
void conv_pixels_find(const void *source, uint64_t first, uint32_t count, const void **to);

/* Depthwise: taps that lie side by side are those of neighboring outputs, too. False where there are no
 * kernels for such lines of axis x. */
bool conv_lines(const WindowAxis *x, IgemmLines *lines);

/* The constant bfloat16 weights (channels, 1, taps ...) of depthwise filters as floats, as
 * igemm_channels_layout has them, in memory that contexts share; NULL where that can't be. */
const void *conv_share_channels(KernelCall *call, uint32_t input, const WeightLayout *layout);

#endif
