// SPDX-License-Identifier: Apache-2.0
/* Limits by target, the choice of a loop, and the merging of blocks into a census. */
#include "census.h"

#include <math.h>
#include <string.h>

#include "census_kernels.h"

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
static bool limits_of(Dtype target, CensusLimits *limits) {
    if (!dtype_is_working(target)) return false;
    const double normal = dtype_least_normal(target), largest = dtype_largest(target);
    const double roundoff = dtype_roundoff(target);
    /* half the smallest subnormal, half a unit below the first normal, half a unit above the largest */
    limits->nonzero_from = bits_of(normal * roundoff) + 1;
    limits->normal_from = bits_of(normal * (1 - roundoff));
    limits->overflow_from = bits_of(largest + ldexp(roundoff, ilogb(largest)));
    return true;
}

#define SIMD_OFFERS census_loops
#include "simd_offers.inc"

CensusKernel *census_kernel(IsaSet cpu) {
    const CensusKernels *found = isa_pick(census_loops_offers, cpu);
    return found ? found->block : census_block_portable;
}

static void census_add(ValueCensus *census, const CensusBlock *block, size_t count) {
    census->count += count;
    census->zero += count - block->reach_one;
    census->underflow += block->reach_one - block->reach_nonzero;
    census->subnormal += block->reach_nonzero - block->reach_normal;
    census->overflow += block->reach_overflow - block->reach_inf;
    census->inf += block->reach_inf - block->reach_nan;
    census->nan += block->reach_nan;
    float max_abs, min_abs;
    memcpy(&max_abs, &block->max_finite, sizeof max_abs);
    if (max_abs > census->max_abs) census->max_abs = max_abs;
    if (block->min_less_one >= CENSUS_INF - 1) return; /* nothing finite but zeros */
    uint32_t smallest = block->min_less_one + 1;
    memcpy(&min_abs, &smallest, sizeof min_abs);
    if (census->min_abs == 0 || min_abs < census->min_abs) census->min_abs = min_abs;
}

bool census_floats(ValueCensus *census, const float *values, size_t count, Dtype target) {
    CensusLimits limits;
    if (!limits_of(target, &limits)) return false;
    CensusKernel *kernel = count < FEW ? census_block_portable : census_kernel(isa_here());
    for (size_t at = 0; at < count; at += CENSUS_BLOCK) {
        size_t some = count - at < CENSUS_BLOCK ? count - at : CENSUS_BLOCK;
        CensusBlock block;
        kernel(&block, values + at, some, &limits);
        census_add(census, &block, some);
    }
    return true;
}
