// SPDX-License-Identifier: Apache-2.0
/* What the processor has, and the choice among what rows offer. The compiler's builtins also check that the
 * operating system saves the wide registers. */
#include "isa.h"

#include <stdatomic.h>
#include <stddef.h>

#if defined(__x86_64__) || defined(__i386__)

#include <cpuid.h>

enum { EAX, EBX, ECX, EDX };

/* A bit of a CPUID leaf (Intel's and AMD's manuals have them); not every compiler's builtin knows all names. */
static bool has_bit(unsigned leaf, unsigned subleaf, int word, unsigned bit) {
    unsigned words[4] = {0};
    return __get_cpuid_count(leaf, subleaf, &words[EAX], &words[EBX], &words[ECX], &words[EDX]) &&
           words[word] >> bit & 1;
}

static IsaSet find(void) {
    IsaSet set = 0;
    if (__builtin_cpu_supports("avx") && has_bit(1, 0, ECX, 29)) set |= CPU_F16C;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) set |= CPU_AVX2;
    if (__builtin_cpu_supports("avx2") && has_bit(7, 1, EAX, 4)) set |= CPU_AVX_VNNI;
    if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2")))
        return set;
    set |= CPU_AVX512;
    if (__builtin_cpu_supports("avx512vnni")) set |= CPU_AVX512_VNNI;
    if (has_bit(7, 1, EAX, 5)) set |= CPU_AVX512_BF16;
    if (has_bit(7, 0, EDX, 23)) set |= CPU_AVX512_FP16;
    if (has_bit(7, 0, EDX, 22) && has_bit(7, 0, EDX, 24) && has_bit(7, 0, EDX, 25)) set |= CPU_AMX;
    if (has_bit(7, 1, EAX, 21)) set |= CPU_AMX_FP16;
    return set;
}

bool isa_has_float16(void) {
    return isa_here() & (CPU_AVX512_FP16 | CPU_AMX_FP16);
}

bool isa_has_bfloat16(void) {
    return isa_here() & (CPU_AVX512_BF16 | CPU_AMX);
}

#else

static IsaSet find(void) {
    return 0;
}

bool isa_has_float16(void) {
    return true;
}

bool isa_has_bfloat16(void) {
    return true;
}

#endif

/* CPUID takes a microsecond and more in a virtual machine, so that it is asked once a process; who asks at the
 * same time finds the same. */
IsaSet isa_here(void) {
    enum { FOUND = 1u << 31 };
    static _Atomic IsaSet known;
    IsaSet set = atomic_load_explicit(&known, memory_order_relaxed);
    if (!set) {
        set = find() | (IsaSet)FOUND;
        atomic_store_explicit(&known, set, memory_order_relaxed);
    }
    return set & ~(IsaSet)FOUND;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    IsaSet needs;
} rows[ISA_COUNT] = {
#define ISA(NAME, name, processor, header, features, gives, options) {#name, features},
#include "isas.def"
#undef ISA
};

IsaSet isa_needs(Isa isa) {
    return rows[isa].needs;
}

bool isa_runs(Isa isa, IsaSet set) {
    return !(rows[isa].needs & ~set);
}

const char *isa_name(Isa isa) {
    return (unsigned)isa < ISA_COUNT ? rows[isa].name : "isa?";
}

const void *isa_pick(const void *const *const offers[ISA_COUNT], IsaSet set) {
    for (unsigned isa = ISA_COUNT; isa-- > 0;)
        if (offers[isa] && *offers[isa] && isa_runs((Isa)isa, set)) return *offers[isa];
    return NULL;
}
