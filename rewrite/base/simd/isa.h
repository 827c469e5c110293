// SPDX-License-Identifier: Apache-2.0
/* What processors can do, as sets of features, and the instruction sets that loops are built for.
 *
 * One binary holds all of them; what runs is decided by the processor that it runs on, at each bulk call.
 * Who prepares something for another machine, or tests what this one would not choose, passes another set.
 */
#ifndef DEMI_BASE_ISA_H
#define DEMI_BASE_ISA_H

#include <stdbool.h>
#include <stdint.h>

/* Features, which only have a meaning together: a processor with AVX2 and no FMA has no CPU_AVX2 here. */
typedef enum CpuFeature {
    CPU_F16C = 1 << 0,        /* AVX and F16C */
    CPU_AVX2 = 1 << 1,        /* AVX2 and FMA */
    CPU_AVX512 = 1 << 2,      /* AVX-512 F, BW and VL, and BMI2 */
    CPU_AVX512_VNNI = 1 << 3, /* sums of products of bytes, and of pairs of int16 */
    CPU_AVX512_BF16 = 1 << 4, /* sums of products of bfloat16 */
    CPU_AVX512_FP16 = 1 << 5, /* arithmetic of float16 */
    CPU_AVX_VNNI = 1 << 6,    /* sums of products of bytes, in AVX's vectors */
    CPU_AMX =
        1 << 7, /* tiles, of bytes and of bfloat16. Whether a process gets them is for the system
                                 to say */
    CPU_AMX_FP16 = 1 << 8,
} CpuFeature;

typedef uint32_t IsaSet; /* of CpuFeature */

/* What this processor and operating system have. */
IsaSet isa_here(void);

/* Rows of isas.def that this processor's kind can have: ISA_PORTABLE, ISA_AVX2, ... */
typedef enum Isa {
#define ISA(NAME, name, processor, header, features, gives, options) ISA_##NAME,
#include "isas.def"
#undef ISA
    ISA_COUNT /* one more than the last */
} Isa;

/* The features of a row. */
IsaSet isa_needs(Isa isa);

/* True where the set has all that the row needs. */
bool isa_runs(Isa isa, IsaSet set);

/* "portable", "avx2", ...; "isa?" for a number that is not a row. */
const char *isa_name(Isa isa);

/* Of what rows offer (simd_offers.inc), the last that is not NULL and whose row the set has all of. NULL: none. */
const void *isa_pick(const void *const *const offers[ISA_COUNT], IsaSet set);

/* True where there is arithmetic of that type's own, sums of products at least, and where that is
 * not known (other processors than x86): then nothing is claimed. */
bool isa_has_float16(void);
bool isa_has_bfloat16(void);

#endif
