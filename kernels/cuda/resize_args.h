// SPDX-License-Identifier: Apache-2.0
/* What kernels of resize.cu take; C and C++. */
#ifndef DEMI_RESIZE_ARGS_H
#define DEMI_RESIZE_ARGS_H

#include <stdint.h>

enum { RESIZE_KEPT = 8, RESIZE_MOST = 3 }; /* axes that stay as they are, and that change */

/* op_attrs.h's, by the same numbers. */
enum AtMode { AT_NEAREST, AT_LINEAR, AT_CUBIC };
enum AtCoordinates {
    AT_HALF_PIXEL,
    AT_HALF_PIXEL_SYMMETRIC,
    AT_PYTORCH_HALF_PIXEL,
    AT_ALIGN_CORNERS,
    AT_ASYMMETRIC,
    AT_TF_HALF_PIXEL_FOR_NN,
    AT_TF_CROP
};
enum AtNearest { AT_ROUND_PREFER_FLOOR, AT_ROUND_PREFER_CEIL, AT_FLOOR, AT_CEIL };

typedef struct ResizeArgsAxis {
    int64_t out, stride, below; /* stride in x; below: elements of y from one index to the next */
    double scale, length, start, end; /* of ResizeAxis */
    float shrink;                     /* of filters; 1: as they are */
    int32_t in, radius;               /* radius: of the filter */
} ResizeArgsAxis;

/* y of x, all axes at once. */
typedef struct ResizeArgs {
    const void *x;
    void *y;
    int64_t count; /* of y */
    float cubic;
    float outside; /* with AT_TF_CROP: what y is beyond x */
    int32_t changed, kept, mode, coordinates, nearest, exclude_outside, divide;
    ResizeArgsAxis axes[RESIZE_MOST];
    int64_t kept_size[RESIZE_KEPT], kept_below[RESIZE_KEPT], kept_stride[RESIZE_KEPT];
} ResizeArgs;

/* GridMode and GridPadding, by the same numbers. */
enum GridFilter { AT_GRID_LINEAR, AT_GRID_NEAREST, AT_GRID_CUBIC };
enum GridBeyond { AT_GRID_ZEROS, AT_GRID_BORDER, AT_GRID_REFLECTION };
enum { GRID_SPATIAL = 3 };

/* y (batch, channels, points) of x (batch, channels, sizes), where each point of a grid (batch, points,
 * spatial) says, the last axis first. */
typedef struct GridArgs {
    const void *x, *grid;
    void *y;
    int64_t count, channels, points, area;
    int64_t sizes[GRID_SPATIAL], steps[GRID_SPATIAL]; /* the last `spatial` of them; else 1 and 0 */
    int32_t spatial, mode, padding, align;
    int32_t x_type, grid_type, y_type;
} GridArgs;

#endif
