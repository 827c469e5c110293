// SPDX-License-Identifier: Apache-2.0
/* The choice of an instruction set; see tap_loops.h. */
#include "tap_loops.h"

#define SIMD_OFFERS tap_loops
#include "simd_offers.inc"

const TapLoops *tap_loops(IsaSet cpu) {
    return isa_pick(tap_loops_offers, cpu);
}
