// SPDX-License-Identifier: Apache-2.0
/* Operators that keep, drop, reverse or mark elements, of any dtype: Compress, NonZero,
 * ReverseSequence, Trilu, OneHot. Elements are looked at as so many bytes; what is zero is the
 * dtype's to say. */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_index.h"
#include "kernel_strided.h"

/* ---- Compress -------------------------------------------------------------------------------- */

bool kernel_compress(KernelCall *call) {
    const SelectAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *condition = &call->inputs[1];
    bool flat = attrs->axis == ATTR_ABSENT;
    uint32_t axis = 0;
    if (!flat && !kernel_axis(call, attrs->axis, in->rank, &axis)) return false;
    uint64_t size = flat ? in->count : (uint64_t)in->dims[axis];
    if (condition->dtype != DTYPE_BOOL) return kernel_fail(call, "the condition is not a bool");
    uint64_t looked = condition->count < size ? condition->count : size, kept = 0;
    const uint8_t *keep = condition->data;
    for (uint64_t i = 0; i < looked; i++) kept += keep[i] != 0;
    int64_t *dims = arena_copy(call->scratch, in->dims, in->rank * sizeof *dims), flat_dim;
    flat_dim = (int64_t)kept;
    if (!flat) dims[axis] = (int64_t)kept;
    if (!kernel_output(call, 0, flat ? 1 : in->rank, flat ? &flat_dim : dims)) return false;
    KernelTensor *out = &call->outputs[0];
    uint64_t outer = flat ? 1 : kernel_span(in, 0, axis);
    uint64_t block =
        (flat ? 1 : kernel_span(in, axis + 1, in->rank)) * kernel_element_size(in->dtype);
    if (out->count == 0) return true;
    char *to = out->data;
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t i = 0; i < looked; i++) {
            if (!keep[i]) continue;
            memcpy(to, (const char *)in->data + (o * size + i) * block, block);
            to += block;
        }
    return true;
}

/* ---- NonZero --------------------------------------------------------------------------------- */

static bool bytes_set(const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (bytes[i]) return true;
    return false;
}

/* Zeros of both signs are zero, NaN is not; of strings the empty one is. */
static bool is_set(const KernelTensor *tensor, uint64_t i) {
    size_t size = kernel_element_size(tensor->dtype);
    const char *element = (const char *)tensor->data + i * size;
    switch (tensor->dtype) {
    case DTYPE_STRING: return ((const KernelString *)(const void *)element)->size != 0;
    case DTYPE_COMPLEX64: {
        const float *parts = (const void *)element;
        return parts[0] != 0 || parts[1] != 0;
    }
    case DTYPE_COMPLEX128: {
        const double *parts = (const void *)element;
        return parts[0] != 0 || parts[1] != 0;
    }
    default: break;
    }
    if (dtype_is_float(tensor->dtype)) return kernel_real(tensor, i) != 0;
    return bytes_set((const unsigned char *)element, size);
}

bool kernel_non_zero(KernelCall *call) {
    const KernelTensor *in = &call->inputs[0];
    uint64_t count = 0, at = 0;
    bool *set = ARENA_ARRAY(call->scratch, bool, in->count);
    for (uint64_t i = 0; i < in->count; i++) count += set[i] = is_set(in, i);
    const int64_t dims[] = {in->rank, (int64_t)count};
    if (!kernel_output(call, 0, 2, dims)) return false;
    KernelTensor *out = &call->outputs[0];
    if (out->dtype != DTYPE_INT64) return kernel_fail(call, "the output is not int64");
    int64_t *to = out->data, *place = ARENA_ARRAY(call->scratch, int64_t, in->rank);
    for (uint64_t i = 0; i < in->count; i++) {
        for (uint32_t k = 0; set[i] && k < in->rank; k++) to[k * count + at] = place[k];
        at += set[i];
        index_advance(in->rank, in->dims, place);
    }
    return true;
}

/* ---- ReverseSequence ------------------------------------------------------------------------- */

bool kernel_reverse_sequence(KernelCall *call) {
    const ReverseAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *lengths = &call->inputs[1];
    KernelTensor *out = &call->outputs[0];
    uint32_t batch, time;
    if (!kernel_axis(call, attrs->batch_axis, in->rank, &batch) ||
        !kernel_axis(call, attrs->time_axis, in->rank, &time))
        return false;
    if (batch > 1 || time > 1 || batch == time)
        return kernel_fail(call, "batch and time must be the first two axes");
    if (lengths->count != (uint64_t)in->dims[batch])
        return kernel_fail(call, "%llu lengths for a batch of %lld",
                           (unsigned long long)lengths->count, (long long)in->dims[batch]);
    const int64_t *length = kernel_ints(call, lengths);
    if (!length) return false;
    uint64_t block = kernel_span(in, 2, in->rank) * kernel_element_size(in->dtype);
    uint64_t second = (uint64_t)in->dims[1];
    for (uint64_t b = 0; b < lengths->count; b++) {
        int64_t size = in->dims[time];
        if (length[b] < 0 || length[b] > size)
            return kernel_fail(call, "length %lld of %lld steps", (long long)length[b],
                               (long long)size);
        for (int64_t t = 0; t < size && block; t++) {
            uint64_t from = (uint64_t)(t < length[b] ? length[b] - 1 - t : t), to = (uint64_t)t;
            uint64_t source = batch == 0 ? b * second + from : from * second + b;
            uint64_t target = batch == 0 ? b * second + to : to * second + b;
            memcpy((char *)out->data + target * block, (const char *)in->data + source * block,
                   block);
        }
    }
    return true;
}

/* ---- Trilu ----------------------------------------------------------------------------------- */

bool kernel_trilu(KernelCall *call) {
    const TriluAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *k = kernel_input(call, 1);
    KernelTensor *out = &call->outputs[0];
    if (in->rank < 2) return kernel_fail(call, "rank %u has no matrices", in->rank);
    int64_t rows = in->dims[in->rank - 2], columns = in->dims[in->rank - 1], diagonal = 0;
    if (k) {
        const int64_t *items = kernel_ints(call, k);
        if (!items) return false;
        if (k->count != 1) return kernel_fail(call, "k is not a scalar");
        diagonal = items[0] < -rows ? -rows : items[0] > columns ? columns : items[0];
    }
    uint64_t size = kernel_element_size(in->dtype), width = (uint64_t)columns;
    strided_fill(out, NULL);
    if (out->count == 0) return true;
    for (uint64_t row = 0; row < out->count / width; row++) {
        int64_t cut = (int64_t)(row % (uint64_t)rows) + diagonal + (attrs->upper ? 0 : 1);
        uint64_t at = cut < 0 ? 0 : cut > columns ? width : (uint64_t)cut; /* the first above */
        uint64_t first = row * width + (attrs->upper ? at : 0);
        uint64_t count = attrs->upper ? width - at : at;
        memcpy((char *)out->data + first * size, (const char *)in->data + first * size,
               count * size);
    }
    return true;
}

/* ---- OneHot ---------------------------------------------------------------------------------- */

static bool one_hot_depth(KernelCall *call, int64_t *depth) {
    const KernelTensor *tensor = &call->inputs[1];
    bool integer = dtype_is_integer(tensor->dtype) && dtype_bits(tensor->dtype) >= 8;
    if (tensor->count != 1) return kernel_fail(call, "depth is not a scalar");
    if (integer) {
        const int64_t *items = kernel_ints(call, tensor);
        if (!items) return false;
        *depth = items[0];
    } else {
        double value = kernel_real(tensor, 0);
        *depth = value >= 0 && value < 0x1p62 ? (int64_t)value : -1;
    }
    return *depth >= 0 || kernel_fail(call, "depth is negative or not a number");
}

/* The place of an index along the new axis; -1 where it is out of range, which marks nothing. */
static int64_t one_hot_place(const KernelTensor *indices, const int64_t *items, uint64_t i,
                             int64_t depth) {
    double value = items ? 0 : kernel_real(indices, i);
    int64_t index = items ? items[i] : value > -0x1p62 && value < 0x1p62 ? (int64_t)value : depth;
    if (index < -depth || index >= depth) return -1;
    return index < 0 ? index + depth : index;
}

bool kernel_one_hot(KernelCall *call) {
    const SelectAttrs *attrs = call->attrs;
    const KernelTensor *indices = &call->inputs[0], *values = &call->inputs[2];
    uint32_t axis, rank = indices->rank + 1;
    int64_t depth = 0;
    if (!one_hot_depth(call, &depth) || !kernel_axis(call, attrs->axis, rank, &axis)) return false;
    if (values->count != 2) return kernel_fail(call, "the number of values is not two");
    int64_t *dims = ARENA_ARRAY(call->scratch, int64_t, rank);
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i == axis ? depth : indices->dims[i < axis ? i : i - 1];
    if (!kernel_output(call, 0, rank, dims)) return false;
    KernelTensor *out = &call->outputs[0];
    if (out->dtype != values->dtype) return kernel_fail(call, "the values have a different type");
    const int64_t *items = NULL;
    if (dtype_is_integer(indices->dtype) && !(items = kernel_ints(call, indices))) return false;
    size_t size = kernel_element_size(out->dtype);
    uint64_t inner = kernel_span(indices, axis, indices->rank);
    strided_fill(out, values->data);
    for (uint64_t i = 0; out->count && i < indices->count; i++) {
        int64_t place = one_hot_place(indices, items, i, depth);
        if (place < 0) continue;
        uint64_t at = (i / inner * (uint64_t)depth + (uint64_t)place) * inner + i % inner;
        memcpy((char *)out->data + at * size, (const char *)values->data + size, size);
    }
    return true;
}
