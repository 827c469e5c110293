// SPDX-License-Identifier: Apache-2.0
/* libdemi: training. A model with a training_info (ONNX's, or one that the pass make-training gave it)
 * is trained on arrays of samples, on the processor.
 *
 * A step is what ONNX defines: the model's graph and the algorithm's together, compiled as one plan; what
 * an update_binding names is handed from step to step without a copy. The algorithm's first output
 * is the loss. Gradients are expanded (expand-gradient), so plans of any numerics can be trained with.
 * Calls are as demi.h's: errors are values, no call exits or prints. */
#ifndef DEMI_TRAIN_H
#define DEMI_TRAIN_H

#include "demi.h"
#include "demi_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A step that was just made. */
typedef struct DemiTrainStep {
    uint32_t size;
    uint64_t step, steps; /* its number, from 1 on, those of a checkpoint counted; and of all */
    uint64_t epoch;       /* from 1 on */
    double loss;          /* before its update */
    double scale;         /* of the loss in the next step (scale-loss, dynamic); 0: none */
    double seconds;       /* since the first step of this call */
    double samples_per_second; /* of the steps of this call, all together */
} DemiTrainStep;

/* Returns false to end the training: what was trained by then is the model's, the call succeeds. */
typedef bool (*DemiTrainFn)(void *user, const DemiTrainStep *step);

/* The model has what `step` steps gave, its training_info too: written somewhere, it goes on from there
 * (demi_train of what is read again). Returns false where it can't be written, then the call ends with
 * DEMI_ERR_ENV. */
typedef bool (*DemiTrainSaveFn)(void *user, DemiModel *model, uint64_t step);

typedef struct DemiTrainOptions {
    uint32_t size;
    const char *const *names; /* [data_count]: inputs of the model or of its algorithm */
    const DemiData *data; /* [data_count]: tensors whose first axis is samples, as many in each; the
                             others are the input's. Floats and integers become the input's type */
    size_t data_count;
    uint64_t steps;  /* all together, those of a checkpoint counted; 0: as `epochs` says */
    uint64_t epochs; /* 0, where there are no steps either: 1 */
    uint64_t batch;  /* samples of a step; 0: as the model says, else 32. What is left of an epoch
                        is not used in it */
    uint64_t seed;   /* of the order of samples, which differs from epoch to epoch */
    bool in_order;   /* samples are in the order of the data */
    const double *rate; /* replaces the initializer 'learning_rate'; NULL: as it is */
    const DemiCompileOptions *compile; /* of steps; NULL: the defaults */
    const DemiContextOptions *context;
    DemiTrainFn progress; /* called in the calling thread; may be NULL */
    void *progress_user;
    uint64_t every; /* steps from one call of `save` to the next; 0: none but the last */
    DemiTrainSaveFn
        save; /* called after the last step, too, and where `progress` ends it; NULL: none */
    void *save_user;
} DemiTrainOptions;

#define DEMI_TRAIN_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(DemiTrainOptions), NULL, NULL, 0, 0, 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL,  \
            0, NULL, NULL                                                                          \
    }

/* What a training came to. */
typedef struct DemiTrained {
    uint32_t size;
    uint64_t steps; /* made by now, those of a checkpoint counted */
    double loss;    /* of the last step; NaN where this call made none */
    double seconds; /* of this call's steps */
    double samples_per_second;
    bool ended_early; /* by `progress` */
} DemiTrained;

#define DEMI_TRAINED_INIT                                                                          \
    { sizeof(DemiTrained), 0, 0.0, 0.0, 0.0, false }

/* Trains the model, whose initializers are afterwards what the steps made of them. How many steps it
 * has behind it is in its metadata (demi.training.steps): the same data, seed and batch give the same
 * bits, trained at once or in parts. On error the model is as the last `save` saw it, or as it was.
 *
 * DEMI_ERR_USAGE where data are missing, are no samples or do not fit; DEMI_ERR_MODEL where the model has
 * no training_info or it is none of this kind, where something has no gradient, where a run fails
 * (a label beyond the classes) or a loss is not finite, which is said with its step. `trained` may be
 * NULL. */
DEMI_API DemiStatus demi_train(DemiModel *model, const DemiTrainOptions *options,
                               DemiTrained *trained, DemiError *error);

#ifdef __cplusplus
}
#endif
#endif
