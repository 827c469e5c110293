// SPDX-License-Identifier: Apache-2.0
/* Keys and a stable sort; see kernel_order.h. */
#include "kernel_order.h"

#include <string.h>

#include "kernel_pace.h"

static uint64_t key_of_real(double value) {
    uint64_t bits;
    value += 0.0; /* -0 becomes 0 */
    memcpy(&bits, &value, sizeof bits);
    uint64_t key = bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
    return value == value ? key : UINT64_MAX;
}

static uint64_t key_of_int(int64_t value) {
    return (uint64_t)value ^ UINT64_C(1) << 63;
}

uint64_t order_key(const KernelTensor *tensor, uint64_t i, unsigned part) {
    switch (tensor->dtype) {
    case DTYPE_FLOAT: return key_of_real((double)((const float *)tensor->data)[i]);
    case DTYPE_DOUBLE: return key_of_real(((const double *)tensor->data)[i]);
    case DTYPE_INT64: return key_of_int(((const int64_t *)tensor->data)[i]);
    case DTYPE_UINT64: return ((const uint64_t *)tensor->data)[i];
    case DTYPE_INT32: return key_of_int(((const int32_t *)tensor->data)[i]);
    case DTYPE_BOOL: return ((const uint8_t *)tensor->data)[i] != 0;
    case DTYPE_COMPLEX64: return key_of_real((double)((const float *)tensor->data)[2 * i + part]);
    case DTYPE_COMPLEX128: return key_of_real(((const double *)tensor->data)[2 * i + part]);
    default: return key_of_real(kernel_real(tensor, i)); /* exact for all that are left */
    }
}

/* range: first, step, count */
void order_keys(const KernelTensor *tensor, const uint64_t range[3], uint64_t *keys) {
    uint64_t first = range[0], step = range[1], count = range[2];
    const float *floats = tensor->data;
    const int64_t *ints = tensor->data;
    if (tensor->dtype == DTYPE_FLOAT)
        for (uint64_t i = 0; i < count; i++)
            keys[i] = key_of_real((double)floats[first + i * step]);
    else if (tensor->dtype == DTYPE_INT64)
        for (uint64_t i = 0; i < count; i++) keys[i] = key_of_int(ints[first + i * step]);
    else
        for (uint64_t i = 0; i < count; i++) keys[i] = order_key(tensor, first + i * step, 0);
}

int order_strings(const KernelString *a, const KernelString *b) {
    uint64_t common = a->size < b->size ? a->size : b->size;
    int order = common ? memcmp(a->text, b->text, common) : 0;
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

/* Merges the sorted runs [low, middle) and [middle, high) of `from` into `to`. */
static void merge(uint64_t *to, const uint64_t *from, const uint64_t bounds[3],
                  OrderCompare compare, const void *context) {
    uint64_t left = bounds[0], right = bounds[1];
    for (uint64_t at = bounds[0]; at < bounds[2]; at++) {
        bool take_left = right == bounds[2] ||
                         (left < bounds[1] && compare(context, from[left], from[right]) <= 0);
        to[at] = take_left ? from[left++] : from[right++];
    }
}

uint64_t *order_sort(KernelCall *call, uint64_t count, OrderCompare compare, const void *context) {
    uint64_t *order = ARENA_ARRAY(call->scratch, uint64_t, count);
    uint64_t *other = ARENA_ARRAY(call->scratch, uint64_t, count);
    KernelPace pace = {call, 0};
    for (uint64_t i = 0; i < count; i++) order[i] = i;
    for (uint64_t run = 1; run < count; run *= 2) {
        for (uint64_t low = 0; low < count; low += 2 * run) {
            uint64_t middle = count - low < run ? count : low + run;
            uint64_t high = count - middle < run ? count : middle + run;
            kernel_pace(&pace, 4 * (high - low));
            merge(other, order, (const uint64_t[]){low, middle, high}, compare, context);
        }
        uint64_t *swap = order;
        order = other;
        other = swap;
    }
    return order;
}
