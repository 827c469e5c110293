// SPDX-License-Identifier: Apache-2.0
/* What kernels of window.cu take; C and C++. */
#ifndef DEMI_WINDOW_ARGS_H
#define DEMI_WINDOW_ARGS_H

#include <stdint.h>

enum { WINDOW_AXES = 3 }; /* spatial; those that are missing have size 1 */

enum PoolOp { POOL_MAX, POOL_MEAN, POOL_MEAN_PADDED };

/* A window that slides over x; y = act(conv + bias + z), or a pool. Strides are in elements. */
typedef struct WindowArgs {
    const void *x, *w, *bias, *z; /* bias and z may be NULL */
    void *y;
    uint32_t count; /* elements of y */
    int64_t x_image, x_channel, x_axis[WINDOW_AXES];
    int64_t y_image, y_channel, y_axis[WINDOW_AXES];
    int64_t w_filter, w_channel, w_axis[WINDOW_AXES];
    int32_t in[WINDOW_AXES], out[WINDOW_AXES], taps[WINDOW_AXES];
    int32_t stride[WINDOW_AXES], dilation[WINDOW_AXES], begin[WINDOW_AXES], end[WINDOW_AXES];
    int32_t images, filters, channels, group_filters; /* channels: of a group */
    int32_t channels_last; /* elements of y go channel by channel, else pixel by pixel */
    int32_t bias_type, z_type, op, pool;
    float p, q;
} WindowArgs;

#endif
