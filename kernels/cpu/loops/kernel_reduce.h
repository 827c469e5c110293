// SPDX-License-Identifier: Apache-2.0
/* The loops of a reduction over any axes.
 *
 * Neighboring axes that are both kept or both reduced are one group, axes of 1 are in none. The
 * last group is contiguous: if it is reduced, its `length` elements become one number (width 1); if
 * it is kept, `width` numbers are reduced side by side (length 1). Around it are two walks: `outer`
 * over the other kept groups, in the order of the results, and for each of its steps `runs` over
 * the other reduced ones:
 *
 *     for (o = 0; o < outer_count; o++, reduce_next(&outer))
 *         for (r = 0; r < run_count; r++, reduce_next(&runs))
 *             data[outer.offset + runs.offset + k], k < length or width, belongs to
 *             result[o * width + (width > 1 ? k : 0)]
 *
 * A walk is at its start again after its last step.
 */
#ifndef DEMI_KERNEL_REDUCE_H
#define DEMI_KERNEL_REDUCE_H

#include "kernel.h"

typedef struct ReduceWalk {
    uint32_t rank;
    const uint64_t *sizes, *strides; /* [rank], in elements */
    uint64_t *at;                    /* [rank] */
    uint64_t offset;
} ReduceWalk;

typedef struct ReduceLoops {
    uint64_t outer_count, run_count, length, width;
    uint64_t results; /* outer_count * width */
    uint64_t reduced; /* elements of each: run_count * length */
    ReduceWalk outer, runs;
} ReduceLoops;

/* The loops over x, of which the axes with `reduced` [x->rank] set are reduced. */
void reduce_loops(Arena *arena, const KernelTensor *x, const bool *reduced, ReduceLoops *loops);

/* Sets the listed axes in `reduced` [rank]; false with the error set where one is out of range. */
bool reduce_mark(KernelCall *call, uint32_t count, const int64_t *axes, bool *reduced);

static inline void reduce_next(ReduceWalk *walk) {
    for (uint32_t i = walk->rank; i-- > 0;) {
        walk->offset += walk->strides[i];
        if (++walk->at[i] < walk->sizes[i]) return;
        walk->offset -= walk->strides[i] * walk->sizes[i];
        walk->at[i] = 0;
    }
}

/* The offset at step `index` of a walk. */
static inline uint64_t reduce_offset(const ReduceWalk *walk, uint64_t index) {
    uint64_t offset = 0;
    for (uint32_t i = walk->rank; i-- > 0;) {
        uint64_t at = i ? index % walk->sizes[i] : index;
        if (i) index /= walk->sizes[i];
        offset += at * walk->strides[i];
    }
    return offset;
}

/* A tensor as (outer, n, inner) around one axis: element (o, k, i) is at (o * n + k) * inner + i.
 */
typedef struct AxisLoops {
    uint64_t outer, n, inner;
} AxisLoops;

AxisLoops axis_loops(const KernelTensor *x, uint32_t axis);

#endif
