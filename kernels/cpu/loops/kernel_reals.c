// SPDX-License-Identifier: Apache-2.0
/* Mixed float and double operands; see kernel_reals.h. */
#include "kernel_reals.h"

#include "checked.h"

static bool is_real(KernelCall *call, const KernelTensor *tensor) {
    if (tensor->dtype == DTYPE_FLOAT || tensor->dtype == DTYPE_DOUBLE) return true;
    return kernel_fail(call, "%s instead of float or double", dtype_name(tensor->dtype));
}

static void convert(void *to, Dtype to_dtype, const void *from, uint64_t count) {
    if (to_dtype == DTYPE_DOUBLE)
        for (uint64_t i = 0; i < count; i++) ((double *)to)[i] = (double)((const float *)from)[i];
    else
        for (uint64_t i = 0; i < count; i++) ((float *)to)[i] = (float)((const double *)from)[i];
}

const void *kernel_reals(KernelCall *call, const KernelTensor *tensor, Dtype dtype) {
    if (!is_real(call, tensor)) return NULL;
    if (tensor->dtype == dtype && tensor->count) return tensor->data;
    void *data = arena_array(call->scratch, tensor->count + 1, kernel_element_size(dtype));
    if (tensor->count) convert(data, dtype, tensor->data, tensor->count);
    return data;
}

const float *kernel_floats(KernelCall *call, const KernelTensor *tensor) {
    return kernel_reals(call, tensor, DTYPE_FLOAT);
}

const double *kernel_doubles(KernelCall *call, const KernelTensor *tensor) {
    return kernel_reals(call, tensor, DTYPE_DOUBLE);
}

void *kernel_reals_for(KernelCall *call, const KernelTensor *tensor, Dtype dtype) {
    if (!is_real(call, tensor)) return NULL;
    if (tensor->dtype == dtype && tensor->count) return tensor->data;
    return arena_array(call->scratch, tensor->count + 1, kernel_element_size(dtype));
}

void kernel_reals_done(const KernelTensor *tensor, const void *reals, Dtype dtype) {
    if (tensor->dtype != dtype && tensor->count)
        convert(tensor->data, tensor->dtype, reals, tensor->count);
}

Dtype kernel_reals_dtype(const KernelCall *call) {
    for (uint32_t i = 0; i < call->input_count; i++)
        if (call->inputs[i].present && call->inputs[i].dtype == DTYPE_DOUBLE) return DTYPE_DOUBLE;
    for (uint32_t i = 0; i < call->output_count; i++)
        if (call->outputs[i].present && call->outputs[i].dtype == DTYPE_DOUBLE) return DTYPE_DOUBLE;
    return DTYPE_FLOAT;
}

/* Strides of the tensor's elements along each axis of `like`, 0 where they are repeated. */
static bool find_strides(KernelCall *call, const KernelTensor *tensor, const KernelTensor *like,
                         uint64_t *strides) {
    if (tensor->rank > like->rank)
        return kernel_fail(call, "cannot change rank %u to %u", tensor->rank, like->rank);
    uint32_t missing = like->rank - tensor->rank;
    uint64_t stride = 1;
    for (uint32_t i = like->rank; i-- > missing;) {
        int64_t have = tensor->dims[i - missing];
        if (have != like->dims[i] && have != 1)
            return kernel_fail(call, "cannot change a dim of %lld to %lld", (long long)have,
                               (long long)like->dims[i]);
        strides[i] = have == 1 ? 0 : stride;
        stride *= (uint64_t)have;
    }
    return true;
}

static void copy_element(void *to, uint64_t i, const KernelTensor *from, uint64_t k) {
    if (from->dtype == DTYPE_FLOAT)
        ((float *)to)[i] = ((const float *)from->data)[k];
    else
        ((double *)to)[i] = ((const double *)from->data)[k];
}

const void *kernel_reals_expand(KernelCall *call, const KernelTensor *tensor,
                                const KernelTensor *like, Dtype dtype) {
    uint64_t *strides = ARENA_ARRAY(call->scratch, uint64_t, like->rank + 1);
    int64_t *at = ARENA_ARRAY(call->scratch, int64_t, like->rank + 1);
    uint64_t count, from = 0;
    if (!is_real(call, tensor) || !find_strides(call, tensor, like, strides)) return NULL;
    if (!checked_count(like->dims, like->rank, &count)) {
        kernel_fail(call, "too many elements");
        return NULL;
    }
    if (count == tensor->count) return kernel_reals(call, tensor, dtype);
    void *data = arena_array(call->scratch, count + 1, kernel_element_size(tensor->dtype));
    for (uint64_t i = 0; i < count; i++) {
        copy_element(data, i, tensor, from);
        for (uint32_t k = like->rank; k-- > 0;) {
            from += strides[k];
            if (++at[k] < like->dims[k]) break;
            from -= strides[k] * (uint64_t)like->dims[k];
            at[k] = 0;
        }
    }
    KernelTensor whole = {.present = true, .dtype = tensor->dtype, .count = count, .data = data};
    return kernel_reals(call, &whole, dtype);
}

bool kernel_want_count(KernelCall *call, const KernelTensor *tensor, uint64_t count,
                       const char *what) {
    if (tensor && tensor->count == count) return true;
    if (!tensor) return kernel_fail(call, "%s is missing", what);
    return kernel_fail(call, "%s has %llu elements, not %llu", what,
                       (unsigned long long)tensor->count, (unsigned long long)count);
}

bool kernel_want_same_count(KernelCall *call) {
    return call->inputs[0].count == call->outputs[0].count ||
           kernel_fail(call, "the number of elements changes");
}
