// SPDX-License-Identifier: Apache-2.0
/* Softmax and normalizations. Sums are float; variances are those of what is left when the mean is
 * taken away, so that large means cost no accuracy. */
#include "cuda_types.cuh"
#include "norm_args.h"
#include "unary.cuh"

/* A block a row, of whole warps. */
extern "C" __global__ void __launch_bounds__(256) softmax_rows(SoftmaxArgs a) {
    begin();
    __shared__ float room[WARP];
    for (int64_t row = blockIdx.x; row < a.outer; row += gridDim.x) {
        const int64_t at = row * a.n;
        float most = -INFINITY, sum = 0;
        for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x)
            most = max_nan(load_any(a.x, a.x_type, at + i), most);
        most = block_max(most, room);
        for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x)
            sum += expf(load_any(a.x, a.x_type, at + i) - most);
        sum = block_sum(sum, room);
        const float shift = a.log ? most + logf(sum) : most, scale = 1 / sum;
        for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
            const float x = load_any(a.x, a.x_type, at + i) - shift;
            store_any(a.y, a.y_type, at + i, a.log ? x : expf(x) * scale);
        }
        __syncthreads();
    }
}

/* A thread a row, whose elements are `inner` apart. */
extern "C" __global__ void __launch_bounds__(256) softmax_columns(SoftmaxArgs a) {
    begin();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; k < a.outer * a.inner;
         k += step) {
        const int64_t at = k / a.inner * a.n * a.inner + k % a.inner;
        float most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < a.n; i++) most = max_nan(load_any(a.x, a.x_type, at + i * a.inner), most);
        for (int64_t i = 0; i < a.n; i++) sum += expf(load_any(a.x, a.x_type, at + i * a.inner) - most);
        const float shift = a.log ? most + logf(sum) : most, scale = 1 / sum;
        for (int64_t i = 0; i < a.n; i++) {
            const float x = load_any(a.x, a.x_type, at + i * a.inner) - shift;
            store_any(a.y, a.y_type, at + i * a.inner, a.log ? x : expf(x) * scale);
        }
    }
}

/* What is normalized; the sum is as it is stored, where it is. */
static __device__ __forceinline__ float element(const RowNormArgs &a, int64_t i) {
    float x = load_any(a.x, a.x_type, i);
    if (a.skip) x += load_any(a.skip, a.skip_type, i);
    return x;
}

/* A block a row, of whole warps; `kept` elements of it in dynamic shared memory: all or none. */
extern "C" __global__ void __launch_bounds__(256) norm_rows(RowNormArgs a) {
    begin();
    extern __shared__ float row_elements[];
    __shared__ float room[WARP];
    const bool kept = a.kept;
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        const int64_t at = row * a.n, first = a.all ? row * a.channels % a.all : 0;
        float sum = 0, squares = 0;
        for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
            const float x = element(a, at + i);
            if (kept) row_elements[i] = x;
            if (a.sum) store_any(a.sum, a.sum_type, at + i, x);
            sum += x;
        }
        const float mean = a.rms ? 0 : block_sum(sum, room) / (float)a.n;
        for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
            const float d = (kept ? row_elements[i] : element(a, at + i)) - mean;
            squares += d * d;
        }
        const float scale = 1 / sqrtf(block_sum(squares, room) / (float)a.n + a.epsilon);
        for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
            const int64_t factor = first + i / a.span;
            float y = ((kept ? row_elements[i] : element(a, at + i)) - mean) * scale;
            y *= load_any(a.scale, a.scale_type, factor * a.scale_step);
            if (a.bias) y += load_any(a.bias, a.bias_type, factor * a.bias_step);
            store_any(a.y, a.y_type, at + i, y);
            if (a.low) store_any(a.low, a.low_type, at + i, y);
        }
        __syncthreads();
    }
}

/* Four elements of any float type at once, where they begin at a multiple of their size. */
static __device__ __forceinline__ void load_four(float (&to)[4], const void *data, int dtype,
                                                 int64_t i) {
    if (dtype == DEMI_FLOAT16)
        load_pack<f16, 4>(to, (const f16 *)data + i);
    else if (dtype == DEMI_BFLOAT16)
        load_pack<bf16, 4>(to, (const bf16 *)data + i);
    else
        load_pack<float, 4>(to, (const float *)data + i);
}
static __device__ __forceinline__ void store_four(void *data, int dtype, int64_t i,
                                                  const float (&from)[4]) {
    if (dtype == DEMI_FLOAT16)
        store_pack<f16, 4>((f16 *)data + i, from);
    else if (dtype == DEMI_BFLOAT16)
        store_pack<bf16, 4>((bf16 *)data + i, from);
    else
        store_pack<float, 4>((float *)data + i, from);
}

/* The same for rows of whole packs, factors by element: a row is in registers, and read at once. */
extern "C" __global__ void __launch_bounds__(256) norm_packs(RowNormArgs a) {
    begin();
    __shared__ float room[WARP];
    const int64_t at = (int64_t)blockIdx.x * a.n;
    float x[NORM_PACKS][4], scale[NORM_PACKS][4], bias[NORM_PACKS][4], sum = 0, squares = 0;
#pragma unroll
    for (int p = 0; p < NORM_PACKS; p++) {
        const int64_t i = ((int64_t)p * blockDim.x + threadIdx.x) * 4;
#pragma unroll
        for (int j = 0; j < 4; j++) x[p][j] = bias[p][j] = 0;
        if (i >= a.n) continue;
        load_four(x[p], a.x, a.x_type, at + i);
        load_four(scale[p], a.scale, a.scale_type, i);
        if (a.bias) load_four(bias[p], a.bias, a.bias_type, i);
        if (a.skip) {
            float skip[4];
            load_four(skip, a.skip, a.skip_type, at + i);
#pragma unroll
            for (int j = 0; j < 4; j++) x[p][j] += skip[j];
        }
        if (a.sum) store_four(a.sum, a.sum_type, at + i, x[p]);
#pragma unroll
        for (int j = 0; j < 4; j++) sum += x[p][j];
    }
    const float mean = a.rms ? 0 : block_sum(sum, room) / (float)a.n;
#pragma unroll
    for (int p = 0; p < NORM_PACKS; p++) {
        if (((int64_t)p * blockDim.x + threadIdx.x) * 4 >= a.n) continue;
#pragma unroll
        for (int j = 0; j < 4; j++) x[p][j] -= mean, squares += x[p][j] * x[p][j];
    }
    const float factor = 1 / sqrtf(block_sum(squares, room) / (float)a.n + a.epsilon);
#pragma unroll
    for (int p = 0; p < NORM_PACKS; p++) {
        const int64_t i = ((int64_t)p * blockDim.x + threadIdx.x) * 4;
        if (i >= a.n) continue;
#pragma unroll
        for (int j = 0; j < 4; j++) x[p][j] = x[p][j] * factor * scale[p][j] + bias[p][j];
        store_four(a.y, a.y_type, at + i, x[p]);
        if (a.low) store_four(a.low, a.low_type, at + i, x[p]);
    }
}

/* Calls use(p, j, value) for each element of a lane's packs of a row, which lie a warp's packs apart. Some are
 * on their way at once; of all of them registers would be too many for two blocks a multiprocessor. */
template <typename T, typename Use>
static __device__ __forceinline__ void each_of_row(const void *data, int64_t at, int n, Use use) {
    constexpr int SOME = 4;
    const T *from = (const T *)data + at + threadIdx.x % WARP * 4;
    const int left = n - (int)(threadIdx.x % WARP) * 4;
#pragma unroll
    for (int first = 0; first < NORM_WARP_PACKS; first += SOME) {
        Pack<T, 4> some[SOME];
#pragma unroll
        for (int k = 0; k < SOME; k++)
            if ((first + k) * WARP * 4 < left)
                some[k] = *reinterpret_cast<const Pack<T, 4> *>(from + (first + k) * WARP * 4);
#pragma unroll
        for (int k = 0; k < SOME; k++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                if ((first + k) * WARP * 4 < left) use(first + k, j, to_float(some[k].items[j]));
    }
}
template <typename Use>
static __device__ __forceinline__ void each_of_any(const void *data, int dtype, int64_t at, int n,
                                                   Use use) {
    if (dtype == DEMI_FLOAT16)
        each_of_row<f16>(data, at, n, use);
    else if (dtype == DEMI_BFLOAT16)
        each_of_row<bf16>(data, at, n, use);
    else
        each_of_row<float>(data, at, n, use);
}

static __device__ __forceinline__ void store_row(void *data, int dtype, int64_t at, int n,
                                                 const float (&x)[NORM_WARP_PACKS][4]) {
#pragma unroll
    for (int p = 0; p < NORM_WARP_PACKS; p++) {
        const int i = (p * WARP + threadIdx.x % WARP) * 4;
        if (i < n) store_four(data, dtype, at + i, x[p]);
    }
}

/* The same by a warp a row, where there are rows enough: warps of a block wait for nobody. */
extern "C" __global__ void __launch_bounds__(256, 2) norm_warps(RowNormArgs a) {
    begin();
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, at = row * a.n;
    if (row >= a.rows) return; /* whole warps */
    const int n = (int)a.n;
    float x[NORM_WARP_PACKS][4], sum = 0, squares = 0; /* 0 where the row has no pack */
#pragma unroll
    for (int p = 0; p < NORM_WARP_PACKS; p++)
#pragma unroll
        for (int j = 0; j < 4; j++) x[p][j] = 0;
    each_of_any(a.x, a.x_type, at, n, [&](int p, int j, float value) { x[p][j] = value; });
    if (a.skip)
        each_of_any(a.skip, a.skip_type, at, n, [&](int p, int j, float value) { x[p][j] += value; });
    if (a.sum) store_row(a.sum, a.sum_type, at, n, x);
#pragma unroll
    for (int p = 0; p < NORM_WARP_PACKS; p++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum += x[p][j];
    const float mean = a.rms ? 0 : warp_sum(sum) / (float)n;
#pragma unroll
    for (int p = 0; p < NORM_WARP_PACKS; p++) {
        if ((p * WARP + threadIdx.x % WARP) * 4 >= n) continue;
#pragma unroll
        for (int j = 0; j < 4; j++) x[p][j] -= mean, squares += x[p][j] * x[p][j];
    }
    const float factor = 1 / sqrtf(warp_sum(squares) / (float)n + a.epsilon);
    each_of_any(a.scale, a.scale_type, 0, n, [&](int p, int j, float value) { x[p][j] *= factor * value; });
    if (a.bias)
        each_of_any(a.bias, a.bias_type, 0, n, [&](int p, int j, float value) { x[p][j] += value; });
    store_row(a.y, a.y_type, at, n, x);
    if (a.low) store_row(a.low, a.low_type, at, n, x);
}

extern "C" __global__ void __launch_bounds__(256) batch_norm(BatchNormArgs a) {
    begin();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const int64_t c = i / a.inner % a.channels;
        const float mean = load_any(a.mean, a.mean_type, c);
        const float variance = load_any(a.variance, a.variance_type, c);
        const float scale = load_any(a.scale, a.scale_type, c) / sqrtf(variance + a.epsilon);
        store_any(a.y, a.y_type, i,
                  (load_any(a.x, a.x_type, i) - mean) * scale + load_any(a.bias, a.bias_type, c));
    }
}

extern "C" __global__ void __launch_bounds__(256) affine(AffineArgs a) {
    begin();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const int64_t c = i / a.inner % a.channels;
        const float x = load_any(a.x, a.x_type, i) - load_any(a.mean, a.mean_type, c);
        const float y = x * load_any(a.scale, a.scale_type, c) + load_any(a.shift, a.shift_type, c);
        store_any(a.y, a.y_type, i, activate(a.op, y, a.p, a.q));
    }
}

extern "C" __global__ void __launch_bounds__(256) lrn(LrnArgs a) {
    begin();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += step) {
        const int64_t c = i / a.inner % a.channels;
        const int64_t from = c > a.before ? c - a.before : 0;
        const int64_t to = a.channels - c > a.after ? c + a.after + 1 : a.channels;
        float sum = 0;
        for (int64_t k = from; k < to; k++) {
            const float x = load_any(a.x, a.x_type, i + (k - c) * a.inner);
            sum += x * x;
        }
        store_any(a.y, a.y_type, i,
                  load_any(a.x, a.x_type, i) * powf(a.bias + a.factor * sum, -a.beta));
    }
}

/* A block a line, of whole warps. */
extern "C" __global__ void __launch_bounds__(256) lp_norm(LpNormArgs a) {
    begin();
    __shared__ float room[WARP];
    for (int64_t line = blockIdx.x; line < a.lines; line += gridDim.x) {
        const int64_t at = line / a.inner * a.n * a.inner + line % a.inner;
        float sum = 0;
        for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
            const float x = load_any(a.x, a.x_type, at + i * a.inner);
            sum += a.square ? x * x : fabsf(x);
        }
        sum = block_sum(sum, room);
        if (a.square) sum = sqrtf(sum);
        for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x)
            store_any(a.y, a.y_type, at + i * a.inner,
                      sum == 0 ? 0 : load_any(a.x, a.x_type, at + i * a.inner) / sum);
        __syncthreads();
    }
}
