// SPDX-License-Identifier: Apache-2.0
/* Convolutions of 16 bit, channels-last, on tensor cores, with all that follows them in the same kernel:
 * a matrix of pixels by taps and channels, which is read where its elements lie, times weights. */
#include "mma.cuh"
#include "tile_args.h"
#include "unary.cuh"

enum { THREADS = 128, PAD = 8, CHUNK = 8 }; /* CHUNK elements are 16 bytes */

/* Steps of the depth that are under way at once: as many as 48 kB of shared memory have room for. Small
 * blocks have little to do in a step and wait for memory: the more are under way, the less. */
template <int ROWS, int COLUMNS> struct Stages {
    /* 16: Room.done */
    enum { count = ((48 << 10) - 16) / ((ROWS + COLUMNS) * (TILE_DEPTH + PAD) * 2) };
};

/* What of the output a block has: ROWS pixels by COLUMNS filters, by 2 x 2 warps. */
template <typename T, int ROWS, int COLUMNS> union Shared {
    struct {
        T left[Stages<ROWS, COLUMNS>::count][ROWS][TILE_DEPTH + PAD];
        T right[Stages<ROWS, COLUMNS>::count][COLUMNS][TILE_DEPTH + PAD];
    } stages;
    float sums[ROWS][COLUMNS + 4];
};
template <typename T, int ROWS, int COLUMNS> struct Room {
    Shared<T, ROWS, COLUMNS> s;
    uint32_t done; /* blocks of the tile, this one not counted */
};

/* Where a thread's chunk of the depth is: its channel and tap, and that in elements of x. A warp has its
 * scheduler to itself where there are few blocks, so a step takes as long as its longest chain of
 * operations: what is within a tap only adds, and where x has no such pixel is asked once a tap. */
struct Position {
    int at, channel, row, column;
    int64_t offset;
    unsigned there; /* a bit for each of the thread's pixels */
};

/* What follows the product, a chunk of a pixel's filters at a time. */
template <typename T, int ROWS, int COLUMNS>
static __device__ __forceinline__ void finish(const TileArgs &a, const Shared<T, ROWS, COLUMNS> &s,
                                              int first_row, int first_column) {
    const bool whole = a.filters % CHUNK == 0;
    for (int i = threadIdx.x; i < ROWS * COLUMNS / CHUNK; i += THREADS) {
        const int row = i / (COLUMNS / CHUNK), from = i % (COLUMNS / CHUNK) * CHUNK;
        const int pixel = first_row + row, filter = first_column + from;
        if (pixel >= a.pixels || filter >= a.filters) continue;
        const int64_t at = (int64_t)pixel * a.filters + filter;
        float y[CHUNK];
#pragma unroll
        for (int j = 0; j < CHUNK; j++) y[j] = s.sums[row][from + j];
        if (whole) {
            if (a.bias) add_pack_any<T, CHUNK>(y, a.bias, a.bias_type, filter);
            if (a.z) add_pack_any<T, CHUNK>(y, a.z, a.z_type, at);
            activate_pack(a.op, y, a.p, a.q);
            store_pack<T, CHUNK>((T *)a.y + at, y);
            continue;
        }
        for (int j = 0; j < CHUNK && filter + j < a.filters; j++) {
            float one = s.sums[row][from + j];
            if (a.bias) one += load_any(a.bias, a.bias_type, filter + j);
            if (a.z) one += load_any(a.z, a.z_type, at + j);
            ((T *)a.y)[at + j] = from_float<T>(activate(a.op, one, a.p, a.q));
        }
    }
}

/* Adds up what the blocks of a tile have, in their order, whichever is the last: true for that one, whose
 * sums are the tile's. */
template <int COUNT>
static __device__ __forceinline__ bool gather_sums(const TileArgs &a, float (&sums)[COUNT],
                                                   uint32_t &done) {
    const int tile = blockIdx.y * gridDim.x + blockIdx.x, tiles = gridDim.x * gridDim.y;
    float *mine = a.partial + ((int64_t)blockIdx.z * tiles + tile) * COUNT * THREADS + threadIdx.x;
#pragma unroll
    for (int i = 0; i < COUNT; i++) mine[i * THREADS] = sums[i];
    __threadfence();
    __syncthreads(); /* all of the block's are there before it counts as done */
    if (threadIdx.x == 0) done = atomicAdd(a.counters + tile, 1);
    __syncthreads();
    if (done + 1 != gridDim.z) return false;
    __threadfence();
#pragma unroll
    for (int i = 0; i < COUNT; i++) sums[i] = 0;
    for (int z = 0; z < gridDim.z; z++) {
        const float *from = a.partial + ((int64_t)z * tiles + tile) * COUNT * THREADS + threadIdx.x;
#pragma unroll
        for (int i = 0; i < COUNT; i++) sums[i] += __ldcg(from + i * THREADS);
    }
    if (threadIdx.x == 0) a.counters[tile] = 0;
    return true;
}

template <typename T, int ROWS, int COLUMNS>
static __device__ __forceinline__ void convolve(const TileArgs &a) {
    constexpr int LEFT = ROWS / 32, RIGHT = COLUMNS / 32; /* chunks of a thread */
    constexpr int M = ROWS / 32, N = COLUMNS / 16;        /* a warp's products, 16 and 8 */
    constexpr int STAGES = Stages<ROWS, COLUMNS>::count;
    __shared__ alignas(16) Room<T, ROWS, COLUMNS> room;
    Shared<T, ROWS, COLUMNS> &s = room.s;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int first_row = blockIdx.x * ROWS, first_column = blockIdx.y * COLUMNS;
    const int line = threadIdx.x / 4, chunk = threadIdx.x % 4 * CHUNK;
    const T *x[LEFT]; /* of the first tap, wherever that is */
    int top[LEFT], side[LEFT];
#pragma unroll
    for (int i = 0; i < LEFT; i++) {
        const int pixel = first_row + line + i * 32;
        const int column = pixel % a.out[1], rest = pixel / a.out[1];
        const int row = rest % a.out[0], image = rest / a.out[0];
        top[i] = row * a.stride[0] - a.begin[0];
        side[i] = column * a.stride[1] - a.begin[1];
        x[i] = (const T *)a.x + image * a.x_image + top[i] * a.x_row + side[i] * a.x_column;
        if (pixel >= a.pixels) top[i] = INT32_MIN / 2; /* outside of every image */
    }
    const int all_steps = (a.depth + TILE_DEPTH - 1) / TILE_DEPTH;
    const int part = (all_steps + gridDim.z - 1) / gridDim.z, begin = blockIdx.z * part;
    const int steps = min(part, all_steps - begin); /* of this block; none are below 1 */
    Position p = {begin * TILE_DEPTH + chunk, 0, 0, 0, 0, 0};
    p.channel = p.at % a.channels;
    p.column = p.at / a.channels % a.taps[1];
    p.row = p.at / a.channels / a.taps[1];
    auto enter_tap = [&]() {
        const int row = p.row * a.dilation[0], column = p.column * a.dilation[1];
        p.offset = row * a.x_row + column * a.x_column + p.channel;
        p.there = 0;
#pragma unroll
        for (int i = 0; i < LEFT; i++)
            if ((unsigned)(top[i] + row) < (unsigned)a.in[0] &&
                (unsigned)(side[i] + column) < (unsigned)a.in[1])
                p.there |= 1u << i;
    };
    enter_tap();
    const T *w = (const T *)a.w + (int64_t)(first_column + line) * a.depth + p.at;
    const int64_t next_filters = (int64_t)32 * a.depth;
    unsigned filters = 0; /* a bit for each of the thread's */
#pragma unroll
    for (int i = 0; i < RIGHT; i++)
        if (first_column + line + i * 32 < a.filters) filters |= 1u << i;
    const uint32_t left_to = shared_address(&s.stages.left[0][line][chunk]);
    const uint32_t right_to = shared_address(&s.stages.right[0][line][chunk]);
    constexpr uint32_t NEXT_LINE = 32 * sizeof s.stages.left[0][0];
    auto fill = [&](int stage) {
        const bool inside = p.at < a.depth;
#pragma unroll
        for (int i = 0; i < LEFT; i++) {
            const bool there = inside && p.there >> i & 1;
            fetch(left_to + stage * (uint32_t)sizeof s.stages.left[0] + i * NEXT_LINE,
                  there ? x[i] + p.offset : (const T *)a.x, there);
        }
#pragma unroll
        for (int i = 0; i < RIGHT; i++) {
            const bool there = inside && filters >> i & 1;
            fetch(right_to + stage * (uint32_t)sizeof s.stages.right[0] + i * NEXT_LINE,
                  there ? w + i * next_filters : (const T *)a.w, there);
        }
        p.at += TILE_DEPTH;
        w += TILE_DEPTH;
        p.offset += TILE_DEPTH;
        p.channel += TILE_DEPTH;
        if (p.channel < a.channels) return;
        do {
            p.channel -= a.channels;
            if (++p.column == a.taps[1]) p.column = 0, p.row++;
        } while (p.channel >= a.channels);
        enter_tap();
    };
    float all[M * N * 4];
    float(&sums)[M][N][4] = *reinterpret_cast<float(*)[M][N][4]>(&all);
#pragma unroll
    for (int i = 0; i < M * N * 4; i++) all[i] = 0;
#pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (stage < steps) fill(stage);
        end_group();
    }
    const int warp_row = warp / 2 * (ROWS / 2), warp_column = warp % 2 * (COLUMNS / 2);
    int stage = 0, behind = STAGES - 1; /* the one that is multiplied, and the one that is filled */
    /* of small tiles, while the first fragments are on their way; large ones lack the registers */
    constexpr bool EARLY = ROWS * COLUMNS > 64 * 64;
    auto fill_behind = [&](int step) {
        if (step + STAGES - 1 < steps) fill(behind);
        end_group();
    };
    for (int step = 0; step < steps; step++) {
        wait_groups<STAGES - 2>();
        __syncthreads(); /* this stage is there, and the last one was read */
        if (EARLY) fill_behind(step);
#pragma unroll
        for (int k = 0; k < TILE_DEPTH; k += 16) {
            uint32_t left[M][4], right[N][2];
#pragma unroll
            for (int m = 0; m < M; m++)
                load_matrices(left[m],
                          &s.stages.left[stage][warp_row + m * 16 + lane % 16][k + lane / 16 * 8]);
#pragma unroll
            for (int n = 0; n < N; n += 2) {
                uint32_t four[4];
                load_matrices(four, &s.stages.right[stage][warp_column + n * 8 + lane / 16 * 8 + lane % 8]
                                        [k + lane / 8 % 2 * 8]);
                right[n][0] = four[0], right[n][1] = four[1];
                right[n + 1][0] = four[2], right[n + 1][1] = four[3];
            }
            if (k == 0 && !EARLY) fill_behind(step);
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int n = 0; n < N; n++) multiply<T>(sums[m][n], left[m], right[n]);
        }
        if (++stage == STAGES) stage = 0;
        if (++behind == STAGES) behind = 0;
    }
    wait_groups<0>();
    __syncthreads(); /* what was read of the stages gives way to sums */
    if (gridDim.z > 1 && !gather_sums(a, all, room.done)) return;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s.sums[warp_row + m * 16 + i / 2 * 8 + lane / 4]
                      [warp_column + n * 8 + lane % 4 * 2 + i % 2] = sums[m][n][i];
    __syncthreads();
    finish<T, ROWS, COLUMNS>(a, s, first_row, first_column);
}

#define TILE(suffix, T, ROWS, COLUMNS)                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS) tile_##ROWS##x##COLUMNS##_##suffix(      \
        TileArgs a) {                                                                              \
        convolve<T, ROWS, COLUMNS>(a);                                                             \
    }
#define TILES(suffix, T)                                                                           \
    TILE(suffix, T, 64, 32) TILE(suffix, T, 64, 64) TILE(suffix, T, 128, 32) TILE(suffix, T, 128, 64)
TILES(f16, f16)
TILES(bf16, bf16)
