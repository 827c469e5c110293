// SPDX-License-Identifier: Apache-2.0
/* Scales of tensors, axes and blocks; see scale_map.h. */
#include "scale_map.h"

#include "op_attrs.h"

static bool same_dims(const KernelTensor *a, const KernelTensor *b) {
    if (a->rank != b->rank) return a->count == 1 && b->count == 1;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

static bool map_blocks(KernelCall *call, const KernelTensor *x, const KernelTensor *scale,
                       uint32_t axis, ScaleMap *map) {
    const QuantizeAttrs *attrs = call->attrs;
    bool fits = scale->rank == x->rank && attrs->block > 0;
    for (uint32_t i = 0; fits && i < x->rank; i++) fits = i == axis || scale->dims[i] == x->dims[i];
    uint64_t dim = (uint64_t)x->dims[axis], block = (uint64_t)attrs->block;
    if (!fits || (uint64_t)scale->dims[axis] != dim / block + (dim % block != 0))
        return kernel_fail(call, "scales of rank %u do not fit blocks of %lld along axis %u",
                           scale->rank, (long long)attrs->block, axis);
    *map = (ScaleMap){kernel_span(x, 0, axis),     dim, kernel_span(x, axis + 1, x->rank), block,
                      (uint64_t)scale->dims[axis], true};
    return true;
}

bool scale_map_make(KernelCall *call, const KernelTensor *x, const KernelTensor *scale,
                    const KernelTensor *zero, ScaleMap *map) {
    const QuantizeAttrs *attrs = call->attrs;
    uint32_t axis;
    if (zero && !same_dims(scale, zero))
        return kernel_fail(call, "the shapes of scale and zero point differ");
    if (scale->count == 1 && !attrs->block) { /* one for all */
        *map = (ScaleMap){1, 1, x->count, 1, 1, false};
        return true;
    }
    if (!kernel_axis(call, attrs->axis, x->rank, &axis)) return false;
    if (attrs->block) return map_blocks(call, x, scale, axis, map);
    if (scale->rank != 1 || scale->dims[0] != x->dims[axis])
        return kernel_fail(call, "%llu scales for %lld places along axis %u",
                           (unsigned long long)scale->count, (long long)x->dims[axis], axis);
    uint64_t dim = (uint64_t)x->dims[axis];
    *map =
        (ScaleMap){kernel_span(x, 0, axis), dim, kernel_span(x, axis + 1, x->rank), 1, dim, false};
    return true;
}
