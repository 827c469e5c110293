// SPDX-License-Identifier: Apache-2.0
/* Where the scale of an element is, in QuantizeLinear and DequantizeLinear: for kernels of all devices. */
#ifndef DEMI_SCALE_MAP_H
#define DEMI_SCALE_MAP_H

#include "kernel.h"

/* Element (o, a, i) has scale (o, a / block, i) of `axis_scales` along the axis; where not blocked,
 * outer and inner places share it. */
typedef struct ScaleMap {
    uint64_t outer, axis, inner, block, axis_scales;
    bool blocked;
} ScaleMap;

/* By the call's QuantizeAttrs; `zero` may be NULL. False with the error set where they do not fit. */
bool scale_map_make(KernelCall *call, const KernelTensor *x, const KernelTensor *scale,
                    const KernelTensor *zero, ScaleMap *map);

#endif
