// SPDX-License-Identifier: Apache-2.0
/* Attention in blocks: softmax(masked(scale Q K^T)) V without a matrix of all scores. Some queries
 * meet some keys after the other; the largest score, the sum of exponentials and the weighted sum
 * of values are corrected as they go, so memory is linear in the keys whatever the queries.
 * Keys and values may lie in two places: the past's, and those that came since.
 * Operands lie in any layout, with a step for each of their axes, in float or 16 bit. Products run
 * on the micro-kernels of gemm.h, for a few queries on its loops; arithmetic is in float, but that fast
 * plans multiply bfloat16 as it is where the processor does. */
#ifndef DEMI_ATTEND_H
#define DEMI_ATTEND_H

#include "gemm.h"
#include "kernel.h"

/* Q, K, V or Y. Steps are in elements, 0 along axes that broadcast. */
typedef struct AttendOperand {
    void *data;   /* only Y's is written */
    Dtype narrow; /* FLOAT16 or BFLOAT16; else elements are float */
    uint64_t batch, head, row, element;
} AttendOperand;

/* What is done to scores: one element for each, or fewer that broadcast. */
typedef struct AttendMask {
    const void *data; /* NULL: nothing is */
    uint64_t batch, head, row, key;
} AttendMask;

/* The keys [range[0], range[1]) that a query of a batch may see; at most all. */
typedef void AttendRange(const void *context, uint64_t batch, uint64_t row, uint64_t range[2]);

typedef struct Attend {
    uint64_t batches, heads, rows, keys; /* of scores */
    uint64_t size, value;                /* elements of a key, of a value */
    uint64_t group;                      /* so many heads after the other read one of K and V */
    uint64_t k_share, v_share;           /* and so many of those groups, or 0: each has its own */
    AttendOperand q, k, v, y;
    AttendOperand k_past, v_past; /* before k and v: the first keys and values, */
    uint64_t past;                /* so many; 0: k and v are all */
    float scale, softcap;         /* softcap: scores become c tanh(score / c); 0: none */
    AttendMask keep;              /* bytes: where one is 0 the score becomes `fill` */
    float fill;
    AttendMask bias;    /* floats that are added then; -Inf excludes whatever the score is */
    AttendRange *range; /* NULL: all keys are seen */
    const void *context;
    /* A query whose scores are all -Inf, and what it excludes. True: it gives zeros, and a value
     * that is excluded has no say even where it is NaN. False: NaN, as Softmax and MatMul do it. */
    bool excludes;
    bool blank; /* a query of which a share is NaN, or that sees nothing, gives zeros */
} Attend;

/* Runs it with the call's threads. False with the error set past the memory budget. */
bool attend_run(KernelCall *call, const Attend *job);

/* The same by the kernels for a processor with these features, which this one has. */
bool attend_run_on(KernelCall *call, const Attend *job, IsaSet cpu);

#endif
