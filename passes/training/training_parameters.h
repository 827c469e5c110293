// SPDX-License-Identifier: Apache-2.0
/* Which initializers of a model are its parameters: what training is to change. */
#ifndef DEMI_TRAINING_PARAMETERS_H
#define DEMI_TRAINING_PARAMETERS_H

#include "pass.h"

typedef VEC(Value *) TrainingParameters;

typedef struct TrainingAsk {
    Value *of;                 /* what is trained: all parameters that it is computed from */
    const PassStrings *freeze; /* names that are left out */
} TrainingAsk;

/* In the order in which their readers are computed; also such as readers have by way of nodes that move
 * data (training_moves.h), but none that no gradient reaches. Layers that share one by chance get their
 * own (training_ties.h), as do normalizations their running statistics. Remarks tell what is trained, and
 * what is not and why. Those of branches and bodies move to the model's
 * graph, by their name where it is nobody else's, Constant nodes among them; outside of these Constant
 * nodes become initializers where there is no other parameter, as some exporters keep all weights in
 * them. Of float or double: a
 * parameter in 16 bit is an error, as is a name to be left out that is none's, and a model that has no
 * parameters. */
bool training_parameters(PassCtx *ctx, const TrainingAsk *ask, TrainingParameters *parameters,
                         Err *err);

#endif
