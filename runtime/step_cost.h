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

/* What DemiStep's field says; attrs: as the step's kernels have them (kernel.h), of demi's own
 * attention, or NULL. */
double step_multiplications(const DemiStep *step, const void *attrs);

StepCost step_cost(const DemiStep *step);

/* Of a value's elements; of all that a sequence has. */
double step_value_bytes(const DemiData *value);

#endif
