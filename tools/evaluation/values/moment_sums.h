// SPDX-License-Identifier: Apache-2.0
/* Second moments of vectors: sums of x_a x_b, added up tile by tile, by several threads, each tile in the order in
 * which vectors come, so that no bit depends on the threads. */
#ifndef DEMI_MOMENT_SUMS_H
#define DEMI_MOMENT_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "workers.h"

/* Of vectors of `groups` times `size` numbers, each group by itself. */
typedef struct MomentSums {
    uint64_t groups, size;
    float *sums; /* [groups][size][size]: the lower triangles, until moment_sums_end */
    uint64_t vectors;
} MomentSums;

/* Adds `count` vectors, one after the other. */
void moment_sums_add(MomentSums *sums, const float *vectors, uint64_t count, Workers *workers);

/* Fills the upper triangles; nothing is added afterwards. */
void moment_sums_end(const MomentSums *sums);

#endif
