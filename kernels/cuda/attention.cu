// SPDX-License-Identifier: Apache-2.0
/* Attention without scores in memory: a warp a row of queries. In turns of 32 keys each lane has the
 * score of one, then elements of the result; largest score and sum follow along. */
#include "attention_args.h"
#include "cuda_types.cuh"


/* N elements from `element` on, as floats: at once where they lie so. */
template <typename T, int N>
static __device__ __forceinline__ void load_some(float (&to)[N], const T *from, int64_t step) {
    if (step == 1 && (uintptr_t)from % (N * sizeof(T)) == 0) {
        load_pack<T, N>(to, from);
        return;
    }
#pragma unroll
    for (int j = 0; j < N; j++) to[j] = to_float(from[j * step]);
}

template <typename K>
static __device__ float dot(const float *q, const K *k, int64_t step, int size) {
    constexpr int N = 16 / sizeof(K);
    float sum = 0;
    int i = 0;
    for (; i + N <= size; i += N) {
        float part[N];
        load_some<K, N>(part, k + i * step, step);
#pragma unroll
        for (int j = 0; j < N; j++) sum += q[i + j] * part[j];
    }
    for (; i < size; i++) sum += q[i] * to_float(k[i * step]);
    return sum;
}

/* The score of a key: -inf where it is excluded. */
static __device__ __forceinline__ float masked(const AttentionArgs &a, float score, int64_t keep,
                                               int64_t bias, int64_t key) {
    if (a.keep.data && !((const uint8_t *)a.keep.data)[keep + key * a.keep.element]) score = a.fill;
    if (a.bias.data) score += load_any(a.bias.data, a.bias.type, bias + key * a.bias.element);
    return score;
}

/* K and V have the same type. */
template <typename K> static __device__ void attend(const AttentionArgs &a) {
    constexpr int PARTS = ATTENTION_SIZE / WARP;
    __shared__ float queries[ATTENTION_WARPS][ATTENTION_SIZE];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t row = (int64_t)blockIdx.x * ATTENTION_WARPS + warp;
    const int head = blockIdx.y % a.heads, batch = blockIdx.y / a.heads;
    float *q = queries[warp];
    if (row < a.rows) {
        const int64_t from = batch * a.q.batch + head * a.q.head + row * a.q.row;
        for (int i = lane; i < a.size; i += WARP)
            q[i] = a.scale * load_any(a.q.data, a.q.type, from + i * a.q.element);
    }
    __syncwarp();
    if (row >= a.rows) return; /* whole warps */
    const K *k = (const K *)a.k.data + batch * a.k.batch + head / a.k_share * a.k.head;
    const K *v = (const K *)a.v.data + batch * a.v.batch + head / a.v_share * a.v.head;
    const int64_t keep = batch * a.keep.batch + head * a.keep.head + row * a.keep.row;
    const int64_t bias = batch * a.bias.batch + head * a.bias.head + row * a.bias.row;
    float most = -INFINITY, total = 0, sums[PARTS];
#pragma unroll
    for (int p = 0; p < PARTS; p++) sums[p] = 0;
    for (int64_t first = 0; first < a.keys; first += WARP) {
        const int64_t key = first + lane;
        float score = -INFINITY;
        if (key < a.keys)
            score = masked(a, dot<K>(q, k + key * a.k.row, a.k.element, a.size), keep, bias, key);
        const float before = most;
        most = max_nan(warp_max(score), most);
        const float base = most == -INFINITY ? 0 : most;
        const float weight = key < a.keys ? expf(score - base) : 0;
        const float shrink = before == -INFINITY ? 0 : expf(before - base);
        total = total * shrink + warp_sum(weight);
#pragma unroll
        for (int p = 0; p < PARTS; p++) sums[p] *= shrink;
        const int count = a.keys - first < WARP ? (int)(a.keys - first) : WARP;
        for (int j = 0; j < count; j++) {
            const float w = __shfl_sync(0xffffffffu, weight, j);
            const K *from = v + (first + j) * a.v.row;
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                const int i = p * WARP + lane;
                if (i < a.value) sums[p] += w * to_float(from[i * a.v.element]);
            }
        }
    }
    const int64_t to = batch * a.y.batch + head * a.y.head + row * a.y.row;
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        const int i = p * WARP + lane;
        if (i < a.value)
            store_any((void *)a.y.data, a.y.type, to + i * a.y.element,
                      total == 0 && a.keys == 0 ? 0 : sums[p] / total);
    }
}
#define ATTEND(suffix, T)                                                                          \
    extern "C" __global__ void __launch_bounds__(WARP *ATTENTION_WARPS)                            \
        attend_##suffix(AttentionArgs a) {                                                         \
        attend<T>(a);                                                                              \
    }
FOR_FLOATS(ATTEND)

extern "C" __global__ void __launch_bounds__(256) rotate(RotateArgs a) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const int64_t column = i % (2 * a.half);
        int64_t rest = i, c = 0, s = 0;
        for (int k = a.rank - 1; k >= 0; k--) {
            const int64_t index = rest % a.sizes[k];
            rest /= a.sizes[k];
            c += index * a.c_strides[k];
            s += index * a.s_strides[k];
        }
        const bool low = column < a.half;
        const float other = load_any(a.x, a.x_type, low ? i + a.half : i - a.half);
        const float x = load_any(a.x, a.x_type, i) * load_any(a.c, a.c_type, c) +
                        (low ? -other : other) * load_any(a.s, a.s_type, s);
        store_any(a.y, a.y_type, i, x);
    }
}
