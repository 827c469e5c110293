// SPDX-License-Identifier: Apache-2.0
/* Convolutions with fewer multiplications, Winograd's, as Lavin and Gray (2015) use them: of 3x3 taps,
 * or of 3 or 5 in a line, one pixel apart. Of a tile of pixels d, channels last, the results of taps
 * g are
 *
 *     Y = A' [ (G g G') . (B' d B) ] A
 *
 * (in a line without what stands to the right of g, d and the brackets), where . multiplies
 * elementwise and sums over channels: a product of matrices for each point, tiles by channels and
 * channels by filters (igemm.h). Of squares these are 16 products where taps have 36, of large ones 36
 * where they have 144, of lines 6 where they have 12 (3 taps) or 10 (5). Large ones read more weights:
 * they are for many pixels. tile_forms.h has the transformations.
 *
 * Errors are small beside what is largest in a tile. They need not be beside one of its results: one
 * whose taps do not see a sentinel of 1e9, Inf or NaN that its neighbors see would be spoilt by it.
 * winograd_run finds that out, and the caller computes tap by tap instead.
 */
#ifndef DEMI_WINOGRAD_H
#define DEMI_WINOGRAD_H

#include "epilogue.h"
#include "isa.h"
#include "weight_layout.h"
#include "window.h"

/* A convolution with a window that has channels last; groups of channels and filters. */
typedef struct WinogradSizes {
    const Window *window;
    uint64_t images, channels, filters;
} WinogradSizes;

/* True where it can be computed so, and also by large tiles. */
bool winograd_can(const WinogradSizes *sizes);
bool winograd_can_large(const WinogradSizes *sizes);

/* True where it is likely to be the faster way; and, of tiles alone, where large ones are. */
bool winograd_takes(const WinogradSizes *sizes);
bool winograd_takes_large(const WinogradSizes *sizes);

/* Weights (filters, channels, taps ...) of a window that can, for features that this processor has; or, of the
 * layout alone, any. */
typedef struct WinogradWeights {
    uint64_t channels, filters, taps; /* taps: of the window */
    IsaSet cpu;
    bool large;
} WinogradWeights;

WeightLayout winograd_layout(const WinogradWeights *weights);

/* How many tiles are turned at a time, where a caller knows better than the rule. */
typedef enum WinogradBlocks { WINOGRAD_BY_RULE, WINOGRAD_SMALL, WINOGRAD_LARGE } WinogradBlocks;

typedef struct Winograd {
    WinogradWeights weights;
    WinogradBlocks blocks;
    const Window *window;
    uint64_t images;
    const void *packed;    /* by winograd_layout */
    const float *x, *zero; /* zero: [channels] */
    float *y;
    const Epilogue *epilogue;
} Winograd;

typedef enum WinogradEnd {
    WINOGRAD_DONE,
    WINOGRAD_UNSOUND, /* y is to be computed anew */
    WINOGRAD_FAILED,  /* past the memory budget, the error is set */
} WinogradEnd;

WinogradEnd winograd_run(KernelCall *call, const Winograd *job);

#endif
