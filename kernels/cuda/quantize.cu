// SPDX-License-Identifier: Apache-2.0
/* QuantizeLinear and DequantizeLinear, an element a thread, of all types by their numbers: all threads
 * take the same branches. */
#include "cuda_types.cuh"
#include "quantize_args.h"

#define EACH(i, n)                                                                                 \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                      \
         i += (int64_t)gridDim.x * blockDim.x)

/* Of 4 bits, which have a byte each, 8 and 16 bits, and 32. */
static __device__ __forceinline__ int load_int(const void *data, int type, int64_t i) {
    switch (type) {
    case DEMI_INT4: return (int)((((const uint8_t *)data)[i] & 15) ^ 8) - 8;
    case DEMI_UINT4: return ((const uint8_t *)data)[i] & 15;
    case DEMI_INT8: return ((const int8_t *)data)[i];
    case DEMI_UINT8: return ((const uint8_t *)data)[i];
    case DEMI_INT16: return ((const int16_t *)data)[i];
    case DEMI_UINT16: return ((const uint16_t *)data)[i];
    default: return ((const int32_t *)data)[i];
    }
}
static __device__ __forceinline__ void store_int(void *data, int type, int64_t i, int x) {
    if (type == DEMI_INT8 || type == DEMI_UINT8)
        ((uint8_t *)data)[i] = (uint8_t)x;
    else
        ((uint16_t *)data)[i] = (uint16_t)x;
}

static __device__ __forceinline__ int64_t scale_of(const QuantizeArgs &a, int64_t i) {
    const int64_t inner = i % a.inner, place = i / a.inner;
    const int64_t row = place % a.axis / a.block;
    if (!a.blocked) return row;
    return (row + place / a.axis * a.axis_scales) * a.inner + inner;
}

/* What the type that a quotient is computed in leaves of x. */
static __device__ __forceinline__ float rounded(int type, float x) {
    if (type == DEMI_FLOAT16) return __half2float(__float2half_rn(x));
    if (type == DEMI_BFLOAT16) return __bfloat162float(__float2bfloat16_rn(x));
    return x;
}

/* The quotient is rounded to even before the zero point is added; NaN becomes the least. */
extern "C" __global__ void __launch_bounds__(256) quantize(QuantizeArgs a) {
    begin();
    const bool is_signed = a.y_type == DEMI_INT8 || a.y_type == DEMI_INT16;
    const int bits = a.y_type == DEMI_INT8 || a.y_type == DEMI_UINT8 ? 8 : 16;
    const float low = is_signed ? -(float)(1 << (bits - 1)) : 0;
    const float high = is_signed ? (float)((1 << (bits - 1)) - 1) : (float)((1 << bits) - 1);
    EACH(i, a.count) {
        const int64_t s = scale_of(a, i);
        const float x = rounded(a.precision, load_any(a.x, a.x_type, i));
        const float scale = rounded(a.precision, load_any(a.scale, a.scale_type, s));
        float y = rounded(a.precision, __fdiv_rn(x, scale));
        y = y > -200000.0f ? y : -200000.0f;
        y = rintf(y < 200000.0f ? y : 200000.0f);
        if (a.zero) y += (float)load_int(a.zero, a.y_type, s);
        y = y > low ? y : low;
        store_int(a.y, a.y_type, i, (int)(y < high ? y : high));
    }
}

/* Products are rounded once: those of 32 bits in double. */
extern "C" __global__ void __launch_bounds__(256) dequantize(QuantizeArgs a) {
    begin();
    EACH(i, a.count) {
        const int64_t s = scale_of(a, i);
        const int zero = a.zero ? load_int(a.zero, a.x_type, s) : 0;
        const int x = load_int(a.x, a.x_type, i);
        const float scale = load_any(a.scale, a.scale_type, s);
        const float y = a.x_type == DEMI_INT32
                            ? (float)(((double)x - (double)zero) * (double)scale)
                            : (float)(x - zero) * scale;
        store_any(a.y, a.y_type, i, y);
    }
}
