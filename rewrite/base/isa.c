// SPDX-License-Identifier: Apache-2.0
/* Which instruction sets the processor has. The compiler's builtins also check that the operating
 * system saves the wide registers. */
#include "isa.h"

#if defined(__x86_64__) || defined(__i386__)

#include <cpuid.h>

/* gcc's builtin reads what was found when the program started. Not every clang's builtin knows
 * F16C, so there the processor is asked (leaf 1, ECX bit 29): some microseconds in a virtual
 * machine. */
static bool has_f16c(void) {
#if defined(__clang__)
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & (1u << 29));
#else
    return __builtin_cpu_supports("f16c");
#endif
}

/* Leaf 7, subleaf 1, EAX bit 4: not every compiler's builtin knows the name. */
bool isa_has_avx_vnni(void) {
    unsigned a, b, c, d;
    return isa_supported(ISA_AVX2) && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 4));
}

bool isa_has_fma(void) {
    return __builtin_cpu_supports("fma");
}

/* CPUID leaf 7: subleaf 0 EDX bit 23 is AVX512-FP16, bit 22 AMX-BF16; subleaf 1 EAX bit 5 is
 * AVX512-BF16, bit 21 AMX-FP16 (Intel's and AMD's manuals). */
static bool has_leaf_7(unsigned edx_0, unsigned eax_1) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if (d & (1u << edx_0)) return true;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << eax_1));
}

bool isa_has_float16(void) {
    return has_leaf_7(23, 21);
}

bool isa_has_bfloat16(void) {
    return has_leaf_7(22, 5);
}

/* Leaf 7, EDX bits 22, 24 and 25: AMX-BF16, AMX-TILE and AMX-INT8. */
bool isa_has_amx(void) {
    const unsigned wanted = 1u << 22 | 1u << 24 | 1u << 25;
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted;
}

bool isa_supported(IsaLevel level) {
    switch (level) {
    case ISA_PORTABLE: return true;
    case ISA_F16C: return __builtin_cpu_supports("avx") && has_f16c();
    case ISA_AVX2: return __builtin_cpu_supports("avx2") && has_f16c();
    case ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl");
    case ISA_COUNT: break;
    }
    return false;
}

#else

bool isa_has_avx_vnni(void) {
    return false;
}

bool isa_has_fma(void) {
    return false;
}

bool isa_has_float16(void) {
    return true;
}

bool isa_has_bfloat16(void) {
    return true;
}

bool isa_has_amx(void) {
    return false;
}

bool isa_supported(IsaLevel level) {
    return level == ISA_PORTABLE;
}

#endif

IsaLevel isa_best(void) {
    if (isa_supported(ISA_AVX512)) return ISA_AVX512;
    if (isa_supported(ISA_AVX2)) return ISA_AVX2;
    return isa_supported(ISA_F16C) ? ISA_F16C : ISA_PORTABLE;
}

const char *isa_name(IsaLevel level) {
    switch (level) {
    case ISA_PORTABLE: return "portable";
    case ISA_F16C: return "f16c";
    case ISA_AVX2: return "avx2";
    case ISA_AVX512: return "avx512";
    case ISA_COUNT: break;
    }
    return "isa?";
}
