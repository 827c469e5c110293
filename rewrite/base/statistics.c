// SPDX-License-Identifier: Apache-2.0
/* Limits by target, the choice of a loop, and the merging of blocks into a statistics. */
#include "statistics.h"

#include <math.h>
#include <string.h>

#include "statistics_kernels.h"

enum { FEW = 32 }; /* below this, choosing costs more than it saves */

/* The bits of the float nearest to a positive number: Inf beyond the largest, ties to even. */
static int32_t bits_of(double number) {
    const float value = (float)number;
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Where a magnitude's rounded result changes kind. A tie goes to the even neighbor, which is the
 * smaller one at zero (0 is even) and the larger one at the other two limits. */
static bool limits_of(Dtype target, StatisticsLimits *limits) {
    if (!dtype_is_working(target)) return false;
    const double normal = dtype_least_normal(target), largest = dtype_largest(target);
    const double roundoff = dtype_roundoff(target);
    /* half the smallest subnormal, half a unit below the first normal, half a unit above the largest */
    limits->nonzero_from = bits_of(normal * roundoff) + 1;
    limits->normal_from = bits_of(normal * (1 - roundoff));
    limits->overflow_from = bits_of(largest + ldexp(roundoff, ilogb(largest)));
    return true;
}

#define SIMD_OFFERS statistics_loops
#include "simd_offers.inc"

StatisticsKernel *statistics_kernel(IsaSet cpu) {
    const StatisticsKernels *found = isa_pick(statistics_loops_offers, cpu);
    return found ? found->block : statistics_block_portable;
}

static void statistics_add(ValueStatistics *statistics, const StatisticsBlock *block,
                           size_t count) {
    statistics->count += count;
    statistics->zero += count - block->reach_one;
    statistics->underflow += block->reach_one - block->reach_nonzero;
    statistics->subnormal += block->reach_nonzero - block->reach_normal;
    statistics->overflow += block->reach_overflow - block->reach_inf;
    statistics->inf += block->reach_inf - block->reach_nan;
    statistics->nan += block->reach_nan;
    float max_abs, min_abs;
    memcpy(&max_abs, &block->max_finite, sizeof max_abs);
    if (max_abs > statistics->max_abs) statistics->max_abs = max_abs;
    if (block->min_less_one >= STATISTICS_INF - 1) return; /* nothing finite but zeros */
    uint32_t smallest = block->min_less_one + 1;
    memcpy(&min_abs, &smallest, sizeof min_abs);
    if (statistics->min_abs == 0 || min_abs < statistics->min_abs) statistics->min_abs = min_abs;
}

bool statistics_floats(ValueStatistics *statistics, const float *values, size_t count,
                       Dtype target) {
    StatisticsLimits limits;
    if (!limits_of(target, &limits)) return false;
    StatisticsKernel *kernel =
        count < FEW ? statistics_block_portable : statistics_kernel(isa_here());
    for (size_t at = 0; at < count; at += STATISTICS_BLOCK) {
        size_t some = count - at < STATISTICS_BLOCK ? count - at : STATISTICS_BLOCK;
        StatisticsBlock block;
        kernel(&block, values + at, some, &limits);
        statistics_add(statistics, &block, some);
    }
    return true;
}
