// SPDX-License-Identifier: Apache-2.0
/* Running a reduction: which elements become which result, by blocks that stay in the caches, and
 * by several threads. What is done with elements is a ReduceKind's.
 *
 * How elements are grouped, and so every bit of a result, depends on the shape alone and not on how
 * many threads there are.
 */
#ifndef DEMI_REDUCE_RUN_H
#define DEMI_REDUCE_RUN_H

#include "kernel_reduce.h"

/* Of the elements x, `count` runs of `length` next to each other, each `stride` behind the one
 * before. */
typedef struct ReduceTile {
    const void *x;
    uint64_t count, stride, length;
} ReduceTile;

/* Accumulators are arrays of `size` bytes each. */
typedef struct ReduceKind {
    size_t size; /* at most REDUCE_LARGEST */
    void (*clear)(void *sums, uint64_t count);
    void (*rows)(void *sums, const ReduceTile *tile);    /* run r into sums[r] */
    void (*columns)(void *sums, const ReduceTile *tile); /* column k of all runs into sums[k] */
    void (*merge)(void *sums, const void *others, uint64_t count);
    /* results of `reduced` elements each */
    void (*end)(void *results, const void *sums, uint64_t count, uint64_t reduced);
    size_t result; /* bytes of one */
    /* of elements that are reduced as doubles: those of `count` next to each other; else NULL */
    void (*widen)(double *to, const void *from, uint64_t count);
} ReduceKind;

enum {
    REDUCE_LARGEST = 16,
    REDUCE_BLOCK = 1024, /* most of a tile's rows or columns: accumulators lie on the stack */
};

/* Sums of bytes; results are int64_t. */
extern const ReduceKind reduce_total_int8_t, reduce_total_uint8_t;

/* The axes that the call reduces, [rank of input 0]: those of input 1, else of the attribute
 * (AxesAttrs). False with the error set. */
bool reduce_find(KernelCall *call, bool *reduced);

/* x reduced by `loops` to `out`; 16-bit floats by a kind of floats, to the same. False with the error
 * set. */
bool reduce_run(KernelCall *call, const ReduceKind *kind, const ReduceLoops *loops,
                const KernelTensor *x, void *out);

#endif
