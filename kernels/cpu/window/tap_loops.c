// SPDX-License-Identifier: Apache-2.0
/* The choice of an instruction set; see tap_loops.h. */
#include "tap_loops.h"

#include <stddef.h>

#include "simd.h"

const TapLoops *tap_loops(IsaLevel level) {
    if (!isa_supported(level)) return NULL;
    level = simd_level(level);
    if (level == ISA_AVX512) return tap_loops_avx512();
    return level == ISA_AVX2 ? tap_loops_avx2() : tap_loops_portable();
}
