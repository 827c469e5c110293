// SPDX-License-Identifier: Apache-2.0
/* One initializer that several layers read, because an exporter or eliminate-common-subexpressions found that it has the
 * same values, becomes one for each of them, so that training can give them different ones.
 *
 * Nothing in a file says whether its author tied two layers. What is taken for a coincidence:
 *   - running statistics of two normalizations, always: each has its own batches;
 *   - a tensor that an initialization filled: all its elements are equal, or 16 and more are one of two
 *     numbers (a recurrent layer's bias that is 1 for its forget gate).
 * A tensor of other values that is read twice stays one, as a table does that is the last layer's
 * matrix, too. So does a filled one of a layer that the author calls twice: its readers are of one kind,
 * of different data, and the matrix that they read, or that is nearest before them, is one that is read
 * twice. */
#ifndef DEMI_TRAINING_TIES_H
#define DEMI_TRAINING_TIES_H

#include "gradient.h"
#include "training_moves.h"

/* An operand whose elements are, moved or not, those of an initializer. */
typedef struct TrainingPlace {
    Node *node;
    uint32_t operand;
    Value *source;
    bool statistic; /* a running one, which a normalization updates; else a parameter */
} TrainingPlace;

typedef VEC(TrainingPlace) TrainingPlaces;

/* What it is decided by. */
typedef struct TrainingTies {
    const TrainingPlaces *places;
    const GradientNodes *nodes; /* what the places are among, operands first */
    const bool *frozen;         /* by value: its parameters stay as they are, so tied */
} TrainingTies;

/* Gives readers initializers of their own. False where there was nothing to be done; else nodes may be
 * copies of those before, and places are to be looked for again. */
bool training_untie(PassCtx *ctx, const TrainingTies *ties);

/* True of a mask: what is added to scores so that they count for nothing, infinite or next to it. */
bool training_is_mask(const Tensor *tensor);

#endif
