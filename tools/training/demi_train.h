// SPDX-License-Identifier: Apache-2.0
/* libdemi: training. A model with a training_info (ONNX's, or one that demi_make_training gave it) is
 * trained on arrays of samples, on the processor.
 *
 * A step is what ONNX defines: the model's graph and the algorithm's together, compiled as one plan; what
 * an update_binding names is handed from step to step without a copy. The algorithm's first output
 * is the loss; of several trainings a step is one of each, in their order, with a loss of each. Before
 * the first step an initialization gives initializers what it computes. Gradients are expanded
 * (expand-gradient), so plans of any numerics can be trained with.
 * Calls are as demi.h's: errors are values, no call exits or prints. */
#ifndef DEMI_TRAIN_H
#define DEMI_TRAIN_H

#include "demi.h"
#include "demi_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- making a training ----------------------------------------------------------------------- */

typedef enum DemiLoss {
    DEMI_LOSS_CROSS_ENTROPY =
        0,             /* of classes' numbers, int64, of the scores' shape without their axis */
    DEMI_LOSS_MSE = 1, /* the mean of squared differences */
} DemiLoss;

typedef enum DemiOptimizer {
    DEMI_OPTIMIZER_SGD = 0,
    DEMI_OPTIMIZER_MOMENTUM = 1,
    DEMI_OPTIMIZER_ADAM = 2,
    DEMI_OPTIMIZER_ADAGRAD = 3,
} DemiOptimizer;

typedef struct DemiTrainingOptions {
    uint32_t size;
    DemiLoss loss;
    DemiOptimizer optimizer;
    double rate;        /* an initializer, 'learning_rate', which demi_train can replace */
    double momentum;    /* of DEMI_OPTIMIZER_MOMENTUM alone */
    double decay;       /* how much of a parameter is added to its gradient */
    double scale;       /* of the loss, for training in float16: a number from 1 to 2^24; 0: none */
    bool dynamic_scale; /* or one that is found while training */
    const char *output; /* that the loss is of; NULL: the model has one */
    const char *const *freeze; /* [freeze_count]: parameters that stay as they are */
    size_t freeze_count;
    bool decompose; /* the optimizer in operators that any runtime has (decompose-optimizer) */
    const DemiRunOptions *run; /* NULL: defaults */
} DemiTrainingOptions;

#define DEMI_TRAINING_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(DemiTrainingOptions), DEMI_LOSS_CROSS_ENTROPY, DEMI_OPTIMIZER_SGD, 0.01, 0.9, 0, 0, \
            false, NULL, NULL, 0, false, NULL                                                      \
    }

/* Gives a model for inference a training_info: a loss, its Gradient with respect to all parameters and
 * an optimizer (the pass make-training, and scale-loss). A model of an opset before batch
 * normalizations had a mode for training is raised to a later one. `options` may be NULL.
 * DEMI_ERR_USAGE where an option is wrong; DEMI_ERR_MODEL where the model has a training_info, or no
 * parameters, or no output that the loss can be of. The report's remarks tell how many tensors and
 * elements are trained, and which are not and why. *report, and what the model is good for after an
 * error, as for demi_run_pipeline. */
DEMI_API DemiStatus demi_make_training(DemiModel *model, const DemiTrainingOptions *options,
                                       DemiReport **report, DemiError *error);

/* ---- training -------------------------------------------------------------------------------- */

/* A step that was just made. */
typedef struct DemiTrainStep {
    uint32_t size;
    uint64_t step, steps; /* its number, from 1 on, those of a checkpoint counted; and of all */
    uint64_t epoch;       /* from 1 on */
    double loss;          /* before its update; of the first training */
    double scale;         /* of the loss in the next step (scale-loss, dynamic); 0: none */
    double seconds;       /* since the first step of this call */
    double samples_per_second; /* of the steps of this call, all together */
    const double *losses;      /* [loss_count]: of each training */
    size_t loss_count;
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
    uint64_t seed;   /* of the order of samples, which differs from epoch to epoch, of an
                        initialization, and of dropouts and the like, which differ from step to step */
    bool in_order;   /* samples are in the order of the data */
    const double *rate; /* replaces each initializer 'learning_rate'; NULL: as it is */
    const DemiCompileOptions *compile; /* of steps; NULL: the defaults */
    const DemiContextOptions *context;
    DemiTrainFn progress; /* called in the calling thread; may be NULL */
    void *progress_user;
    uint64_t every; /* steps from one call of `save` to the next; 0: none but the last */
    DemiTrainSaveFn
        save; /* called after the last step, too, and where `progress` ends it; NULL: none */
    void *save_user;
    bool keep_weights; /* no initialization is run: the model's weights are where it begins */
} DemiTrainOptions;

#define DEMI_TRAIN_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(DemiTrainOptions), NULL, NULL, 0, 0, 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL,  \
            0, NULL, NULL, false                                                                   \
    }

/* What a training came to. */
typedef struct DemiTrained {
    uint32_t size;
    uint64_t steps; /* made by now, those of a checkpoint counted */
    double loss;    /* of the last step, of the first training; NaN where this call made none */
    double seconds; /* of this call's steps */
    double samples_per_second;
    bool ended_early; /* by `progress` */
} DemiTrained;

#define DEMI_TRAINED_INIT                                                                          \
    { sizeof(DemiTrained), 0, 0.0, 0.0, 0.0, false }

/* Trains the model, whose initializers are afterwards what the steps made of them. How many steps it
 * has behind it is in its metadata (demi.training.steps): the same data, seed and batch give the same
 * bits, trained at once or in parts; one that has some is not initialized. On error the model is as
 * the last `save` saw it, or as it was.
 *
 * DEMI_ERR_USAGE where data are missing, are no samples or do not fit; DEMI_ERR_MODEL where the model has
 * no training_info or it is none of this kind, where something has no gradient, where a run fails
 * (a label beyond the classes) or a loss or what a step updates is not finite: the error says which,
 * and names the first gradient that was not, for which up to 100 steps are run again. `trained` may be NULL. */
DEMI_API DemiStatus demi_train(DemiModel *model, const DemiTrainOptions *options,
                               DemiTrained *trained, DemiError *error);

#ifdef __cplusplus
}
#endif
#endif
