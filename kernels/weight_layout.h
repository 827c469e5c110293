// SPDX-License-Identifier: Apache-2.0
/* Weights in the order in which kernels read them, described so that a plan's file can hold them so.
 *
 * Element (g, t, k, n) of a constant, of group, tap, depth and column, is at
 * g * group + t * tap + k / inner * outer + k % inner * row + n * column. Columns are `lanes` a
 * vector, the last one filled up with 0, and vectors are panels of at most `vecs`, shared out
 * evenly. Each group is [panel][tap][word of depth][columns of the panel]; a word is one element of
 * float, or neighboring k of int8 or bfloat16, where the last word of a tap is filled up with 0.
 * Behind all
 * groups there may be the sums of columns. So nothing is lost: where another order is wanted, the
 * constant is made of it again.
 *
 * Tiles are what taps g become in convolutions by fewer multiplications (winograd.h): of 3x3 taps the
 * 4x4 points G g G', or large ones of 6x6, of 3 or 5 taps in a line the 6 points G g, each a matrix of
 * one tap, [point][panel][depth][columns of the panel]. They are rounded, so that the constant can't be
 * had of them: they lie beside it.
 */
#ifndef DEMI_WEIGHT_LAYOUT_H
#define DEMI_WEIGHT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "dtype.h"

typedef enum WeightWord {
    WEIGHT_FLOATS,      /* a float */
    WEIGHT_QUADS,       /* four int8 */
    WEIGHT_PAIRS,       /* two int8, each widened to int16 */
    WEIGHT_TILES,       /* a float, of points: 9, 3 or 5 taps, one group */
    WEIGHT_BFLOATS,     /* two bfloat16 */
    WEIGHT_LARGE_TILES, /* a float, of points: 9 taps, one group */
    WEIGHT_WORD_COUNT
} WeightWord;

/* A part of plan files: no padding, all bytes count. */
typedef struct WeightLayout {
    uint32_t word;        /* a WeightWord */
    uint32_t lanes, vecs; /* at least 1 */
    uint32_t
        has_sums; /* behind all, at a multiple of 64 bytes: int32 [groups][columns], modulo 2^32 */
    uint64_t groups, taps, depth, inner, columns; /* at least 1 */
    uint64_t group, tap, outer, row, column;      /* elements */
} WeightLayout;

/* Of tiles, which the constant can't be had of. */
static inline bool weight_layout_loses(const WeightLayout *layout) {
    return layout->word == WEIGHT_TILES || layout->word == WEIGHT_LARGE_TILES;
}

static inline Dtype weight_layout_dtype(const WeightLayout *layout) {
    if (layout->word == WEIGHT_BFLOATS) return DTYPE_BFLOAT16;
    return layout->word == WEIGHT_FLOATS || weight_layout_loses(layout) ? DTYPE_FLOAT : DTYPE_INT8;
}

enum { WEIGHT_POINTS = 36 }; /* most points of tiles */

/* The points of such tiles of so many taps; 0 where there are none. */
static inline uint32_t weight_points(uint32_t word, uint64_t taps) {
    if (word == WEIGHT_LARGE_TILES) return taps == 9 ? 36 : 0;
    return taps == 9 ? 16 : taps == 3 || taps == 5 ? 6 : 0;
}

/* Large tiles, like oneDNN's, are by the points 0, a, -a, b, -b and infinity along each axis: with these
 * two, rms errors are 2 to 3 times those of sums tap by tap, with 1 and 2 they are 5 times. All that
 * is made of them is a float. */
#define WEIGHT_TILE_A 0.625
#define WEIGHT_TILE_B 1.5

/* Of constants that are there, by layouts of kernels: bytes of a group (of tiles, of a point), where
 * the sums are, and of all. */
uint64_t weight_layout_group(const WeightLayout *layout);
uint64_t weight_layout_sums(const WeightLayout *layout);
uint64_t weight_layout_size(const WeightLayout *layout);

/* True where a constant of `count` elements of the dtype may have this layout, whatever the file
 * says: every element is within it, and there are as many. *size is what weight_layout_size would
 * be. */
bool weight_layout_fits(const WeightLayout *layout, Dtype dtype, uint64_t count, uint64_t *size);

bool weight_layout_equals(const WeightLayout *a, const WeightLayout *b);

/* From the constant's elements to `to`, 64-byte aligned; and back, of layouts that lose nothing:
 * nothing is written outside of the constant, whatever the packed bytes are. */
void weight_layout_pack(const WeightLayout *layout, const void *from, void *to);
/* One of `parts` that make the whole of it, in any order, or at once in several threads. */
void weight_layout_pack_part(const WeightLayout *layout, const void *from, void *to, unsigned part,
                             unsigned parts);
void weight_layout_unpack(const WeightLayout *layout, const void *from, void *to);

#endif
