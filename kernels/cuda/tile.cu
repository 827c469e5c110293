// SPDX-License-Identifier: Apache-2.0
/* Convolutions of 16 bit, channels-last, on tensor cores, with all that follows them in the same kernel:
 * a matrix of pixels by taps and channels, which is read where its elements lie, times weights. */
#include "mma.cuh"
#include "tile_args.h"
#include "unary.cuh"

enum { CHUNK = 8, CHUNKS = TILE_DEPTH / CHUNK }; /* elements of 16 bytes; of a line of shared memory */
enum { FINISHED = 4 };                           /* filters of a pixel that a thread finishes at once */
enum { PAIR = 6 };                               /* elements of two pixels of three channels */

/* What of the output a block has: ROWS pixels by COLUMNS filters, by WM x WN warps, in GROUPS that have a
 * part of each stage's depth. A stage is ROWS lines of x and COLUMNS of w, of TILE_DEPTH elements each; chunk
 * c of line l lies at c ^ l % CHUNKS, so that eight lines' chunks of the same depth, which ldmatrix reads
 * together, are in eight places. */
template <int ROWS, int COLUMNS, int WM, int WN, int GROUPS> struct Shape {
    static constexpr int group = WM * WN, threads = group * GROUPS * WARP; /* group: warps */
    static constexpr int m = ROWS / WM / 16, n = COLUMNS / WN / 8;         /* fragments of a warp */
    static constexpr int deep = TILE_DEPTH / 16 / GROUPS;                  /* and of a stage */
    static constexpr int lines = threads / CHUNKS; /* that are fetched at once */
    static constexpr int left = ROWS / lines, right = COLUMNS / lines;
    static constexpr uint32_t line = TILE_DEPTH * 2;
    static constexpr int stages = TILE_STAGES(ROWS, COLUMNS);
    static constexpr uint32_t right_at = stages * ROWS * line, z_at = right_at + stages * COLUMNS * line;
    static constexpr int columns = COLUMNS;
    static constexpr int pitch = COLUMNS + 8; /* of the sums, which then take the stages' place, */
    static constexpr int area = ROWS * pitch; /* a group's behind the other's */
    static constexpr int packs = COLUMNS / FINISHED, step = threads / packs; /* of a row; rows of all threads */
    static constexpr int finished = ROWS / step;                             /* packs of a thread */
    static_assert(GROUPS * area * sizeof(float) <= right_at, "sums reach to where others are counted");
};

/* Where a thread's chunk of the depth is: its channel and tap, and that in elements of x. A warp has its
 * scheduler to itself where there are few blocks, so a step takes as long as its longest chain of
 * operations: what is within a tap only adds, and where x has no such pixel is asked once a tap. */
struct Position {
    int at, channel, row, column;
    int offset;
    unsigned there; /* a bit for each of the thread's pixels */
};

/* ---- what follows the product ---------------------------------------------------------------- */

/* A pack of what is added to a thread's sums. A bias or z of other types, or that lies at no whole 16 bytes,
 * is read element by element, as there is one place for that. */
template <typename T> static __device__ __forceinline__ bool fits(const TileArgs &a, const void *data, int dtype) {
    return dtype == TypeNumber<T>::value && a.filters % CHUNK == 0 && (uintptr_t)data % 16 == 0;
}
static __device__ __forceinline__ void add_slowly(float (&to)[FINISHED], const void *data, int dtype, int64_t at,
                                                  int count) {
#pragma unroll
    for (int j = 0; j < FINISHED; j++)
        if (j < count) to[j] += load_far(data, dtype, at + j);
}

static __device__ __forceinline__ void add(float (&to)[FINISHED], const float4 &x) {
    to[0] += x.x, to[1] += x.y, to[2] += x.z, to[3] += x.w;
}
static __device__ __forceinline__ void add(float (&to)[FINISHED], const float (&x)[FINISHED]) {
#pragma unroll
    for (int j = 0; j < FINISHED; j++) to[j] += x[j];
}

/* Rows of a tile that a block finishes, whose sums are in shared memory, a pack of a row after the other by
 * threads: those of `areas` groups. */
struct Rows {
    int begin, end, areas;
};
template <int ROWS> static __device__ __forceinline__ Rows rows_of_cluster() {
    const int each = (ROWS + gridDim.z - 1) / gridDim.z, begin = blockIdx.z * each;
    return {begin, min(begin + each, ROWS), 1};
}

/* Adds up what groups have, where others look for it. */
template <typename S, int ROWS, int GROUPS> static __device__ __forceinline__ void join_groups(float *mine) {
#pragma unroll 1
    for (int row = threadIdx.x / S::packs; row < ROWS; row += S::step) {
        float y[FINISHED], other[FINISHED];
        load_pack<float, FINISHED>(y, mine + row * S::pitch);
#pragma unroll
        for (int g = 1; g < GROUPS; g++) {
            load_pack<float, FINISHED>(other, mine + row * S::pitch + g * S::area);
            add(y, other);
        }
        store_pack<float, FINISHED>(mine + row * S::pitch, y);
    }
}

#if __CUDA_ARCH__ >= 900
/* The blocks of a cluster have a part of the depth each: each adds up the sums of some rows of the tile,
 * where the others have them, in their order, and says when it has read them: none may end before. */
template <typename S, int ROWS> static __device__ __forceinline__ Rows gather_cluster(float *mine) {
    constexpr int MOST = S::finished / 2; /* packs of a thread, as two blocks share a tile at least */
    const int blocks = gridDim.z;
    const Rows rows = rows_of_cluster<ROWS>();
    /* shared memory is all that others read: a fence for the device's as well takes as long as a step */
    asm volatile("fence.release.sync_restrict::shared::cta.cluster;" ::: "memory");
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    float y[MOST][FINISHED];
#pragma unroll
    for (int k = 0; k < MOST; k++) {
        const int row = rows.begin + threadIdx.x / S::packs + k * S::step;
        if (row >= rows.end) break;
        const uint32_t at = shared_address(mine + row * S::pitch);
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
            add(y[k], parts[z]);
        }
    }
#pragma unroll
    for (int k = 0; k < MOST; k++) {
        const int row = rows.begin + threadIdx.x / S::packs + k * S::step;
        if (row < rows.end) store_pack<float, FINISHED>(mine + row * S::pitch, y[k]);
    }
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); /* what others have was read, and stored */
    return rows;
}
#endif

/* Without clusters: adds up what the blocks of a tile have, in their order, whichever is the
 * last: that one has all rows, others none. */
template <typename S, int ROWS>
static __device__ __forceinline__ Rows gather_counted(const TileArgs &a, float *mine, uint32_t &done) {
    const int tile = blockIdx.y * gridDim.x + blockIdx.x, tiles = gridDim.x * gridDim.y;
    const int first = threadIdx.x / S::packs, column = threadIdx.x % S::packs * FINISHED;
    constexpr int PITCH = S::packs * FINISHED;
    const int64_t next = (int64_t)tiles * ROWS * PITCH; /* the next block's */
    float *part = a.partial + (int64_t)tile * ROWS * PITCH + column;
#pragma unroll 1
    for (int row = first; row < ROWS; row += S::step) {
        float y[FINISHED];
        load_pack<float, FINISHED>(y, mine + row * S::pitch);
        store_pack<float, FINISHED>(part + blockIdx.z * next + row * PITCH, y);
    }
    __threadfence();
    __syncthreads(); /* all of the block's are there before it counts as done */
    if (threadIdx.x == 0) done = atomicAdd(a.counters + tile, 1);
    __syncthreads();
    if (done + 1 != gridDim.z) return {0, 0, 1};
    __threadfence();
#pragma unroll 1
    for (int row = first; row < ROWS; row += S::step) {
        float y[FINISHED] = {};
#pragma unroll 4
        for (int z = 0; z < gridDim.z; z++) {
            add(y, __ldcg((const float4 *)(part + z * next + row * PITCH)));
        }
        store_pack<float, FINISHED>(mine + row * S::pitch, y);
    }
    if (threadIdx.x == 0) a.counters[tile] = 0;
    return {0, ROWS, 1};
}

/* A thread's packs are of the same filters, whose bias it has; z's rows are where they were fetched to. */
template <typename T, typename S, int GROUPS>
static __device__ __forceinline__ void finish_rows(const TileArgs &a, const Rows &rows, const float *mine,
                                                   const T *z, const float (&bias)[FINISHED], int first_row,
                                                   int filter) {
    if (filter >= a.filters) return;
    const int end = min(rows.end, a.pixels - first_row), count = a.filters - filter;
    const bool z_there = a.z && fits<T>(a, a.z, a.z_type), whole = a.filters % FINISHED == 0;
#pragma unroll 1
    for (int row = rows.begin + threadIdx.x / S::packs; row < end; row += S::step) {
        float y[FINISHED], other[FINISHED];
        load_pack<float, FINISHED>(y, mine + row * S::pitch);
#pragma unroll
        for (int g = 1; g < GROUPS; g++) {
            if (g == rows.areas) break;
            load_pack<float, FINISHED>(other, mine + row * S::pitch + g * S::area);
            add(y, other);
        }
        add(y, bias);
        const int64_t at = (int64_t)(first_row + row) * a.filters + filter;
        if (z_there) {
            load_pack<T, FINISHED>(other, z + row * S::columns);
            add(y, other);
        } else if (a.z) {
            add_slowly(y, a.z, a.z_type, at, count);
        }
        activate_product(a.op, y, a.p, a.q);
        T *to = (T *)a.y + at;
        if (whole) {
            store_pack<T, FINISHED>(to, y);
            continue;
        }
#pragma unroll
        for (int j = 0; j < FINISHED; j++)
            if (j < count) to[j] = from_float<T>(y[j]);
    }
}

/* ---- the product ----------------------------------------------------------------------------- */

/* Constant weights are fetched while the kernel before this one still runs. FEW: of three channels, by pairs of
 * pixels, all of whose stages are there at once. */
template <typename T, int ROWS, int COLUMNS, int WM, int WN, int GROUPS, bool FEW>
static __device__ __forceinline__ void convolve(const TileArgs &a) {
    typedef Shape<ROWS, COLUMNS, WM, WN, GROUPS> S;
    extern __shared__ __align__(128) unsigned char room[];
    const uint32_t base = shared_address(room);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP % S::group;
    const int group = threadIdx.x / WARP / S::group;
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

    const T *w = (const T *)a.w + (first_column + line) * a.depth + start;
    const int next_filters = S::lines * a.depth;
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
    for (int stage = 0; stage < S::stages && stage < steps; stage++) fill_right(stage);
    if (a.constant) { /* what there is no stage for yet comes as near as it can */
        const T *rest = (const T *)a.w + first_column * a.depth + (begin + S::stages) * TILE_DEPTH;
#pragma unroll 1
        for (int i = threadIdx.x; i < COLUMNS * (steps - S::stages); i += S::threads) {
            const int row = i % COLUMNS, at = i / COLUMNS * TILE_DEPTH;
            if (first_column + row < a.filters) bring_near(rest + row * a.depth + at);
        }
    }

    int from[S::left], top[S::left], side[S::left]; /* of the first tap, wherever that is */
#pragma unroll
    for (int i = 0; i < S::left; i++) {
        const int pixel = first_row + line + i * S::lines;
        const int rest = pixel / a.out[1], image = rest / a.out[0];
        top[i] = (rest - image * a.out[0]) * a.stride[0] - a.begin[0];
        side[i] = (pixel - rest * a.out[1]) * a.stride[1] - a.begin[1];
        from[i] = image * a.x_image + top[i] * a.x_row + side[i] * a.x_column;
        if (pixel >= a.pixels) top[i] = INT32_MIN / 2; /* outside of every image */
    }
    auto fill_few = [&](int stage) {
        const int row_chunks = a.taps[1] * PAIR / CHUNK, at = start / CHUNK + stage * CHUNKS;
        const int row = at / row_chunks, first = (at - row * row_chunks) * CHUNK;
#pragma unroll
        for (int i = 0; i < S::left; i++) {
            const bool inside = at * CHUNK < a.depth && (unsigned)(top[i] + row * a.dilation[0]) < (unsigned)a.in[0];
            const T *x = (const T *)a.x + (inside ? from[i] + row * a.dilation[0] * a.x_row + first : 0);
#pragma unroll
            for (int k = 0; k < CHUNK; k += 2) {
                const int pair = (first + k) / PAIR;
                const bool there = inside && pair < a.pairs && (unsigned)(side[i] + pair) < (unsigned)a.in[1];
                fetch_few(to + stage * (ROWS * S::line) + i * NEXT + k * 2, there ? x + k : (const T *)a.x, there);
            }
        }
    };
    /* What is beside the window has weights of 0, but may be infinite: behind a thread's own copies. */
    auto clear_beside = [&](int stage) {
        const int row_chunks = a.taps[1] * PAIR / CHUNK;
        const int first = (start / CHUNK + stage * CHUNKS) % row_chunks * CHUNK;
#pragma unroll
        for (int k = 0; k < 6; k++) {
            const int element = a.beside[k / 3] + k % 3 - first;
            if (a.beside[k / 3] < 0 || element < 0 || element >= CHUNK) continue;
#pragma unroll
            for (int i = 0; i < S::left; i++)
                *(uint16_t *)(room + (to - base) + stage * (ROWS * S::line) + i * NEXT + element * 2) = 0;
        }
    };
    Position p = {start, 0, 0, 0, 0, 0};
    const int tap = start / a.channels;
    p.channel = start - tap * a.channels;
    p.row = tap / a.taps[1];
    p.column = tap - p.row * a.taps[1];
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
            fetch(to + stage * (ROWS * S::line) + i * NEXT,
                  (const T *)a.x + (there ? from[i] + p.offset : 0), there);
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
    const bool shared = gridDim.z > 1 && !a.partial;
    const Rows rows_of_z = shared ? rows_of_cluster<ROWS>() : Rows{0, ROWS, GROUPS};
    auto fetch_z = [&]() { /* behind the stages, with the next of them */
        if (!a.z || !fits<T>(a, a.z, a.z_type)) return;
        constexpr int CHUNKS_OF_Z = COLUMNS / CHUNK;
#pragma unroll 1
        for (int i = threadIdx.x; i < ROWS * CHUNKS_OF_Z; i += S::threads) {
            const int row = i / CHUNKS_OF_Z, column = i % CHUNKS_OF_Z * CHUNK;
            const int pixel = first_row + row, filter = first_column + column;
            if (row >= rows_of_z.begin && row < rows_of_z.end && pixel < a.pixels && filter < a.filters)
                fetch(base + S::z_at + i * 16, (const T *)a.z + (int64_t)pixel * a.filters + filter, true);
        }
    };
    wait_for_last();
#pragma unroll 1
    for (int stage = 0; stage < S::stages; stage++) {
        if (stage < steps) FEW ? fill_few(stage) : fill_left(stage);
        end_group();
    }
    fetch_z();
    float *tile = reinterpret_cast<float *>(room), *mine = tile + threadIdx.x % S::packs * FINISHED;
    const int filter = first_column + threadIdx.x % S::packs * FINISHED;
    float bias[FINISHED] = {}; /* read now: behind the product it would take as long as some of its steps */
    if (a.bias && filter < a.filters) {
        if (fits<T>(a, a.bias, a.bias_type))
            load_pack<T, FINISHED>(bias, (const T *)a.bias + filter);
        else
            add_slowly(bias, a.bias, a.bias_type, filter, a.filters - filter);
    }

    const int warp_row = warp / WN * (ROWS / WM), warp_column = warp % WN * (COLUMNS / WN);
    float sums[S::m][S::n][4] = {};
    int stage = 0, behind = 0; /* the one that is multiplied, and the one that was */
    for (int step = 0; step < steps; step++) {
        if (step == 0)
            wait_groups<S::stages - 1>();
        else
            wait_groups<S::stages - 2>();
        if (FEW) clear_beside(stage);
        __syncthreads(); /* this stage is there, and the last one was read */
        if (!FEW && step && step - 1 + S::stages < steps) {
            fill_right(behind);
            fill_left(behind);
        }
        end_group();
        const uint32_t left_at = base + stage * (ROWS * S::line);
        const uint32_t right_at = base + S::right_at + stage * (COLUMNS * S::line);
#pragma unroll
        for (int i = 0; i < S::deep; i++) {
            const int k = group * S::deep + i;
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
        behind = stage;
        if (++stage == S::stages) stage = 0;
    }
    wait_groups<0>();
    __syncthreads(); /* what was read of the stages gives way to sums */
    uint32_t &done = *reinterpret_cast<uint32_t *>(room + S::right_at);
#pragma unroll
    for (int m = 0; m < S::m; m++)
#pragma unroll
        for (int n = 0; n < S::n; n++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float two[2] = {sums[m][n][h * 2], sums[m][n][h * 2 + 1]};
                store_pack<float, 2>(tile + group * S::area +
                                         (warp_row + m * 16 + h * 8 + lane / 4) * S::pitch + warp_column +
                                         n * 8 + lane % 4 * 2,
                                     two);
            }
    __syncthreads();
    Rows rows = {0, ROWS, GROUPS};
    if (gridDim.z > 1 && GROUPS > 1) join_groups<S, ROWS, GROUPS>(mine);
#if __CUDA_ARCH__ >= 900
    if (shared) rows = gather_cluster<S, ROWS>(mine);
#endif
    if (a.partial) rows = gather_counted<S, ROWS>(a, mine, done);
    const T *z = reinterpret_cast<const T *>(room + S::z_at) + threadIdx.x % S::packs * FINISHED;
    finish_rows<T, S, GROUPS>(a, rows, mine, z, bias, first_row, filter);
#if __CUDA_ARCH__ >= 900
    if (shared) asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); /* others have read mine */
#endif
}

#define TILE(name, T, ROWS, COLUMNS, WM, WN, GROUPS, FEW)                                           \
    extern "C" __global__ void __launch_bounds__(WM *WN *GROUPS *WARP) tile_##name(TileArgs a) {    \
        convolve<T, ROWS, COLUMNS, WM, WN, GROUPS, FEW>(a);                                         \
    }
#define TILES(suffix, T)                                   \
    TILE(32x32_##suffix, T, 32, 32, 1, 1, 4, false)        \
    TILE(64x32_##suffix, T, 64, 32, 2, 1, 4, false)        \
    TILE(64x64_##suffix, T, 64, 64, 2, 2, 2, false)        \
    TILE(few_64x32_##suffix, T, 64, 32, 2, 1, 4, true)     \
    TILE(few_64x64_##suffix, T, 64, 64, 2, 2, 2, true)
TILES(f16, f16)
TILES(bf16, bf16)
