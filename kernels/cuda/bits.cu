// SPDX-License-Identifier: Apache-2.0
/* Products by weights of 4 and 8 bits: of few rows, weights are read as they are, which is all that such a
 * product takes time for; of many, they are unpacked for one that is made of floats. */
#include "bits_args.h"
#include "cuda_types.cuh"

/* The scale and zero point of a column's block. By functions, as the compiler would make a loop over blocks of
 * its own for each type that they may have. */
static __device__ __noinline__ float factor_at(const void *data, int type, int64_t i) {
    return load_any(data, type, i);
}
static __device__ __forceinline__ float scale_of(const BitsArgs &a, int64_t column, int block) {
    return factor_at(a.scale, a.scale_type, column * a.blocks + block);
}
static __device__ __noinline__ float packed_at(const uint8_t *zero, int bits, int blocks,
                                               int64_t column, int block) {
    if (!zero) return (float)(1 << (bits - 1));
    if (bits == 8) return zero[column * blocks + block];
    return zero[column * ((blocks + 1) / 2) + block / 2] >> block % 2 * 4 & 15;
}
static __device__ __forceinline__ float zero_of(const BitsArgs &a, int64_t column, int block) {
    return a.zero && a.zero_type != DEMI_UINT8
               ? factor_at(a.zero, a.zero_type, column * a.blocks + block)
               : packed_at((const uint8_t *)a.zero, a.bits, a.blocks, column, block);
}

/* ---- few rows -------------------------------------------------------------------------------- */

enum { FOUR = 4 }; /* weights that are taken at once */

/* Adds four weights of a block, without its scale, to each row's sum; those of rows that there are none of
 * are the last one's. */
template <typename T, int ROWS>
static __device__ __forceinline__ void add_four(float (&sums)[ROWS], const BitsArgs &a,
                                                const float (&w)[FOUR], int k) {
    if (k >= a.depth) return; /* the last block is not full */
    const T *x = (const T *)a.x + k;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float part[FOUR];
        load_pack<T, FOUR>(part, x + (r < a.rows ? r : a.rows - 1) * a.depth);
#pragma unroll
        for (int j = 0; j < FOUR; j++) sums[r] += w[j] * part[j];
    }
}

/* A warp a column, which reads 16 bytes a lane; they are of one block, or (narrow) of as many as there
 * are words. */
template <typename T, int ROWS> static __device__ void multiply_bits(const BitsArgs &a) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t column = (int64_t)blockIdx.x * BITS_WARPS + warp;
    if (column >= a.columns) return; /* whole warps */
    const int words = a.bytes / 4, each = words % 4 == 0 ? 4 : 1, in_word = 32 / a.bits;
    const uint32_t *row = (const uint32_t *)(a.weights + column * a.blocks * a.bytes);
    float sums[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) sums[r] = 0;
    for (int at = lane * each; at < a.blocks * words; at += WARP * each) {
        const int block = at / words;
        uint4 read = {row[at], 0, 0, 0};
        if (each == 4) read = *reinterpret_cast<const uint4 *>(row + at);
        const float scale = scale_of(a, column, block);
        const float zero = zero_of(a, column, block);
        int k = block * a.block + (at - block * words) * in_word;
        float some[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) some[r] = 0;
#pragma unroll 1
        for (int c = 0; c < each; c++) {
            uint32_t word = c == 0 ? read.x : c == 1 ? read.y : c == 2 ? read.z : read.w;
#pragma unroll 1
            for (int done = 0; done < in_word; done += FOUR, k += FOUR) {
                float w[FOUR];
#pragma unroll
                for (int j = 0; j < FOUR; j++) {
                    w[j] = (float)(word & ((1 << a.bits) - 1)) - zero;
                    word >>= a.bits;
                }
                add_four<T, ROWS>(some, a, w, k);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) sums[r] += scale * some[r];
    }
    float mine = 0; /* a lane a row */
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float sum = warp_sum(sums[r]);
        if (lane == r) mine = sum;
    }
    if (lane >= a.rows) return;
    const int64_t to = lane * a.columns + column;
    if (a.bias) mine += load_any(a.bias, a.bias_type, column);
    if (a.z) mine += load_any(a.z, a.z_type, to);
    store_any(a.y, a.y_type, to, mine);
}
#define MULTIPLY_BITS(suffix, T)                                                                   \
    extern "C" __global__ void __launch_bounds__(WARP *BITS_WARPS, 4)                               \
        multiply_bits_1_##suffix(BitsArgs a) {                                                     \
        begin();                                                                                   \
        multiply_bits<T, 1>(a);                                                                    \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(WARP *BITS_WARPS, 2)                               \
        multiply_bits_8_##suffix(BitsArgs a) {                                                     \
        begin();                                                                                   \
        multiply_bits<T, BITS_ROWS>(a);                                                            \
    }
FOR_FLOATS(MULTIPLY_BITS)

/* ---- many rows ------------------------------------------------------------------------------- */

/* y (columns, depth), an element a thread. */
template <typename T> static __device__ void unpack_bits(const BitsArgs &a) {
    const int64_t count = a.columns * a.depth, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const int64_t column = i / a.depth;
        const int k = (int)(i - column * a.depth), block = k / a.block, in = k - block * a.block;
        const uint8_t *from = a.weights + (column * a.blocks + block) * a.bytes;
        const int w = a.bits == 8 ? from[in] : from[in / 2] >> in % 2 * 4 & 15;
        ((T *)a.y)[i] =
            from_float<T>(((float)w - zero_of(a, column, block)) * scale_of(a, column, block));
    }
}
#define UNPACK_BITS(suffix, T)                                                                     \
    extern "C" __global__ void __launch_bounds__(256) unpack_bits_##suffix(BitsArgs a) {           \
        begin();                                                                                   \
        unpack_bits<T>(a);                                                                         \
    }
FOR_FLOATS(UNPACK_BITS)
