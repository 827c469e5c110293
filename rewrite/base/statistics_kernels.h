// SPDX-License-Identifier: Apache-2.0
/* The counting loops behind statistics.h by instruction set, for statistics.c and its test.
 *
 * They compare magnitudes as integers: the bits of a float without its sign order like its size,
 * with Inf and NaNs above all finite values.
 */
#ifndef DEMI_BASE_STATISTICS_KERNELS_H
#define DEMI_BASE_STATISTICS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "isa.h"

enum {
    STATISTICS_BLOCK = 1 << 20
}; /* most elements of one kernel call: counts stay within 32 bits */

#define STATISTICS_INF 0x7f800000 /* the bits of Inf */

/* Magnitude bits that divide the values by their fate in the target. */
typedef struct StatisticsLimits {
    int32_t normal_from;   /* smallest that becomes normal */
    int32_t nonzero_from;  /* smallest that does not become 0 */
    int32_t overflow_from; /* smallest that becomes Inf */
} StatisticsLimits;

/* How many of a block's magnitudes reach each limit, and their extremes. */
typedef struct StatisticsBlock {
    uint32_t reach_one; /* not zero */
    uint32_t reach_nonzero, reach_normal, reach_overflow;
    uint32_t reach_inf, reach_nan;
    uint32_t max_finite;   /* bits; 0 where none */
    uint32_t min_less_one; /* smallest magnitude that is not 0, minus 1; UINT32_MAX where none */
} StatisticsBlock;

/* Counts `count` <= STATISTICS_BLOCK values. */
typedef void StatisticsKernel(StatisticsBlock *block, const float *values, size_t count,
                              const StatisticsLimits *limits);

typedef struct StatisticsKernels {
    StatisticsKernel *block;
} StatisticsKernels;

/* The best for a processor that has these features. */
StatisticsKernel *statistics_kernel(IsaSet cpu);

/* The plain C routine. */
StatisticsKernel statistics_block_portable;

#endif
