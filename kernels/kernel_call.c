// SPDX-License-Identifier: Apache-2.0
/* What kernels ask of their host, and check and read of their operands; see kernel.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernel.h"
#include "op_attrs.h"

size_t kernel_element_size(Dtype dtype) {
    if (dtype == DTYPE_STRING) return sizeof(KernelString);
    unsigned bits = dtype_bits(dtype);
    return (bits + 7) / 8;
}

bool kernel_output(KernelCall *call, uint32_t i, uint32_t rank, const int64_t *dims) {
    return call->host->output(call, i, rank, dims);
}

char *kernel_chars(KernelCall *call, uint64_t size) {
    bool asks = call->host && call->host->chars;
    return asks ? call->host->chars(call, size) : arena_array(call->scratch, size, 1);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *from_scratch(KernelCall *call, uint64_t size) {
    enum { ALIGN = 64 };
    char *bytes = arena_array(call->scratch, size + ALIGN, 1);
    return bytes + (ALIGN - (uintptr_t)bytes % ALIGN) % ALIGN;
}

void *kernel_workspace(KernelCall *call, uint64_t size) {
    bool asks = call->host && call->host->workspace;
    return asks ? call->host->workspace(call, size) : from_scratch(call, size);
}

void *kernel_keep(KernelCall *call, uint64_t size) {
    bool asks = call->host && call->host->keep;
    return asks ? call->host->keep(call, size) : from_scratch(call, size);
}

const void *kernel_share(KernelCall *call, uint32_t i, KernelPack pack, uint64_t variant,
                         uint64_t size) {
    if (!kernel_is_constant(call, i)) return NULL;
    if (call->host && call->host->share) return call->host->share(call, i, pack, variant, size);
    KernelPackJob job = {&call->inputs[i], from_scratch(call, size), size, variant};
    return pack(call, &job) ? job.to : NULL;
}

const void *kernel_weights(KernelCall *call, uint32_t i, const WeightLayout *layout) {
    if (!kernel_is_constant(call, i)) return NULL;
    if (call->host && call->host->weights) return call->host->weights(call, i, layout);
    if (kernel_narrows(call, i, layout)) return NULL;
    void *to = from_scratch(call, weight_layout_size(layout));
    weight_layout_pack(layout, call->inputs[i].data, to);
    return to;
}

const void *kernel_stored_weights(KernelCall *call, uint32_t i, const WeightLayout *layout) {
    bool asks = kernel_is_constant(call, i) && call->host && call->host->stored_weights;
    return asks ? call->host->stored_weights(call, i, layout) : NULL;
}

const KernelTensor *kernel_constant(KernelCall *call, uint32_t i) {
    if (!kernel_is_constant(call, i)) return NULL;
    bool asks = call->host && call->host->constant;
    return asks ? call->host->constant(call, i) : &call->inputs[i];
}

Dtype kernel_take_stored(KernelCall *call, uint32_t i) {
    bool asks = kernel_is_constant(call, i) && call->host && call->host->take_stored;
    return asks ? call->host->take_stored(call, i) : DTYPE_UNDEFINED;
}

void kernel_set_unread(KernelCall *call, uint32_t i) {
    if (call->host && call->host->set_unread) call->host->set_unread(call, i);
}

/* ---- checks ---------------------------------------------------------------------------------- */

bool kernel_fail(KernelCall *call, const char *format, ...) {
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return err_set(call->err, ERR_MODEL, "%s", text);
}

bool kernel_axis(KernelCall *call, int64_t axis, uint32_t rank, uint32_t *result) {
    int64_t from_start = axis < 0 ? axis + (int64_t)rank : axis;
    if (from_start < 0 || from_start >= (int64_t)rank)
        return kernel_fail(call, "axis %lld of a tensor of rank %u", (long long)axis, rank);
    *result = (uint32_t)from_start;
    return true;
}

bool kernel_keeps_order(const KernelCall *call) {
    const AttrInts *perm = &((const TransposeAttrs *)call->attrs)->perm;
    const KernelTensor *in = &call->inputs[0];
    int64_t last = 0;
    if (perm->present && perm->count != in->rank) return false;
    for (uint32_t i = 0; i < in->rank; i++) {
        const int64_t axis = perm->present ? perm->items[i] : (int64_t)(in->rank - 1 - i);
        if (axis < 0 || axis >= (int64_t)in->rank) return false;
        if (in->dims[axis] == 1) continue;
        if (axis < last) return false;
        last = axis;
    }
    return true;
}

static int64_t integer_at(const KernelTensor *tensor, uint64_t i) {
    switch (tensor->dtype) {
    case DTYPE_INT64: return ((const int64_t *)tensor->data)[i];
    case DTYPE_INT32: return ((const int32_t *)tensor->data)[i];
    case DTYPE_INT16: return ((const int16_t *)tensor->data)[i];
    case DTYPE_INT8: return ((const int8_t *)tensor->data)[i];
    case DTYPE_BOOL:
    case DTYPE_UINT8: return ((const uint8_t *)tensor->data)[i];
    case DTYPE_UINT16: return ((const uint16_t *)tensor->data)[i];
    case DTYPE_UINT32: return ((const uint32_t *)tensor->data)[i];
    default: break; /* checked by kernel_ints */
    }
    uint64_t value = ((const uint64_t *)tensor->data)[i];
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

const int64_t *kernel_ints(KernelCall *call, const KernelTensor *tensor) {
    bool wide = (KERNEL_INTS | KERNEL_BOOL) >> tensor->dtype & 1;
    if (!wide) {
        kernel_fail(call, "%s instead of integers", dtype_name(tensor->dtype));
        return NULL;
    }
    int64_t *items = ARENA_ARRAY(call->scratch, int64_t, tensor->count + 1);
    for (uint64_t i = 0; i < tensor->count; i++) items[i] = integer_at(tensor, i);
    return items;
}

double kernel_real(const KernelTensor *tensor, uint64_t i) {
    uint64_t bits = 0;
    double value = 0;
    size_t size = kernel_element_size(tensor->dtype);
    if (size > sizeof bits) return 0;
    memcpy(&bits, (const char *)tensor->data + i * size, size);
    dtype_to_double(tensor->dtype, bits, &value);
    return value;
}

void kernel_set_real(KernelTensor *tensor, uint64_t i, double value) {
    if (tensor->dtype == DTYPE_FLOAT) {
        ((float *)tensor->data)[i] = (float)value;
        return;
    }
    uint64_t bits = 0; /* stays 0 where nothing corresponds */
    size_t size = kernel_element_size(tensor->dtype);
    if (size > sizeof bits) return;
    dtype_from_double(tensor->dtype, dtype_is_integer(tensor->dtype) ? trunc(value) : value, &bits);
    memcpy((char *)tensor->data + i * size, &bits, size);
}

uint64_t kernel_span(const KernelTensor *tensor, uint32_t from, uint32_t to) {
    uint64_t product = 1;
    for (uint32_t i = from; i < to; i++) product *= (uint64_t)tensor->dims[i];
    return product;
}

uint64_t kernel_stride(const KernelTensor *tensor, uint32_t axis) {
    uint64_t product = 1;
    for (uint32_t i = axis + 1; i < tensor->rank; i++)
        product *= (uint64_t)(tensor->room && i == tensor->grown ? tensor->room : tensor->dims[i]);
    return product;
}
