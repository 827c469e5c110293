// SPDX-License-Identifier: Apache-2.0
/* Windows that slide over spatial axes: convolutions by channel, those that no library has, pools. */
#include "unary.cuh"
#include "window_args.h"

/* The output that a thread has: image, channel, and position along each axis. */
typedef struct Place {
    int image, channel, at[WINDOW_AXES];
} Place;

/* Outputs lie in memory as they are counted; `pack` channels are one. */
static __device__ __forceinline__ Place place_of(const WindowArgs &a, uint32_t i, int pack) {
    Place p;
    const int channels = a.filters / pack;
    if (a.channels_last) {
        p.channel = (int)(i % (uint32_t)channels) * pack;
        i /= (uint32_t)channels;
    }
#pragma unroll
    for (int k = WINDOW_AXES - 1; k >= 0; k--) {
        p.at[k] = (int)(i % (uint32_t)a.out[k]);
        i /= (uint32_t)a.out[k];
    }
    if (!a.channels_last) {
        p.channel = (int)(i % (uint32_t)channels) * pack;
        i /= (uint32_t)channels;
    }
    p.image = (int)i;
    return p;
}

static __device__ __forceinline__ int64_t y_of(const WindowArgs &a, const Place &p) {
    return p.image * a.y_image + p.channel * a.y_channel + p.at[0] * a.y_axis[0] +
           p.at[1] * a.y_axis[1] + p.at[2] * a.y_axis[2];
}

static __device__ __forceinline__ float finish(const WindowArgs &a, float x, int channel,
                                               int64_t y) {
    if (a.bias) x += load_far(a.bias, a.bias_type, channel);
    if (a.z) x += load_far(a.z, a.z_type, y);
    return activate(a.op, x, a.p, a.q);
}

/* The same of N channels of a pixel, one after the other in memory. */
template <typename T, int N>
static __device__ __forceinline__ void finish_pack(const WindowArgs &a, float (&x)[N],
                                                   const Place &p) {
    const int64_t y = y_of(a, p);
    if (a.bias) add_pack_any<T, N>(x, a.bias, a.bias_type, p.channel);
    if (a.z) add_pack_any<T, N>(x, a.z, a.z_type, y);
    activate_pack(a.op, x, a.p, a.q);
    store_pack<T, N>((T *)a.y + y, x);
}

/* ---- by channel ------------------------------------------------------------------------------ */

/* N channels of one output pixel a thread; data is channels-last, a filter a channel, weights are
 * (taps, channels), over the last two axes. */
template <typename T, int N> static __device__ void depthwise(const WindowArgs &a) {
    const uint32_t step = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count / N; i += step) {
        const Place p = place_of(a, i, N);
        const int row = p.at[1] * a.stride[1] - a.begin[1];
        const int column = p.at[2] * a.stride[2] - a.begin[2];
        const T *x = (const T *)a.x + p.image * a.x_image + p.channel;
        const T *w = (const T *)a.w + p.channel;
        float sums[N];
#pragma unroll
        for (int j = 0; j < N; j++) sums[j] = 0;
        for (int r = 0; r < a.taps[1]; r++) {
            const int y_in = row + r * a.dilation[1];
            if (y_in < 0 || y_in >= a.in[1]) continue;
            for (int c = 0; c < a.taps[2]; c++) {
                const int x_in = column + c * a.dilation[2];
                if (x_in < 0 || x_in >= a.in[2]) continue;
                float pixel[N], weight[N];
                load_pack<T, N>(pixel, x + y_in * a.x_axis[1] + x_in * a.x_axis[2]);
                load_pack<T, N>(weight, w + (int64_t)(r * a.taps[2] + c) * a.filters);
#pragma unroll
                for (int j = 0; j < N; j++) sums[j] += pixel[j] * weight[j];
            }
        }
        finish_pack<T, N>(a, sums, p);
    }
}
/* The same of TAPS x TAPS, all of whose pixels are read at once. */
template <typename T, int N, int TAPS> static __device__ void depthwise_square(const WindowArgs &a) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.count / N) return;
    const Place p = place_of(a, i, N);
    const int row = p.at[1] * a.stride[1] - a.begin[1];
    const int column = p.at[2] * a.stride[2] - a.begin[2];
    const T *x = (const T *)a.x + p.image * a.x_image + p.channel;
    const T *w = (const T *)a.w + p.channel;
    float sums[N];
#pragma unroll
    for (int j = 0; j < N; j++) sums[j] = 0;
#pragma unroll
    for (int r = 0; r < TAPS; r++) {
        const int y_in = row + r * a.dilation[1];
#pragma unroll
        for (int c = 0; c < TAPS; c++) {
            const int x_in = column + c * a.dilation[2];
            const bool there = y_in >= 0 && y_in < a.in[1] && x_in >= 0 && x_in < a.in[2];
            float pixel[N], weight[N];
            load_pack<T, N>(pixel, there ? x + y_in * a.x_axis[1] + x_in * a.x_axis[2] : x);
            load_pack<T, N>(weight, w + (r * TAPS + c) * a.filters);
#pragma unroll
            for (int j = 0; j < N; j++) sums[j] += there ? pixel[j] * weight[j] : 0;
        }
    }
    finish_pack<T, N>(a, sums, p);
}

#define DEPTHWISE(suffix, T)                                                                       \
    extern "C" __global__ void __launch_bounds__(128) depthwise_##suffix(WindowArgs a) {           \
        begin();                                                                                   \
        depthwise<T, 1>(a);                                                                        \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(128) depthwise_pack_##suffix(WindowArgs a) {      \
        begin();                                                                                   \
        depthwise<T, 16 / sizeof(T)>(a);                                                           \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(128) depthwise_3x3_##suffix(WindowArgs a) {       \
        begin();                                                                                   \
        depthwise_square<T, 16 / sizeof(T), 3>(a);                                                 \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(128) depthwise_5x5_##suffix(WindowArgs a) {       \
        begin();                                                                                   \
        depthwise_square<T, 16 / sizeof(T), 5>(a);                                                 \
    }
FOR_FLOATS(DEPTHWISE)

/* ---- any convolution ------------------------------------------------------------------------- */

/* One output element a thread. */
template <typename T> static __device__ void direct(const WindowArgs &a) {
    const uint32_t step = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const Place p = place_of(a, i, 1);
        const int first = p.channel / a.group_filters * a.channels;
        const T *x = (const T *)a.x + p.image * a.x_image + first * a.x_channel;
        const T *w = (const T *)a.w + p.channel * a.w_filter;
        float sum = 0;
        for (int d = 0; d < a.taps[0]; d++) {
            const int64_t z_in = (int64_t)p.at[0] * a.stride[0] - a.begin[0] + d * a.dilation[0];
            if (z_in < 0 || z_in >= a.in[0]) continue;
#pragma unroll 1
            for (int r = 0; r < a.taps[1]; r++) {
                const int64_t y_in = (int64_t)p.at[1] * a.stride[1] - a.begin[1] + r * a.dilation[1];
                if (y_in < 0 || y_in >= a.in[1]) continue;
#pragma unroll 1
                for (int c = 0; c < a.taps[2]; c++) {
                    const int64_t x_in =
                        (int64_t)p.at[2] * a.stride[2] - a.begin[2] + c * a.dilation[2];
                    if (x_in < 0 || x_in >= a.in[2]) continue;
                    const T *pixel =
                        x + z_in * a.x_axis[0] + y_in * a.x_axis[1] + x_in * a.x_axis[2];
                    const T *tap = w + d * a.w_axis[0] + r * a.w_axis[1] + c * a.w_axis[2];
#pragma unroll 2
                    for (int k = 0; k < a.channels; k++)
                        sum += to_float(pixel[k * a.x_channel]) * to_float(tap[k * a.w_channel]);
                }
            }
        }
        const int64_t y = y_of(a, p);
        ((T *)a.y)[y] = from_float<T>(finish(a, sum, p.channel, y));
    }
}
#define DIRECT(suffix, T)                                                                          \
    extern "C" __global__ void __launch_bounds__(128) direct_##suffix(WindowArgs a) {              \
        begin();                                                                                   \
        direct<T>(a);                                                                              \
    }
FOR_FLOATS(DIRECT)

/* ---- transposed convolutions ----------------------------------------------------------------- */

/* The input position that tap t of axis k brings to output `at`; -1: none. */
static __device__ __forceinline__ int source_of(const WindowArgs &a, int k, int at, int t) {
    const int moved = at + a.begin[k] - t * a.dilation[k];
    if (moved < 0 || moved % a.stride[k]) return -1;
    const int source = moved / a.stride[k];
    return source < a.in[k] ? source : -1;
}

/* One output element a thread, which gathers what inputs would have scattered. */
template <typename T> static __device__ void transposed(const WindowArgs &a) {
    const uint32_t step = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const Place p = place_of(a, i, 1);
        const int group = p.channel / a.group_filters, first = group * a.channels;
        const T *x = (const T *)a.x + p.image * a.x_image + first * a.x_channel;
        const T *w = (const T *)a.w + first * a.w_channel +
                     (p.channel - group * a.group_filters) * a.w_filter;
        float sum = 0;
        for (int d = 0; d < a.taps[0]; d++) {
            const int z_in = source_of(a, 0, p.at[0], d);
            if (z_in < 0) continue;
#pragma unroll 1
            for (int r = 0; r < a.taps[1]; r++) {
                const int y_in = source_of(a, 1, p.at[1], r);
                if (y_in < 0) continue;
#pragma unroll 1
                for (int c = 0; c < a.taps[2]; c++) {
                    const int x_in = source_of(a, 2, p.at[2], c);
                    if (x_in < 0) continue;
                    const T *pixel =
                        x + z_in * a.x_axis[0] + y_in * a.x_axis[1] + x_in * a.x_axis[2];
                    const T *tap = w + d * a.w_axis[0] + r * a.w_axis[1] + c * a.w_axis[2];
#pragma unroll 2
                    for (int k = 0; k < a.channels; k++)
                        sum += to_float(pixel[k * a.x_channel]) * to_float(tap[k * a.w_channel]);
                }
            }
        }
        const int64_t y = y_of(a, p);
        ((T *)a.y)[y] = from_float<T>(finish(a, sum, p.channel, y));
    }
}
#define TRANSPOSED(suffix, T)                                                                      \
    extern "C" __global__ void __launch_bounds__(128) transposed_##suffix(WindowArgs a) {          \
        begin();                                                                                   \
        transposed<T>(a);                                                                          \
    }
FOR_FLOATS(TRANSPOSED)

/* ---- pools ----------------------------------------------------------------------------------- */

/* Taps [first, last) of an output along axis k are in the input; `counted`, with padding. */
static __device__ __forceinline__ void taps_of(const WindowArgs &a, int k, int at, int &first,
                                               int &last, int &counted) {
    const int64_t start = (int64_t)at * a.stride[k] - a.begin[k], taps = a.taps[k];
    if (a.dilation[k] == 1) {
        const int64_t to = a.in[k] - start, to_padded = to + a.end[k];
        first = start < 0 ? (int)(-start < taps ? -start : taps) : 0;
        last = (int)(to < 0 ? 0 : to < taps ? to : taps);
        counted = (int)(to_padded < 0 ? 0 : to_padded < taps ? to_padded : taps);
        return;
    }
    first = a.taps[k];
    last = 0;
    counted = 0;
#pragma unroll 1
    for (int t = 0; t < a.taps[k]; t++) {
        const int64_t position = start + (int64_t)t * a.dilation[k];
        if (position >= -(int64_t)a.begin[k] && position < (int64_t)a.in[k] + a.end[k]) counted++;
        if (position < 0 || position >= a.in[k]) continue;
        if (t < first) first = t;
        last = t + 1;
    }
}

template <typename T> static __device__ void pool(const WindowArgs &a) {
    const uint32_t step = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const Place p = place_of(a, i, 1);
        int first[WINDOW_AXES], last[WINDOW_AXES];
        float counted = 1, taken = 1;
#pragma unroll
        for (int k = 0; k < WINDOW_AXES; k++) {
            int padded;
            taps_of(a, k, p.at[k], first[k], last[k], padded);
            counted *= (float)padded;
            taken *= (float)(last[k] > first[k] ? last[k] - first[k] : 0);
        }
        const T *x = (const T *)a.x + p.image * a.x_image + p.channel * a.x_channel;
        float sum = a.pool == POOL_MAX ? -INFINITY : 0;
#pragma unroll 1
        for (int d = first[0]; d < last[0]; d++)
#pragma unroll 1
            for (int r = first[1]; r < last[1]; r++)
#pragma unroll 1
                for (int c = first[2]; c < last[2]; c++) {
                    const int64_t z_in = (int64_t)p.at[0] * a.stride[0] - a.begin[0] + d * a.dilation[0];
                    const int64_t y_in = (int64_t)p.at[1] * a.stride[1] - a.begin[1] + r * a.dilation[1];
                    const int64_t x_in = (int64_t)p.at[2] * a.stride[2] - a.begin[2] + c * a.dilation[2];
                    const float value =
                        to_float(x[z_in * a.x_axis[0] + y_in * a.x_axis[1] + x_in * a.x_axis[2]]);
                    sum = a.pool == POOL_MAX ? max_nan(value, sum) : sum + value;
                }
        if (a.pool == POOL_MEAN) sum = taken > 0 ? sum / taken : 0;
        if (a.pool == POOL_MEAN_PADDED) sum = taken > 0 ? sum / counted : 0;
        ((T *)a.y)[y_of(a, p)] = from_float<T>(sum);
    }
}
/* N channels of one output pixel a thread, of channels-last data over two axes at most. */
template <typename T, int N> static __device__ void pool_pack(const WindowArgs &a) {
    const uint32_t step = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count / N; i += step) {
        const Place p = place_of(a, i, N);
        int rows[2], columns[2], padded[2];
        taps_of(a, 1, p.at[1], rows[0], rows[1], padded[0]);
        taps_of(a, 2, p.at[2], columns[0], columns[1], padded[1]);
        const int row = p.at[1] * a.stride[1] - a.begin[1];
        const int column = p.at[2] * a.stride[2] - a.begin[2];
        const T *x = (const T *)a.x + p.image * a.x_image + p.channel;
        float sums[N];
#pragma unroll
        for (int j = 0; j < N; j++) sums[j] = a.pool == POOL_MAX ? -INFINITY : 0;
        for (int r = rows[0]; r < rows[1]; r++) {
            const T *line = x + (row + r * a.dilation[1]) * a.x_axis[1];
#pragma unroll 3
            for (int c = columns[0]; c < columns[1]; c++) {
                float values[N];
                load_pack<T, N>(values, line + (column + c * a.dilation[2]) * a.x_axis[2]);
#pragma unroll
                for (int j = 0; j < N; j++)
                    sums[j] = a.pool == POOL_MAX ? max_nan(values[j], sums[j]) : sums[j] + values[j];
            }
        }
        const bool any = rows[1] > rows[0] && columns[1] > columns[0];
        const float taken = (float)(rows[1] - rows[0]) * (float)(columns[1] - columns[0]);
        const float counted = (float)padded[0] * (float)padded[1];
        if (a.pool != POOL_MAX)
#pragma unroll
            for (int j = 0; j < N; j++)
                sums[j] = any ? sums[j] / (a.pool == POOL_MEAN ? taken : counted) : 0;
        store_pack<T, N>((T *)a.y + y_of(a, p), sums);
    }
}
#define POOL(suffix, T)                                                                            \
    extern "C" __global__ void __launch_bounds__(128) pool_##suffix(WindowArgs a) {                \
        begin();                                                                                   \
        pool<T>(a);                                                                                \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(128) pool_pack_##suffix(WindowArgs a) {           \
        begin();                                                                                   \
        pool_pack<T, 16 / sizeof(T)>(a);                                                           \
    }
FOR_FLOATS(POOL)

/* ---- weights --------------------------------------------------------------------------------- */

/* Weights (filters, channels, taps) as (filters, taps, channels). */
template <typename T> static __device__ void turn(const WindowArgs &a) {
    const uint32_t step = gridDim.x * blockDim.x;
    const uint32_t taps = (uint32_t)a.taps[0], channels = (uint32_t)a.channels;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const uint32_t channel = i % channels, tap = i / channels % taps;
        const uint32_t filter = i / channels / taps;
        ((T *)a.y)[i] = ((const T *)a.x)[(filter * channels + channel) * taps + tap];
    }
}
extern "C" __global__ void __launch_bounds__(128) turn_x2(WindowArgs a) {
    begin();
    turn<uint16_t>(a);
}
extern "C" __global__ void __launch_bounds__(128) turn_x4(WindowArgs a) {
    begin();
    turn<uint32_t>(a);
}
