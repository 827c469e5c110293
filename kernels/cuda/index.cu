// SPDX-License-Identifier: Apache-2.0
/* What goes by indices, and along lines: elements and blocks picked and put, the best of a line,
 * running sums. Updates of one place are combined in their order, so that results are the same in
 * every run. */
#include "cuda_types.cuh"
#include "index_args.h"

#define EACH(i, n)                                                                                 \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                      \
         i += (int64_t)gridDim.x * blockDim.x)

/* The index at i, counted from 0; -1: out of range. */
static __device__ __forceinline__ int64_t index_at(const void *indices, int wide, int64_t i,
                                                   int64_t size) {
    int64_t index = wide ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
    if (index < 0) index += size;
    return index >= 0 && index < size ? index : -1;
}

/* ---- combining ------------------------------------------------------------------------------- */

template <typename T> static __device__ __forceinline__ T added(T a, T b) {
    return a + b;
}
template <typename T> static __device__ __forceinline__ T multiplied(T a, T b) {
    return a * b;
}
template <typename T> static __device__ __forceinline__ bool less(T a, T b) {
    return a < b;
}
template <typename T> static __device__ __forceinline__ bool absent(T a) {
    return a != a;
}
#define NARROW(T)                                                                                  \
    template <> __device__ __forceinline__ T added<T>(T a, T b) {                                  \
        return from_float<T>(to_float(a) + to_float(b));                                           \
    }                                                                                              \
    template <> __device__ __forceinline__ T multiplied<T>(T a, T b) {                             \
        return from_float<T>(to_float(a) * to_float(b));                                           \
    }                                                                                              \
    template <> __device__ __forceinline__ bool less<T>(T a, T b) {                                \
        return to_float(a) < to_float(b);                                                          \
    }                                                                                              \
    template <> __device__ __forceinline__ bool absent<T>(T a) {                                   \
        return to_float(a) != to_float(a);                                                         \
    }
NARROW(f16)
NARROW(bf16)

template <typename T> static __device__ void combine(int how, T *to, T update) {
    const T old = how == SCATTER_NONE ? update : *to;
    switch (how) {
    case SCATTER_NONE: *to = update; break;
    case SCATTER_ADD: *to = added(old, update); break;
    case SCATTER_MUL: *to = multiplied(old, update); break;
    case SCATTER_MIN: *to = less(update, old) || absent(update) ? update : old; break;
    case SCATTER_MAX: *to = less(old, update) || absent(update) ? update : old; break;
    }
}

/* ---- an index each element ------------------------------------------------------------------- */

/* Where an element, or a line's first one, is among the indices and in what is looked up. */
struct Spot {
    int64_t own, there;
};
static __device__ __forceinline__ Spot spot_of(const ElementsArgs &a, int64_t i) {
    Spot spot = {0, 0};
#pragma unroll 1
    for (int k = a.rank - 1; k >= 0; k--) {
        if (a.lines && k == a.axis) continue;
        const int64_t at = i % a.sizes[k];
        i /= a.sizes[k];
        spot.own += at * a.own[k];
        if (k != a.axis) spot.there += at * a.strides[k];
    }
    return spot;
}

template <typename T> static __device__ void gather_elements(const ElementsArgs &a) {
    EACH(i, a.count) {
        const Spot spot = spot_of(a, i);
        const int64_t index = index_at(a.indices, a.wide, i, a.size);
        T value = {};
        if (index >= 0) value = ((const T *)a.x)[spot.there + index * a.strides[a.axis]];
        ((T *)a.y)[i] = value;
    }
}

template <typename T> static __device__ void scatter_elements(const ElementsArgs &a) {
    const int64_t length = a.lines ? a.sizes[a.axis] : 1;
    EACH(i, a.count) {
        const Spot spot = spot_of(a, i);
#pragma unroll 1
        for (int64_t k = 0; k < length; k++) {
            const int64_t own = spot.own + k * a.own[a.axis];
            const int64_t index = index_at(a.indices, a.wide, own, a.size);
            if (index < 0) continue;
            combine(a.how, (T *)a.y + spot.there + index * a.strides[a.axis],
                    ((const T *)a.x)[own]);
        }
    }
}

/* ---- an index each block --------------------------------------------------------------------- */

/* Where a tuple's block begins; -1: nowhere. */
static __device__ __forceinline__ int64_t block_of(const BlocksArgs &a, int64_t tuple) {
    int64_t at = tuple / a.tuples * a.batch;
#pragma unroll 1
    for (int k = 0; k < a.depth; k++) {
        const int64_t index = index_at(a.indices, a.wide, tuple * a.depth + k, a.sizes[k]);
        if (index < 0) return -1;
        at += index * a.strides[k];
    }
    return at;
}

template <typename T> static __device__ void gather_blocks(const BlocksArgs &a) {
    EACH(i, a.count) {
        const int64_t at = block_of(a, i / a.block);
        T value = {};
        if (at >= 0) value = ((const T *)a.x)[at + i % a.block];
        ((T *)a.y)[i] = value;
    }
}

/* Combined, a thread has an element of all blocks. */
template <typename T> static __device__ void scatter_blocks(const BlocksArgs &a) {
    EACH(i, a.count) {
        const int64_t first = a.how == SCATTER_NONE ? i / a.block : 0;
        const int64_t end = a.how == SCATTER_NONE ? first + 1 : a.tuples;
#pragma unroll 1
        for (int64_t t = first; t < end; t++) {
            const int64_t at = block_of(a, t);
            if (at < 0) continue;
            combine(a.how, (T *)a.y + at + i % a.block, ((const T *)a.x)[t * a.block + i % a.block]);
        }
    }
}

/* ---- one of a line is marked ------------------------------------------------------------------ */

/* A number, cut to an integer; what is none, or beyond any index, is out of range. */
static __device__ int64_t whole_at(const void *data, int dtype, int64_t i) {
    switch (dtype) {
    case DEMI_INT8: return ((const int8_t *)data)[i];
    case DEMI_INT16: return ((const int16_t *)data)[i];
    case DEMI_INT32: return ((const int32_t *)data)[i];
    case DEMI_INT64: return ((const int64_t *)data)[i];
    case DEMI_BOOL:
    case DEMI_UINT8: return ((const uint8_t *)data)[i];
    case DEMI_UINT16: return ((const uint16_t *)data)[i];
    case DEMI_UINT32: return ((const uint32_t *)data)[i];
    case DEMI_UINT64: {
        const uint64_t x = ((const uint64_t *)data)[i];
        return x > INT64_MAX ? INT64_MAX : (int64_t)x;
    }
    default: {
        const double x = dtype == DEMI_DOUBLE ? ((const double *)data)[i] : load_any(data, dtype, i);
        return x > -1e18 && x < 1e18 ? (int64_t)x : INT64_MAX;
    }
    }
}

template <typename T> static __device__ void one_hot(const OneHotArgs &a) {
    EACH(i, a.count) {
        const int64_t place = i / a.inner % a.depth;
        const int64_t of = i / a.inner / a.depth * a.inner + i % a.inner;
        int64_t index = whole_at(a.indices, a.type, of);
        if (index < 0) index += a.depth;
        ((T *)a.y)[i] = ((const T *)a.values)[index == place];
    }
}

/* ---- the best of a line ---------------------------------------------------------------------- */

/* A number for each value, in their order; NaN is the largest, and -0 is 0. */
template <typename T> static __device__ __forceinline__ uint64_t key_of(T x) {
    return (uint64_t)(int64_t)x ^ UINT64_C(1) << 63;
}
template <> __device__ __forceinline__ uint64_t key_of<double>(double x) {
    if (x != x) return UINT64_MAX;
    const uint64_t bits = (uint64_t)__double_as_longlong(x == 0 ? 0.0 : x);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}
template <> __device__ __forceinline__ uint64_t key_of<float>(float x) {
    if (x != x) return UINT64_MAX;
    const uint32_t bits = __float_as_uint(x == 0 ? 0.0f : x);
    return bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
}
template <> __device__ __forceinline__ uint64_t key_of<f16>(f16 x) {
    return key_of(to_float(x));
}
template <> __device__ __forceinline__ uint64_t key_of<bf16>(bf16 x) {
    return key_of(to_float(x));
}

/* What is found so far: the larger key is wanted more. */
struct Found {
    uint64_t key;
    int64_t index; /* -1: nothing */
};
static __device__ __forceinline__ bool before(const Found &a, const Found &b, int last) {
    if (a.index < 0 || b.index < 0) return b.index < 0 && a.index >= 0;
    if (a.key != b.key) return a.key > b.key;
    return last ? a.index > b.index : a.index < b.index;
}

/* Over the threads of a block, which all have the result. */
static __device__ Found best_of_block(Found best, int last, Found *room) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
#pragma unroll
    for (int d = WARP / 2; d; d /= 2) {
        const Found other = {__shfl_xor_sync(0xffffffffu, best.key, d),
                             __shfl_xor_sync(0xffffffffu, best.index, d)};
        if (before(other, best, last)) best = other;
    }
    __syncthreads(); /* the last use of room is over */
    if (lane == 0) room[warp] = best;
    __syncthreads();
    best = room[0];
    for (int w = 1; w < warps; w++)
        if (before(room[w], best, last)) best = room[w];
    return best;
}

template <typename T> static __device__ void best(const BestArgs &a) {
    __shared__ Found room[WARP];
    for (int64_t line = blockIdx.x; line < a.lines; line += gridDim.x) {
        const int64_t outer = line / a.inner, inner = line % a.inner;
        const T *x = (const T *)a.x + outer * a.n * a.inner + inner;
        Found taken = {0, -1};
        for (int64_t k = 0; k < a.k; k++) {
            Found found = {0, -1};
            for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
                uint64_t key = key_of<T>(x[i * a.inner]);
                if (a.smallest && !(a.nan_wins && key == UINT64_MAX)) key = ~key;
                const Found here = {key, i};
                if (k && !before(taken, here, a.last)) continue; /* it was taken */
                if (before(here, found, a.last)) found = here;
            }
            taken = best_of_block(found, a.last, room);
            if (threadIdx.x) continue;
            const int64_t to = (outer * a.k + k) * a.inner + inner;
            if (a.values) ((T *)a.values)[to] = x[taken.index * a.inner];
            if (a.indices) a.indices[to] = taken.index;
        }
    }
}

/* ---- running sums ---------------------------------------------------------------------------- */

template <typename T> static __device__ __forceinline__ double wide_of(T x) {
    return (double)to_float(x);
}
template <> __device__ __forceinline__ double wide_of<double>(double x) {
    return x;
}
template <typename T> static __device__ __forceinline__ T narrow_of(double x) {
    return from_float<T>((float)x);
}
template <> __device__ __forceinline__ double narrow_of<double>(double x) {
    return x;
}

/* Of floats in double, of integers as they wrap. */
template <typename T> struct Total {
    double sum;
    __device__ void add(T x) {
        sum += wide_of<T>(x);
    }
    __device__ T value() const {
        return narrow_of<T>(sum);
    }
};
#define WRAPPING(T)                                                                                \
    template <> struct Total<T> {                                                                  \
        uint64_t sum;                                                                              \
        __device__ void add(T x) {                                                                 \
            sum += (uint64_t)x;                                                                    \
        }                                                                                          \
        __device__ T value() const {                                                               \
            return (T)sum;                                                                         \
        }                                                                                          \
    };
WRAPPING(int32_t)
WRAPPING(int64_t)

template <typename T> static __device__ void sums(const SumsArgs &a) {
    EACH(line, a.lines) {
        const int64_t first = line / a.inner * a.n * a.inner + line % a.inner;
        Total<T> total = {0};
        for (int64_t k = 0; k < a.n; k++) {
            const int64_t at = first + (a.reverse ? a.n - 1 - k : k) * a.inner;
            const T x = ((const T *)a.x)[at];
            if (a.exclusive) ((T *)a.y)[at] = total.value();
            total.add(x);
            if (!a.exclusive) ((T *)a.y)[at] = total.value();
        }
    }
}

/* ---- tables of few bits ---------------------------------------------------------------------- */

/* Number i of a line that begins with a whole byte. */
static __device__ __forceinline__ int number_at(const TableArgs &a, const uint8_t *line, uint32_t i) {
    const int at = (int)(i & ((1 << a.spread) - 1)) * a.bits;
    const int number = line[i >> a.spread] >> at & ((1 << a.bits) - 1);
    return a.is_signed ? (number ^ 8) - 8 : number;
}

extern "C" __global__ void __launch_bounds__(256) gather_table(TableArgs a) {
    begin();
#pragma unroll 1
    EACH(k, a.count) {
        const uint32_t n = (uint32_t)k, pick = n / a.row, before = pick / a.picks;
        const int64_t index = index_at(a.indices, a.wide, pick - before * a.picks, a.axis);
        const uint32_t i = (before * a.axis + (uint32_t)index) * a.row + (n - pick * a.row);
        const uint32_t line = i / a.inner, inner = i - line * a.inner, outer = line / a.along;
        const uint32_t of = (line - outer * a.along) / a.block * a.inner + inner;
        const uint32_t zeros = (a.blocks + (1 << a.spread) - 1) >> a.spread;
        float y = 0;
        if (index >= 0) {
            y = (float)number_at(a, a.numbers, i);
            y -= a.zeros ? (float)number_at(a, a.zeros + outer * zeros * a.inner, of) : a.middle;
            y *= a.scales[outer * a.blocks * a.inner + of];
        }
        a.y[n] = y;
    }
}

#define GATHERS(suffix, T)                                                                         \
    extern "C" __global__ void __launch_bounds__(256) gather_elements_##suffix(ElementsArgs a) {   \
        begin();                                                                                   \
        gather_elements<T>(a);                                                                     \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) gather_blocks_##suffix(BlocksArgs a) {       \
        begin();                                                                                   \
        gather_blocks<T>(a);                                                                       \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) one_hot_##suffix(OneHotArgs a) {             \
        begin();                                                                                   \
        one_hot<T>(a);                                                                             \
    }
GATHERS(x1, uint8_t)
GATHERS(x2, uint16_t)
GATHERS(x4, uint32_t)
GATHERS(x8, uint64_t)

#define NUMBERS(suffix, T)                                                                         \
    extern "C" __global__ void __launch_bounds__(256) scatter_elements_##suffix(ElementsArgs a) {  \
        begin();                                                                                   \
        scatter_elements<T>(a);                                                                    \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) scatter_blocks_##suffix(BlocksArgs a) {      \
        begin();                                                                                   \
        scatter_blocks<T>(a);                                                                      \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) best_##suffix(BestArgs a) {                  \
        begin();                                                                                   \
        best<T>(a);                                                                                \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) sums_##suffix(SumsArgs a) {                  \
        begin();                                                                                   \
        sums<T>(a);                                                                                \
    }
FOR_FLOATS(NUMBERS)
NUMBERS(f64, double)
NUMBERS(i32, int32_t)
NUMBERS(i64, int64_t)
