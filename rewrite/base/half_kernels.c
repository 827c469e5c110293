// SPDX-License-Identifier: Apache-2.0
/* The choice of an instruction set; see half_kernels.h. */
#include "half_kernels.h"

#include "half.h"

enum { FEW = 32 }; /* below this, choosing costs more than it saves */

#define SIMD_OFFERS half_loops
#include "simd_offers.inc"

const HalfKernels *half_kernels(IsaSet cpu) {
    const HalfKernels *found = isa_pick(half_loops_offers, cpu);
    return found ? found : half_kernels_portable();
}

static const HalfKernels *kernels_for(size_t count) {
    return count < FEW ? half_kernels_portable() : half_kernels(isa_here());
}

void half_convert_from_float(uint16_t *to, const float *from, size_t count) {
    kernels_for(count)->half_from_float(to, from, count);
}

void half_convert_to_float(float *to, const uint16_t *from, size_t count) {
    kernels_for(count)->half_to_float(to, from, count);
}

void bfloat_convert_from_float(uint16_t *to, const float *from, size_t count) {
    kernels_for(count)->bfloat_from_float(to, from, count);
}

void bfloat_convert_to_float(float *to, const uint16_t *from, size_t count) {
    kernels_for(count)->bfloat_to_float(to, from, count);
}

void reduced_convert_from_float(Dtype type, uint16_t *to, const float *from, size_t count) {
    if (type == DTYPE_FLOAT16)
        half_convert_from_float(to, from, count);
    else
        bfloat_convert_from_float(to, from, count);
}

void reduced_convert_to_float(Dtype type, float *to, const uint16_t *from, size_t count) {
    if (type == DTYPE_FLOAT16)
        half_convert_to_float(to, from, count);
    else
        bfloat_convert_to_float(to, from, count);
}
