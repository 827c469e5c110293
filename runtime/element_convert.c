// SPDX-License-Identifier: Apache-2.0
/* Conversions around kernels; see element_convert.h. */
#include "element_convert.h"

#include <string.h>

#include "half.h"

Dtype element_wide(Dtype dtype) {
    if (dtype == DTYPE_UINT4 || dtype == DTYPE_UINT2) return DTYPE_UINT8;
    if (dtype == DTYPE_INT4 || dtype == DTYPE_INT2) return DTYPE_INT8;
    bool narrow = dtype_is_float(dtype) || dtype == DTYPE_FLOAT8E8M0;
    return narrow && dtype_bits(dtype) < 32 ? DTYPE_FLOAT : dtype;
}

static double element_at(Dtype dtype, const void *data, uint64_t i) {
    uint64_t bits = 0;
    double value = 0;
    size_t size = kernel_element_size(dtype);
    memcpy(&bits, (const char *)data + i * size, size);
    dtype_to_double(dtype, bits, &value);
    return value;
}

static void element_put(Dtype dtype, void *data, uint64_t i, double value) {
    uint64_t bits = 0;
    size_t size = kernel_element_size(dtype);
    dtype_from_double(dtype, value, &bits);
    memcpy((char *)data + i * size, &bits, size);
}

void element_convert(Dtype to_dtype, void *to, Dtype from_dtype, const void *from, uint64_t count) {
    if (count == 0) return;
    if (to_dtype == DTYPE_FLOAT && dtype_is_reduced(from_dtype))
        reduced_convert_to_float(from_dtype, to, from, count);
    else if (dtype_is_reduced(to_dtype) && from_dtype == DTYPE_FLOAT)
        reduced_convert_from_float(to_dtype, to, from, count);
    else
        for (uint64_t i = 0; i < count; i++)
            element_put(to_dtype, to, i, element_at(from_dtype, from, i));
}
