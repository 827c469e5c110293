// SPDX-License-Identifier: Apache-2.0
/* The forms of tiles that convolutions with fewer multiplications are made of (winograd.h), and how
 * a tile is turned into its points and back.
 *
 * A square of 4x4 pixels gives the 2x2 results of 3x3 taps, F(2x2, 3x3) of Lavin and Gray (2015), a
 * large one of 6x6 pixels 4x4 results, by the points of weight_layout.h; 6 pixels in a line give the 4
 * results of 3 taps or the 2 of 5, both by the points 0, 1, -1, 2, -2 and infinity. What is turned back
 * is a result's sum, to which bias and residual come, and which is held within two bounds. */
#ifndef DEMI_TILE_FORMS_H
#define DEMI_TILE_FORMS_H

#include <stdbool.h>
#include <stdint.h>

enum { TILE_POINTS = 36, TILE_RESULTS = 16 }; /* at most; and no more pixels than points */

/* Where results go and what is added to them; the residual may lie where they go. */
typedef struct TileResults {
    float *y[TILE_RESULTS];
    const float *z[TILE_RESULTS], *bias;
    float low, high;
} TileResults;

typedef struct TileForm {
    uint32_t taps;                 /* as WeightLayout counts them */
    uint32_t points;               /* and pixels */
    uint32_t results;              /* of them all */
    uint32_t along, results_along; /* pixels and results along an axis */
    /* A result's largest sum beside that of its tile, from which on it is taken: 10 of 24 bits are
     * its own, or more. */
    float least_share;
    /* All channels of the pixels d, row by row; `to` has the points `step` floats apart. */
    void (*turn)(const float *const *d, uint64_t channels, float *to, uint64_t step);
    /* All filters of the points m, `step` floats apart. most[r] becomes the largest size of the sums of
     * result r, as bits, which have the order of what they are. */
    void (*turn_back)(const float *m, uint64_t step, uint64_t filters, const TileResults *to,
                      uint32_t *most);
} TileForm;

/* The forms for 3x3 taps, and that for so many in a line; NULL where there is none. */
const TileForm *tile_form_square(void);
const TileForm *tile_form_large_square(void);
const TileForm *tile_form_line(int64_t taps);

#endif
