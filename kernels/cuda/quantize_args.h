// SPDX-License-Identifier: Apache-2.0
/* What kernels of quantize.cu take; C and C++. */
#ifndef DEMI_QUANTIZE_ARGS_H
#define DEMI_QUANTIZE_ARGS_H

#include <stdint.h>

/* y of x, each element with a scale and a zero point: those of its place along an axis, or of its block,
 * as scale_map.h has it. Types are dtypes. */
typedef struct QuantizeArgs {
    const void *x, *scale, *zero; /* zero may be NULL */
    void *y;
    int64_t count, axis, inner, block, axis_scales;
    int32_t blocked, x_type, scale_type, y_type, precision;
} QuantizeArgs;

#endif
