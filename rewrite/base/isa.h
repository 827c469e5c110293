// SPDX-License-Identifier: Apache-2.0
/* Instruction-set levels that the bulk routines of this folder are written for.
 *
 * One binary holds all of them; what runs is decided by the processor it runs on, at each bulk call
 * (nothing is remembered, so there is no state to initialize). Every level gives the same bits.
 */
#ifndef DEMI_BASE_ISA_H
#define DEMI_BASE_ISA_H

#include <stdbool.h>

typedef enum IsaLevel {
    ISA_PORTABLE, /* plain C */
    ISA_F16C,     /* x86 AVX + F16C */
    ISA_AVX2,     /* x86 AVX2 + F16C */
    ISA_AVX512,   /* x86 AVX-512 F, BW and VL */
    ISA_COUNT     /* one more than the last */
} IsaLevel;

/* True where this processor and operating system run that level. */
bool isa_supported(IsaLevel level);

/* True where there are AVX's instructions for sums of products of bytes (not AVX-512's). */
bool isa_has_avx_vnni(void);

/* True where there are fused multiplications and additions of float and double. */
bool isa_has_fma(void);

/* True where there is arithmetic of that type's own, sums of products at least, and where that is
 * not known (other processors than x86): then nothing is claimed. */
bool isa_has_float16(void);
bool isa_has_bfloat16(void);

/* True where the processor has tiles of AMX, of bytes and of bfloat16. Whether a process gets them is
 * for the system to say. */
bool isa_has_amx(void);

/* The highest supported level. */
IsaLevel isa_best(void);

/* "portable", "f16c", "avx2", "avx512"; "isa?" for a number that is not a level. */
const char *isa_name(IsaLevel level);

#endif
