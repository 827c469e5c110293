// SPDX-License-Identifier: Apache-2.0
/* Data that only moves: runs of rows, transposed matrices, slices by index. */
#include <stdint.h>

#include "begin.cuh"
#include "move_args.h"

typedef struct alignas(16) Wide {
    uint32_t items[4];
} Wide;

#define EACH(i, n)                                                                                 \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                      \
         i += (int64_t)gridDim.x * blockDim.x)

template <typename T> static __device__ void rows(const PartsArgs &all) {
    const RowsArgs a = all.parts[blockIdx.y];
    EACH(i, a.rows * a.width) {
        const int64_t row = i / a.width, column = i % a.width;
        ((T *)a.y)[row * a.y_pitch + column] = ((const T *)a.x)[row * a.x_pitch + column];
    }
}

enum { TILE = 32, ROWS = 8 };

/* A tile a block of (TILE, ROWS) threads: both sides are read and written in runs. */
template <typename T> static __device__ void turn(const TransposeArgs &a) {
    __shared__ T tile[TILE][TILE + 1];
    const int64_t tiles_x = (a.columns + TILE - 1) / TILE, tiles_y = (a.rows + TILE - 1) / TILE;
    for (int64_t t = blockIdx.x; t < tiles_x * tiles_y * a.batches; t += gridDim.x) {
        const int64_t batch = t / (tiles_x * tiles_y), rest = t % (tiles_x * tiles_y);
        const int64_t row = rest / tiles_x * TILE, column = rest % tiles_x * TILE;
        const T *x = (const T *)a.x + batch * a.rows * a.columns;
        T *y = (T *)a.y + batch * a.rows * a.columns;
        for (int r = threadIdx.y; r < TILE; r += ROWS)
            if (row + r < a.rows && column + threadIdx.x < a.columns)
                tile[r][threadIdx.x] = x[(row + r) * a.columns + column + threadIdx.x];
        __syncthreads();
        for (int c = threadIdx.y; c < TILE; c += ROWS)
            if (column + c < a.columns && row + threadIdx.x < a.rows)
                y[(column + c) * a.rows + row + threadIdx.x] = tile[threadIdx.x][c];
        __syncthreads();
    }
}

/* The same of few rows: pictures' channels. Tiles of 32 rows would be nearly empty. */
template <typename T> static __device__ void turn_few(const TransposeArgs &a) {
    EACH(i, a.batches * a.columns) {
        const int64_t batch = i / a.columns, column = i % a.columns;
        const T *x = (const T *)a.x + batch * a.rows * a.columns + column;
        T *y = (T *)a.y + i * a.rows;
#pragma unroll 4
        for (int r = 0; r < (int)a.rows; r++) y[r] = x[r * a.columns];
    }
}

template <typename T> static __device__ void gather(const GatherArgs &a) {
    EACH(i, a.outer * a.count * a.inner) {
        const int64_t column = i % a.inner, row = i / a.inner % a.count;
        const int64_t outer = i / a.inner / a.count;
        int64_t index = a.wide ? ((const int64_t *)a.indices)[row] : ((const int32_t *)a.indices)[row];
        if (index < 0) index += a.size;
        T value = {};
        if (index >= 0 && index < a.size)
            value = ((const T *)a.x)[(outer * a.size + index) * a.inner + column];
        ((T *)a.y)[i] = value;
    }
}

/* Which of `kept` elements stands at `at`; -1: none, the value does. */
static __device__ __forceinline__ int64_t padded(int mode, int64_t at, int64_t kept) {
    if (at >= 0 && at < kept) return at;
    if (mode == 0) return -1;
    if (mode == 2 || kept == 1) return at < 0 ? 0 : kept - 1;
    const int64_t period = mode == 3 ? kept : 2 * (kept - 1);
    at = (at % period + period) % period;
    return at < kept ? at : period - at;
}

template <typename T> static __device__ void pad(const PadArgs &a) {
    T value;
    memcpy(&value, &a.value, sizeof value);
    EACH(i, a.count) {
        int64_t rest = i, from = 0;
        bool inside = true;
#pragma unroll 1
        for (int k = a.rank - 1; k >= 0; k--) {
            const int64_t at = padded(a.mode, rest % a.total[k] - a.before[k], a.kept[k]);
            rest /= a.total[k];
            inside = inside && at >= 0;
            from += (at + a.crop[k]) * a.strides[k];
        }
        ((T *)a.y)[i] = inside ? ((const T *)a.x)[from] : value;
    }
}

template <typename T> static __device__ void triangle(const TriangleArgs &a) {
    EACH(i, a.count) {
        const int64_t row = i / a.columns % a.rows, column = i % a.columns;
        const int64_t above = column - row - a.diagonal;
        T value = {};
        if (a.upper ? above >= 0 : above <= 0) value = ((const T *)a.x)[i];
        ((T *)a.y)[i] = value;
    }
}

#define MOVES(suffix, T)                                                                           \
    extern "C" __global__ void __launch_bounds__(256) rows_##suffix(PartsArgs a) {                 \
        begin();                                                                                   \
        rows<T>(a);                                                                                \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) gather_##suffix(GatherArgs a) {              \
        begin();                                                                                   \
        gather<T>(a);                                                                              \
    }
#define TURNS(suffix, T)                                                                           \
    extern "C" __global__ void __launch_bounds__(256) pad_##suffix(PadArgs a) {                    \
        begin();                                                                                   \
        pad<T>(a);                                                                                 \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) triangle_##suffix(TriangleArgs a) {          \
        begin();                                                                                   \
        triangle<T>(a);                                                                            \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) turn_##suffix(TransposeArgs a) {                  \
        begin();                                                                                   \
        turn<T>(a);                                                                                \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) turn_few_##suffix(TransposeArgs a) {              \
        begin();                                                                                   \
        turn_few<T>(a);                                                                            \
    }
MOVES(x1, uint8_t)
MOVES(x2, uint16_t)
MOVES(x4, uint32_t)
MOVES(x8, uint64_t)
MOVES(x16, Wide)
TURNS(x1, uint8_t)
TURNS(x2, uint16_t)
TURNS(x4, uint32_t)
TURNS(x8, uint64_t)
