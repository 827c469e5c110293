// SPDX-License-Identifier: Apache-2.0
/* The windows of a convolution as a matrix, packed part by part: row c * taps + t, column o holds
 * the input of channel c that tap t of output o sees. */
#ifndef DEMI_CONV_COLUMNS_H
#define DEMI_CONV_COLUMNS_H

#include "gemm.h"
#include "tap_loops.h"
#include "window.h"

/* Batches are images times groups. */
typedef struct ConvColumns {
    const Window *window;
    const void *x;       /* float, or int16 for pairs, where padding is 0 */
    uint64_t channels;   /* of a group */
    const int64_t *taps; /* [taps, rank]: positions relative to an output's first */
    const TapLoops *loops;
} ConvColumns;

/* `x` as above; the table of taps is made in scratch. */
ConvColumns conv_columns_make(KernelCall *call, const Window *window, const void *x,
                              uint64_t channels);

/* Gemm.pack_b: of float, and of pairs of rows (an odd last row's partner is 0). */
GemmPack conv_pack_floats, conv_pack_pairs;

/* True where the matrix is the input itself: one tap, no padding, steps of 1. */
bool conv_is_plain(const Window *window);

#endif
