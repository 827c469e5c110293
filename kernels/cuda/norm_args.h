// SPDX-License-Identifier: Apache-2.0
/* What kernels of norm.cu take; C and C++. Types are DemiDtypes, of floats. */
#ifndef DEMI_NORM_ARGS_H
#define DEMI_NORM_ARGS_H

#include <stdint.h>

/* Of four elements, that a thread of norm_packs and of norm_warps has at most. */
enum { NORM_PACKS = 4, NORM_WARP_PACKS = 8 };

/* y along the middle axis of (outer, n, inner). */
typedef struct SoftmaxArgs {
    const void *x;
    void *y;
    int64_t outer, n, inner;
    int32_t x_type, y_type, log;
} SoftmaxArgs;

/* Rows of n elements, one block each: y = (s - mean) / sqrt(variance + epsilon) scale + bias, s = x +
 * skip. Element i has scale[i / span * step]: a row's own elements, or a channel's. */
typedef struct RowNormArgs {
    const void *x, *skip, *scale, *bias; /* skip and bias may be NULL */
    void *y, *sum, *low;                 /* sum and low may be NULL; low is y in another type */
    int64_t rows, n, span, scale_step, bias_step;
    int64_t channels; /* of a row's group, in channel norms: the row's first one is row * channels %
                         all */
    int64_t all;
    float epsilon;
    int32_t rms;
    int32_t kept; /* a row lies in dynamic shared memory */
    int32_t x_type, skip_type, scale_type, bias_type, y_type, sum_type, low_type;
} RowNormArgs;

/* y = x (bias + factor sum)^-beta, the sum of squares over so many channels before and after x's own, of
 * (outer, channels, inner). */
typedef struct LrnArgs {
    const void *x;
    void *y;
    int64_t count, channels, inner, before, after;
    float factor, bias, beta;
    int32_t x_type, y_type;
} LrnArgs;

/* Lines along the middle axis of (outer, n, inner), each over the sum of its sizes, or the root of its sum
 * of squares; 0 where that is 0. */
typedef struct LpNormArgs {
    const void *x;
    void *y;
    int64_t lines, n, inner;
    int32_t square, x_type, y_type;
} LpNormArgs;

/* y = (x - mean) / sqrt(variance + epsilon) scale + bias by channel, of (outer, channels, inner). */
typedef struct BatchNormArgs {
    const void *x, *scale, *bias, *mean, *variance;
    void *y;
    int64_t count, channels, inner;
    float epsilon;
    int32_t x_type, y_type, scale_type, bias_type, mean_type, variance_type;
} BatchNormArgs;

/* y = act((x - mean) scale + shift) by channel, of (outer, channels, inner). */
typedef struct AffineArgs {
    const void *x, *mean, *scale, *shift;
    void *y;
    int64_t count, channels, inner;
    int32_t x_type, y_type, mean_type, scale_type, shift_type, op;
    float p, q;
} AffineArgs;

#endif
