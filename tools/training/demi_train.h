// SPDX-License-Identifier: Apache-2.0
/* libdemi's training: trains a model that has a training_info (ONNX's, or one from
 * demi_make_training) on arrays of samples, on the CPU.
 *
 * A step is what ONNX defines: the graph of the model and that of the algorithm, compiled as one
 * plan. What an update_binding names is carried from step to step without a copy. The first output
 * of the algorithm is the loss. If there are several training_infos, a step is one of each, in
 * their order, with one loss each. Before the first step, an initialization computes the initial
 * values of initializers. Gradients are expanded (expand-gradient), so plans of any numerics can
 * train.
 *
 * The conventions are those of demi.h: errors are values, and no call exits or prints. */
#ifndef DEMI_TRAIN_H
#define DEMI_TRAIN_H

#include "demi.h"
#include "demi_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- making a training ----------------------------------------------------------------------- */

typedef enum DemiLoss {
    /* Cross-entropy of class indices: int64, with the shape of the scores without their class
     * axis. */
    DEMI_LOSS_CROSS_ENTROPY = 0,
    DEMI_LOSS_MSE = 1, /* the mean squared error */
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
    double rate; /* learning rate: the initializer 'learning_rate', which demi_train can replace */
    double momentum; /* only for DEMI_OPTIMIZER_MOMENTUM */
    double decay;    /* weight decay: the share of a parameter that is added to its gradient */
    double scale;    /* loss scaling, for training in float16: a number from 1 to 2^24; 0: none */
    bool dynamic_scale; /* instead, adjust the scale during training */
    const char *output; /* the output to compute the loss from; NULL: the model has only one */
    const char *const *freeze; /* [freeze_count] parameters that are not trained */
    size_t freeze_count;
    bool decompose; /* decompose the optimizer into standard operators (decompose-optimizer) */
    const DemiRunOptions *run; /* NULL: the defaults */
} DemiTrainingOptions;

#define DEMI_TRAINING_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(DemiTrainingOptions), DEMI_LOSS_CROSS_ENTROPY, DEMI_OPTIMIZER_SGD, 0.01, 0.9, 0, 0, \
            false, NULL, NULL, 0, false, NULL                                                      \
    }

/* Adds a training_info to an inference model: a loss, its Gradient with respect to all parameters,
 * and an optimizer (the passes make-training and scale-loss). If the model's opset precedes the one
 * in which batch normalization got a training mode, the opset is raised. `options` may be NULL. The
 * report's remarks say how many tensors and elements are trained, and which are not and why.
 * *report, and the state of the model after an error, are as for demi_run_pipeline.
 * Errors: DEMI_ERR_USAGE if an option is wrong; DEMI_ERR_MODEL if the model already has a
 * training_info, has no parameters, or has no output that the loss can be computed from. */
DEMI_API DemiStatus demi_make_training(DemiModel *model, const DemiTrainingOptions *options,
                                       DemiReport **report, DemiError *error);

/* ---- training -------------------------------------------------------------------------------- */

/* A step that was just completed. */
typedef struct DemiTrainStep {
    uint32_t size;
    uint64_t step,
        steps;      /* its number, from 1 on, and the total; both count those of a checkpoint */
    uint64_t epoch; /* from 1 on */
    double loss;    /* of the first training_info, before the update of this step */
    double scale;   /* loss scale of the next step (scale-loss, dynamic); 0: none */
    double seconds; /* since the first step of this call */
    double samples_per_second; /* over all steps of this call */
    const double *losses;      /* [loss_count] of each training_info */
    size_t loss_count;
} DemiTrainStep;

/* Return false to end the training: the model keeps what was trained by then, and the call
 * succeeds. */
typedef bool (*DemiTrainFn)(void *user, const DemiTrainStep *step);

/* Saves the model, which has the result of `step` steps and its training_info: training can
 * continue from there, by demi_train on the model that was read back. Return false if it cannot be
 * written; the call then ends with DEMI_ERR_ENV. */
typedef bool (*DemiTrainSaveFn)(void *user, DemiModel *model, uint64_t step);

typedef struct DemiTrainOptions {
    uint32_t size;
    const char *const *names; /* [data_count] inputs of the model or of its algorithm */
    /* [data_count] tensors whose first axis is samples, the same number in each; the other axes are
     * those of the input. Floats and integers are converted to the type of the input. */
    const DemiData *data;
    size_t data_count;
    uint64_t steps;  /* in total, including those of a checkpoint; 0: as `epochs` says */
    uint64_t epochs; /* 0: 1, if `steps` is also 0 */
    /* Samples per step; 0: as the model says, otherwise 32. An incomplete batch at the end of an
     * epoch is not used. */
    uint64_t batch;
    /* Seed of the order of samples, which differs between epochs; of an initialization; and of
     * dropout and similar operators, which differ between steps. */
    uint64_t seed;
    bool in_order;      /* use samples in the order of the data */
    const double *rate; /* replaces each initializer 'learning_rate'; NULL: keep it */
    const DemiCompileOptions *compile; /* of steps; NULL: the defaults */
    const DemiContextOptions *context;
    DemiTrainFn progress; /* runs in the calling thread; may be NULL */
    void *progress_user;
    uint64_t every; /* steps between calls of `save`; 0: only after the last step */
    /* Also called after the last step, and if `progress` ends the training; NULL: none. */
    DemiTrainSaveFn save;
    void *save_user;
    bool keep_weights; /* skip the initialization: start from the model's weights */
} DemiTrainOptions;

#define DEMI_TRAIN_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(DemiTrainOptions), NULL, NULL, 0, 0, 0, 0, 0, false, NULL, NULL, NULL, NULL, NULL,  \
            0, NULL, NULL, false                                                                   \
    }

/* The result of a training. */
typedef struct DemiTrained {
    uint32_t size;
    uint64_t steps; /* completed by now, including those of a checkpoint */
    double loss; /* of the last step and the first training_info; NaN if this call made no step */
    double seconds; /* of the steps of this call */
    double samples_per_second;
    bool ended_early; /* by `progress` */
} DemiTrained;

#define DEMI_TRAINED_INIT                                                                          \
    { sizeof(DemiTrained), 0, 0.0, 0.0, 0.0, false }

/* Trains the model: afterward, its initializers have the result of the steps. Its metadata
 * (demi.training.steps) records how many steps it has completed; a model that has completed some is
 * not initialized. The same data, seed, and batch size give the same bits, whether trained at once
 * or in parts. On error, the model is as the last `save` saw it, or as it was. `trained` may be
 * NULL.
 *
 * Errors: DEMI_ERR_USAGE if data is missing, is not samples, or does not fit; DEMI_ERR_MODEL if the
 * model has no training_info or one of a different kind, if an operator has no gradient, or if a
 * run fails (such as a label beyond the classes). DEMI_ERR_MODEL also if a loss or an updated value
 * is not finite: this error says which, and names the first gradient that was not finite; to find
 * it, up to 100 steps are run again. */
DEMI_API DemiStatus demi_train(DemiModel *model, const DemiTrainOptions *options,
                               DemiTrained *trained, DemiError *error);

#ifdef __cplusplus
}
#endif
#endif
