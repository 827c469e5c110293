// SPDX-License-Identifier: Apache-2.0
/* Scatter, ScatterElements, ScatterND, TensorScatter: a copy of the data with some elements
 * replaced by updates, or reduced with them one after the other in row-major order, so that the
 * result does not depend on threads. Replacing moves bytes of any dtype; reductions know numbers.
 */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_index.h"

/* ---- reductions ------------------------------------------------------------------------------ */

/* Integers wrap, so they are added and multiplied as the widest unsigned number. */
#define REDUCE(name, Type, Wide, absent)                                                           \
    static void reduce_##name(Type *slot, const Type *update, uint64_t count,                      \
                              ScatterReduction how) {                                              \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            Type a = slot[i], b = update[i];                                                       \
            bool less = b < a || absent(b);                                                        \
            bool more = b > a || absent(b);                                                        \
            if (how == REDUCE_ADD)                                                                 \
                slot[i] = (Type)((Wide)a + (Wide)b);                                               \
            else if (how == REDUCE_MUL)                                                            \
                slot[i] = (Type)((Wide)a * (Wide)b);                                               \
            else if (how == REDUCE_MIN ? less : more)                                              \
                slot[i] = b;                                                                       \
        }                                                                                          \
    }
#define NEVER(x)  false
#define IS_NAN(x) ((x) != (x))
REDUCE(float, float, float, IS_NAN)
REDUCE(double, double, double, IS_NAN)
REDUCE(int8, int8_t, uint64_t, NEVER)
REDUCE(int16, int16_t, uint64_t, NEVER)
REDUCE(int32, int32_t, uint64_t, NEVER)
REDUCE(int64, int64_t, uint64_t, NEVER)
REDUCE(uint8, uint8_t, uint64_t, NEVER)
REDUCE(uint16, uint16_t, uint64_t, NEVER)
REDUCE(uint32, uint32_t, uint64_t, NEVER)
REDUCE(uint64, uint64_t, uint64_t, NEVER)

/* "or" for add and max, "and" for the others */
static void reduce_bool(uint8_t *slot, const uint8_t *update, uint64_t count,
                        ScatterReduction how) {
    bool any = how == REDUCE_ADD || how == REDUCE_MAX;
    for (uint64_t i = 0; i < count; i++)
        slot[i] = any ? slot[i] || update[i] : slot[i] && update[i];
}

/* Narrow floats and integers: computed exactly as doubles and rounded once. */
static void reduce_narrow(KernelTensor *out, uint64_t at, const KernelTensor *updates,
                          uint64_t from, ScatterReduction how) {
    size_t size = kernel_element_size(out->dtype);
    double a = kernel_real(out, at), b = kernel_real(updates, from), result[1];
    if (how == REDUCE_ADD || how == REDUCE_MUL) {
        *result = how == REDUCE_ADD ? a + b : a * b;
    } else {
        bool update = b != b || (how == REDUCE_MIN ? b < a : b > a);
        *result = update ? b : a;
    }
    uint64_t bits = 0;
    dtype_from_double(out->dtype, *result, &bits);
    memcpy((char *)out->data + at * size, &bits, size); /* at most two bytes, little-endian */
}

/* Combines `count` elements of the updates from `from` on with those of the output from `at` on. */
static void combine(KernelTensor *out, uint64_t at, const KernelTensor *updates, uint64_t from,
                    uint64_t count, ScatterReduction how) {
    size_t size = kernel_element_size(out->dtype);
    void *slot = (char *)out->data + at * size;
    const void *update = (const char *)updates->data + from * size;
    if (how == REDUCE_NONE) {
        memcpy(slot, update, count * size);
        return;
    }
    switch (out->dtype) {
    case DTYPE_FLOAT: reduce_float(slot, update, count, how); return;
    case DTYPE_DOUBLE: reduce_double(slot, update, count, how); return;
    case DTYPE_INT8: reduce_int8(slot, update, count, how); return;
    case DTYPE_INT16: reduce_int16(slot, update, count, how); return;
    case DTYPE_INT32: reduce_int32(slot, update, count, how); return;
    case DTYPE_INT64: reduce_int64(slot, update, count, how); return;
    case DTYPE_UINT8: reduce_uint8(slot, update, count, how); return;
    case DTYPE_UINT16: reduce_uint16(slot, update, count, how); return;
    case DTYPE_UINT32: reduce_uint32(slot, update, count, how); return;
    case DTYPE_UINT64: reduce_uint64(slot, update, count, how); return;
    case DTYPE_BOOL: reduce_bool(slot, update, count, how); return;
    default:
        for (uint64_t i = 0; i < count; i++) reduce_narrow(out, at + i, updates, from + i, how);
    }
}

typedef uint32_t __attribute__((may_alias)) Unit4;
typedef uint64_t __attribute__((may_alias)) Unit8;

/* Updates range[0] and the range[1] - 1 after it go to their places. */
static void put_row(KernelTensor *out, const int64_t *places, const KernelTensor *updates,
                    const uint64_t range[2], ScatterReduction how) {
    size_t size = kernel_element_size(out->dtype);
    uint64_t first = range[0], count = range[1];
    if (how == REDUCE_NONE && size == 4)
        for (uint64_t i = 0; i < count; i++)
            ((Unit4 *)out->data)[places[i]] = ((const Unit4 *)updates->data)[first + i];
    else if (how == REDUCE_NONE && size == 8)
        for (uint64_t i = 0; i < count; i++)
            ((Unit8 *)out->data)[places[i]] = ((const Unit8 *)updates->data)[first + i];
    else
        for (uint64_t i = 0; i < count; i++)
            combine(out, (uint64_t)places[i], updates, first + i, 1, how);
}

/* Checks what is common to all of them and copies the data. */
static bool begin(KernelCall *call, ScatterReduction how) {
    const KernelTensor *in = &call->inputs[0], *updates = kernel_input(call, 2);
    KernelTensor *out = &call->outputs[0];
    if (how < 0) return kernel_fail(call, "the reduction is unknown");
    if (!updates || updates->dtype != in->dtype)
        return kernel_fail(call, "the types of the updates and the data differ");
    bool numbers =
        in->dtype != DTYPE_STRING && in->dtype != DTYPE_COMPLEX64 && in->dtype != DTYPE_COMPLEX128;
    if (how != REDUCE_NONE && !numbers)
        return kernel_fail(call, "cannot reduce %s", dtype_name(in->dtype));
    if (in->count) memcpy(out->data, in->data, in->count * kernel_element_size(in->dtype));
    return true;
}

/* ---- operators ------------------------------------------------------------------------------- */

bool kernel_scatter_elements(KernelCall *call) {
    const ScatterAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *indices = &call->inputs[1];
    const KernelTensor *updates = kernel_input(call, 2);
    KernelTensor *out = &call->outputs[0];
    ScatterReduction how = (ScatterReduction)attrs->reduction;
    uint32_t axis, rank = in->rank;
    if (!begin(call, how) || !kernel_axis(call, attrs->axis, rank, &axis)) return false;
    if (indices->rank != rank || updates->rank != rank)
        return kernel_fail(call, "the ranks of data, indices, and updates differ");
    for (uint32_t i = 0; i < rank; i++)
        if (indices->dims[i] != updates->dims[i] || (i != axis && indices->dims[i] > in->dims[i]))
            return kernel_fail(call, "axis %u: %lld elements, %lld indices, %lld updates", i,
                               (long long)in->dims[i], (long long)indices->dims[i],
                               (long long)updates->dims[i]);
    IndexRows rows;
    if (!index_rows_begin(call, in, indices, axis, &rows)) return false;
    for (uint64_t i = 0; i < indices->count; i += rows.row) {
        index_rows_next(&rows, i);
        put_row(out, rows.places, updates, (const uint64_t[]){i, rows.row}, how);
    }
    return true;
}

bool kernel_scatter_nd(KernelCall *call) {
    const ScatterAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *indices = &call->inputs[1];
    const KernelTensor *updates = kernel_input(call, 2);
    KernelTensor *out = &call->outputs[0];
    ScatterReduction how = (ScatterReduction)attrs->reduction;
    if (!begin(call, how)) return false;
    if (indices->rank == 0) return kernel_fail(call, "the indices are a scalar");
    int64_t depth = indices->dims[indices->rank - 1];
    if (depth < 0 || depth > in->rank)
        return kernel_fail(call, "indices of %lld axes for rank %u", (long long)depth, in->rank);
    uint64_t block = kernel_span(in, (uint32_t)depth, in->rank);
    uint64_t tuples = kernel_span(indices, 0, indices->rank - 1);
    uint64_t needed;
    if (__builtin_mul_overflow(tuples, block, &needed) || needed != updates->count)
        return kernel_fail(
            call, "%llu updates of %llu elements are required, but there are %llu elements",
            (unsigned long long)tuples, (unsigned long long)block,
            (unsigned long long)updates->count);
    const int64_t *items = kernel_ints(call, indices);
    const int64_t *steps = index_steps(call, in->rank, in->dims);
    if (!items || updates->count == 0) return items != NULL;
    for (uint64_t i = 0; i < tuples; i++) {
        int64_t at, place = 0;
        for (uint32_t k = 0; k < (uint32_t)depth; k++) {
            if (!index_wrap(call, items[i * (uint64_t)depth + k], in->dims[k], &at)) return false;
            place += at * steps[k];
        }
        combine(out, (uint64_t)place, updates, i * block, block, how);
    }
    return true;
}

/* ---- TensorScatter --------------------------------------------------------------------------- */

/* The updates' dims are the cache's but along the axis; every batch has its own start. */
static bool cache_check(KernelCall *call, uint32_t axis, const KernelTensor *starts) {
    const KernelTensor *in = &call->inputs[0], *update = &call->inputs[1];
    if (axis == 0) return kernel_fail(call, "the axis must not be the batch axis");
    if (update->rank != in->rank || update->dtype != in->dtype)
        return kernel_fail(call, "the rank or type of the update and the cache differ");
    for (uint32_t i = 0; i < in->rank; i++)
        if (i == axis ? update->dims[i] > in->dims[i] : update->dims[i] != in->dims[i])
            return kernel_fail(call, "axis %u: %lld elements, updates of %lld", i,
                               (long long)in->dims[i], (long long)update->dims[i]);
    return !starts || starts->count == (uint64_t)in->dims[0] ||
           kernel_fail(call, "%llu write indices for a batch of %lld",
                       (unsigned long long)starts->count, (long long)in->dims[0]);
}

bool kernel_tensor_scatter(KernelCall *call) {
    const CacheAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *update = &call->inputs[1];
    const KernelTensor *write = kernel_input(call, 2);
    KernelTensor *out = &call->outputs[0];
    uint32_t axis;
    if (attrs->mode < 0) return kernel_fail(call, "the mode is unknown");
    if (!kernel_axis(call, attrs->axis, in->rank, &axis) || !cache_check(call, axis, write))
        return false;
    const int64_t *starts = write ? kernel_ints(call, write) : NULL;
    if (write && !starts) return false;
    size_t size = kernel_element_size(in->dtype);
    uint64_t block = kernel_span(in, axis + 1, in->rank) * size, rows = kernel_span(in, 0, axis);
    int64_t length = in->dims[axis], count = update->dims[axis];
    if (in->count) memcpy(out->data, in->data, in->count * size);
    if (update->count == 0) return true;
    for (uint64_t row = 0; row < rows; row++) {
        int64_t start = starts ? starts[row / (rows / (uint64_t)in->dims[0])] : 0;
        if (attrs->mode == CACHE_CIRCULAR)
            start = (start % length + length) % length;
        else if (start < 0 || start > length - count)
            return kernel_fail(call, "write index %lld: %lld elements do not fit into %lld",
                               (long long)start, (long long)count, (long long)length);
        int64_t before = length - start < count ? length - start : count; /* the end goes round */
        char *to = (char *)out->data + row * (uint64_t)length * block;
        const char *from = (const char *)update->data + row * (uint64_t)count * block;
        memcpy(to + (uint64_t)start * block, from, (uint64_t)before * block);
        memcpy(to, from + (uint64_t)before * block, (uint64_t)(count - before) * block);
    }
    return true;
}
