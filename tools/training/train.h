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
    void *kept;          /* bytes of some step before, train_keep's; NULL: not yet */
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
    uint64_t saved_at;     /* the model has what so many steps gave */
    uint64_t kept_at;      /* and `kept`; 0: nothing is kept */
} Train;

/* An output of a plan that shows gradients. */
typedef struct GradientShown {
    const char *of; /* the parameter */
    size_t output;
} GradientShown;

typedef struct GradientsShown {
    Arena *arena;
    VEC(GradientShown) list; /* about as they are computed */
} GradientsShown;

/* ---- train_step.c ---------------------------------------------------------------------------- */

/* Compiles all trainings' step, whose updates are carried from run to run, and knows which of its
 * outputs are losses. ERR_MODEL where something is missing or has no gradient. */
bool train_open_step(Train *train, Err *err);

/* The same step once more, whose gradients are outputs, too; NULL with the error set. */
Session *train_open_shown(Train *train, GradientsShown *shown, Err *err);

/* Inputs are the batches' memory. */
bool train_borrow_batches(const Train *train, const Session *session, Err *err);

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

/* All that is updated, of the model as it is before its first step, and as the last step left it:
 * ERR_MODEL where a number is not finite. */
bool train_check_first(const Train *train, Err *err);
bool train_check(Train *train, uint64_t steps, Err *err);

/* How many of the floats are infinite or NaN. */
uint64_t train_count_not_finite(Dtype dtype, const void *data, uint64_t size);

/* A tensor output's bytes for an initializer of that type and size; NULL with the error set. */
const void *train_output_bytes(const Session *session, const Updated *updated, Err *err);

/* ---- train_gradient.c ------------------------------------------------------------------------ */

/* Keeps what steps left, where that was neither saved nor kept for long, after a check. */
bool train_keep(Train *train, uint64_t steps, Err *err);

/* Behind an error about what `steps` steps left, or about the loss of the next one: makes steps again from
 * what was kept last, and adds to the error which gradient was the first that was not finite, if any
 * was. Returns false. Ends the session. */
bool train_find_gradient(Train *train, uint64_t steps, Err *err);

#endif
