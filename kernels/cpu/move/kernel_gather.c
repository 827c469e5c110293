// SPDX-License-Identifier: Apache-2.0
/* Gather, GatherElements, GatherND: elements or blocks picked by index, of any dtype. Every index
 * is checked against its axis before it is used; negative ones count from the end. */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_index.h"

typedef uint16_t __attribute__((may_alias)) Unit2;
typedef uint32_t __attribute__((may_alias)) Unit4;
typedef uint64_t __attribute__((may_alias)) Unit8;

/* to[i] = from[index[i]], blocks of `size` bytes */
static void pick(char *to, const char *from, const int64_t *index, uint64_t count, uint64_t size) {
#define PICK(Unit)                                                                                 \
    for (uint64_t i = 0; i < count; i++)                                                           \
    ((Unit *)(void *)to)[i] = ((const Unit *)(const void *)from)[index[i]]
    if (size == 1)
        PICK(char);
    else if (size == 2)
        PICK(Unit2);
    else if (size == 4)
        PICK(Unit4);
    else if (size == 8)
        PICK(Unit8);
    else
        for (uint64_t i = 0; i < count; i++)
            memcpy(to + i * size, from + (uint64_t)index[i] * size, size);
#undef PICK
}

bool kernel_gather(KernelCall *call) {
    const GatherAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *indices = &call->inputs[1];
    KernelTensor *out = &call->outputs[0];
    uint32_t axis;
    if (!kernel_axis(call, attrs->axis, in->rank, &axis)) return false;
    const int64_t *index = index_read(call, indices, in->dims[axis]);
    if (!index || out->count == 0) return index != NULL;
    uint64_t outer = kernel_span(in, 0, axis);
    uint64_t block = kernel_span(in, axis + 1, in->rank) * kernel_element_size(in->dtype);
    for (uint64_t i = 0; i < outer; i++)
        pick((char *)out->data + i * indices->count * block,
             (const char *)in->data + i * (uint64_t)in->dims[axis] * block, index, indices->count,
             block);
    return true;
}

/* ---- GatherElements -------------------------------------------------------------------------- */

bool kernel_gather_elements(KernelCall *call) {
    const GatherAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *indices = &call->inputs[1];
    KernelTensor *out = &call->outputs[0];
    uint32_t axis, rank = in->rank;
    size_t size = kernel_element_size(in->dtype);
    if (!kernel_axis(call, attrs->axis, rank, &axis)) return false;
    for (uint32_t i = 0; i < rank; i++)
        if (i != axis && indices->dims[i] > in->dims[i])
            return kernel_fail(call, "axis %u has %lld indices of %lld elements", i,
                               (long long)indices->dims[i], (long long)in->dims[i]);
    IndexRows rows;
    if (!index_rows_begin(call, in, indices, axis, &rows)) return false;
    for (uint64_t i = 0; i < out->count; i += rows.row) {
        index_rows_next(&rows, i);
        pick((char *)out->data + i * size, in->data, rows.places, rows.row, size);
    }
    return true;
}

/* ---- GatherND -------------------------------------------------------------------------------- */

bool kernel_gather_nd(KernelCall *call) {
    const GatherAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *indices = &call->inputs[1];
    KernelTensor *out = &call->outputs[0];
    if (attrs->batch_dims < 0 || attrs->batch_dims >= in->rank ||
        attrs->batch_dims >= indices->rank)
        return kernel_fail(call, "batch_dims is %lld", (long long)attrs->batch_dims);
    uint32_t batch = (uint32_t)attrs->batch_dims, first;
    int64_t depth = indices->dims[indices->rank - 1];
    if (depth < 1 || depth > in->rank - batch)
        return kernel_fail(call, "indices of %lld axes", (long long)depth);
    for (uint32_t i = 0; i < batch; i++)
        if (in->dims[i] != indices->dims[i])
            return kernel_fail(call, "batch axis %u differs: %lld and %lld", i,
                               (long long)in->dims[i], (long long)indices->dims[i]);
    first = batch + (uint32_t)depth;
    uint64_t block = kernel_span(in, first, in->rank);
    uint64_t tuples = kernel_span(indices, batch, indices->rank - 1);
    const int64_t *items = kernel_ints(call, indices);
    if (!items || out->count == 0) return items != NULL;
    const int64_t *steps = index_steps(call, in->rank, in->dims);
    int64_t *picks = ARENA_ARRAY(call->scratch, int64_t, out->count / block);
    int64_t slice = (int64_t)kernel_span(in, batch, in->rank);
    for (uint64_t i = 0; i < out->count / block; i++) {
        int64_t at, place = (int64_t)(i / tuples) * slice;
        for (uint32_t k = 0; k < (uint32_t)depth; k++) {
            int64_t index = items[i * (uint64_t)depth + k];
            if (!index_wrap(call, index, in->dims[batch + k], &at)) return false;
            place += at * steps[batch + k];
        }
        picks[i] = place / (int64_t)block;
    }
    pick(out->data, in->data, picks, out->count / block, block * kernel_element_size(in->dtype));
    return true;
}
