// SPDX-License-Identifier: Apache-2.0
/* As what, and with which scales, a candidate stores weights: as insert-qdq does. */
#ifndef DEMI_WEIGHT_STORAGE_H
#define DEMI_WEIGHT_STORAGE_H

#include "candidate.h"
#include "measured_model.h"
#include "qdq_plan.h"

typedef struct WeightStorage {
    const QuantizedFormat *format; /* NULL: they stay in floating point */
    int32_t axis;                  /* of scales; -1: one for all */
    uint64_t block;                /* 0: a scale for each place along the axis */
} WeightStorage;

/* Of weights of a group. False where they cannot be what the candidate says. */
bool weight_storage_find(const MeasuredModel *model, const Value *weights,
                         const Candidate *candidate, WeightStorage *found);

/* Their type then: weights that cannot be what it says have none of it. */
Dtype weight_storage_type(const MeasuredModel *model, const Value *weights,
                          const Candidate *candidate);

#endif
