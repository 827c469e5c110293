// SPDX-License-Identifier: Apache-2.0
/* Cutting tensors along an axis and joining them again, whatever their elements are: what loops and
 * sequences are made of. */
#include <string.h>

#include "checked.h"
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

RtTensor *exec_tensor_in(Exec *exec, const KernelTensor *like, bool there) {
    if (!there) return rt_tensor_new(&exec->pool, like->dtype, like->rank, like->dims, exec->err);
    KernelTensor tensor = *like;
    uint64_t size;
    if (!checked_count(tensor.dims, tensor.rank, &tensor.count) ||
        !checked_mul(tensor.count, kernel_element_size(tensor.dtype), &size)) {
        err_set(exec->err, ERR_ENV, "a tensor is larger than the address space");
        return NULL;
    }
    Buffer *buffer = buffer_new(&exec->device.pool, size, exec->err);
    if (!buffer) return NULL;
    tensor.present = true;
    tensor.data = buffer_data(buffer);
    return rt_tensor_in(&exec->pool, &tensor, buffer, exec->err);
}

/* Bytes within one of both memories. */
static bool move(Exec *exec, bool there, void *to, const void *from, uint64_t size) {
    if (there)
        return exec->loaded->device->kind->copy(exec->device.queue, to, from, size, exec->err);
    memcpy(to, from, size);
    return true;
}

/* The tensor, or NULL where it was not filled. */
static RtTensor *finished(RtTensor *tensor, bool ok) {
    RtValue value = {.state = RT_TENSOR, .tensor = tensor};
    if (ok) return tensor;
    rt_value_clear(&value);
    return NULL;
}

RtTensor *exec_range(Exec *exec, const RtTensor *from, const SliceRange *range) {
    const KernelTensor *in = &from->tensor;
    int64_t *dims = arena_copy(&exec->scratch, in->dims, in->rank * sizeof *dims);
    Blocks blocks = blocks_of(in, range->axis);
    dims[range->axis] = range->length;
    const KernelTensor like = {.dtype = in->dtype, .rank = in->rank, .dims = dims};
    RtTensor *result = exec_tensor_in(exec, &like, range->there);
    if (!result || result->tensor.count == 0) return result;
    uint64_t chunk = blocks.inner * (uint64_t)range->length,
             step = blocks.inner * (uint64_t)in->dims[range->axis];
    bool ok = true;
    for (uint64_t i = 0; ok && i < blocks.outer; i++)
        ok = move(exec, range->there, (char *)result->tensor.data + i * chunk,
                  (const char *)in->data + i * step + blocks.inner * (uint64_t)range->start, chunk);
    return finished(result, ok);
}

RtTensor *exec_take(Exec *exec, const RtTensor *from, const SliceRange *range) {
    const SliceRange one = {range->axis, range->start, 1, range->there};
    RtTensor *slice = exec_range(exec, from, &one);
    if (!slice) return NULL;
    uint32_t rank = slice->tensor.rank - 1;
    int64_t *dims = ARENA_ARRAY(&exec->scratch, int64_t, rank + 1);
    for (uint32_t i = 0; i < rank; i++) dims[i] = slice->tensor.dims[i < range->axis ? i : i + 1];
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

RtTensor *exec_join(Exec *exec, const LoadedStep *step, const JoinParts *join) {
    const KernelTensor *first = &join->parts[0]->tensor;
    const uint32_t axis = join->axis, rank = first->rank + join->fresh;
    int64_t *dims = ARENA_ARRAY(&exec->scratch, int64_t, rank + 1);
    int64_t total = 0;
    for (uint32_t i = 0; i < join->count; i++) {
        const KernelTensor *part = &join->parts[i]->tensor;
        if (!same_shape(first, part, join->fresh ? PLAN_NONE : axis)) {
            exec_fail(exec, step, "tensor %u to be concatenated has a different shape", i);
            return NULL;
        }
        total += join->fresh ? 1 : part->dims[axis];
    }
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i == axis ? total : first->dims[join->fresh && i > axis ? i - 1 : i];
    const KernelTensor like = {.dtype = first->dtype, .rank = rank, .dims = dims};
    RtTensor *result = exec_tensor_in(exec, &like, join->there);
    if (!result || result->tensor.count == 0) return result;
    Blocks blocks = blocks_of(&result->tensor, axis);
    uint64_t row = blocks.inner * (uint64_t)total, at = 0;
    bool ok = true;
    for (uint32_t p = 0; p < join->count; p++) {
        const KernelTensor *part = &join->parts[p]->tensor;
        uint64_t chunk = blocks.inner * (join->fresh ? 1 : (uint64_t)part->dims[axis]);
        for (uint64_t i = 0; ok && chunk && i < blocks.outer; i++)
            ok = move(exec, join->there, (char *)result->tensor.data + i * row + at,
                      (const char *)part->data + i * chunk, chunk);
        at += chunk;
    }
    return finished(result, ok);
}
