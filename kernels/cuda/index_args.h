// SPDX-License-Identifier: Apache-2.0
/* What kernels of index.cu take; C and C++. Sizes and strides are in elements. An index counts from the
 * end where it is negative; out of range, what it names is 0, and nothing is put there. */
#ifndef DEMI_INDEX_ARGS_H
#define DEMI_INDEX_ARGS_H

#include <stdint.h>

enum { INDEX_RANK = 8 };

/* op_attrs.h's, by the same numbers. */
enum ScatterHow { SCATTER_NONE, SCATTER_ADD, SCATTER_MUL, SCATTER_MIN, SCATTER_MAX };

/* An index each element: (GatherElements) y[i] = x[… index …], or (ScatterElements) y[… index …]
 * combined with x[i]. `sizes` are those of the indices; a line of them runs along `axis`. */
typedef struct ElementsArgs {
    const void *x, *indices;
    void *y;
    int64_t count; /* threads: elements, or lines where updates are combined one after the other */
    int64_t sizes[INDEX_RANK];
    int64_t own[INDEX_RANK];              /* strides of the indices */
    int64_t strides[INDEX_RANK];          /* of what is looked up */
    int64_t size;                         /* of the axis there */
    int32_t rank, axis, lines, how, wide; /* wide: indices are int64, else int32 */
} ElementsArgs;

/* An index of `depth` axes each block of elements: GatherND, ScatterND. */
typedef struct BlocksArgs {
    const void *x, *indices;
    void *y;
    int64_t count;                /* threads */
    int64_t tuples, block, batch; /* indices of a batch; elements of a block, of a batch */
    int64_t sizes[INDEX_RANK], strides[INDEX_RANK];
    int32_t depth, how, wide;
} BlocksArgs;

/* y (outer, depth, inner): of each of (outer, inner) indices, of any type of numbers, the second value at
 * its place, elsewhere the first. Indices out of range have no place. */
typedef struct OneHotArgs {
    const void *indices, *values;
    void *y;
    int64_t count, depth, inner; /* elements of y */
    int32_t type;                /* of the indices */
} OneHotArgs;

/* Rows of a table of blocks (table_blocks.h), picked by index, as floats. Numbers and results are fewer than 2^32. */
typedef struct TableArgs {
    const uint8_t *numbers, *zeros; /* zeros may be NULL */
    const float *scales;
    const void *indices;
    float *y;
    int64_t count; /* of y */
    uint32_t along, inner, block, blocks, axis, row, picks;
    int32_t bits, spread, is_signed, wide; /* spread: a byte has 2 to that numbers */
    float middle;
} TableArgs;

/* The best `k` of each line of n elements that are `inner` apart, in order; equal ones by index. A
 * block a line. */
typedef struct BestArgs {
    const void *x;
    void *values;     /* (…, k, …); may be NULL */
    int64_t *indices; /* likewise */
    int64_t lines, n, inner, k;
    int32_t smallest, last; /* of equal ones the last one is first */
    int32_t nan_wins;       /* also with `smallest` */
} BestArgs;

/* Running sums along lines of n elements that are `inner` apart. */
typedef struct SumsArgs {
    const void *x;
    void *y;
    int64_t lines, n, inner;
    int32_t exclusive, reverse;
} SumsArgs;

#endif
