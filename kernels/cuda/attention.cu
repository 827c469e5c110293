// SPDX-License-Identifier: Apache-2.0
/* Attention without scores in memory: the largest score and the sum follow along. Three ways, by what
 * there is much of: of anything, a warp a row of queries; of few queries, keys dealt out to a block; of
 * 16 bit, tiles for tensor cores. */
#include "attention_args.h"
#include "cuda_types.cuh"
#include "mma.cuh"

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

/* Keys that are no padding. */
static __device__ __forceinline__ int64_t keys_of(const AttentionArgs &a, int batch) {
    if (!a.lengths) return a.keys;
    const int64_t length = a.lengths[batch];
    return length < 0 ? 0 : length < a.keys ? length : a.keys;
}

/* The keys that a row sees. */
struct Range {
    int64_t from, to;
};
static __device__ __forceinline__ Range range_of(const AttentionArgs &a, int batch, int64_t row) {
    Range range = {0, keys_of(a, batch)};
    const int64_t place = row + (a.lengths ? a.lengths[batch] - a.rows : a.past);
    if (a.right >= 0 && range.to > place + a.right + 1) range.to = place + a.right + 1;
    if (a.left >= 0 && place > a.left) range.from = place - a.left;
    if (range.to < 0) range.to = 0;
    if (range.from > range.to) range.from = range.to;
    return range;
}

/* By an exponential, which is as good for what becomes an exponent, and takes fewer registers than tanhf. */
static __device__ __forceinline__ float capped(const AttentionArgs &a, float score) {
    return a.softcap > 0 ? a.softcap * (1 - 2 / (1 + expf(2 / a.softcap * score))) : score;
}

/* What sums of values are multiplied with; of no key at all, or of none that is not excluded, where that
 * is to be 0. */
static __device__ __forceinline__ float share_of(const AttentionArgs &a, float total) {
    return total == 0 && (a.keys == 0 || a.excludes) ? 0 : 1 / total;
}

/* The score of a key: -inf where it is excluded. */
static __device__ __forceinline__ float masked(const AttentionArgs &a, float score, int64_t keep,
                                               int64_t bias, int64_t key) {
    score = capped(a, score);
    if (a.keep.data && !((const uint8_t *)a.keep.data)[keep + key * a.keep.element]) score = a.fill;
    if (a.bias.data) score += load_far(a.bias.data, a.bias.type, bias + key * a.bias.element);
    return score;
}

/* ---- any sizes ------------------------------------------------------------------------------- */

/* A warp's row of queries, scaled. */
static __device__ __forceinline__ void load_query(const AttentionArgs &a, float *q, int batch, int head,
                                                  int64_t row) {
    const int64_t from = batch * a.q.batch + head * a.q.head + row * a.q.row;
    for (int i = threadIdx.x % WARP; i < a.size; i += WARP)
        q[i] = a.scale * load_any(a.q.data, a.q.type, from + i * a.q.element);
}

/* K and V have the same type. */
template <typename K> static __device__ void attend(const AttentionArgs &a) {
    constexpr int PARTS = ATTENTION_SIZE / WARP;
    __shared__ float queries[ATTENTION_WARPS][ATTENTION_SIZE];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t row = (int64_t)blockIdx.x * ATTENTION_WARPS + warp;
    const int head = blockIdx.y % a.heads, batch = blockIdx.y / a.heads;
    float *q = queries[warp];
    if (row < a.rows) load_query(a, q, batch, head, row);
    __syncwarp();
    if (row >= a.rows) return; /* whole warps */
    const Range range = range_of(a, batch, row);
    const K *k = (const K *)a.k.data + batch * a.k.batch + head / a.k_share * a.k.head;
    const K *v = (const K *)a.v.data + batch * a.v.batch + head / a.v_share * a.v.head;
    const int64_t keep = batch * a.keep.batch + head * a.keep.head + row * a.keep.row;
    const int64_t bias = batch * a.bias.batch + head * a.bias.head + row * a.bias.row;
    float most = -INFINITY, total = 0, sums[PARTS];
#pragma unroll
    for (int p = 0; p < PARTS; p++) sums[p] = 0;
    for (int64_t first = range.from; first < range.to; first += WARP) {
        const int64_t key = first + lane;
        float score = -INFINITY;
        if (key < range.to)
            score = masked(a, dot<K>(q, k + key * a.k.row, a.k.element, a.size), keep, bias, key);
        const float before = most;
        most = max_nan(warp_max(score), most);
        const float base = most == -INFINITY ? 0 : most;
        const float weight = key < range.to ? expf(score - base) : 0;
        const float shrink = before == -INFINITY ? 0 : expf(before - base);
        total = total * shrink + warp_sum(weight);
#pragma unroll
        for (int p = 0; p < PARTS; p++) sums[p] *= shrink;
        const int count = range.to - first < WARP ? (int)(range.to - first) : WARP;
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
    const float share = share_of(a, total);
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        const int i = p * WARP + lane;
        if (i < a.value)
            store_any((void *)a.y.data, a.y.type, to + i * a.y.element,
                      sums[p] * share);
    }
}
#define ATTEND(suffix, T)                                                                          \
    extern "C" __global__ void __launch_bounds__(WARP *ATTENTION_WARPS)                            \
        attend_##suffix(AttentionArgs a) {                                                         \
        begin();                                                                                   \
        attend<T>(a);                                                                              \
    }
FOR_FLOATS(ATTEND)


/* ---- few queries ----------------------------------------------------------------------------- */

/* R rows of queries a block. A key belongs to G lanes, each of which has N elements of it, of its value
 * and of the queries; G lanes go through every so manieth key for themselves, and what all have is put
 * together at the end. Rows of keys and values are whole packs of N. */
template <typename K, int G, int R> static __device__ void attend_few(const AttentionArgs &a) {
    constexpr int N = 16 / sizeof(K);
    __shared__ float tops[R][FEW_WARPS], totals[R][FEW_WARPS], sums[FEW_WARPS][G * N];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int part = lane % G, group = threadIdx.x / G;
    const int64_t row = (int64_t)blockIdx.x * R;
    const int head = blockIdx.y % a.heads, batch = blockIdx.y / a.heads;
    const K *k = (const K *)a.k.data + batch * a.k.batch + head / a.k_share * a.k.head + part * N;
    const K *v = (const K *)a.v.data + batch * a.v.batch + head / a.v_share * a.v.head + part * N;
    float q[R][N], sum[R][N], most[R], total[R];
    Range range[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        range[r] = range_of(a, batch, row + r);
        const int64_t from =
            batch * a.q.batch + head * a.q.head + (row + r) * a.q.row + part * N * a.q.element;
        most[r] = -INFINITY;
        total[r] = 0;
#pragma unroll
        for (int j = 0; j < N; j++) {
            sum[r][j] = 0;
            q[r][j] = row + r < a.rows
                          ? a.scale * load_any(a.q.data, a.q.type, from + j * a.q.element)
                          : 0;
        }
    }
    const int64_t keep = batch * a.keep.batch + head * a.keep.head;
    const int64_t bias = batch * a.bias.batch + head * a.bias.head;
    constexpr int GROUPS = FEW_WARPS * WARP / G;
    const int64_t start = range[0].from, end = range[R - 1].to; /* later rows see later keys */
    const int64_t turns = (end - start + GROUPS - 1) / GROUPS; /* all lanes take as many: they shuffle */
#pragma unroll 2
    for (int64_t turn = 0; turn < turns; turn++) {
        const int64_t key = start + turn * GROUPS + group;
        const bool there = key < end;
        float some[N], other[N];
        if (there) {
            load_pack<K, N>(some, k + key * a.k.row);
            load_pack<K, N>(other, v + key * a.v.row);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++) some[j] = other[j] = 0;
        }
#pragma unroll
        for (int r = 0; r < R; r++) {
            float score = 0;
#pragma unroll
            for (int j = 0; j < N; j++) score += q[r][j] * some[j];
#pragma unroll
            for (int d = 1; d < G; d *= 2) score += __shfl_xor_sync(0xffffffffu, score, d);
            if (row + r >= a.rows || key < range[r].from || key >= range[r].to) continue;
            score = masked(a, score, keep + (row + r) * a.keep.row, bias + (row + r) * a.bias.row,
                           key);
            const float before = most[r];
            most[r] = max_nan(score, before);
            const float base = most[r] == -INFINITY ? 0 : most[r];
            const float weight = expf(score - base);
            const float shrink = before == -INFINITY ? 0 : expf(before - base);
            total[r] = total[r] * shrink + weight;
#pragma unroll
            for (int j = 0; j < N; j++) sum[r][j] = sum[r][j] * shrink + weight * other[j];
        }
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        float top = most[r];
#pragma unroll
        for (int d = G; d < WARP; d *= 2) top = max_nan(top, __shfl_xor_sync(0xffffffffu, top, d));
        if (lane == 0) tops[r][warp] = top;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < R; r++) {
        float top = tops[r][0];
#pragma unroll
        for (int w = 1; w < FEW_WARPS; w++) top = max_nan(tops[r][w], top);
        const float base = top == -INFINITY ? 0 : top;
        const float shrink = most[r] == -INFINITY ? 0 : expf(most[r] - base);
        float all = total[r] * shrink;
#pragma unroll
        for (int d = G; d < WARP; d *= 2) all += __shfl_xor_sync(0xffffffffu, all, d);
        if (lane == 0) totals[r][warp] = all;
        if (r) __syncthreads(); /* the last row's sums were read */
#pragma unroll
        for (int j = 0; j < N; j++) {
            float x = sum[r][j] * shrink;
#pragma unroll
            for (int d = G; d < WARP; d *= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
            if (lane < G) sums[warp][part * N + j] = x;
        }
        __syncthreads();
        if (threadIdx.x < a.value && row + r < a.rows) {
            float x = 0, of = 0;
#pragma unroll
            for (int w = 0; w < FEW_WARPS; w++) x += sums[w][threadIdx.x], of += totals[r][w];
            const int64_t to =
                batch * a.y.batch + head * a.y.head + (row + r) * a.y.row + threadIdx.x * a.y.element;
            store_any((void *)a.y.data, a.y.type, to, x * share_of(a, of));
        }
    }
}
#define ATTEND_FEW(suffix, T, G, R)                                                                \
    extern "C" __global__ void __launch_bounds__(WARP *FEW_WARPS)                                  \
        attend_few_##G##x##R##_##suffix(AttentionArgs a) {                                         \
        begin();                                                                                   \
        attend_few<T, G, R>(a);                                                                    \
    }
/* 16-bit rows of queries that are many have tiles. */
ATTEND_FEW(f32, float, 8, 1)
ATTEND_FEW(f32, float, 16, 1)
ATTEND_FEW(f32, float, 32, 1)
ATTEND_FEW(f32, float, 8, 4)
ATTEND_FEW(f32, float, 16, 4)
ATTEND_FEW(f32, float, 32, 4)
ATTEND_FEW(f16, f16, 4, 1)
ATTEND_FEW(f16, f16, 8, 1)
ATTEND_FEW(f16, f16, 16, 1)
ATTEND_FEW(bf16, bf16, 4, 1)
ATTEND_FEW(bf16, bf16, 8, 1)
ATTEND_FEW(bf16, bf16, 16, 1)

/* ---- tiles of 16 bit ------------------------------------------------------------------------- */

/* The pair (low, high) as 16 bit, in one register. */
template <typename T> static __device__ __forceinline__ uint32_t pair(float low, float high) {
    Pack<T, 2> p;
    p.items[0] = from_float<T>(low);
    p.items[1] = from_float<T>(high);
    return *reinterpret_cast<const uint32_t *>(&p);
}

/* Within 2^-22 of it, which is less than what becomes of it in 16 bit. */
static __device__ __forceinline__ float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#define LOG2_E 1.4426950408889634074f

/* KEYS rows of D elements, of which `size` are there; what is not is 0. They arrive with their
 * group. */
template <typename T, int D, int KEYS>
static __device__ __forceinline__ void fetch_tile(T (&to)[KEYS][D + TILE_PAD], const T *from,
                                                  int64_t step, int64_t rows, int size) {
    constexpr int CHUNKS = D / 8, LINES = TILE_THREADS / CHUNKS;
    const int there_rows = rows < KEYS ? (int)rows : KEYS;
    if constexpr (TILE_THREADS % CHUNKS == 0) { /* a thread's chunks are at the same place of lines */
        const int row = threadIdx.x / CHUNKS, column = threadIdx.x % CHUNKS * 8;
        const T *at = from + row * step + column;
        const uint32_t start = shared_address(&to[row][column]);
#pragma unroll
        for (int k = 0; k < KEYS / LINES; k++) {
            const bool there = row + k * LINES < there_rows && column < size;
            fetch(start + k * LINES * (uint32_t)sizeof to[0], there ? at : from, there);
            at += LINES * step;
        }
    } else {
#pragma unroll
        for (int k = 0; k < KEYS * CHUNKS / TILE_THREADS; k++) {
            const int i = k * TILE_THREADS + threadIdx.x;
            const int row = i / CHUNKS, column = i % CHUNKS * 8;
            const bool there = row < there_rows && column < size;
            fetch(&to[row][column], there ? from + row * step + column : from, there);
        }
    }
}

/* Adds what a mask says to a thread's scores, or puts `fill` where it says 0; its elements lie side by
 * side. They are read some at a time, so that they are on their way together.
 * Score [n][i] is of row first + i / 2 * 8 and of key start + n * 8 + lane % 4 * 2 + i % 2. */
template <typename M, bool FILLS, int KEYS>
static __device__ __forceinline__ void apply_mask(float (&scores)[KEYS / 8][4],
                                                  const HeadOperand &m, int64_t at,
                                                  const AttentionArgs &a, int64_t first,
                                                  int64_t start) {
    constexpr int SOME = 4;
    const int64_t last = a.rows - 1, mine = start + threadIdx.x % 4 * 2;
    const int left = a.keys - mine < KEYS ? (int)(a.keys - mine) : KEYS;
    const M *data = (const M *)m.data + at + mine;
    const M *rows[2] = {data + (first < last ? first : last) * m.row,
                        data + (first + 8 < last ? first + 8 : last) * m.row};
#pragma unroll
    for (int from = 0; from < KEYS / 8; from += SOME) {
        M read[SOME][4];
#pragma unroll
        for (int n = 0; n < SOME; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int key = (from + n) * 8 + i % 2;
                read[n][i] = key < left ? rows[i / 2][key] : M(0);
            }
#pragma unroll
        for (int n = 0; n < SOME; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float &score = scores[from + n][i];
                if (!FILLS)
                    score += to_float(read[n][i]);
                else if (to_float(read[n][i]) == 0)
                    score = a.fill;
            }
    }
}

/* scores = scale scores, `fill` where they are excluded, plus bias; -inf where a row sees no
 * key. */
template <int KEYS, bool RANGED>
static __device__ __forceinline__ void mask_scores(float (&scores)[KEYS / 8][4],
                                                   const AttentionArgs &a, int batch, int64_t keep,
                                                   int64_t bias, int64_t first, int64_t start) {
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) scores[n][i] *= a.scale;
    if (a.keep.data) apply_mask<uint8_t, true, KEYS>(scores, a.keep, keep, a, first, start);
    if (a.bias.data && a.bias.type == DEMI_FLOAT16)
        apply_mask<f16, false, KEYS>(scores, a.bias, bias, a, first, start);
    else if (a.bias.data && a.bias.type == DEMI_BFLOAT16)
        apply_mask<bf16, false, KEYS>(scores, a.bias, bias, a, first, start);
    else if (a.bias.data)
        apply_mask<float, false, KEYS>(scores, a.bias, bias, a, first, start);
    if (!RANGED && start + KEYS <= a.keys) return;
    int64_t from[2] = {0, 0}, to[2] = {a.keys, a.keys}; /* of a thread's two rows */
#pragma unroll
    for (int h = 0; RANGED && h < 2; h++) {
        const Range range = range_of(a, batch, first + h * 8);
        from[h] = range.from;
        to[h] = range.to;
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int64_t key = start + n * 8 + threadIdx.x % 4 * 2 + i % 2;
            if ((RANGED && key < from[i / 2]) || key >= to[i / 2]) scores[n][i] = -INFINITY;
        }
}

/* 16 rows of queries a warp, keys and values in turns of KEYS by way of shared memory, each
 * fetched while the other is worked on. Fragments are those of mma.m16n8k16: a thread has rows lane / 4
 * and 8 below, and pairs of columns from lane % 4 * 2 on. Scores stay where they are made: they are the
 * next product's left operand. */
template <typename T, int D, int KEYS, bool RANGED>
static __device__ void attend_tile(const AttentionArgs &a) {
    constexpr int EIGHTS = KEYS / 8, STEPS = D / 16, COLUMNS = D / 8;
    __shared__ alignas(16) T keys[KEYS][D + TILE_PAD], values[KEYS][D + TILE_PAD];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int head = blockIdx.y % a.heads, batch = blockIdx.y / a.heads;
    const int64_t first = ((int64_t)blockIdx.x * (TILE_THREADS / WARP) + warp) * 16 + lane / 4;
    const T *q = (const T *)a.q.data + batch * a.q.batch + head * a.q.head;
    const T *k = (const T *)a.k.data + batch * a.k.batch + head / a.k_share * a.k.head;
    const T *v = (const T *)a.v.data + batch * a.v.batch + head / a.v_share * a.v.head;
    const int64_t keep = batch * a.keep.batch + head * a.keep.head;
    const int64_t bias = batch * a.bias.batch + head * a.bias.head;
    constexpr int ROWS = TILE_THREADS / 2;
    const int64_t top_row = (int64_t)blockIdx.x * ROWS;
    const int64_t last_row = top_row + ROWS < a.rows ? top_row + ROWS - 1 : a.rows - 1;
    const int64_t there = RANGED ? keys_of(a, batch) : a.keys;
    const int64_t begin = RANGED ? range_of(a, batch, top_row).from / KEYS * KEYS : 0;
    const int64_t end = RANGED ? range_of(a, batch, last_row).to : a.keys;
    fetch_tile<T, D, KEYS>(keys, k + begin * a.k.row, a.k.row, there - begin, a.size);
    end_group();
    fetch_tile<T, D, KEYS>(values, v + begin * a.v.row, a.v.row, there - begin, a.value);
    end_group();
    uint32_t left[STEPS][4];
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int64_t row = first + i % 2 * 8;
            const int column = s * 16 + i / 2 * 8 + lane % 4 * 2;
            left[s][i] = row < a.rows && column < a.size
                             ? *reinterpret_cast<const uint32_t *>(q + row * a.q.row + column)
                             : 0;
        }
    float sums[COLUMNS][4], most[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[c][i] = 0;
    for (int64_t start = begin; start < end; start += KEYS) {
        const int64_t next = start + KEYS;
        wait_groups<1>();
        __syncthreads(); /* keys are there */
        float scores[EIGHTS][4];
#pragma unroll
        for (int n = 0; n < EIGHTS; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) scores[n][i] = 0;
#pragma unroll
            for (int s = 0; s < STEPS; s += 2) {
                uint32_t four[4];
                load_matrices(four, shared_address(&keys[n * 8 + lane % 8][s * 16 + lane / 8 * 8]));
                const uint32_t right[2][2] = {{four[0], four[1]}, {four[2], four[3]}};
                multiply<T>(scores[n], left[s], right[0]);
                multiply<T>(scores[n], left[s + 1], right[1]);
            }
        }
        __syncthreads(); /* they were read */
        if (next < end) fetch_tile<T, D, KEYS>(keys, k + next * a.k.row, a.k.row, there - next, a.size);
        end_group();
        mask_scores<KEYS, RANGED>(scores, a, batch, keep, bias, first, start);
        float shrink[2], base[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float top = most[h];
#pragma unroll
            for (int n = 0; n < EIGHTS; n++)
                top = max_nan(scores[n][h * 2], max_nan(scores[n][h * 2 + 1], top));
#pragma unroll
            for (int d = 1; d < 4; d *= 2)
                top = max_nan(top, __shfl_xor_sync(0xffffffffu, top, d));
            /* e^x is 2^(x log2 e): all of a row's powers have the same rounded base, which so cancels out */
            base[h] = top == -INFINITY ? 0 : top * LOG2_E;
            shrink[h] = most[h] == -INFINITY ? 0 : power_of_2(most[h] * LOG2_E - base[h]);
            most[h] = top;
            total[h] *= shrink[h];
        }
#pragma unroll
        for (int n = 0; n < EIGHTS; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                scores[n][i] = power_of_2(fmaf(scores[n][i], LOG2_E, -base[i / 2]));
                total[i / 2] += scores[n][i];
            }
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[c][i] *= shrink[i / 2];
        wait_groups<1>();
        __syncthreads(); /* values are there */
#pragma unroll
        for (int n = 0; n < EIGHTS; n += 2) {
            const uint32_t weights[4] = {pair<T>(scores[n][0], scores[n][1]),
                                         pair<T>(scores[n][2], scores[n][3]),
                                         pair<T>(scores[n + 1][0], scores[n + 1][1]),
                                         pair<T>(scores[n + 1][2], scores[n + 1][3])};
#pragma unroll
            for (int c = 0; c < COLUMNS; c += 2) {
                uint32_t four[4];
                load_turned(four, shared_address(&values[n * 8 + lane % 16][c * 8 + lane / 16 * 8]));
                const uint32_t right[2][2] = {{four[0], four[1]}, {four[2], four[3]}};
                multiply<T>(sums[c], weights, right[0]);
                multiply<T>(sums[c + 1], weights, right[1]);
            }
        }
        __syncthreads(); /* they were read */
        if (next < end)
            fetch_tile<T, D, KEYS>(values, v + next * a.v.row, a.v.row, there - next, a.value);
        end_group();
    }
    wait_groups<0>();
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int d = 1; d < 4; d *= 2) total[h] += __shfl_xor_sync(0xffffffffu, total[h], d);
#pragma unroll
    for (int h = 0; h < 2; h++) total[h] = share_of(a, total[h]);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int64_t row = first + h * 8;
            const int column = c * 8 + lane % 4 * 2;
            if (row >= a.rows || column >= a.value) continue;
            const int64_t to = batch * a.y.batch + head * a.y.head + row * a.y.row + column;
            const float pair[2] = {sums[c][h * 2] * total[h], sums[c][h * 2 + 1] * total[h]};
            store_pack<T, 2>((T *)a.y.data + to, pair);
        }
}
#define ATTEND_TILE(name, suffix, T, D, KEYS, RANGED)                                              \
    extern "C" __global__ void __launch_bounds__(TILE_THREADS, D <= 64 ? 3 : 2) name##_##D##_##suffix(AttentionArgs a) { \
        begin();                                                                                   \
        attend_tile<T, D, KEYS, RANGED>(a);                                                        \
    }
/* Rows that see some keys alone have fewer at a time where registers would not do. */
#define ATTEND_TILES(suffix, T)                                                                    \
    ATTEND_TILE(attend_tile, suffix, T, 32, 64, false)                                             \
    ATTEND_TILE(attend_tile, suffix, T, 64, 64, false)                                             \
    ATTEND_TILE(attend_tile, suffix, T, 96, 64, false)                                             \
    ATTEND_TILE(attend_tile, suffix, T, 128, 64, false)                                            \
    ATTEND_TILE(attend_range, suffix, T, 32, 64, true)                                             \
    ATTEND_TILE(attend_range, suffix, T, 64, 64, true)                                             \
    ATTEND_TILE(attend_range, suffix, T, 96, 32, true)                                             \
    ATTEND_TILE(attend_range, suffix, T, 128, 32, true)
ATTEND_TILES(f16, f16)
ATTEND_TILES(bf16, bf16)

/* ---- what is shown of scores, caches --------------------------------------------------------- */

/* A warp a row, a lane a key. */
template <typename K> static __device__ void show_scores(const ScoresArgs &s) {
    __shared__ float queries[ATTENTION_WARPS][ATTENTION_SIZE];
    const AttentionArgs &a = s.of;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t row = (int64_t)blockIdx.x * ATTENTION_WARPS + warp;
    const int head = blockIdx.y % a.heads, batch = blockIdx.y / a.heads;
    float *q = queries[warp];
    if (row < a.rows) load_query(a, q, batch, head, row);
    __syncwarp();
    if (row >= a.rows) return; /* whole warps */
    const K *k = (const K *)a.k.data + batch * a.k.batch + head / a.k_share * a.k.head;
    const int64_t keep = batch * a.keep.batch + head * a.keep.head + row * a.keep.row;
    const int64_t bias = batch * a.bias.batch + head * a.bias.head + row * a.bias.row;
    const int64_t to = (blockIdx.y * a.rows + row) * s.all;
    const Range range = range_of(a, batch, row);
    float most = -INFINITY, total = 0;
    /* the largest one, the sum, and what is shown: the last alone where those are not asked for */
#pragma unroll 1
    for (int pass = s.mode == SCORES_PROBABILITY ? 0 : 2; pass < 3; pass++) {
        const int64_t from = pass < 2 ? range.from : 0, end = pass < 2 ? range.to : s.all;
#pragma unroll 1
        for (int64_t key = from + lane; key < end; key += WARP) {
            const bool sees = key >= range.from && key < range.to;
            float score = s.mode == SCORES_BIASED ? -INFINITY : 0;
            if (sees || s.mode < SCORES_BIASED)
                score = dot<K>(q, k + key * a.k.row, a.k.element, a.size);
            if (s.mode == SCORES_CAPPED) score = capped(a, score);
            if (sees && s.mode >= SCORES_BIASED) score = masked(a, score, keep, bias, key);
            if (pass == 0) {
                most = max_nan(score, most);
                continue;
            }
            if (sees && s.mode == SCORES_PROBABILITY) score = expf(score - most);
            total += pass == 1 ? score : 0;
            if (pass == 1) continue;
            if (sees && s.mode == SCORES_PROBABILITY) score *= share_of(a, total);
            store_any(s.y, s.type, to + key, score);
        }
        if (pass == 0) most = warp_max(most);
        if (pass == 0 && most == -INFINITY) most = 0;
        if (pass == 1) total = warp_sum(total);
    }
}
#define SHOW_SCORES(suffix, T)                                                                     \
    extern "C" __global__ void __launch_bounds__(WARP *ATTENTION_WARPS)                            \
        show_scores_##suffix(ScoresArgs s) {                                                       \
        begin();                                                                                   \
        show_scores<T>(s);                                                                         \
    }
FOR_FLOATS(SHOW_SCORES)

template <typename T> static __device__ void join_rows(const JoinArgs &a) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x, total = a.past_rows + a.rows;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const int64_t element = i % a.size, row = i / a.size % total, n = i / a.size / total;
        const T *from = row < a.past_rows
                            ? (const T *)a.past + (n * a.past_rows + row) * a.size
                            : (const T *)a.now + n / a.heads * a.batch + n % a.heads * a.head +
                                  (row - a.past_rows) * a.row;
        ((T *)a.y)[i] = from[element];
    }
}
#define JOIN_ROWS(suffix, T)                                                                       \
    extern "C" __global__ void __launch_bounds__(256) join_rows_##suffix(JoinArgs a) {             \
        begin();                                                                                   \
        join_rows<T>(a);                                                                           \
    }
JOIN_ROWS(x2, uint16_t)
JOIN_ROWS(x4, uint32_t)

/* ---- rotary angles --------------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(256) turn_heads(RotaryArgs a) {
    begin();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const int64_t element = i % a.size, row = i / a.size % a.rows;
        const int64_t head = i / a.size / a.rows % a.heads, batch = i / a.size / a.rows / a.heads;
        const int64_t start = batch * a.batch + head * a.head + row * a.row, at = start + element;
        const float x = load_any(a.x, a.x_type, at);
        if (element >= 2 * a.half) {
            store_any(a.y, a.y_type, at, x);
            continue;
        }
        const int64_t pair = a.interleaved ? element / 2 : element % a.half;
        const bool second = a.interleaved ? element % 2 : element >= a.half;
        const int64_t apart = a.interleaved ? 1 : a.half, token = batch * a.rows + row;
        const float other = load_any(a.x, a.x_type, second ? at - apart : at + apart);
        int64_t place = token;
        if (a.positions) place = a.positions[a.first ? 0 : token] + (a.first ? row : 0);
        const bool there = place >= 0 && place < a.places;
        const float c = there ? load_any(a.cosines, a.cosine_type, place * a.half + pair) : 0;
        const float s = there ? load_any(a.sines, a.sine_type, place * a.half + pair) : 0;
        store_any(a.y, a.y_type, at, second ? s * other + c * x : c * x - s * other);
    }
}

extern "C" __global__ void __launch_bounds__(256) rotate(RotateArgs a) {
    begin();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const int64_t column = i % (2 * a.half);
        int64_t rest = i, c = 0, s = 0;
#pragma unroll 1
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
