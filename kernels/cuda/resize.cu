// SPDX-License-Identifier: Apache-2.0
/* Resampling: an output element a thread, over all axes that change. Where an element lies is computed
 * in double, as the processor's kernel does, so that nearest ones are the same. */
#include "cuda_types.cuh"
#include "resize_args.h"

/* Where output x lies on the input's axis. No products are contracted with sums: see above. */
static __device__ double coordinate(const ResizeArgs &a, const ResizeArgsAxis &axis, double x) {
    const double in = (double)axis.in;
    const double half = __dadd_rn(__ddiv_rn(x + 0.5, axis.scale), -0.5);
    switch (a.coordinates) {
    case AT_HALF_PIXEL: return half;
    case AT_HALF_PIXEL_SYMMETRIC: {
        const double moved = __dmul_rn(in / 2, 1 - __ddiv_rn((double)axis.out, axis.length));
        return __dadd_rn(__dadd_rn(moved, __ddiv_rn(x + 0.5, axis.scale)), -0.5);
    }
    case AT_PYTORCH_HALF_PIXEL: return axis.length > 1 ? half : 0;
    case AT_ALIGN_CORNERS:
        return axis.length == 1 ? 0 : __ddiv_rn(__dmul_rn(x, in - 1), axis.length - 1);
    case AT_ASYMMETRIC: return __ddiv_rn(x, axis.scale);
    case AT_TF_HALF_PIXEL_FOR_NN: return __ddiv_rn(x + 0.5, axis.scale);
    }
    const double first = __dmul_rn(axis.start, in - 1);
    const double span = __dmul_rn(axis.end - axis.start, in - 1);
    return axis.length == 1 ? __dadd_rn(first, span / 2)
                            : __dadd_rn(first, __ddiv_rn(__dmul_rn(x, span), axis.length - 1));
}

static __device__ double nearest(int how, double x) {
    switch (how) {
    case AT_ROUND_PREFER_FLOOR: return ceil(x - 0.5);
    case AT_ROUND_PREFER_CEIL: return floor(x + 0.5);
    case AT_FLOOR: return floor(x);
    default: return ceil(x);
    }
}

static __device__ __forceinline__ float filter(const ResizeArgs &a, float distance) {
    const float d = fabsf(distance), c = a.cubic;
    if (a.mode == AT_LINEAR) return d < 1 ? 1 - d : 0;
    if (d <= 1) return ((c + 2) * d - (c + 3)) * d * d + 1;
    return d < 2 ? ((c * d - 5 * c) * d + 8 * c) * d - 4 * c : 0;
}

static __device__ __forceinline__ int clamped(int at, int size) {
    return at < 0 ? 0 : at >= size ? size - 1 : at;
}

/* The taps of one output along an axis: `count` from `base` on, those beyond the ends too. */
struct Taps {
    int base, count;
    float first; /* how far the first one is from the output's place */
    float scale; /* of all weights; 0: none counts, but the one at base alone */
};

static __device__ __forceinline__ float weight_of(const ResizeArgs &a, const ResizeArgsAxis &axis,
                                                  const Taps &t, int tap) {
    const int at = t.base + tap;
    if (t.scale == 0) return 1;
    if (a.exclude_outside && (at < 0 || at >= axis.in)) return 0;
    return filter(a, (t.first + (float)tap) * axis.shrink) * t.scale;
}

static __device__ __forceinline__ Taps taps_of(const ResizeArgs &a, const ResizeArgsAxis &axis,
                                               double x) {
    if (a.mode == AT_NEAREST) return {clamped((int)nearest(a.nearest, x), axis.in), 1, 0, 1};
    Taps t = {(int)floor(x) - axis.radius + 1, 2 * axis.radius, 0, 1};
    t.first = (float)((double)t.base - x);
    if (!a.divide) return t;
    float total = 0;
#pragma unroll 1
    for (int i = 0; i < t.count; i++) total += weight_of(a, axis, t, i);
    if (total == 0) return {clamped((int)floor(x), axis.in), 1, 0, 0};
    t.scale = 1 / total;
    return t;
}

/* The sum over the taps of axes LEFT - 1 … 0 of those that change. */
template <typename T, int LEFT>
static __device__ __forceinline__ float sample(const ResizeArgs &a, const Taps (&taps)[RESIZE_MOST],
                                               const T *x) {
    if constexpr (LEFT == 0) {
        return to_float(*x);
    } else {
        const Taps &t = taps[LEFT - 1];
        const ResizeArgsAxis &axis = a.axes[LEFT - 1];
        if (LEFT > a.changed) return sample<T, LEFT - 1>(a, taps, x);
        if (a.mode == AT_NEAREST) return sample<T, LEFT - 1>(a, taps, x + t.base * axis.stride);
        float sum = 0;
#pragma unroll 1
        for (int i = 0; i < t.count; i++) {
            const float weight = weight_of(a, axis, t, i);
            const int at = clamped(t.base + i, axis.in);
            if (weight != 0) sum += weight * sample<T, LEFT - 1>(a, taps, x + at * axis.stride);
        }
        return sum;
    }
}

/* The place that output `at` of a changing axis takes from; whether that is outside. */
static __device__ __forceinline__ double place_of(const ResizeArgs &a, const ResizeArgsAxis &axis,
                                                  int64_t at, bool &outside) {
    const double x = coordinate(a, axis, (double)at), last = (double)(axis.in - 1);
    const double most = 4.0 * (double)axis.in + 8;
    outside |= a.coordinates == AT_TF_CROP && !(x >= 0 && x <= last);
    if (!(x > -most)) return -most; /* NaN too */
    return x > last + most ? last + most : x;
}

template <typename T> static __device__ void resize(const ResizeArgs &a) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        Taps taps[RESIZE_MOST];
        const T *x = (const T *)a.x;
        bool outside = false;
#pragma unroll
        for (int k = 0; k < RESIZE_MOST; k++) {
            if (k >= a.changed) continue;
            const ResizeArgsAxis &axis = a.axes[k];
            taps[k] = taps_of(a, axis, place_of(a, axis, i / axis.below % axis.out, outside));
        }
        for (int k = 0; k < a.kept; k++)
            x += i / a.kept_below[k] % a.kept_size[k] * a.kept_stride[k];
        const float value = outside ? a.outside : sample<T, RESIZE_MOST>(a, taps, x);
        ((T *)a.y)[i] = from_float<T>(value);
    }
}

#define RESIZE(suffix, T)                                                                          \
    extern "C" __global__ void __launch_bounds__(128) resize_##suffix(ResizeArgs a) {              \
        begin();                                                                                   \
        resize<T>(a);                                                                              \
    }
FOR_FLOATS(RESIZE)

/* ---- samples at the points of a grid --------------------------------------------------------- */

enum { MOST_TAPS = 4 };

/* What of an axis a point is made of: places within it, weights, and how many. */
struct GridTaps {
    int64_t at[MOST_TAPS];
    float weight[MOST_TAPS];
    int count;
};

/* Back between the borders, as often as it takes. */
static __device__ double reflected(double x, double low, double high) {
    const double range = high - low;
    if (x >= low && x <= high) return x;
    if (!(range > 0)) return low;
    const double beyond = fmod(fabs(x - low), 2 * range);
    const double folded = beyond > range ? 2 * range - beyond : beyond;
    return folded == folded ? low + folded : low;
}

/* The coordinate, -1 to 1, in elements, as the processor's kernel rounds it. */
static __device__ __forceinline__ float denormalized(float n, float size, int align) {
    return align ? __fmul_rn((n + 1) / 2, size - 1) : (__fmul_rn(n + 1, size) - 1) / 2;
}

static __device__ void place_tap(const GridArgs &a, int64_t at, int64_t size, GridTaps &taps, int i) {
    const double low = a.align ? 0 : -0.5, high = low + (double)size - (a.align ? 1 : 0);
    if (a.padding == AT_GRID_REFLECTION) at = (int64_t)reflected((double)at, low, high);
    const bool inside = at >= 0 && at < size;
    if (!inside && a.padding == AT_GRID_ZEROS) taps.weight[i] = 0;
    taps.at[i] = at < 0 ? 0 : at >= size ? size - 1 : at;
}

/* Keys' kernel with a = -0.75. */
static __device__ __forceinline__ float cubic_weight(double distance, bool near) {
    const double c = -0.75, d = distance;
    return (float)(near ? ((c + 2) * d - (c + 3)) * d * d + 1
                        : ((c * d - 5 * c) * d + 8 * c) * d - 4 * c);
}

static __device__ void find_taps(const GridArgs &a, double x, int64_t size, GridTaps &taps) {
    const double low = a.align ? 0 : -0.5, high = low + (double)size - (a.align ? 1 : 0);
    const double far = (double)size + MOST_TAPS;
    if (a.mode == AT_GRID_NEAREST) x = rint(x);
    if (x < low || x > high) {
        if (a.padding == AT_GRID_BORDER && a.mode != AT_GRID_CUBIC)
            x = x < 0 ? 0 : (double)(size - 1);
        if (a.padding == AT_GRID_REFLECTION) x = reflected(x, low, high);
    }
    if (!(x > -far)) x = -far; /* NaN too: beyond the border */
    if (x > far) x = far;
    const double base = floor(x), t = x - base;
    const int64_t first = (int64_t)base - (a.mode == AT_GRID_CUBIC ? 1 : 0);
    taps.count = a.mode == AT_GRID_NEAREST ? 1 : a.mode == AT_GRID_LINEAR ? 2 : MOST_TAPS;
#pragma unroll
    for (int i = 0; i < MOST_TAPS; i++) {
        if (i >= taps.count) continue;
        taps.weight[i] = a.mode == AT_GRID_NEAREST  ? 1
                         : a.mode == AT_GRID_LINEAR ? (float)(i ? t : 1 - t)
                         : cubic_weight(i < 2 ? 1 + t - i : i - 1 - t, i == 1 || i == 2);
        place_tap(a, first + i, size, taps, i);
    }
}

extern "C" __global__ void __launch_bounds__(128) grid_sample(GridArgs a) {
    begin();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const int64_t point = i % a.points, channel = i / a.points;
        const int64_t batch = channel / a.channels, from = channel * a.area;
        const int64_t at = (batch * a.points + point) * a.spatial;
        GridTaps taps[GRID_SPATIAL];
#pragma unroll
        for (int k = 0; k < GRID_SPATIAL; k++) {
            taps[k].count = 1, taps[k].at[0] = 0, taps[k].weight[0] = 1;
            if (k < GRID_SPATIAL - a.spatial) continue;
            const float n = load_any(a.grid, a.grid_type, at + GRID_SPATIAL - 1 - k);
            find_taps(a, denormalized(n, (float)a.sizes[k], a.align), a.sizes[k], taps[k]);
        }
        float sum = 0;
#pragma unroll
        for (int p = 0; p < MOST_TAPS; p++)
#pragma unroll
            for (int q = 0; q < MOST_TAPS; q++)
#pragma unroll
                for (int r = 0; r < MOST_TAPS; r++) {
                    if (p >= taps[0].count || q >= taps[1].count || r >= taps[2].count) continue;
                    const float weight = taps[0].weight[p] * taps[1].weight[q] * taps[2].weight[r];
                    if (weight == 0) continue; /* so that NaN beyond the border does not count */
                    sum += weight * load_any(a.x, a.x_type,
                                             from + taps[0].at[p] * a.steps[0] +
                                                 taps[1].at[q] * a.steps[1] + taps[2].at[r] * a.steps[2]);
                }
        store_any(a.y, a.y_type, i, sum);
    }
}
