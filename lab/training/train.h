// SPDX-License-Identifier: Apache-2.0
/* A training that runs, for this folder alone: its state, and what its files do for each other. */
#ifndef DEMI_TRAIN_STATE_H
#define DEMI_TRAIN_STATE_H

#include "batches.h"
#include "demi_train.h"
#include "graph.h"
#include "session.h"

/* What a binding gives. */
typedef struct Updated {
    Value *value;        /* of the caller's model: an initializer */
    size_t output;       /* of the plan that computes it */
    Tensor *tensor;      /* of `value` from the first save on; NULL before */
    const Tensor *first; /* what `value` was before an initialization; NULL: that gave it nothing */
    const void *now;     /* the output's bytes; while a save lasts */
    uint64_t size;
} Updated;

typedef VEC(Updated) UpdatedList;

typedef struct Train {
    DemiModel *handle;
    Model *model;
    DemiTrainOptions options;
    SessionOptions how;
    DemiTrained trained;
    Arena *arena;
    Session *session; /* of steps */
    Batches batches;
    UpdatedList updated, initialized;
    size_t *losses_at; /* [loss_count]: outputs of the step */
    double *losses;    /* [loss_count] */
    size_t loss_count;
    uint64_t first, steps; /* of this call: steps [first, steps) */
    double scale;          /* as DemiTrainStep has it */
    const char *run;       /* what decides which samples a step has; NULL: not asked for yet */
    bool saved;            /* since the call began */
} Train;

/* ---- train_step.c ---------------------------------------------------------------------------- */

/* Compiles all trainings' step, whose updates are carried from run to run, and knows which of its
 * outputs are losses. ERR_MODEL where something is missing or has no gradient. */
bool train_open_step(Train *train, Err *err);

/* Runs all initializations, where the model has any: initializers are what they give, until
 * train_take_back. */
bool train_initialize(Train *train, Err *err);
/* After a failure before the first save. */
void train_take_back(Train *train);

/* Random operators of a step draw the same numbers whichever call makes it. Step UINT64_MAX: of an
 * initialization. */
uint64_t train_step_seed(const Train *train, uint64_t step);

/* ---- train_save.c ---------------------------------------------------------------------------- */

/* How many steps the model has behind it. */
uint64_t train_steps_behind(const Train *train);

/* Which steps are to be made, once the data are known. ERR_USAGE where those before were of others.
 */
bool train_find_place(Train *train, Err *err);

/* The model becomes what `steps` steps made of it, and the caller's `save` gets it. */
bool train_save(Train *train, uint64_t steps, Err *err);

/* A tensor output's bytes for an initializer of that type and size; NULL with the error set. */
const void *train_output_bytes(const Session *session, const Updated *updated, Err *err);

#endif
