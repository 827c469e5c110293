// SPDX-License-Identifier: Apache-2.0
/* The statistics loop in plain C. */
#include <string.h>

#include "statistics_kernels.h"

void statistics_block_portable(StatisticsBlock *block, const float *values, size_t count,
                               const StatisticsLimits *limits) {
    const int32_t nonzero_from = limits->nonzero_from, normal_from = limits->normal_from;
    const int32_t overflow_from = limits->overflow_from;
    uint32_t one = 0, nonzero = 0, normal = 0, overflow = 0, inf = 0, nan = 0;
    int32_t max = 0, min = INT32_MAX; /* signed: SSE2 has no unsigned comparison */
    for (size_t i = 0; i < count; i++) {
        int32_t size;
        memcpy(&size, &values[i], sizeof size);
        size &= INT32_MAX;
        one += size >= 1;
        nonzero += size >= nonzero_from;
        normal += size >= normal_from;
        overflow += size >= overflow_from;
        inf += size >= STATISTICS_INF;
        nan += size > STATISTICS_INF;
        int32_t finite = size < STATISTICS_INF ? size : 0, not_zero = size > 0 ? size : INT32_MAX;
        max = finite > max ? finite : max;
        min = not_zero < min ? not_zero : min;
    }
    *block = (StatisticsBlock){
        .reach_one = one,
        .reach_nonzero = nonzero,
        .reach_normal = normal,
        .reach_overflow = overflow,
        .reach_inf = inf,
        .reach_nan = nan,
        .max_finite = (uint32_t)max,
        .min_less_one = one ? (uint32_t)min - 1 : UINT32_MAX,
    };
}
