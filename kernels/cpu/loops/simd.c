// SPDX-License-Identifier: Apache-2.0
/* The choice of instruction sets; see simd.h. */
#include "simd.h"

IsaLevel simd_level(IsaLevel level) {
#if defined(__x86_64__) || defined(__i386__)
    bool fma = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
    if (level == ISA_AVX512 && fma && __builtin_cpu_supports("bmi2")) return ISA_AVX512;
    if ((level == ISA_AVX512 || level == ISA_AVX2) && fma) return ISA_AVX2;
#else
    (void)level;
#endif
    return ISA_PORTABLE;
}
