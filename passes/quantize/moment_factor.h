// SPDX-License-Identifier: Apache-2.0
/* How an error of one weight is made up for by others, from second moments of what weights multiply.
 *
 * Where x are the inputs of a product and H = sum of x x^T over all of them, an error e of a channel's weights
 * costs e^T H e: the sum of the squared errors of its results. With H = L D L^T, L being lower triangular with
 * 1 on its diagonal, that is the sum over b of D_b (e_b + sum over a > b of e_a L_ab)^2. So weights are rounded
 * from the last to the first, each after what the errors of those before it add, which leaves the least that
 * rounding one by one can (Frantar et al., "GPTQ", 2022; in this form, without the inverse of H, Chee et al.,
 * "QuIP", 2023). */
#ifndef DEMI_MOMENT_FACTOR_H
#define DEMI_MOMENT_FACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "workers.h"

/* Places that are rounded one after the other: of a block that has scales of its own, or all. */
typedef struct MomentRun {
    uint64_t first, count; /* ranks */
    uint64_t block;        /* its number along the weights' axis */
} MomentRun;

typedef struct MomentFactor {
    uint64_t size, block;
    uint32_t *
        places; /* [size]: the place along the summed axis that has a rank; the last rank is the first to be
                          rounded. Within a run, and of runs, what multiplies larger inputs comes first */
    MomentRun *runs; /* [run_count], by rank; the last is the first to be rounded */
    uint64_t run_count;
    float *gains;     /* [size][size]: L_ab of ranks a > b; the rest means nothing */
    float *moments;   /* the same: H, by ranks */
    double *pivots;   /* [size]: D */
    double *dampings; /* [size]: by rank, what H's diagonal was raised by before it was factored */
    double shrinking; /* the part of it that this is of each element, beside the same for all */
} MomentFactor;

typedef struct MomentSizes {
    uint64_t size;
    uint64_t block;   /* places of one; 0: one run of all */
    uint64_t vectors; /* that the moments are of: the fewer, the more their diagonal is raised */
} MomentSizes;

/* Factors [size][size] moments, which are symmetric. The result lies in `arena`. False, and no runs, where nothing
 * can be made of them: all are 0, or some are not finite. */
bool moment_factor_find(MomentFactor *factor, const float *moments, MomentSizes sizes,
                        Workers *workers, Arena *arena);

#endif
