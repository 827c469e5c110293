// SPDX-License-Identifier: Apache-2.0
/* A model made ready for measuring what its groups' precisions do: types exact, and each weight of a
 * group handed on by an Identity of its own to the products that read it, so that a replay
 * (runtime/replay.h) can change it. Its values are the model's own. */
#ifndef DEMI_MEASURED_MODEL_H
#define DEMI_MEASURED_MODEL_H

#include "groups.h"
#include "qdq_plan.h"

/* What the weights are called behind their Identity, by value number; NULL of others. */
typedef struct MeasuredModel {
    Groups groups;
    const char **handed_on;  /* [value_count] */
    const GroupWork **works; /* [value_count]: a weight's first */
    uint32_t value_count;
    const QdqRequest *request; /* how what is quantized is stored */
} MeasuredModel;

/* What a group's value or weight is called where it may be changed. */
static inline const char *measured_name(const MeasuredModel *model, const Value *value) {
    const char *name = model->handed_on[value->id];
    return name ? name : value->name->text;
}

/* Changes the model, whose types are exact, so; names and groups lie in `arena`, and point into the
 * model. */
void measured_model_make(MeasuredModel *made, Model *model, Arena *arena);

#endif
