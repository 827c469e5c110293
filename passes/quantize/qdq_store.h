// SPDX-License-Identifier: Apache-2.0
/* Weights and biases as integers behind a DequantizeLinear. */
#ifndef DEMI_QDQ_STORE_H
#define DEMI_QDQ_STORE_H

#include "qdq_plan.h"
#include "qdq_scale.h"

/* What the values that products read are quantized by: [value_count] of the plan; scale 0 where a
 * value is not. */
typedef struct QdqStore {
    PassCtx *ctx;
    const QdqPlan *plan;
    const QdqScale *scales;
} QdqStore;

/* Stores all weights of the plan, and the biases of products whose operands are all quantized.
 * Before values are rewired. ERR_ENV or ERR_MODEL where a constant can't be read. */
bool qdq_store_all(const QdqStore *store, Err *err);

#endif
