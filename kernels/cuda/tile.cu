// SPDX-License-Identifier: Apache-2.0
/* Convolutions of 16 bit, channels-last, on tensor cores, with all that follows them in the same kernel:
 * a matrix of pixels by taps and channels, which is read where its elements lie, times weights. */
#include "mma.cuh"
#include "tile_args.h"
#include "unary.cuh"

enum { CHUNK = 8, CHUNKS = TILE_DEPTH / CHUNK }; /* elements of 16 bytes; of a line of shared memory */
enum { FINISHED = 4 };                           /* filters of a pixel that a thread finishes at once */
enum { PAIR = 6 };                               /* elements of two pixels of three channels */

/* What of the output a block has: ROWS pixels by COLUMNS filters, by WM x WN warps, in groups that each go
 * through steps of their own, all of those they have: what takes long of a step is to wait, for data, for the
 * other warps and for the last product, and groups wait at the same time. A stage is ROWS lines of x and COLUMNS
 * of w, of TILE_DEPTH elements each; chunk c of line l lies at c ^ l % CHUNKS, so that eight lines' chunks of
 * the same depth, which ldmatrix reads together, are in eight places. */
template <int ROWS, int COLUMNS, int WM, int WN> struct Shape {
    static constexpr int groups = TILE_GROUPS(ROWS, COLUMNS);
    static constexpr int group = WM * WN, threads = group * groups * WARP; /* group: warps */
    static constexpr int m = ROWS / WM / 16, n = COLUMNS / WN / 8;         /* fragments of a warp */
    static constexpr int lines = group * WARP / CHUNKS; /* that are fetched at once */
    static constexpr int left = ROWS / lines, right = COLUMNS / lines;
    static constexpr uint32_t line = TILE_DEPTH * 2, next = lines * line;
    static constexpr int stages = TILE_STAGES(ROWS, COLUMNS), each = stages / groups; /* each: a group's */
    static constexpr uint32_t stage = TILE_STAGE(ROWS, COLUMNS), right_at = ROWS * line; /* w's lines of one */
    static constexpr uint32_t turn = stage * groups; /* from a group's stage to its next */
    static constexpr uint32_t pixels_at = ROWS * COLUMNS * 2, stages_at = TILE_BEFORE(ROWS, COLUMNS);
    static constexpr uint32_t counter_at = stages_at + TILE_SUMS(ROWS, COLUMNS);
    static constexpr int columns = COLUMNS;
    static constexpr int pitch = COLUMNS + 8; /* of the sums, which then take the stages' place, */
    static constexpr int area = ROWS * pitch; /* a group's behind the other's */
    static constexpr int packs = COLUMNS / FINISHED, step = threads / packs; /* of a row; rows of all threads */
    static constexpr int finished = ROWS / step;                             /* packs of a thread */
    /* The place of a thread's line i, from that of its first: a line's chunks are where its number says. */
    static __device__ __forceinline__ uint32_t place(uint32_t first, int i) {
        return (first ^ i * lines % CHUNKS * 16) + i * next;
    }
};

/* Where a thread's chunk of the depth is: its channel and tap, and that in elements of x. */
struct Position {
    int at, channel, row, column, offset;
};

/* Where a pixel's first tap is, wherever that is: in elements of x, and which row and column. */
struct __align__(16) Pixel {
    int from, top, side, unused;
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

/* A pack of a row of the tile, of what the groups have. */
template <typename S>
static __device__ __forceinline__ void load_sums(float (&y)[FINISHED], const float *mine, int row, int areas) {
    load_pack<float, FINISHED>(y, mine + row * S::pitch);
#pragma unroll
    for (int g = 1; g < S::groups; g++) {
        if (g >= areas) break;
        float other[FINISHED];
        load_pack<float, FINISHED>(other, mine + row * S::pitch + g * S::area);
        add(y, other);
    }
}

/* Adds up what groups have, where others look for it. */
template <typename S> static __device__ __forceinline__ void join_groups(float *mine) {
    float y[S::finished][FINISHED];
#pragma unroll
    for (int k = 0; k < S::finished; k++)
        load_sums<S>(y[k], mine, threadIdx.x / S::packs + k * S::step, S::groups);
#pragma unroll
    for (int k = 0; k < S::finished; k++)
        store_pack<float, FINISHED>(mine + (threadIdx.x / S::packs + k * S::step) * S::pitch, y[k]);
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

/* What most networks have behind a convolution, without a step that is not needed, and a thread's packs side
 * by side: where there are few blocks, it is instructions that wait for each other that take the time. */
template <typename T, typename S>
static __device__ __forceinline__ void finish_plain(const TileArgs &a, const Rows &rows, const float *mine,
                                                    const T *z, const float (&bias)[FINISHED], int first_row,
                                                    int filter) {
    const int first = rows.begin + threadIdx.x / S::packs, end = min(rows.end, a.pixels - first_row);
    const float low = a.op == UNARY_RELU ? 0 : -INFINITY;
    T *to = (T *)a.y + (int64_t)(first_row + first) * a.filters + filter;
    float y[S::finished][FINISHED], other[FINISHED];
#pragma unroll
    for (int k = 0; k < S::finished; k++) {
        const int row = first + k * S::step;
        if (row >= end) break;
        load_sums<S>(y[k], mine, row, rows.areas);
        add(y[k], bias);
        if (a.z) {
            load_pack<T, FINISHED>(other, z + row * S::columns);
            add(y[k], other);
        }
    }
#pragma unroll
    for (int k = 0; k < S::finished; k++) {
        if (first + k * S::step >= end) break;
#pragma unroll
        for (int j = 0; j < FINISHED; j++) y[k][j] = y[k][j] < low ? low : y[k][j];
        store_pack<T, FINISHED>(to + k * S::step * a.filters, y[k]);
    }
}

/* A thread's packs are of the same filters, whose bias it has; z's rows are where they were fetched to. */
template <typename T, typename S>
static __device__ __forceinline__ void finish_rows(const TileArgs &a, const Rows &rows, const float *mine,
                                                   const T *z, const float (&bias)[FINISHED], int first_row,
                                                   int filter) {
    if (filter >= a.filters) return;
    const int end = min(rows.end, a.pixels - first_row), count = a.filters - filter;
    const bool z_there = a.z && fits<T>(a, a.z, a.z_type), whole = a.filters % FINISHED == 0;
    if ((a.op == UNARY_COPY || a.op == UNARY_RELU) && whole && (z_there || !a.z)) {
        finish_plain<T, S>(a, rows, mine, z, bias, first_row, filter);
        return;
    }
#pragma unroll 1
    for (int row = rows.begin + threadIdx.x / S::packs; row < end; row += S::step) {
        float y[FINISHED], other[FINISHED];
        load_sums<S>(y, mine, row, rows.areas);
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

/* All warps of a group have come, and what they wrote and copied is there. */
template <typename S> static __device__ __forceinline__ void meet_group(int group) {
    if (S::group == 1)
        __syncwarp();
    else
        asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(S::group * WARP) : "memory");
}

/* sums += x w of a stage, in shared memory from `at` on. */
template <typename T, typename S>
static __device__ __forceinline__ void multiply_stage(float (&sums)[S::m][S::n][4], uint32_t at, int warp_row,
                                                      int warp_column) {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < TILE_DEPTH / 16; k++) {
        uint32_t left[S::m][4], right[S::n][2];
#pragma unroll
        for (int m = 0; m < S::m; m++) {
            const int row = warp_row + m * 16 + lane % 16;
            load_matrices(left[m], at + row * S::line + ((k * 2 + lane / 16) ^ row % CHUNKS) * 16);
        }
#pragma unroll
        for (int n = 0; n < S::n; n += 2) {
            uint32_t four[4];
            const int row = warp_column + n * 8 + lane / 16 * 8 + lane % 8;
            load_matrices(four, at + S::right_at + row * S::line + ((k * 2 + lane / 8 % 2) ^ row % CHUNKS) * 16);
            right[n][0] = four[0], right[n][1] = four[1];
            right[n + 1][0] = four[2], right[n + 1][1] = four[3];
        }
#pragma unroll
        for (int m = 0; m < S::m; m++)
#pragma unroll
            for (int n = 0; n < S::n; n++) multiply<T>(sums[m][n], left[m], right[n]);
    }
}

/* Constant weights are fetched while the kernel before this one still runs. FEW: of three channels, by pairs of
 * pixels, all of whose stages are there at once. */
template <typename T, int ROWS, int COLUMNS, int WM, int WN, bool FEW>
static __device__ __forceinline__ void convolve(const TileArgs &a) {
    typedef Shape<ROWS, COLUMNS, WM, WN> S;
    extern __shared__ __align__(128) unsigned char room[];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP % S::group;
    const int group = threadIdx.x / WARP / S::group;
    const int first_row = blockIdx.x * ROWS, first_column = blockIdx.y * COLUMNS;
    const int line = threadIdx.x % (S::group * WARP) / CHUNKS, chunk = threadIdx.x % CHUNKS;
    /* of the group's first stage, and there the thread's first chunk, in shared memory */
    const uint32_t stage_at = S::stages_at + group * S::stage;
    const uint32_t slot = stage_at + line * S::line + (chunk ^ line % CHUNKS) * 16, base = shared_address(room);
    const int all_steps = (a.depth + TILE_DEPTH - 1) / TILE_DEPTH;
    const int part = (all_steps + gridDim.z - 1) / gridDim.z, begin = blockIdx.z * part;
    const int of_block = min(part, all_steps - begin); /* steps; none are below 1 */
    const int steps = (of_block - group + S::groups - 1) / S::groups; /* of the group; may be 0 */
    const int start = (begin + group) * TILE_DEPTH + chunk * CHUNK;
    constexpr int JUMP = S::groups * TILE_DEPTH; /* from a step to the group's next */
    let_next_begin();

    const T *w = (const T *)a.w + (first_column + line) * a.depth + start;
    const int next_filters = S::lines * a.depth;
    unsigned filters = 0; /* a bit for each of the thread's */
#pragma unroll
    for (int i = 0; i < S::right; i++)
        if (first_column + line + i * S::lines < a.filters) filters |= 1u << i;
    int w_left = a.depth - start; /* elements from w on */
    auto fill_right = [&](uint32_t turn) {
#pragma unroll
        for (int i = 0; i < S::right; i++) {
            const bool there = w_left > 0 && filters >> i & 1;
            fetch(base + S::place(slot, i) + turn + S::right_at, there ? w + i * next_filters : (const T *)a.w,
                  there);
        }
        w += JUMP;
        w_left -= JUMP;
    };
    if (!a.constant) wait_for_last();
#pragma unroll 1
    for (int k = 0; k < S::each && k < steps; k++) fill_right(k * S::turn);
    if (a.constant) { /* what there is no stage for yet comes as near as it can */
        const T *rest = (const T *)a.w + first_column * a.depth + (begin + S::stages) * TILE_DEPTH;
#pragma unroll 1
        for (int i = threadIdx.x; i < COLUMNS * (of_block - S::stages); i += S::threads) {
            const int row = i % COLUMNS, at = i / COLUMNS * TILE_DEPTH;
            if (first_column + row < a.filters) bring_near(rest + row * a.depth + at);
        }
    }

    Pixel *const pixels = reinterpret_cast<Pixel *>(room + S::pixels_at);
    if (threadIdx.x < ROWS) {
        const int pixel = first_row + threadIdx.x;
        const int rest = pixel / a.out[1], image = rest / a.out[0];
        Pixel at;
        at.top = (rest - image * a.out[0]) * a.stride[0] - a.begin[0];
        at.side = (pixel - rest * a.out[1]) * a.stride[1] - a.begin[1];
        at.from = image * a.x_image + at.top * a.x_row + at.side * a.x_column;
        at.unused = 0;
        if (pixel >= a.pixels) at.top = INT32_MIN / 2; /* outside of every image */
        pixels[threadIdx.x] = at;
    }
    __syncthreads();
    /* Where a stage's pixels are is found out while the kernel before this one still runs, and noted where the
     * pixels will come to: an offset in x, and with FEW a bit for each of a chunk's pairs that is there, or -1. */
    auto note_few = [&](int k) {
        const int row_chunks = a.taps[1] * PAIR / CHUNK, at = start / CHUNK + k * (JUMP / CHUNK);
        const int row = at / row_chunks, first = (at - row * row_chunks) * CHUNK;
#pragma unroll
        for (int i = 0; i < S::left; i++) {
            const Pixel pixel = pixels[line + i * S::lines];
            const bool inside =
                at * CHUNK < a.depth && (unsigned)(pixel.top + row * a.dilation[0]) < (unsigned)a.in[0];
            int there = 0;
#pragma unroll
            for (int e = 0; e < CHUNK; e += 2) {
                const int pair = (first + e) / PAIR;
                if (inside && pair < a.pairs && (unsigned)(pixel.side + pair) < (unsigned)a.in[1]) there |= 1 << e / 2;
            }
            *(int2 *)(room + S::place(slot, i) + k * S::turn) = {pixel.from + row * a.dilation[0] * a.x_row + first,
                                                                 there};
        }
    };
    auto fetch_pairs = [&](uint32_t to, int2 note) {
#pragma unroll
        for (int e = 0; e < CHUNK; e += 2) {
            const bool there = note.y >> e / 2 & 1;
            fetch_few(base + to + e * 2, (const T *)a.x + (there ? note.x + e : 0), there);
        }
    };
    /* What is beside the window has weights of 0, but may be infinite: behind a thread's own copies. */
    auto clear_beside = [&](int k) {
        const int row_chunks = a.taps[1] * PAIR / CHUNK;
        const int first = (start / CHUNK + k * (JUMP / CHUNK)) % row_chunks * CHUNK;
#pragma unroll
        for (int e = 0; e < 6; e++) {
            const int element = a.beside[e / 3] + e % 3 - first;
            if (a.beside[e / 3] < 0 || element < 0 || element >= CHUNK) continue;
#pragma unroll
            for (int i = 0; i < S::left; i++)
                *(uint16_t *)(room + S::place(slot, i) + k * S::turn + element * 2) = 0;
        }
    };
    Position p = {start, 0, 0, 0, 0};
    const int tap = start / a.channels;
    p.channel = start - tap * a.channels;
    p.row = tap / a.taps[1];
    p.column = tap - p.row * a.taps[1];
    auto enter_tap = [&]() {
        p.offset = p.row * a.dilation[0] * a.x_row + p.column * a.dilation[1] * a.x_column + p.channel;
    };
    enter_tap();
    auto pixel_at = [&](int i) {
        const Pixel pixel = pixels[line + i * S::lines];
        const int row = pixel.top + p.row * a.dilation[0], column = pixel.side + p.column * a.dilation[1];
        const bool inside = (unsigned)row < (unsigned)a.in[0] && (unsigned)column < (unsigned)a.in[1];
        return p.at < a.depth && inside ? pixel.from + p.offset : -1;
    };
    auto fetch_pixel = [&](uint32_t to, int at) { fetch(base + to, (const T *)a.x + max(at, 0), at >= 0); };
    auto advance = [&]() {
        p.at += JUMP;
        p.offset += JUMP;
        p.channel += JUMP;
        if (p.channel < a.channels) return;
        do {
            p.channel -= a.channels;
            if (++p.column == a.taps[1]) p.column = 0, p.row++;
        } while (p.channel >= a.channels);
        enter_tap();
    };
    auto note_left = [&](int k) {
#pragma unroll
        for (int i = 0; i < S::left; i++) *(int *)(room + S::place(slot, i) + k * S::turn) = pixel_at(i);
        advance();
    };
    auto fill_left = [&](uint32_t turn) {
#pragma unroll
        for (int i = 0; i < S::left; i++) fetch_pixel(S::place(slot, i) + turn, pixel_at(i));
        advance();
    };
    const bool shared = gridDim.z > 1 && !a.partial;
    const Rows rows_of_z = shared ? rows_of_cluster<ROWS>() : Rows{0, ROWS, S::groups};
    auto fetch_z = [&]() { /* behind the stages, with the next of them */
        if (!a.z || !fits<T>(a, a.z, a.z_type)) return;
        constexpr int CHUNKS_OF_Z = COLUMNS / CHUNK;
#pragma unroll 1
        for (int i = threadIdx.x; i < ROWS * CHUNKS_OF_Z; i += S::threads) {
            const int row = i / CHUNKS_OF_Z, column = i % CHUNKS_OF_Z * CHUNK;
            const int pixel = first_row + row, filter = first_column + column;
            if (row >= rows_of_z.begin && row < rows_of_z.end && pixel < a.pixels && filter < a.filters)
                fetch(base + i * 16, (const T *)a.z + (int64_t)pixel * a.filters + filter, true);
        }
    };
#pragma unroll 1
    for (int k = 0; k < S::each && k < steps; k++) FEW ? note_few(k) : note_left(k);
    wait_for_last();
    int2 notes[S::each][S::left];
#pragma unroll
    for (int k = 0; k < S::each; k++)
#pragma unroll
        for (int i = 0; i < S::left; i++) {
            if (k >= steps) break;
            const unsigned char *note = room + S::place(slot, i) + k * S::turn;
            if (FEW)
                notes[k][i] = *(const int2 *)note;
            else
                notes[k][i].x = *(const int *)note;
        }
#pragma unroll
    for (int k = 0; k < S::each; k++) {
#pragma unroll
        for (int i = 0; i < S::left; i++) {
            if (k >= steps) break;
            const uint32_t to = S::place(slot, i) + k * S::turn;
            FEW ? fetch_pairs(to, notes[k][i]) : fetch_pixel(to, notes[k][i].x);
        }
        end_group();
    }
    fetch_z();
    float *tile = reinterpret_cast<float *>(room + S::stages_at), *mine = tile + threadIdx.x % S::packs * FINISHED;
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
    uint32_t turn = 0; /* where the step's stage is, from the group's first */
#pragma unroll 1
    for (int k = 0; k < steps; k++) {
        wait_groups<S::each - 1>();
        if (FEW) clear_beside(k);
        meet_group<S>(group); /* the stage is there */
        multiply_stage<T, S>(sums, base + stage_at + turn, warp_row, warp_column);
        if (!FEW && k + S::each < steps) {
            meet_group<S>(group); /* and was read */
            fill_right(turn);
            fill_left(turn);
        }
        end_group();
        turn += S::turn;
        if (turn == S::each * S::turn) turn = 0;
    }
    end_group(); /* of z, where the group has no step */
    wait_groups<0>();
    __syncthreads(); /* what was read of the stages gives way to sums */
    uint32_t &done = *reinterpret_cast<uint32_t *>(room + S::counter_at);
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
    Rows rows = {0, ROWS, S::groups};
    if (gridDim.z > 1) join_groups<S>(mine);
#if __CUDA_ARCH__ >= 900
    if (shared) rows = gather_cluster<S, ROWS>(mine);
#endif
    if (a.partial) rows = gather_counted<S, ROWS>(a, mine, done);
    const T *z = reinterpret_cast<const T *>(room) + threadIdx.x % S::packs * FINISHED;
    finish_rows<T, S>(a, rows, mine, z, bias, first_row, filter);
#if __CUDA_ARCH__ >= 900
    if (shared) asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); /* others have read mine */
#endif
}

/* BLOCKS: that a multiprocessor has registers for; the next kernel's are there beside this one's. */
#define TILE(name, T, ROWS, COLUMNS, WM, WN, FEW, BLOCKS)                                        \
    extern "C" __global__ void __launch_bounds__(Shape<ROWS, COLUMNS, WM, WN>::threads, BLOCKS) \
        tile_##name(TileArgs a) {                                                                \
        convolve<T, ROWS, COLUMNS, WM, WN, FEW>(a);                                              \
    }
#define TILES(suffix, T)                               \
    TILE(32x32_##suffix, T, 32, 32, 1, 1, false, 5)    \
    TILE(64x32_##suffix, T, 64, 32, 2, 2, false, 3)    \
    TILE(64x64_##suffix, T, 64, 64, 2, 2, false, 2)    \
    TILE(few_64x32_##suffix, T, 64, 32, 2, 2, true, 3) \
    TILE(few_64x64_##suffix, T, 64, 64, 2, 2, true, 3)
TILES(f16, f16)
TILES(bf16, bf16)
