// SPDX-License-Identifier: Apache-2.0
/* Moving elements between two regular layouts, whatever they are: one walk over a box of elements
 * that says, for each axis, how far apart neighbors lie on either side. Transpositions, slices,
 * repetitions, broadcasts and joins are all such walks.
 *
 * Axes that lie behind each other on both sides become one, runs that are contiguous on both are
 * copied whole, and a transposition goes in blocks that fit the cache. Each element of the
 * destination is to be reached at most once, so the order does not matter.
 */
#ifndef DEMI_KERNEL_STRIDED_H
#define DEMI_KERNEL_STRIDED_H

#include "kernel.h"

typedef struct StridedAxis {
    int64_t count;    /* elements along it; a walk with a 0 moves nothing */
    int64_t to, from; /* elements from one to the next; `from` may be 0 (repeat) or negative */
} StridedAxis;

typedef struct StridedWalk {
    uint32_t rank;
    StridedAxis *axes; /* [rank], the last one innermost */
    Workers *workers;  /* as a call's */
    bool away;         /* runs are written past the caches: nobody reads them soon */
} StridedWalk;

/* A walk of that many axes, in scratch, all of one element: the callers set them. */
StridedWalk strided_new(KernelCall *call, uint32_t rank);

/* Sets the axes' counts to dims and their steps to those of a dense row-major tensor on both sides
 * as far as asked for (`to`, `from`); dims has walk->rank numbers. */
void strided_set_dims(StridedWalk *walk, const int64_t *dims);
void strided_set_to(StridedWalk *walk, const int64_t *dims);
void strided_set_from(StridedWalk *walk, const int64_t *dims);

/* Moves the elements of `size` bytes (1, 2, 4, 8 or 16; data aligned to that, to 8 for 16). The
 * walk is used up: its axes are changed. Both sides must hold all that the walk reaches, and must
 * not overlap. */
void strided_copy(StridedWalk *walk, void *to, const void *from, size_t size);

/* `count` copies of one element; of zeros (or empty strings) where `element` is NULL. */
void strided_fill(KernelTensor *tensor, const void *element);

#endif
