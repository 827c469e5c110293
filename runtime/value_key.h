// SPDX-License-Identifier: Apache-2.0
/* Shapes of values as numbers that can be compared at once: what is remembered for a step or a
 * model is remembered for a list of keys, one behind the other. */
#ifndef DEMI_VALUE_KEY_H
#define DEMI_VALUE_KEY_H

#include <string.h>

#include "value_store.h"

/* Dtype and rank of a tensor; of other values what they are, and how long a sequence is. */
static inline uint64_t value_key_head(const RtValue *value) {
    if (value->state == RT_TENSOR)
        return 1 | (uint64_t)value->tensor->tensor.dtype << 8 |
               (uint64_t)value->tensor->tensor.rank << 32;
    return value->state == RT_LIST ? 2 | (uint64_t)value->list->count << 32
                                   : 3 | (uint64_t)value->state << 8;
}

/* Numbers that the key of a value takes. */
static inline uint64_t value_key_size(const RtValue *value) {
    return 1 + (value->state == RT_TENSOR ? value->tensor->tensor.rank : 0);
}

static inline uint64_t *value_key_write(const RtValue *value, uint64_t *to) {
    *to++ = value_key_head(value);
    if (value->state != RT_TENSOR) return to;
    const KernelTensor *tensor = &value->tensor->tensor;
    if (tensor->rank) memcpy(to, tensor->dims, tensor->rank * sizeof *to);
    return to + tensor->rank;
}

/* Behind the key, where it is that of the value, else NULL. */
static inline const uint64_t *value_key_match(const RtValue *value, const uint64_t *key) {
    if (*key++ != value_key_head(value)) return NULL;
    if (value->state != RT_TENSOR) return key;
    const KernelTensor *tensor = &value->tensor->tensor;
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (*key++ != (uint64_t)tensor->dims[i]) return NULL;
    return key;
}

#endif
