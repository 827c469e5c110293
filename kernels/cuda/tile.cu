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

/* Kernels are small on purpose: a launch of some microseconds fetches its code anew, and 50 kB of it took as
 * long as the product. */

/* CHUNK of a pixel's filters, whose sums are in shared memory. */
template <typename T>
static __device__ __forceinline__ void finish(const TileArgs &a, const float *sums, int pixel, int filter) {
    const int64_t at = (int64_t)pixel * a.filters + filter;
    if (a.filters % CHUNK) {
#pragma unroll 1
        for (int j = 0; j < CHUNK && filter + j < a.filters; j++) {
            float y = sums[j];
            if (a.bias) y += load_far(a.bias, a.bias_type, filter + j);
            if (a.z) y += load_far(a.z, a.z_type, at + j);
            ((T *)a.y)[at + j] = from_float<T>(activate(a.op, y, a.p, a.q));
        }
        return;
    }
    float y[CHUNK];
#pragma unroll
    for (int k = 0; k < CHUNK; k += 4) {
        float four[4];
        load_pack<float, 4>(four, sums + k);
#pragma unroll
        for (int j = 0; j < 4; j++) y[k + j] = four[j];
    }
    if (a.bias) add_pack_any<T, CHUNK>(y, a.bias, a.bias_type, filter);
    if (a.z) add_pack_any<T, CHUNK>(y, a.z, a.z_type, at);
    activate_pack(a.op, y, a.p, a.q);
    store_pack<T, CHUNK>((T *)a.y + at, y);
}

/* Of some rows of the tile. */
template <typename T, typename S, int COLUMNS>
static __device__ __forceinline__ void finish_rows(const TileArgs &a, const float *sums, int first_row,
                                                   int first_column, int begin, int end) {
    for (int i = threadIdx.x; i < (end - begin) * (COLUMNS / CHUNK); i += S::threads) {
        const int row = begin + i / (COLUMNS / CHUNK), from = i % (COLUMNS / CHUNK) * CHUNK;
        if (first_row + row < a.pixels && first_column + from < a.filters)
            finish<T>(a, sums + row * S::pitch + from, first_row + row, first_column + from);
    }
}

#if __CUDA_ARCH__ >= 900
static __device__ __forceinline__ void meet_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* The blocks of a cluster have a part of the depth each: each has some rows of the tile, whose sums it adds
 * up where the others have them, in their order, and leaves in its own shared memory. None may end while
 * others read its. */
template <typename S, int COLUMNS>
static __device__ __forceinline__ void add_shares(float *sums, int begin, int end) {
    constexpr int PACKS = COLUMNS / 4;
    const int blocks = gridDim.z;
    meet_cluster();
    for (int i = threadIdx.x; i < (end - begin) * PACKS; i += S::threads) {
        float *mine = sums + (begin + i / PACKS) * S::pitch + i % PACKS * 4;
        const uint32_t at = shared_address(mine);
        float parts[TILE_SPLITS][4];
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
        for (int z = 1; z < TILE_SPLITS; z++) {
            if (z >= blocks) break;
#pragma unroll
            for (int j = 0; j < 4; j++) parts[0][j] += parts[z][j];
        }
        store_pack<float, 4>(mine, parts[0]);
    }
    meet_cluster();
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
    int rows_begin = 0, rows_end = ROWS;
#if __CUDA_ARCH__ >= 900
    if (gridDim.z > 1 && !a.partial) {
        const int mine = (ROWS + gridDim.z - 1) / gridDim.z;
        rows_begin = min(blockIdx.z * mine, ROWS);
        rows_end = min(rows_begin + mine, ROWS);
        add_shares<S, COLUMNS>(tile, rows_begin, rows_end);
    }
#endif
    __syncthreads();
    finish_rows<T, S, COLUMNS>(a, tile, first_row, first_column, rows_begin, rows_end);
}

/* ---- first layers ---------------------------------------------------------------------------- */

/* Pixels of three channels or so are no multiple of 16 bytes, but a line of a window is so many elements one
 * after the other, which the next pixel's overlaps. Blocks of HIGH x WIDE pixels have what they read of x in
 * shared memory and take pairs of elements from there; w is (filters, lines, elements of a line and zeros to a
 * multiple of 16). What of x lies behind a line is taken for 0, too: it may be infinite. */
template <typename T> static __device__ __forceinline__ void first_layer(const TileArgs &a) {
    constexpr int HIGH = FIRST_HIGH, WIDE = FIRST_WIDE, FILTERS = FIRST_FILTERS, WARPS = FIRST_THREADS / WARP;
    constexpr int M = HIGH / WARPS, N = FILTERS / 8, PITCH = FILTERS + 8;
    extern __shared__ __align__(128) unsigned char room[];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int wide = (a.out[1] + WIDE - 1) / WIDE, high = (a.out[0] + HIGH - 1) / HIGH;
    const int first_column = blockIdx.x % wide * WIDE, first_row = blockIdx.x / wide % high * HIGH;
    const int image = blockIdx.x / wide / high, first_filter = blockIdx.y * FILTERS;
    const int used = a.taps[1] * a.channels, steps = (used + 15) / 16; /* of a line */
    const int depth = a.taps[0] * steps * 16, pitch = depth + CHUNK;   /* odd numbers of chunks */
    T *weights = reinterpret_cast<T *>(room), *patch = weights + FILTERS * pitch;
    let_next_begin();
    for (int i = threadIdx.x; i < FILTERS * (depth / CHUNK); i += FIRST_THREADS) {
        const int filter = i / (depth / CHUNK), at = i % (depth / CHUNK) * CHUNK;
        const bool there = first_filter + filter < a.filters;
        const T *w = (const T *)a.w + (int64_t)(first_filter + filter) * depth + at;
        fetch(weights + filter * pitch + at, there ? w : (const T *)a.w, there);
    }
    end_group();
    wait_for_last();

    const int apart = a.stride[1] * a.channels; /* elements between a pixel's line and the next's */
    const int span = (WIDE - 1) * apart + steps * 16, rows = (HIGH - 1) * a.stride[0] + a.taps[0];
    const int top = first_row * a.stride[0] - a.begin[0];
    const int from = (first_column * a.stride[1] - a.begin[1]) * a.channels, most = a.in[1] * a.channels;
    constexpr int SOME = 8; /* elements that are on their way at once */
    const T *x = (const T *)a.x + image * a.x_image + top * a.x_row + from;
    for (int first = threadIdx.x; first < rows * span; first += SOME * FIRST_THREADS) {
        T some[SOME];
#pragma unroll
        for (int k = 0; k < SOME; k++) {
            const int i = first + k * FIRST_THREADS, r = i / span, e = i - r * span;
            const bool there = i < rows * span && (unsigned)(top + r) < (unsigned)a.in[0] &&
                               (unsigned)(from + e) < (unsigned)most;
            some[k] = there ? x[r * a.x_row + e] : from_float<T>(0);
        }
#pragma unroll
        for (int k = 0; k < SOME; k++)
            if (first + k * FIRST_THREADS < rows * span) patch[first + k * FIRST_THREADS] = some[k];
    }
    wait_groups<0>();
    __syncthreads();

    float sums[M][N][4];
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[m][n][i] = 0;
    for (int r = 0; r < a.taps[0]; r++)
        for (int step = 0; step < steps; step++) {
            uint32_t mask[2]; /* which of a pair are of the line */
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int k = step * 16 + h * 8 + lane % 4 * 2;
                mask[h] = k + 1 < used ? UINT32_MAX : k < used ? UINT16_MAX : 0;
            }
            uint32_t left[M][4];
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int row = (warp * M + m) * a.stride[0] + r, pixel = lane / 4 + i % 2 * 8;
                    const T *pair = patch + row * span + pixel * apart + step * 16 + i / 2 * 8 + lane % 4 * 2;
                    left[m][i] = *reinterpret_cast<const uint32_t *>(pair) & mask[i / 2];
                }
#pragma unroll
            for (int n = 0; n < N; n += 2) {
                uint32_t four[4];
                const int filter = n * 8 + lane / 16 * 8 + lane % 8;
                load_matrices(four, shared_address(weights + filter * pitch + (r * steps + step) * 16 +
                                                   lane / 8 % 2 * 8));
                const uint32_t right[2][2] = {{four[0], four[1]}, {four[2], four[3]}};
#pragma unroll
                for (int m = 0; m < M; m++)
#pragma unroll
                    for (int k = 0; k < 2; k++) multiply<T>(sums[m][n + k], left[m], right[k]);
            }
        }
    __syncthreads(); /* all was read: it gives way to sums */
    float *tile = reinterpret_cast<float *>(room);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float two[2] = {sums[m][n][h * 2], sums[m][n][h * 2 + 1]};
                const int pixel = (warp * M + m) * WIDE + h * 8 + lane / 4;
                store_pack<float, 2>(tile + pixel * PITCH + n * 8 + lane % 4 * 2, two);
            }
    __syncthreads();
    for (int i = threadIdx.x; i < HIGH * WIDE * FILTERS / CHUNK; i += FIRST_THREADS) {
        const int pixel = i / (FILTERS / CHUNK), filter = i % (FILTERS / CHUNK) * CHUNK;
        const int row = first_row + pixel / WIDE, column = first_column + pixel % WIDE;
        if (row >= a.out[0] || column >= a.out[1] || first_filter + filter >= a.filters) continue;
        finish<T>(a, tile + pixel * PITCH + filter, (image * a.out[0] + row) * a.out[1] + column,
                  first_filter + filter);
    }
}
#define FIRST(suffix, T)                                                                           \
    extern "C" __global__ void __launch_bounds__(FIRST_THREADS) first_##suffix(TileArgs a) {       \
        first_layer<T>(a);                                                                         \
    }
FIRST(f16, f16)
FIRST(bf16, bf16)

/* ---- names ----------------------------------------------------------------------------------- */

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
