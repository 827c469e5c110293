// SPDX-License-Identifier: Apache-2.0
/* Weights and biases as integers behind a DequantizeLinear. */
#ifndef DEMI_QDQ_STORE_H
#define DEMI_QDQ_STORE_H

#include "qdq_plan.h"
#include "qdq_scale.h"

typedef struct QdqGroup QdqGroup;

/* `ctx`, `plan`, `scales` and `on_data` are set: of the last, what the values that products read are quantized by,
 * [value_count] of the plan; scale 0 where a value is not. */
typedef struct QdqStore {
    PassCtx *ctx;
    const QdqPlan *plan;
    const QdqScale *scales;
    bool on_data; /* weights are rounded on the context's data (qdq_rounding.h) */
    /* found: constants, each as one way of storing it has it */
    QdqGroup *groups;
    size_t count;
    bool sound; /* all are finite; else nothing can be put */
} QdqStore;

/* Reads all weights of the plan and finds what they become, which changes nothing yet. broken[id] of the
 * value becomes true where one is not finite. ERR_ENV or ERR_MODEL where a constant can't be read. */
bool qdq_store_read(QdqStore *store, bool *broken, Err *err);

/* Stores them, and the biases of products whose operands are all quantized. Before values are
 * rewired. */
void qdq_store_put(const QdqStore *store);

#endif
