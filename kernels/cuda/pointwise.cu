// SPDX-License-Identifier: Apache-2.0
/* Elementwise kernels: functions of one value, of two or three that broadcast, casts. Floats are
 * computed as float whatever they are stored as. */
#include "pointwise_args.h"
#include "unary.cuh"

/* ---- functions of one value ------------------------------------------------------------------ */

/* As many elements as fill 16 bytes of the wider of both types. */
template <typename From, typename To> static __device__ void unary_all(const UnaryArgs &a) {
    constexpr int N = 16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
    const From *x = (const From *)a.x;
    To *y = (To *)a.y;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const bool aligned = ((uintptr_t)x | (uintptr_t)y) % 16 == 0;
    const int64_t packs = aligned ? a.count / N : 0;
    for (int64_t k = i; k < packs; k += step) {
        float values[N];
        load_pack<From, N>(values, x + k * N);
#pragma unroll
        for (int j = 0; j < N; j++) values[j] = unary(a.op, values[j], a.p, a.q);
        store_pack<To, N>(y + k * N, values);
    }
    for (int64_t k = packs * N + i; k < a.count; k += step)
        y[k] = from_float<To>(unary(a.op, to_float(x[k]), a.p, a.q));
}

#define UNARY(from, to, From, To)                                                                  \
    extern "C" __global__ void __launch_bounds__(256) unary_##from##_##to(UnaryArgs a) {           \
        begin();                                                                                   \
        unary_all<From, To>(a);                                                                    \
    }
FOR_FLOAT_PAIRS(UNARY)

/* ---- casts ----------------------------------------------------------------------------------- */

/* Reads any type, and writes any, one element a thread: rare ones. */
static __device__ double load_number(const void *data, int dtype, int64_t i) {
    switch (dtype) {
    case DEMI_INT8: return ((const int8_t *)data)[i];
    case DEMI_INT16: return ((const int16_t *)data)[i];
    case DEMI_INT32: return ((const int32_t *)data)[i];
    case DEMI_UINT8: return ((const uint8_t *)data)[i];
    case DEMI_UINT16: return ((const uint16_t *)data)[i];
    case DEMI_UINT32: return ((const uint32_t *)data)[i];
    case DEMI_BOOL: return ((const uint8_t *)data)[i] != 0;
    case DEMI_DOUBLE: return ((const double *)data)[i];
    default: return load_any(data, dtype, i);
    }
}

/* Truncated; outside of the type's range it becomes the nearest end, NaN 0. */
template <typename T> static __device__ T cut(double x, double low, double high) {
    return x != x ? (T)0 : x <= low ? (T)low : x >= high ? (T)high : (T)x;
}

static __device__ int64_t to_long(double x) {
    return x != x ? 0 : x <= -9223372036854775808.0 ? INT64_MIN
                    : x >= 9223372036854775807.0    ? INT64_MAX
                                                    : (int64_t)x;
}
static __device__ uint64_t to_ulong(double x) {
    return x != x || x <= 0 ? 0 : x >= 18446744073709551615.0 ? UINT64_MAX : (uint64_t)x;
}

static __device__ void store_number(void *data, int dtype, int64_t i, double x) {
    switch (dtype) {
    case DEMI_INT8: ((int8_t *)data)[i] = cut<int8_t>(x, -128, 127); break;
    case DEMI_INT16: ((int16_t *)data)[i] = cut<int16_t>(x, -32768, 32767); break;
    case DEMI_INT32: ((int32_t *)data)[i] = cut<int32_t>(x, -2147483648.0, 2147483647.0); break;
    case DEMI_INT64: ((int64_t *)data)[i] = to_long(x); break;
    case DEMI_UINT8: ((uint8_t *)data)[i] = cut<uint8_t>(x, 0, 255); break;
    case DEMI_UINT16: ((uint16_t *)data)[i] = cut<uint16_t>(x, 0, 65535); break;
    case DEMI_UINT32: ((uint32_t *)data)[i] = cut<uint32_t>(x, 0, 4294967295.0); break;
    case DEMI_UINT64: ((uint64_t *)data)[i] = to_ulong(x); break;
    case DEMI_BOOL: ((uint8_t *)data)[i] = x != 0; break;
    case DEMI_DOUBLE: ((double *)data)[i] = x; break;
    case DEMI_FLOAT16: ((f16 *)data)[i] = __double2half(x); break;
    case DEMI_BFLOAT16: ((bf16 *)data)[i] = __double2bfloat16(x); break;
    default: ((float *)data)[i] = (float)x; break;
    }
}

static __device__ bool is_whole(int dtype) {
    return dtype == DEMI_INT8 || dtype == DEMI_INT16 || dtype == DEMI_INT32 ||
           dtype == DEMI_INT64 || dtype == DEMI_UINT8 || dtype == DEMI_UINT16 ||
           dtype == DEMI_UINT32 || dtype == DEMI_UINT64;
}

/* The bits that an integer has as a 64-bit one. */
static __device__ int64_t load_whole(const void *data, int dtype, int64_t i) {
    if (dtype == DEMI_INT64 || dtype == DEMI_UINT64) return ((const int64_t *)data)[i];
    return (int64_t)load_number(data, dtype, i);
}
static __device__ void store_bits(void *data, int dtype, int64_t i, int64_t x) {
    switch (dtype) {
    case DEMI_INT8:
    case DEMI_UINT8: ((uint8_t *)data)[i] = (uint8_t)x; break;
    case DEMI_INT16:
    case DEMI_UINT16: ((uint16_t *)data)[i] = (uint16_t)x; break;
    case DEMI_INT32:
    case DEMI_UINT32: ((uint32_t *)data)[i] = (uint32_t)x; break;
    default: ((int64_t *)data)[i] = x; break;
    }
}

extern "C" __global__ void __launch_bounds__(256) cast_any(UnaryArgs a) {
    begin();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        if (is_whole(a.from) && is_whole(a.to)) {
            store_bits(a.y, a.to, i, load_whole(a.x, a.from, i));
        } else if (a.from == DEMI_INT64 && (a.to == DEMI_FLOAT || a.to == DEMI_BFLOAT16)) {
            const int64_t x = ((const int64_t *)a.x)[i];
            if (a.to == DEMI_FLOAT)
                ((float *)a.y)[i] = __ll2float_rn(x);
            else
                ((bf16 *)a.y)[i] = __ll2bfloat16_rn(x);
        } else if (a.from == DEMI_INT64) {
            store_number(a.y, a.to, i, (double)((const int64_t *)a.x)[i]);
        } else if (a.from == DEMI_UINT64) {
            store_number(a.y, a.to, i, (double)((const uint64_t *)a.x)[i]);
        } else {
            store_number(a.y, a.to, i, load_number(a.x, a.from, i));
        }
    }
}

/* ---- functions of values that broadcast ------------------------------------------------------ */

/* Where element i of y comes from in each input. */
template <int K>
static __device__ __forceinline__ void locate(const BroadcastArgs &a, int64_t i, int64_t (&at)[K]) {
#pragma unroll
    for (int k = 0; k < K; k++) at[k] = 0;
    if (a.count <= INT32_MAX) { /* division of 32 bits takes a quarter of the time */
        uint32_t rest = (uint32_t)i;
        for (int axis = a.rank - 1; axis > 0; axis--) {
            const uint32_t size = (uint32_t)a.sizes[axis], index = rest % size;
            rest /= size;
#pragma unroll
            for (int k = 0; k < K; k++) at[k] += index * a.strides[k][axis];
        }
#pragma unroll
        for (int k = 0; k < K; k++) at[k] += rest * a.strides[k][0];
        return;
    }
#pragma unroll 1
    for (int axis = a.rank - 1; axis > 0; axis--) {
        const int64_t index = i % a.sizes[axis];
        i /= a.sizes[axis];
#pragma unroll
        for (int k = 0; k < K; k++) at[k] += index * a.strides[k][axis];
    }
#pragma unroll
    for (int k = 0; k < K; k++) at[k] += i * a.strides[k][0];
}

static __device__ __forceinline__ float power(float x, float y) {
    return y == 2 ? x * x : powf(x, y);
}

static __device__ float binary(int op, float x, float y) {
    switch (op) {
    case BINARY_ADD: return x + y;
    case BINARY_SUB: return x - y;
    case BINARY_MUL: return x * y;
    case BINARY_DIV: return x / y;
    case BINARY_POW: return power(x, y);
    case BINARY_MIN: return x != x || x < y ? x : y;
    case BINARY_MAX: return x != x || x > y ? x : y;
    case BINARY_PRELU: return x < 0 ? x * y : x;
    case BINARY_MOD: {
        const float rest = fmodf(x, y);
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    }
    case BINARY_FMOD: return fmodf(x, y);
    default: return x;
    }
}

template <typename T> static __device__ bool compare(int op, T x, T y) {
    switch (op) {
    case BINARY_EQUAL: return x == y;
    case BINARY_LESS: return x < y;
    case BINARY_LESS_EQUAL: return x <= y;
    case BINARY_GREATER: return x > y;
    case BINARY_GREATER_EQUAL: return x >= y;
    case BINARY_AND: return x && y;
    case BINARY_OR: return x || y;
    default: return !x != !y;
    }
}

/* N elements that lie one behind the other in an input, or are one. */
template <typename T, int N>
static __device__ __forceinline__ void load_run(float (&to)[N], const T *from, int64_t stride) {
    if (stride) {
        load_pack<T, N>(to, from);
        return;
    }
    const float x = to_float(*from);
#pragma unroll
    for (int j = 0; j < N; j++) to[j] = x;
}

/* N elements of the last axis a thread, which is a multiple of N; inputs are contiguous along it, or
 * repeated. */
template <typename T, int N> static __device__ void binary_all(const BroadcastArgs &a) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const float scale = __int_as_float(a.scale);
    const bool plain = a.rank == 1;
    for (int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; k < a.count / N; k += step) {
        int64_t at[2] = {k * N * a.strides[0][0], k * N * a.strides[1][0]};
        float x[N], y[N];
        if (!plain) locate<2>(a, k * N, at);
        load_run<T, N>(x, (const T *)a.inputs[0] + at[0], a.strides[0][a.rank - 1]);
        load_run<T, N>(y, (const T *)a.inputs[1] + at[1], a.strides[1][a.rank - 1]);
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] = a.op == BINARY_ADD_SCALED ? x[j] + y[j] * scale
                                             : binary(a.op, x[j], y[j]) * scale;
        store_pack<T, N>((T *)a.y + k * N, x);
    }
}

#define BINARY(suffix, T)                                                                          \
    extern "C" __global__ void __launch_bounds__(256) binary_##suffix(BroadcastArgs a) {           \
        begin();                                                                                   \
        binary_all<T, 1>(a);                                                                       \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) binary_pack_##suffix(BroadcastArgs a) {      \
        begin();                                                                                   \
        binary_all<T, 16 / sizeof(T)>(a);                                                          \
    }
FOR_FLOATS(BINARY)

/* The same of floats of several types. */
extern "C" __global__ void __launch_bounds__(256) binary_any(BroadcastArgs a) {
    begin();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        int64_t at[2];
        locate<2>(a, i, at);
        store_any(a.y, a.types[2], i,
                  binary(a.op, load_any(a.inputs[0], a.types[0], at[0]),
                         load_any(a.inputs[1], a.types[1], at[1])));
    }
}

template <typename T> static __device__ T integer_power(T x, T n) {
    T y = 1;
    if (n < 0) return x == 1 ? 1 : x == (T)-1 ? (n % 2 ? (T)-1 : 1) : 0;
    for (; n; n /= 2, x *= x)
        if (n % 2) y *= x;
    return y;
}

/* Overflow wraps; x / 0 and x % 0 are 0, as the processor's kernels have it. */
template <typename T> static __device__ T integer(int op, T x, T y) {
    switch (op) {
    case BINARY_ADD: return (T)(x + y);
    case BINARY_SUB: return (T)(x - y);
    case BINARY_MUL: return (T)(x * y);
    case BINARY_DIV: return y == 0 ? 0 : y == (T)-1 ? (T)(0 - x) : (T)(x / y);
    case BINARY_POW: return integer_power<T>(x, y);
    case BINARY_MIN: return x < y ? x : y;
    case BINARY_MAX: return x > y ? x : y;
    case BINARY_PRELU: return x < 0 ? (T)(x * y) : x;
    default: {
        if (y == 0 || y == (T)-1) return 0;
        const T rest = (T)(x % y);
        return op == BINARY_MOD && rest != 0 && (rest < 0) != (y < 0) ? (T)(rest + y) : rest;
    }
    }
}

static __device__ double real(int op, double x, double y) {
    switch (op) {
    case BINARY_ADD: return x + y;
    case BINARY_SUB: return x - y;
    case BINARY_MUL: return x * y;
    case BINARY_DIV: return x / y;
    case BINARY_POW: return pow(x, y);
    case BINARY_MIN: return x != x || x < y ? x : y;
    case BINARY_MAX: return x != x || x > y ? x : y;
    case BINARY_PRELU: return x < 0 ? x * y : x;
    case BINARY_FMOD: return fmod(x, y);
    default: {
        const double rest = fmod(x, y);
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    }
    }
}
template <> __device__ double integer<double>(int op, double x, double y) {
    return real(op, x, y);
}

template <typename T> static __device__ void integer_all(const BroadcastArgs &a) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        int64_t at[2];
        locate<2>(a, i, at);
        ((T *)a.y)[i] = integer<T>(a.op, ((const T *)a.inputs[0])[at[0]],
                                   ((const T *)a.inputs[1])[at[1]]);
    }
}
#define INTEGER(suffix, T)                                                                         \
    extern "C" __global__ void __launch_bounds__(256) binary_##suffix(BroadcastArgs a) {           \
        begin();                                                                                   \
        integer_all<T>(a);                                                                         \
    }
INTEGER(i32, int32_t)
INTEGER(i64, int64_t)
INTEGER(f64, double)

template <typename T> struct Compared {
    typedef T type;
};
template <> struct Compared<f16> {
    typedef float type;
};
template <> struct Compared<bf16> {
    typedef float type;
};

template <typename T> static __device__ void compare_all(const BroadcastArgs &a) {
    typedef typename Compared<T>::type C;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        int64_t at[2];
        locate<2>(a, i, at);
        ((uint8_t *)a.y)[i] = compare<C>(a.op, (C)((const T *)a.inputs[0])[at[0]],
                                         (C)((const T *)a.inputs[1])[at[1]]);
    }
}
#define COMPARE(suffix, T)                                                                         \
    extern "C" __global__ void __launch_bounds__(256) compare_##suffix(BroadcastArgs a) {          \
        begin();                                                                                   \
        compare_all<T>(a);                                                                         \
    }
FOR_FLOATS(COMPARE)
COMPARE(f64, double)
COMPARE(i32, int32_t)
COMPARE(i64, int64_t)
COMPARE(b, uint8_t)

/* Which elements are NaN, or one of the infinities p and q. */
template <typename T> static __device__ void find_all(const UnaryArgs &a) {
    typedef typename Compared<T>::type C;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const C x = (C)((const T *)a.x)[i];
        ((uint8_t *)a.y)[i] = a.op == FIND_NAN ? x != x : x == (C)a.p || x == (C)a.q;
    }
}
#define FIND(suffix, T)                                                                            \
    extern "C" __global__ void __launch_bounds__(256) find_##suffix(UnaryArgs a) {                 \
        begin();                                                                                   \
        find_all<T>(a);                                                                            \
    }
FOR_FLOATS(FIND)
FIND(f64, double)

extern "C" __global__ void __launch_bounds__(256) not_b(UnaryArgs a) {
    begin();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step)
        ((uint8_t *)a.y)[i] = !((const uint8_t *)a.x)[i];
}

/* inputs: the condition, what is taken where it holds, and where not. */
template <typename T> static __device__ void where_all(const BroadcastArgs &a) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        int64_t at[3];
        locate<3>(a, i, at);
        const bool holds = ((const uint8_t *)a.inputs[0])[at[0]];
        ((T *)a.y)[i] = holds ? ((const T *)a.inputs[1])[at[1]] : ((const T *)a.inputs[2])[at[2]];
    }
}
#define WHERE(suffix, T)                                                                           \
    extern "C" __global__ void __launch_bounds__(256) where_##suffix(BroadcastArgs a) {            \
        begin();                                                                                   \
        where_all<T>(a);                                                                           \
    }
WHERE(x1, uint8_t)
WHERE(x2, uint16_t)
WHERE(x4, uint32_t)
WHERE(x8, uint64_t)

/* y = input 0, repeated: Expand, Tile of whole axes. */
template <typename T> static __device__ void expand_all(const BroadcastArgs &a) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        int64_t at[1];
        locate<1>(a, i, at);
        ((T *)a.y)[i] = ((const T *)a.inputs[0])[at[0]];
    }
}
#define EXPAND(suffix, T)                                                                          \
    extern "C" __global__ void __launch_bounds__(256) expand_##suffix(BroadcastArgs a) {           \
        begin();                                                                                   \
        expand_all<T>(a);                                                                          \
    }
EXPAND(x1, uint8_t)
EXPAND(x2, uint16_t)
EXPAND(x4, uint32_t)
EXPAND(x8, uint64_t)
