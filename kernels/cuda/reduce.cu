// SPDX-License-Identifier: Apache-2.0
/* Reductions over any axes, sums in float; where the largest element is. */
#include "cuda_types.cuh"
#include "reduce_args.h"

static __device__ __forceinline__ int64_t offset_of(int64_t index, int rank, const int64_t *sizes,
                                                    const int64_t *strides) {
    int64_t at = 0;
#pragma unroll 1
    for (int i = rank - 1; i > 0; i--) {
        at += index % sizes[i] * strides[i];
        index /= sizes[i];
    }
    return rank ? at + index * strides[0] : 0;
}

static __device__ __forceinline__ float start(int op) {
    return op == REDUCTION_MAX || op == REDUCTION_LOG_SUM_EXP ? -INFINITY
           : op == REDUCTION_MIN                           ? INFINITY
           : op == REDUCTION_PROD                          ? 1.0f
                                                        : 0.0f;
}

static __device__ __forceinline__ float combine(int op, float a, float b) {
    switch (op) {
    case REDUCTION_MAX:
    case REDUCTION_LOG_SUM_EXP: return max_nan(a, b);
    case REDUCTION_MIN: return a != a || a < b ? a : b;
    case REDUCTION_PROD: return a * b;
    default: return a + b;
    }
}

static __device__ __forceinline__ float taken(int op, float x, float most) {
    switch (op) {
    case REDUCTION_L1: return fabsf(x);
    case REDUCTION_L2:
    case REDUCTION_SUM_SQUARE: return x * x;
    default: return x;
    }
}

static __device__ __forceinline__ float ended(int op, float x, int64_t count) {
    switch (op) {
    case REDUCTION_MEAN: return x / (float)count;
    case REDUCTION_L2: return sqrtf(x);
    case REDUCTION_LOG_SUM: return logf(x);
    default: return x;
    }
}

/* Over the threads of a block, which all have the result. */
static __device__ float over_block(int op, float x, float *room) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
#pragma unroll
    for (int d = WARP / 2; d; d /= 2) x = combine(op, x, __shfl_xor_sync(0xffffffffu, x, d));
    __syncthreads();
    if (lane == 0) room[warp] = x;
    __syncthreads();
    x = lane < warps ? room[lane] : start(op);
#pragma unroll
    for (int d = WARP / 2; d; d /= 2) x = combine(op, x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

static __device__ float walk(const ReduceArgs &a, int64_t at, int64_t first, int64_t step, int op,
                             float most) {
    float x = start(op);
    for (int64_t i = first; i < a.reduced; i += step) {
        const float value = load_any(a.x, a.x_type, at + offset_of(i, a.rank, a.sizes, a.strides));
        x = combine(op, x, a.op == REDUCTION_LOG_SUM_EXP && op == REDUCTION_SUM ? expf(value - most)
                                                                          : taken(op, value, most));
    }
    return x;
}

/* A block a result. */
extern "C" __global__ void __launch_bounds__(256) reduce_block(ReduceArgs a) {
    begin();
    __shared__ float room[WARP];
    for (int64_t r = blockIdx.x; r < a.results; r += gridDim.x) {
        const int64_t at = offset_of(r, a.kept_rank, a.kept_sizes, a.kept_strides);
        float x = over_block(a.op, walk(a, at, threadIdx.x, blockDim.x, a.op, 0), room);
        if (a.op == REDUCTION_LOG_SUM_EXP) {
            const float most = isinf(x) ? 0 : x;
            x = over_block(REDUCTION_SUM, walk(a, at, threadIdx.x, blockDim.x, REDUCTION_SUM, most), room);
            x = most + logf(x);
        }
        if (threadIdx.x == 0) store_any(a.y, a.y_type, r, ended(a.op, x, a.reduced));
    }
}

/* A thread a result. */
extern "C" __global__ void __launch_bounds__(256) reduce_thread(ReduceArgs a) {
    begin();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; r < a.results; r += step) {
        const int64_t at = offset_of(r, a.kept_rank, a.kept_sizes, a.kept_strides);
        float x = walk(a, at, 0, 1, a.op, 0);
        if (a.op == REDUCTION_LOG_SUM_EXP) {
            const float most = isinf(x) ? 0 : x;
            x = most + logf(walk(a, at, 0, 1, REDUCTION_SUM, most));
        }
        store_any(a.y, a.y_type, r, ended(a.op, x, a.reduced));
    }
}

/* Sums and means of elements that lie side by side: a lane has N results, and what is reduced is
 * dealt out to a block's warps, some of it on its way at once. */
template <typename T> static __device__ __forceinline__ void reduce_side(const ReduceArgs &a) {
    constexpr int N = 16 / sizeof(T), WARPS = REDUCE_SIDE_THREADS / WARP, SOME = 4;
    __shared__ float room[WARPS][N][WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t r = ((int64_t)blockIdx.x * WARP + lane) * N;
    const bool there = r < a.results;
    const T *x = (const T *)a.x + (there ? offset_of(r, a.kept_rank, a.kept_sizes, a.kept_strides) : 0);
    float sums[N];
#pragma unroll
    for (int j = 0; j < N; j++) sums[j] = 0;
    for (int64_t first = warp; first < a.reduced && there; first += WARPS * SOME) {
        Pack<T, N> some[SOME];
#pragma unroll
        for (int k = 0; k < SOME; k++) {
            const int64_t i = first + k * WARPS;
            if (i < a.reduced)
                some[k] = *reinterpret_cast<const Pack<T, N> *>(x + offset_of(i, a.rank, a.sizes, a.strides));
        }
#pragma unroll
        for (int k = 0; k < SOME; k++) {
            if (first + k * WARPS >= a.reduced) break;
#pragma unroll
            for (int j = 0; j < N; j++) sums[j] += to_float(some[k].items[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < N; j++) room[warp][j][lane] = sums[j];
    __syncthreads();
    for (int k = threadIdx.x; k < N * WARP; k += REDUCE_SIDE_THREADS) { /* in the order of results */
        const int64_t to = (int64_t)blockIdx.x * WARP * N + k;
        if (to >= a.results) break;
        float sum = room[0][k % N][k / N];
#pragma unroll
        for (int w = 1; w < WARPS; w++) sum += room[w][k % N][k / N];
        store_any(a.y, a.y_type, to, ended(a.op, sum, a.reduced));
    }
}
#define REDUCE_SIDE(suffix, T)                                                                     \
    extern "C" __global__ void __launch_bounds__(REDUCE_SIDE_THREADS)                              \
        reduce_side_##suffix(ReduceArgs a) {                                                       \
        begin();                                                                                   \
        reduce_side<T>(a);                                                                         \
    }
FOR_FLOATS(REDUCE_SIDE)
