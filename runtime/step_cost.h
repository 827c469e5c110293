// SPDX-License-Identifier: Apache-2.0
/* What a step has to move and compute, from the shapes it ran on: a profile's roofline columns. */
#ifndef DEMI_STEP_COST_H
#define DEMI_STEP_COST_H

#include "demi_runtime.h"

typedef struct StepCost {
    double bytes; /* of all its operands and results, each once */
    double flops; /* of convolutions, matrix products, attention and recurrent layers, an addition
                     and a multiplication as two; 0 for all others */
} StepCost;

StepCost step_cost(const DemiStep *step);

#endif
