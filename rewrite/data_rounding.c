// SPDX-License-Identifier: Apache-2.0
/* See data_rounding.h. */
#include "data_rounding.h"

#include <string.h>

const RoundedWeights *data_rounding_find(const DataRounding *rounding, const char *name,
                                         uint64_t key) {
    const RoundedWeights *at = rounding->kept;
    while (at && (at->key != key || strcmp(at->name, name) != 0)) at = at->next;
    return at;
}

void data_rounding_keep(DataRounding *rounding, const RoundedWeights *weights) {
    RoundedWeights *kept = ARENA_NEW(rounding->arena, RoundedWeights);
    *kept = *weights;
    kept->next = rounding->kept;
    kept->name = arena_copy(rounding->arena, weights->name, strlen(weights->name));
    kept->bytes = arena_copy(rounding->arena, weights->bytes, weights->size);
    kept->scales =
        arena_copy(rounding->arena, weights->scales, weights->scale_count * sizeof(float));
    kept->zeros = arena_copy(rounding->arena, weights->zeros, weights->zero_count);
    rounding->kept = kept;
}
