// SPDX-License-Identifier: Apache-2.0
/* Elements of the fake libraries' tensors, as floats, and work in a handle's stream. */
#ifndef FAKE_NUMBERS_H
#define FAKE_NUMBERS_H

#include "fake_cuda.h"
#include "ptx_half.h"

#include <string.h>

/* By the number of cudaDataType or cudnnDataType, which the caller translates. */
typedef enum FakeType { FAKE_F32, FAKE_F64, FAKE_F16, FAKE_BF16, FAKE_NO_TYPE } FakeType;

static inline uint64_t fake_size(FakeType type) {
    return type == FAKE_F64 ? 8 : type == FAKE_F32 ? 4 : 2;
}
static inline double fake_get(FakeType type, const void *data, uint64_t i) {
    switch (type) {
    case FAKE_F64: return ((const double *)data)[i];
    case FAKE_F16: return (double)ptx_from_half(((const uint16_t *)data)[i]);
    case FAKE_BF16: return (double)ptx_from_bfloat(((const uint16_t *)data)[i]);
    default: return (double)((const float *)data)[i];
    }
}
static inline void fake_set(FakeType type, void *data, uint64_t i, double x) {
    switch (type) {
    case FAKE_F64: ((double *)data)[i] = x; break;
    case FAKE_F16: ((uint16_t *)data)[i] = ptx_half_of((float)x); break;
    case FAKE_BF16: ((uint16_t *)data)[i] = ptx_bfloat_of((float)x); break;
    default: ((float *)data)[i] = (float)x;
    }
}

/* What a tensor core reads of a float: ten bits of its fraction. */
static inline float fake_tf32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & ~UINT32_C(0x1fff);
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
