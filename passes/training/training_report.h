// SPDX-License-Identifier: Apache-2.0
/* What of a model is trained, and what is not, and why: remarks of make-training. */
#ifndef DEMI_TRAINING_REPORT_H
#define DEMI_TRAINING_REPORT_H

#include "training_ties.h"

/* Which values something flows back to from what is trained. By value, of those that there were. */
typedef struct TrainingReach {
    bool *reached;
    const Node **stopped; /* what lets nothing through to the value, where it is not reached */
} TrainingReach;

TrainingReach training_reach(PassCtx *ctx, Value *of);

typedef struct TrainingReport {
    const Value *of;
    const TrainingPlaces *places;
    const GradientNodes *nodes; /* what `of` is computed by */
    const TrainingReach *reach;
    const bool *trained, *frozen; /* by value */
    size_t value_count;           /* of the arrays */
} TrainingReport;

/* One remark for what is trained, and one for each reason why something is not. */
void training_tell(PassCtx *ctx, const TrainingReport *report);

#endif
