// SPDX-License-Identifier: Apache-2.0
/* What kernels of reduce.cu take; C and C++. */
#ifndef DEMI_REDUCE_ARGS_H
#define DEMI_REDUCE_ARGS_H

#include <stdint.h>

enum { REDUCE_RANK = 6, REDUCE_SIDE_THREADS = 256 };
enum ReduceOp {
    REDUCTION_SUM,
    REDUCTION_MEAN,
    REDUCTION_MAX,
    REDUCTION_MIN,
    REDUCTION_PROD,
    REDUCTION_L1,
    REDUCTION_L2,
    REDUCTION_LOG_SUM,
    REDUCTION_LOG_SUM_EXP,
    REDUCTION_SUM_SQUARE
};

/* Results are counted along the kept axes, the last the fastest; each is of `reduced` elements, found
 * along the reduced axes. */
typedef struct ReduceArgs {
    const void *x;
    void *y;
    int64_t results, reduced;
    int64_t kept_sizes[REDUCE_RANK], kept_strides[REDUCE_RANK];
    int64_t sizes[REDUCE_RANK], strides[REDUCE_RANK];
    int32_t kept_rank, rank, op, x_type, y_type;
} ReduceArgs;

#endif
