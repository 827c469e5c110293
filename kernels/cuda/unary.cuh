// SPDX-License-Identifier: Apache-2.0
/* Functions of one value, by number: what activations and elementwise operators compute. */
#ifndef DEMI_UNARY_CUH
#define DEMI_UNARY_CUH

#include "cuda_types.cuh"
#include "formulas.h"
#include "unary_args.h"

/* e^x - 1 and the like are those of CUDA's accurate library: no fast-math here. Functions, not part of
 * what calls them: a dozen of them for each of eight elements in each kernel would be a megabyte of
 * code, and a kernel of a few thousand elements takes most of its time to fetch it. */
static __device__ __forceinline__ float sigmoid(float x) {
    const float e = expf(-fabsf(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* x times the share of a normal distribution below x: x/2 erfc(-x/sqrt 2). CUDA's erfcf takes four times
 * as long as memory does. Here erfc(z) = exp(-z z) p(t), t = 1 / (1 + 0.325 z), z >= 0: p is the polynomial
 * of degree 8 with the least largest relative error of erfcx up to z = 10, 5e-8, found by weighted least
 * squares (Lawson's iteration), here of half of it. Behind 20 the share is 0, and so what -infinity gives is
 * not a number, as the processor's and the operator's own definition have it. */
static __device__ __forceinline__ float gelu(float x) {
    const float size = fminf(fabsf(x), 20), side = size * 0.84932180f; /* 2^(-side side) = e^(-x x / 2) */
    float t, power;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(1 + (0.325f * 0.70710678f) * size));
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-side * side));
    float p = -0.079067377f;
    p = p * t + 0.29390554f;
    p = p * t - 0.28420833f;
    p = p * t + 0.30734678f;
    p = p * t - 0.036397644f;
    p = p * t + 0.12070671f;
    p = p * t + 0.085406409f;
    p = p * t + 0.092337509f;
    p = p * t - 2.9623368e-05f;
    return (x < 0 ? x * 0 : x) - size * (p * power);
}

/* The activations of demi.fused: few, as they are part of larger kernels. */
static __device__ __noinline__ float activate(int op, float x, float p, float q) {
    switch (op) {
    case UNARY_RELU: return FORMULA_RELU(x);
    case UNARY_CLIP: return x < p ? p : x > q ? q : x;
    case UNARY_LEAKY: return FORMULA_LEAKY_RELU(x, p);
    case UNARY_TANH: return tanhf(x);
    case UNARY_HARD_SIGMOID: return FORMULA_HARD_SIGMOID(x, p, q);
    case UNARY_HARD_SWISH: return FORMULA_HARD_SWISH(x);
    case UNARY_SIGMOID:
    case UNARY_SWISH:
    case UNARY_GELU_TANH: { /* one sigmoid for all */
        const float tanh_of = FORMULA_GELU_TANH_OF(x);
        const float y = sigmoid(op == UNARY_SIGMOID ? x : op == UNARY_SWISH ? p * x : tanh_of);
        return op == UNARY_SIGMOID ? y : x * y;
    }
    case UNARY_GELU: return gelu(x);
    default: return x;
    }
}

/* Of N values: what networks of windows have most in place, as a call for each would take longer than all
 * else that a small kernel does. */
template <int N>
static __device__ __forceinline__ void activate_pack(int op, float (&x)[N], float p, float q) {
    if (op == UNARY_COPY) return;
    if (op == UNARY_RELU || op == UNARY_CLIP) {
        const float low = op == UNARY_RELU ? 0 : p, high = op == UNARY_RELU ? INFINITY : q;
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = x[i] < low ? low : x[i] > high ? high : x[i];
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = activate(op, x[i], p, q);
}

/* The same behind products, where GELU is in place, too: there may be millions of elements of it. */
template <int N>
static __device__ __forceinline__ void activate_product(int op, float (&x)[N], float p, float q) {
    if (op != UNARY_GELU) {
        activate_pack(op, x, p, q);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = gelu(x[i]);
}

/* These and what gates of recurrent layers have beside them. */
static __device__ __noinline__ float activate_gate(int op, float x, float p, float q) {
    switch (op) {
    case UNARY_SOFTPLUS: {
        const float y = log1pf(expf(-fabsf(x)));
        return x > 0 ? x + y : y;
    }
    case UNARY_SOFTSIGN: return FORMULA_SOFTSIGN(x, fabsf);
    case UNARY_ELU: return FORMULA_ELU(x, p, expm1f);
    case UNARY_THRESHOLDED: return FORMULA_THRESHOLDED_RELU(x, p);
    case UNARY_AFFINE: return p * x + q;
    case UNARY_SCALED_TANH: return p * tanhf(q * x);
    default: return activate(op, x, p, q);
    }
}

static __device__ __noinline__ float unary(int op, float x, float p, float q) {
    switch (op) {
    case UNARY_ABS: return fabsf(x);
    case UNARY_NEG: return -x;
    case UNARY_SIGN: return x > 0 ? 1.0f : x < 0 ? -1.0f : x == 0 ? 0.0f : x;
    case UNARY_FLOOR: return floorf(x);
    case UNARY_CEIL: return ceilf(x);
    case UNARY_ROUND: return rintf(x);
    case UNARY_SQRT: return sqrtf(x);
    case UNARY_RECIPROCAL: return 1 / x;
    case UNARY_EXP: return expf(x);
    case UNARY_LOG: return logf(x);
    case UNARY_SIN:
    case UNARY_COS: {
        float sine, cosine;
        sincosf(x, &sine, &cosine);
        return op == UNARY_SIN ? sine : cosine;
    }
    case UNARY_TAN: return tanf(x);
    case UNARY_ASIN: return asinf(x);
    case UNARY_ACOS: return acosf(x);
    case UNARY_ATAN: return atanf(x);
    case UNARY_SINH: return sinhf(x);
    case UNARY_COSH: return coshf(x);
    case UNARY_ASINH: return asinhf(x);
    case UNARY_ACOSH: return acoshf(x);
    case UNARY_ATANH: return atanhf(x);
    case UNARY_ERF: return erff(x);
    case UNARY_MISH: {
        const float e = expf(x > 20 ? 20 : x);
        return FORMULA_MISH(x, e);
    }
    case UNARY_SHRINK: return FORMULA_SHRINK(x, p, q); /* of what is no number, too */
#define MATH_EXP   expf
#define MATH_EXPM1 expm1f
#define MATH_LOG1P log1pf
#define MATH_TANH  tanhf
#define MATH_ABS   fabsf
#define MATH_MIN   fminf
#define MATH_MAX   fmaxf
#define UNARY_FUNCTION(name, number, attributes, formula) \
    case UNARY_##number: return formula;
#include "unary.def"
    default: return activate_gate(op, x, p, q);
    }
}

#endif
