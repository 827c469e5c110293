// SPDX-License-Identifier: Apache-2.0
/* Cutting tensors along an axis and joining them again, whatever their elements are: what loops and
 * sequences are made of. */
#include <string.h>

#include "exec.h"

typedef struct Blocks {
    uint64_t outer, inner; /* blocks before the axis; bytes of one slice behind it */
} Blocks;

static Blocks blocks_of(const KernelTensor *tensor, uint32_t axis) {
    uint64_t size = kernel_element_size(tensor->dtype);
    uint32_t behind = axis < tensor->rank ? axis + 1 : tensor->rank;
    return (Blocks){kernel_span(tensor, 0, axis < tensor->rank ? axis : tensor->rank),
                    kernel_span(tensor, behind, tensor->rank) * size};
}

RtTensor *exec_range(Exec *exec, const RtTensor *from, uint32_t axis, int64_t start,
                     int64_t length) {
    const KernelTensor *in = &from->tensor;
    int64_t *dims = arena_copy(&exec->scratch, in->dims, in->rank * sizeof *dims);
    Blocks blocks = blocks_of(in, axis);
    dims[axis] = length;
    RtTensor *result = rt_tensor_new(&exec->pool, in->dtype, in->rank, dims, exec->err);
    if (!result || result->tensor.count == 0) return result;
    uint64_t chunk = blocks.inner * (uint64_t)length,
             step = blocks.inner * (uint64_t)in->dims[axis];
    for (uint64_t i = 0; i < blocks.outer; i++)
        memcpy((char *)result->tensor.data + i * chunk,
               (const char *)in->data + i * step + blocks.inner * (uint64_t)start, chunk);
    return result;
}

RtTensor *exec_take(Exec *exec, const RtTensor *from, uint32_t axis, int64_t index, bool keep) {
    RtTensor *slice = exec_range(exec, from, axis, index, 1);
    if (!slice || keep) return slice;
    uint32_t rank = slice->tensor.rank - 1;
    int64_t *dims = ARENA_ARRAY(&exec->scratch, int64_t, rank + 1);
    for (uint32_t i = 0; i < rank; i++) dims[i] = slice->tensor.dims[i < axis ? i : i + 1];
    RtTensor *view = rt_tensor_view(&exec->pool, slice, rank, dims, exec->err);
    RtValue old = {.state = RT_TENSOR, .tensor = slice};
    rt_value_clear(&old);
    return view;
}

static bool same_shape(const KernelTensor *a, const KernelTensor *b, uint32_t but) {
    if (a->rank != b->rank || a->dtype != b->dtype) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (i != but && a->dims[i] != b->dims[i]) return false;
    return true;
}

RtTensor *exec_join(Exec *exec, const LoadedStep *step, RtTensor *const *parts, uint32_t count,
                    uint32_t axis, bool fresh) {
    const KernelTensor *first = &parts[0]->tensor;
    uint32_t rank = first->rank + fresh;
    int64_t *dims = ARENA_ARRAY(&exec->scratch, int64_t, rank + 1);
    int64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        const KernelTensor *part = &parts[i]->tensor;
        if (!same_shape(first, part, fresh ? PLAN_NONE : axis)) {
            exec_fail(exec, step, "tensor %u of those to be joined has another shape", i);
            return NULL;
        }
        total += fresh ? 1 : part->dims[axis];
    }
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i == axis ? total : first->dims[fresh && i > axis ? i - 1 : i];
    RtTensor *result = rt_tensor_new(&exec->pool, first->dtype, rank, dims, exec->err);
    if (!result || result->tensor.count == 0) return result;
    Blocks blocks = blocks_of(&result->tensor, axis);
    uint64_t row = blocks.inner * (uint64_t)total, at = 0;
    for (uint32_t p = 0; p < count; p++) {
        const KernelTensor *part = &parts[p]->tensor;
        uint64_t chunk = blocks.inner * (fresh ? 1 : (uint64_t)part->dims[axis]);
        for (uint64_t i = 0; chunk && i < blocks.outer; i++)
            memcpy((char *)result->tensor.data + i * row + at, (const char *)part->data + i * chunk,
                   chunk);
        at += chunk;
    }
    return result;
}
