// SPDX-License-Identifier: Apache-2.0
/* The bulk conversions of half.h by instruction set: what half_kernels.c chooses from, and what lets a test
 * run all that the machine has. */
#ifndef DEMI_BASE_HALF_KERNELS_H
#define DEMI_BASE_HALF_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "isa.h"

typedef void HalfNarrow(uint16_t *to, const float *from, size_t count);
typedef void HalfWiden(float *to, const uint16_t *from, size_t count);

typedef struct HalfKernels {
    HalfNarrow *half_from_float;
    HalfWiden *half_to_float;
    HalfNarrow *bfloat_from_float;
    HalfWiden *bfloat_to_float;
} HalfKernels;

/* The best for a processor that has these features. */
const HalfKernels *half_kernels(IsaSet cpu);

/* The plain C routines; also what the others finish their last few elements with. */
const HalfKernels *half_kernels_portable(void);

#endif
