// SPDX-License-Identifier: Apache-2.0
/* Products of matrices of few rows, and where no library has them; and what follows products and
 * convolutions. */
#include "product_args.h"
#include "unary.cuh"

/* ---- behind a product ------------------------------------------------------------------------ */

static __device__ __forceinline__ float finish(const EpilogueArgs &a, float x, uint32_t i) {
    x *= a.scale;
    if (a.bias) x += load_far(a.bias, a.bias_type, a.bias_step * (i / a.inner % a.columns));
    if (a.z) x += load_far(a.z, a.z_type, i);
    return activate(a.op, x, a.p, a.q);
}

template <typename From, typename To> static __device__ void epilogue_all(const EpilogueArgs &a) {
    constexpr int N = 16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
    const uint32_t step = gridDim.x * blockDim.x;
    const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
    const From *x = (const From *)a.x;
    To *y = (To *)a.y;
    const bool aligned = ((uintptr_t)x | (uintptr_t)y) % 16 == 0;
    const uint32_t packs = aligned ? a.count / N : 0;
    const bool in_row = !a.bias || (a.inner == 1 && a.bias_step && a.columns % N == 0);
    for (uint32_t k = first; k < packs; k += step) {
        float values[N];
        load_pack<From, N>(values, x + k * N);
        if (in_row) { /* a pack's columns follow each other */
#pragma unroll
            for (int j = 0; j < N; j++) values[j] *= a.scale;
            if (a.bias) add_pack_any<To, N>(values, a.bias, a.bias_type, k * N % a.columns);
            if (a.z) add_pack_any<To, N>(values, a.z, a.z_type, k * N);
            activate_product(a.op, values, a.p, a.q);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++) values[j] = finish(a, values[j], k * N + j);
        }
        store_pack<To, N>(y + k * N, values);
    }
    for (uint32_t k = packs * N + first; k < a.count; k += step)
        y[k] = from_float<To>(finish(a, to_float(x[k]), k));
}

#define EPILOGUE(from, to, From, To)                                                               \
    extern "C" __global__ void __launch_bounds__(256) epilogue_##from##_##to(EpilogueArgs a) {     \
        begin();                                                                                   \
        epilogue_all<From, To>(a);                                                                 \
    }
FOR_FLOAT_PAIRS(EPILOGUE)

/* ---- products of few rows --------------------------------------------------------------------- */

/* A warp's lanes sum up one column for up to M rows, whose elements all warps read. */
template <typename T, int M> static __device__ void few(const FewArgs &a) {
    constexpr int N = 16 / sizeof(T);
    const int lane = threadIdx.x % WARP;
    const int64_t column = (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (column >= a.columns) return; /* the whole warp */
    const T *x = (const T *)a.x, *w = (const T *)a.w + column * a.depth;
    float sums[M];
#pragma unroll
    for (int m = 0; m < M; m++) sums[m] = 0;
#pragma unroll 4
    for (int k = lane * N; k < a.depth; k += WARP * N) {
        float weights[N];
        load_pack<T, N>(weights, w + k);
#pragma unroll
        for (int m = 0; m < M; m++) {
            if (m >= a.rows) continue;
            float items[N];
            load_pack<T, N>(items, x + (int64_t)m * a.depth + k);
#pragma unroll
            for (int j = 0; j < N; j++) sums[m] += items[j] * weights[j];
        }
    }
    float y = 0;
#pragma unroll
    for (int m = 0; m < M; m++) {
        const float sum = warp_sum(sums[m]);
        if (lane == m) y = sum;
    }
    if (lane >= a.rows) return;
    const int64_t at = lane * (int64_t)a.columns + column;
    y *= a.alpha;
    if (a.bias) y += load_any(a.bias, a.bias_type, a.bias_step * column);
    if (a.z) y += load_any(a.z, a.z_type, at);
    store_any(a.y, a.y_type, at, activate(a.op, y, a.p, a.q));
}
#define FEW(suffix, T)                                                                             \
    extern "C" __global__ void __launch_bounds__(256) few_1_##suffix(FewArgs a) {                  \
        begin();                                                                                   \
        few<T, 1>(a);                                                                              \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) few_4_##suffix(FewArgs a) {                  \
        begin();                                                                                   \
        few<T, FEW_ROWS>(a);                                                                       \
    }
FOR_FLOATS(FEW)

/* ---- products -------------------------------------------------------------------------------- */

enum { TILE = 32, ROWS = 8 }; /* of the result a block; a thread has TILE / ROWS of a column */

template <typename T> struct Sum {
    typedef T type;
    static __device__ T read(T x) {
        return x;
    }
};
template <> struct Sum<f16> {
    typedef float type;
    static __device__ float read(f16 x) {
        return __half2float(x);
    }
};
template <> struct Sum<bf16> {
    typedef float type;
    static __device__ float read(bf16 x) {
        return __bfloat162float(x);
    }
};

/* Blocks of (TILE, ROWS) threads. Sums of floats are stored as float whatever the factors are. */
template <typename T> static __device__ void gemm_all(const GemmArgs &g) {
    typedef typename Sum<T>::type S;
    __shared__ S left[TILE][TILE + 1], right[TILE][TILE + 1];
    const T *a = (const T *)g.a + blockIdx.z * g.a_batch;
    const T *b = (const T *)g.b + blockIdx.z * g.b_batch;
    S *y = (S *)g.y + blockIdx.z * g.y_batch;
    const int64_t row = (int64_t)blockIdx.x * TILE, column = (int64_t)blockIdx.y * TILE;
    S sums[TILE / ROWS];
#pragma unroll
    for (int r = 0; r < TILE / ROWS; r++) sums[r] = 0;
    for (int64_t k = 0; k < g.k; k += TILE) {
#pragma unroll
        for (int r = 0; r < TILE / ROWS; r++) {
            const int y_tile = threadIdx.y + r * ROWS, x_tile = threadIdx.x;
            const int64_t i = row + y_tile, j = column + x_tile;
            left[y_tile][x_tile] = i < g.m && k + x_tile < g.k
                                       ? Sum<T>::read(a[i * g.a_row + (k + x_tile) * g.a_column])
                                       : (S)0;
            right[y_tile][x_tile] = j < g.n && k + y_tile < g.k
                                        ? Sum<T>::read(b[(k + y_tile) * g.b_row + j * g.b_column])
                                        : (S)0;
        }
        __syncthreads();
#pragma unroll 8
        for (int d = 0; d < TILE; d++)
#pragma unroll
            for (int r = 0; r < TILE / ROWS; r++)
                sums[r] += left[threadIdx.y + r * ROWS][d] * right[d][threadIdx.x];
        __syncthreads();
    }
    const int64_t j = column + threadIdx.x;
#pragma unroll
    for (int r = 0; r < TILE / ROWS; r++) {
        const int64_t i = row + threadIdx.y + r * ROWS;
        if (i < g.m && j < g.n) y[i * g.n + j] = (S)(g.alpha == 1 ? sums[r] : (S)(g.alpha * sums[r]));
    }
}

#define GEMM(suffix, T)                                                                            \
    extern "C" __global__ void __launch_bounds__(TILE *ROWS) gemm_##suffix(GemmArgs g) {           \
        begin();                                                                                   \
        gemm_all<T>(g);                                                                            \
    }
FOR_FLOATS(GEMM)
GEMM(f64, double)
GEMM(i32, int32_t)
GEMM(i64, int64_t)
