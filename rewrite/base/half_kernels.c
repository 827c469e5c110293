// SPDX-License-Identifier: Apache-2.0
/* The choice of a level; see half_kernels.h. */
#include "half_kernels.h"

#include "half.h"

enum { FEW = 32 }; /* below this, choosing costs more than it saves */

const HalfKernels *half_kernels(IsaLevel level) {
    if (!isa_supported(level)) return NULL;
    return level == ISA_PORTABLE ? half_kernels_portable() : half_kernels_x86(level);
}

static const HalfKernels *kernels_for(size_t count) {
    return count < FEW ? half_kernels_portable() : half_kernels(isa_best());
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
