// SPDX-License-Identifier: Apache-2.0
/* Convolutions of 16 bit, channels-last, on tensor cores, with all that follows them in the same kernel:
 * a matrix of pixels by taps and channels, which is read where its elements lie, times weights. */
#include "mma.cuh"
#include "tile_args.h"
#include "unary.cuh"

enum { CHUNK = 8, CHUNKS = TILE_DEPTH / CHUNK }; /* elements of 16 bytes; of a line of shared memory */

/* What of the output a block has: ROWS pixels by COLUMNS filters, by WM x WN warps. A stage of the depth is
 * ROWS lines of x and COLUMNS of w, of TILE_DEPTH elements each; chunk c of line l lies at c ^ l % CHUNKS,
 * so that eight lines' chunks of the same depth, which ldmatrix reads together, are in eight places. */
template <int ROWS, int COLUMNS, int WM, int WN> struct Shape {
    static constexpr int threads = WM * WN * WARP, m = ROWS / WM / 16, n = COLUMNS / WN / 8;
    static constexpr int lines = threads / CHUNKS; /* that are fetched at once */
    static constexpr int left = ROWS / lines, right = COLUMNS / lines;
    static constexpr uint32_t line = TILE_DEPTH * 2;
    static constexpr int stages = TILE_STAGES(ROWS, COLUMNS);
    static constexpr uint32_t right_at = stages * ROWS * line;
    static constexpr int pitch = COLUMNS + 8; /* of the sums, which then take the stages' place */
};

/* Where a thread's chunk of the depth is: its channel and tap, and that in elements of x. A warp has its
 * scheduler to itself where there are few blocks, so a step takes as long as its longest chain of
 * operations: what is within a tap only adds, and where x has no such pixel is asked once a tap. */
struct Position {
    int at, channel, row, column;
    int64_t offset;
    unsigned there; /* a bit for each of the thread's pixels */
};

/* ---- what follows the product ---------------------------------------------------------------- */

enum { FINISHED = 4 }; /* filters of a pixel that a thread finishes at once */

/* Their sums are in y. */
template <typename T>
static __device__ __forceinline__ void finish(const TileArgs &a, float (&y)[FINISHED], int pixel, int filter) {
    if (pixel >= a.pixels || filter >= a.filters) return;
    const int64_t at = (int64_t)pixel * a.filters + filter;
    if (a.filters % FINISHED == 0) {
        if (a.bias) add_pack_any<T, FINISHED>(y, a.bias, a.bias_type, filter);
        if (a.z) add_pack_any<T, FINISHED>(y, a.z, a.z_type, at);
        activate_product(a.op, y, a.p, a.q);
        store_pack<T, FINISHED>((T *)a.y + at, y);
        return;
    }
#pragma unroll
    for (int j = 0; j < FINISHED; j++) {
        if (filter + j >= a.filters) break;
        float one = y[j];
        if (a.bias) one += load_far(a.bias, a.bias_type, filter + j);
        if (a.z) one += load_far(a.z, a.z_type, at + j);
        ((T *)a.y)[at + j] = from_float<T>(activate(a.op, one, a.p, a.q));
    }
}

template <typename T, typename S, int ROWS, int COLUMNS>
static __device__ __forceinline__ void finish_alone(const TileArgs &a, const float *sums, int first_row,
                                                    int first_column) {
    constexpr int PACKS = COLUMNS / FINISHED;
    for (int i = threadIdx.x; i < ROWS * PACKS; i += S::threads) {
        const int row = i / PACKS, from = i % PACKS * FINISHED;
        float y[FINISHED];
        load_pack<float, FINISHED>(y, sums + row * S::pitch + from);
        finish<T>(a, y, first_row + row, first_column + from);
    }
}

#if __CUDA_ARCH__ >= 900
/* The blocks of a cluster have a part of the depth each: each finishes some rows of the tile, whose sums it
 * adds up where the others have them, in their order. None may end while others read its: they say so before
 * they finish, and wait behind that. */
template <typename T, typename S, int ROWS, int COLUMNS>
static __device__ __forceinline__ void finish_shared(const TileArgs &a, const float *sums, int first_row,
                                                     int first_column) {
    constexpr int PACKS = COLUMNS / FINISHED, MOST = ROWS * PACKS / 2 / S::threads; /* packs of a thread */
    const int blocks = gridDim.z, mine = (ROWS + blocks - 1) / blocks, begin = blockIdx.z * mine;
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    float y[MOST][FINISHED];
#pragma unroll
    for (int k = 0; k < MOST; k++) {
        const int i = threadIdx.x + k * S::threads, row = begin + i / PACKS;
        if (i >= mine * PACKS || row >= ROWS) continue;
        const uint32_t at = shared_address(sums + row * S::pitch + i % PACKS * FINISHED);
        float parts[TILE_SPLITS][FINISHED];
#pragma unroll
        for (int z = 0; z < TILE_SPLITS; z++) {
            if (z >= blocks) break;
            uint32_t there;
            asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(z));
            asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(parts[z][0]), "=f"(parts[z][1]), "=f"(parts[z][2]), "=f"(parts[z][3])
                         : "r"(there)
                         : "memory");
        }
#pragma unroll
        for (int j = 0; j < FINISHED; j++) y[k][j] = parts[0][j];
#pragma unroll
        for (int z = 1; z < TILE_SPLITS; z++) {
            if (z >= blocks) break;
#pragma unroll
            for (int j = 0; j < FINISHED; j++) y[k][j] += parts[z][j];
        }
    }
    asm volatile("barrier.cluster.arrive.release;" ::: "memory"); /* what others have was read */
#pragma unroll
    for (int k = 0; k < MOST; k++) {
        const int i = threadIdx.x + k * S::threads, row = begin + i / PACKS;
        if (i < mine * PACKS && row < ROWS)
            finish<T>(a, y[k], first_row + row, first_column + i % PACKS * FINISHED);
    }
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
#endif

/* Without clusters: adds up what the blocks of a tile have, in their order, whichever is the
 * last: true for that one, whose sums are the tile's. */
template <int COUNT, int THREADS>
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
#pragma unroll 2
    for (int z = 0; z < gridDim.z; z++) {
        const float *from = a.partial + ((int64_t)z * tiles + tile) * COUNT * THREADS + threadIdx.x;
#pragma unroll
        for (int i = 0; i < COUNT; i++) sums[i] += __ldcg(from + i * THREADS);
    }
    if (threadIdx.x == 0) a.counters[tile] = 0;
    return true;
}

/* ---- the product ----------------------------------------------------------------------------- */

/* Constant weights are fetched while the kernel before this one still runs. */
template <typename T, int ROWS, int COLUMNS, int WM, int WN>
static __device__ __forceinline__ void convolve(const TileArgs &a) {
    typedef Shape<ROWS, COLUMNS, WM, WN> S;
    extern __shared__ __align__(128) unsigned char room[];
    const uint32_t base = shared_address(room);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int first_row = blockIdx.x * ROWS, first_column = blockIdx.y * COLUMNS;
    const int line = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
    const uint32_t to = base + line * S::line + (chunk ^ line % CHUNKS) * 16;
    constexpr uint32_t NEXT = S::lines * S::line; /* as many lines on: the same place of a line */
    static_assert(S::lines % CHUNKS == 0, "chunks of a thread's lines would lie in other places");
    const int all_steps = (a.depth + TILE_DEPTH - 1) / TILE_DEPTH;
    const int part = (all_steps + gridDim.z - 1) / gridDim.z, begin = blockIdx.z * part;
    const int steps = min(part, all_steps - begin); /* of this block; none are below 1 */
    const int start = begin * TILE_DEPTH + chunk * CHUNK;
    let_next_begin();

    const T *w = (const T *)a.w + (int64_t)(first_column + line) * a.depth + start;
    const int64_t next_filters = (int64_t)S::lines * a.depth;
    unsigned filters = 0; /* a bit for each of the thread's */
#pragma unroll
    for (int i = 0; i < S::right; i++)
        if (first_column + line + i * S::lines < a.filters) filters |= 1u << i;
    int w_left = a.depth - start; /* elements from w on */
    auto fill_right = [&](int stage) {
#pragma unroll
        for (int i = 0; i < S::right; i++) {
            const bool there = w_left > 0 && filters >> i & 1;
            fetch(to + S::right_at + stage * (COLUMNS * S::line) + i * NEXT,
                  there ? w + i * next_filters : (const T *)a.w, there);
        }
        w += TILE_DEPTH;
        w_left -= TILE_DEPTH;
    };
    if (!a.constant) wait_for_last();
#pragma unroll 1
    for (int stage = 0; stage < S::stages - 1 && stage < steps; stage++) fill_right(stage);

    const T *x[S::left]; /* of the first tap, wherever that is */
    int top[S::left], side[S::left];
#pragma unroll
    for (int i = 0; i < S::left; i++) {
        const int pixel = first_row + line + i * S::lines;
        const int column = pixel % a.out[1], rest = pixel / a.out[1];
        const int row = rest % a.out[0], image = rest / a.out[0];
        top[i] = row * a.stride[0] - a.begin[0];
        side[i] = column * a.stride[1] - a.begin[1];
        x[i] = (const T *)a.x + image * a.x_image + top[i] * a.x_row + side[i] * a.x_column;
        if (pixel >= a.pixels) top[i] = INT32_MIN / 2; /* outside of every image */
    }
    Position p = {start, 0, 0, 0, 0, 0};
    p.channel = p.at % a.channels;
    p.column = p.at / a.channels % a.taps[1];
    p.row = p.at / a.channels / a.taps[1];
    auto enter_tap = [&]() {
        const int row = p.row * a.dilation[0], column = p.column * a.dilation[1];
        p.offset = row * a.x_row + column * a.x_column + p.channel;
        p.there = 0;
#pragma unroll
        for (int i = 0; i < S::left; i++)
            if ((unsigned)(top[i] + row) < (unsigned)a.in[0] &&
                (unsigned)(side[i] + column) < (unsigned)a.in[1])
                p.there |= 1u << i;
    };
    enter_tap();
    auto fill_left = [&](int stage) {
        const bool inside = p.at < a.depth;
#pragma unroll
        for (int i = 0; i < S::left; i++) {
            const bool there = inside && p.there >> i & 1;
            fetch(to + stage * (ROWS * S::line) + i * NEXT, there ? x[i] + p.offset : (const T *)a.x, there);
        }
        p.at += TILE_DEPTH;
        p.offset += TILE_DEPTH;
        p.channel += TILE_DEPTH;
        if (p.channel < a.channels) return;
        do {
            p.channel -= a.channels;
            if (++p.column == a.taps[1]) p.column = 0, p.row++;
        } while (p.channel >= a.channels);
        enter_tap();
    };
    wait_for_last();
#pragma unroll 1
    for (int stage = 0; stage < S::stages - 1; stage++) {
        if (stage < steps) fill_left(stage);
        end_group();
    }

    float all[S::m * S::n * 4];
    float(&sums)[S::m][S::n][4] = *reinterpret_cast<float(*)[S::m][S::n][4]>(&all);
#pragma unroll
    for (int i = 0; i < S::m * S::n * 4; i++) all[i] = 0;
    const int warp_row = warp / WN * (ROWS / WM), warp_column = warp % WN * (COLUMNS / WN);
    int stage = 0, behind = S::stages - 1; /* the one that is multiplied, and the one that is filled */
    for (int step = 0; step < steps; step++) {
        wait_groups<S::stages - 2>();
        __syncthreads(); /* this stage is there, and the last one was read */
        if (step + S::stages - 1 < steps) {
            fill_right(behind);
            fill_left(behind);
        }
        end_group();
        const uint32_t left_at = base + stage * (ROWS * S::line);
        const uint32_t right_at = base + S::right_at + stage * (COLUMNS * S::line);
#pragma unroll
        for (int k = 0; k < TILE_DEPTH / 16; k++) {
            uint32_t left[S::m][4], right[S::n][2];
#pragma unroll
            for (int m = 0; m < S::m; m++) {
                const int row = warp_row + m * 16 + lane % 16;
                load_matrices(left[m], left_at + row * S::line + ((k * 2 + lane / 16) ^ row % CHUNKS) * 16);
            }
#pragma unroll
            for (int n = 0; n < S::n; n += 2) {
                uint32_t four[4];
                const int row = warp_column + n * 8 + lane / 16 * 8 + lane % 8;
                load_matrices(four, right_at + row * S::line + ((k * 2 + lane / 8 % 2) ^ row % CHUNKS) * 16);
                right[n][0] = four[0], right[n][1] = four[1];
                right[n + 1][0] = four[2], right[n + 1][1] = four[3];
            }
#pragma unroll
            for (int m = 0; m < S::m; m++)
#pragma unroll
                for (int n = 0; n < S::n; n++) multiply<T>(sums[m][n], left[m], right[n]);
        }
        if (++stage == S::stages) stage = 0;
        if (++behind == S::stages) behind = 0;
    }
    wait_groups<0>();
    __syncthreads(); /* what was read of the stages gives way to sums */
    float *tile = reinterpret_cast<float *>(room);
    uint32_t &done = *reinterpret_cast<uint32_t *>(room + S::right_at);
    static_assert(ROWS * S::pitch * sizeof(float) <= S::right_at, "sums reach to where others are counted");
    if (a.partial && !gather_sums<S::m * S::n * 4, S::threads>(a, all, done)) return;
#pragma unroll
    for (int m = 0; m < S::m; m++)
#pragma unroll
        for (int n = 0; n < S::n; n++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float two[2] = {sums[m][n][h * 2], sums[m][n][h * 2 + 1]};
                store_pack<float, 2>(tile + (warp_row + m * 16 + h * 8 + lane / 4) * S::pitch +
                                         warp_column + n * 8 + lane % 4 * 2,
                                     two);
            }
#if __CUDA_ARCH__ >= 900
    if (gridDim.z > 1 && !a.partial) {
        finish_shared<T, S, ROWS, COLUMNS>(a, tile, first_row, first_column);
        return;
    }
#endif
    __syncthreads();
    finish_alone<T, S, ROWS, COLUMNS>(a, tile, first_row, first_column);
}

#define TILE(suffix, T, ROWS, COLUMNS, WM, WN)                                                     \
    extern "C" __global__ void __launch_bounds__(WM *WN *WARP) tile_##ROWS##x##COLUMNS##_##suffix( \
        TileArgs a) {                                                                              \
        convolve<T, ROWS, COLUMNS, WM, WN>(a);                                                     \
    }
#define TILES(suffix, T)                                                                           \
    TILE(suffix, T, 64, 32, 4, 2)                                                                  \
    TILE(suffix, T, 64, 64, 2, 2)                                                                  \
    TILE(suffix, T, 128, 32, 4, 1)                                                                 \
    TILE(suffix, T, 128, 64, 4, 2)
TILES(f16, f16)
TILES(bf16, bf16)
