// SPDX-License-Identifier: Apache-2.0
/* Rounding of weights so that what a product gives changes the least: one place along the summed axis after the
 * other, where what rounding does to one is made up for by those that come later (moment_factor.h). */
#ifndef DEMI_GPTQ_H
#define DEMI_GPTQ_H

#include "dtype.h"
#include "moment_factor.h"
#include "tensor.h"

/* Weights of a product, [size][channels], or [channels][size] where `turned`, and what they are stored as. */
typedef struct GptqWeights {
    const Tensor *tensor;     /* float32 or a reduced type, finite; of `all` channels */
    uint64_t size, all;       /* places that are summed over */
    uint64_t first, channels; /* which channels these are */
    bool turned;
    uint64_t
        block; /* scales are of so many places along the summed axis, as QdqWeights has them; 0: of a channel */
    Dtype dtype;          /* of 8 bits or less */
    Dtype floats, stored; /* of the scales, as QdqWeights has it */
    float whole;          /* the same */
    /* As qdq_scale.h finds and stores them, rounded to nearest. Channels for which that costs more get other numbers;
     * scales of channels stay, and those of blocks become what fits the weights when they are rounded. */
    float *scales;
    uint8_t *zeros;
    unsigned char *bytes;
} GptqWeights;

/* What rounding costs: the sum of the squared errors of the product's results, over all inputs that the moments are of.
 */
typedef struct GptqCost {
    double nearest, chosen;
} GptqCost;

/* `factor`: of the moments of what these weights multiply, by the same blocks. False where weights can't be read. */
bool gptq_round(const GptqWeights *weights, const MomentFactor *factor, Workers *workers,
                GptqCost *cost, Arena *scratch, Err *err);

#endif
