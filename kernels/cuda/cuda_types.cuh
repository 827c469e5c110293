// SPDX-License-Identifier: Apache-2.0
/* What kernels of all families are made of: element types, loads and stores that compute in float,
 * vectors of 16 bytes, sums over warps and blocks. */
#ifndef DEMI_CUDA_TYPES_CUH
#define DEMI_CUDA_TYPES_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "begin.cuh"
#include "demi_dtype.h"

typedef __half f16;
typedef __nv_bfloat16 bf16;

/* ---- one element ----------------------------------------------------------------------------- */

static __device__ __forceinline__ float to_float(float x) {
    return x;
}
static __device__ __forceinline__ float to_float(uint8_t x) {
    return (float)x;
}
static __device__ __forceinline__ float to_float(f16 x) {
    return __half2float(x);
}
static __device__ __forceinline__ float to_float(bf16 x) {
    return __bfloat162float(x);
}

template <typename T> static __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x) {
    return x;
}
template <> __device__ __forceinline__ f16 from_float<f16>(float x) {
    return __float2half_rn(x);
}
template <> __device__ __forceinline__ bf16 from_float<bf16>(float x) {
    return __float2bfloat16_rn(x);
}

/* Element i of memory of any of the float types, by its number: for small operands (a bias, a scale),
 * where a kernel for each type is not worth it. All threads take the same branch. */
static __device__ __forceinline__ float load_any(const void *data, int dtype, int64_t i) {
    if (dtype == DEMI_FLOAT16) return __half2float(((const f16 *)data)[i]);
    if (dtype == DEMI_BFLOAT16) return __bfloat162float(((const bf16 *)data)[i]);
    if (dtype == DEMI_DOUBLE) return (float)((const double *)data)[i];
    return ((const float *)data)[i];
}
static __device__ __forceinline__ void store_any(void *data, int dtype, int64_t i, float x) {
    if (dtype == DEMI_FLOAT16)
        ((f16 *)data)[i] = __float2half_rn(x);
    else if (dtype == DEMI_BFLOAT16)
        ((bf16 *)data)[i] = __float2bfloat16_rn(x);
    else if (dtype == DEMI_DOUBLE)
        ((double *)data)[i] = (double)x;
    else
        ((float *)data)[i] = x;
}

/* ---- vectors --------------------------------------------------------------------------------- */

/* N elements that are loaded and stored at once, from an address that is a multiple of their
 * size. */
template <typename T, int N> struct alignas(sizeof(T) * N) Pack {
    T items[N];
};

template <typename T, int N>
static __device__ __forceinline__ void load_pack(float (&to)[N], const T *from) {
    Pack<T, N> pack = *reinterpret_cast<const Pack<T, N> *>(from);
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = to_float(pack.items[i]);
}
template <typename T, int N>
static __device__ __forceinline__ void store_pack(T *to, const float (&from)[N]) {
    Pack<T, N> pack;
#pragma unroll
    for (int i = 0; i < N; i++) pack.items[i] = from_float<T>(from[i]);
    *reinterpret_cast<Pack<T, N> *>(to) = pack;
}

template <typename T> struct TypeNumber;
template <> struct TypeNumber<float> {
    enum { value = DEMI_FLOAT };
};
template <> struct TypeNumber<f16> {
    enum { value = DEMI_FLOAT16 };
};
template <> struct TypeNumber<bf16> {
    enum { value = DEMI_BFLOAT16 };
};

/* Not part of what calls it: it stands there N times. */
static __device__ __noinline__ float load_far(const void *data, int dtype, int64_t i) {
    return load_any(data, dtype, i);
}

/* N elements from `at` on of memory of any of the float types: one load where it is of T, the usual
 * case, and aligned. Loads one by one, behind a branch each, take the memory's latency N times. */
template <typename T, int N>
static __device__ __forceinline__ void load_pack_any(float (&to)[N], const void *data, int dtype,
                                                     int64_t at) {
    const T *from = (const T *)data + at;
    if (dtype == TypeNumber<T>::value && (uintptr_t)from % (sizeof(T) * N) == 0) {
        load_pack<T, N>(to, from);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = load_far(data, dtype, at + i);
}
template <typename T, int N>
static __device__ __forceinline__ void add_pack_any(float (&to)[N], const void *data, int dtype,
                                                    int64_t at) {
    float items[N];
    load_pack_any<T, N>(items, data, dtype, at);
#pragma unroll
    for (int i = 0; i < N; i++) to[i] += items[i];
}

/* ---- sums ------------------------------------------------------------------------------------ */

enum { WARP = 32 };

static __device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int d = WARP / 2; d; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}
/* NaN wins. */
static __device__ __forceinline__ float max_nan(float a, float b) {
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
}
static __device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int d = WARP / 2; d; d /= 2) x = max_nan(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

/* Of a block of whole warps, 1024 threads at most; all threads have the result. `room` is 32 floats
 * of shared memory, free again when all threads have returned from the next barrier. */
static __device__ __forceinline__ float block_sum(float x, float *room) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = warp_sum(x);
    if (warps == 1) return x;
    __syncthreads(); /* the last use of room is over */
    if (lane == 0) room[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? room[lane] : 0.0f);
}
static __device__ __forceinline__ float block_max(float x, float *room) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = warp_max(x);
    if (warps == 1) return x;
    __syncthreads();
    if (lane == 0) room[warp] = x;
    __syncthreads();
    return warp_max(lane < warps ? room[lane] : -INFINITY);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Every float type, as X(suffix, type); and pairs of them, from the first to the second. */
#define FOR_FLOATS(X) X(f32, float) X(f16, f16) X(bf16, bf16)
#define FOR_FLOAT_PAIRS(X)                                                                         \
    X(f32, f32, float, float)                                                                      \
    X(f32, f16, float, f16)                                                                        \
    X(f32, bf16, float, bf16)                                                                      \
    X(f16, f32, f16, float)                                                                        \
    X(f16, f16, f16, f16)                                                                          \
    X(f16, bf16, f16, bf16)                                                                        \
    X(bf16, f32, bf16, float)                                                                      \
    X(bf16, f16, bf16, f16)                                                                        \
    X(bf16, bf16, bf16, bf16)

#endif
