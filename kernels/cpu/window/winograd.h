// SPDX-License-Identifier: Apache-2.0
/* Convolutions of 3x3 taps, one pixel apart, with fewer multiplications: F(2x2, 3x3) of Winograd,
 * as Lavin and Gray (2015) use it. Of a tile of 4x4 pixels d, channels last, the 2x2 results are
 *
 *     Y = A' [ (G g G') . (B' d B) ] A
 *
 * where . multiplies elementwise and sums over channels: 16 products of matrices, tiles by channels
 * and channels by filters (igemm.h), instead of 36. B' and A' add and subtract, G halves, so errors
 * are small beside what is largest in a tile. They need not be beside one of its four results: one
 * whose taps do not see a sentinel of 1e9, Inf or NaN that its neighbours see would be spoilt by it.
 * winograd_run finds that out, and the caller computes tap by tap instead.
 */
#ifndef DEMI_WINOGRAD_H
#define DEMI_WINOGRAD_H

#include "epilogue.h"
#include "isa.h"
#include "weight_layout.h"
#include "window.h"

/* True where it can be computed so: `window` has channels last, groups of channels and filters. */
bool winograd_can(const Window *window, uint64_t channels, uint64_t filters);

/* True where that is likely to be the faster way, too: `window` has channels last, groups of channels and filters. */
bool winograd_takes(const Window *window, uint64_t images, uint64_t channels, uint64_t filters);

/* Weights (filters, channels, 3, 3), for a level this processor has; or, of the layout alone, any. */
typedef struct WinogradWeights {
    uint64_t channels, filters;
    IsaLevel level;
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
