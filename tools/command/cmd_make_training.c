// SPDX-License-Identifier: Apache-2.0
/* demi make-training: gives a model what 'demi train' trains it by; the library makes it (demi_train.h). */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "console.h"
#include "demi_train.h"
#include "outputs.h"
#include "report_out.h"
#include "run_options.h"

static const ArgumentRow arguments[] = {
    {"IN", "The model for inference: an ONNX file, text (.onnxtxt), or '-'."},
    {"OUT", "The model with a training_info to write; or use -o OUT. '-' is standard output."},
    {NULL, NULL},
};

/* Choices are in the order of the numbers that they stand for. */
static const OptionRow options[] = {
    {"output", 'o', OPTION_ROW_VALUE, "OUT", NULL, "The model with a training_info to write."},
    OPTION_PLACE,
    {"loss", 0, OPTION_ROW_VALUE, "LOSS", "cross-entropy mse",
     "Loss: cross-entropy of class indices (default), or mse, the mean squared error."},
    {"of", 0, OPTION_ROW_VALUE, "NAME", NULL,
     "The output to compute the loss from, if the model has several."},
    {"optimizer", 0, OPTION_ROW_VALUE, "NAME", "sgd momentum adam adagrad",
     "Optimizer: sgd (default), momentum, adam, or adagrad."},
    {"rate", 0, OPTION_ROW_VALUE, "R", NULL, "Learning rate (default 0.01)."},
    {"momentum", 0, OPTION_ROW_VALUE, "M", NULL, "Momentum of --optimizer momentum (default 0.9)."},
    {"decay", 0, OPTION_ROW_VALUE, "D", NULL,
     "Weight decay: the share of a parameter that is added to its gradient (default 0)."},
    {"freeze", 0, OPTION_ROW_LIST, "NAME", NULL,
     "A parameter that is not trained; may be repeated."},
    {"scale", 0, OPTION_ROW_VALUE, "S", NULL,
     "Loss scaling, for training in float16: 'dynamic', adjusted during training, or a number."},
    {"decompose", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Decompose the optimizer into standard operators, which any runtime has."},
    OPTION_QUIET,
    OPTION_DATA_ROOT,
    OPTION_HARDLINKS,
    OPTION_CHECKS,
    OPTION_HELP,
    OPTION_FORMER("spelled", "decompose"),
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

static bool take_scale(const Parsed *parsed, DemiTrainingOptions *how, Err *err) {
    const char *scale = parsed_value(parsed, "scale");
    how->dynamic_scale = scale && strcmp(scale, "dynamic") == 0;
    return how->dynamic_scale || parsed_real(parsed, "scale", &how->scale, 0, err);
}

static bool take_options(const Parsed *parsed, DemiTrainingOptions *how, Err *err) {
    const Words *freeze = parsed_list(parsed, "freeze");
    how->loss = (DemiLoss)parsed_choice(parsed, "loss");
    how->optimizer = (DemiOptimizer)parsed_choice(parsed, "optimizer");
    how->output = parsed_value(parsed, "of");
    how->freeze = freeze->items;
    how->freeze_count = freeze->count;
    how->decompose = parsed_flag(parsed, "decompose");
    return parsed_real(parsed, "rate", &how->rate, how->rate, err) &&
           parsed_real(parsed, "momentum", &how->momentum, how->momentum, err) &&
           parsed_real(parsed, "decay", &how->decay, how->decay, err) &&
           take_scale(parsed, how, err);
}

static bool make(Program *program, const Parsed *parsed, const char *output, OutFile *file,
                 DemiModel *model, Err *err) {
    const bool to_stdout = strcmp(output, "-") == 0;
    DemiTrainingOptions how = DEMI_TRAINING_OPTIONS_INIT;
    DemiRunOptions run = DEMI_RUN_OPTIONS_INIT;
    DemiError error = DEMI_ERROR_INIT;
    DemiReport *report = NULL;
    ModelSave *save = NULL;
    if (!take_options(parsed, &how, err)) return false;
    run.verify_each = parsed_flag(parsed, "verify-each");
    run.unchecked = parsed_flag(parsed, "no-check");
    how.run = &run;
    const DemiStatus status = demi_make_training(model, &how, &report, &error);
    bool ok = error_take(err, status, &error);
    if (!ok && err->code != ERR_USAGE) err_file(err, parsed_argument(parsed, 0));
    ok = ok && console_write_model(program, model, file, &save, err) &&
         outputs_commit(program, save, err);
    if (ok && !parsed_flag(parsed, "quiet"))
        report_print_remarks(report, to_stdout ? stderr : stdout);
    demi_report_free(report);
    return ok;
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    const char *input = parsed_argument(parsed, 0), *second = parsed_argument(parsed, 1);
    const char *output = parsed_value(parsed, "output");
    DemiModel *model = NULL;
    if (!input) return console_missing(parsed, "a model to read", err);
    if (output && second)
        return err_set(err, ERR_USAGE, "two outputs: '%s' and '%s'", second, output);
    if (!output) output = second;
    if (!output) return console_missing(parsed, "an output file: -o OUT", err);
    OutFile *file = console_open_model(program, output, err);
    const bool ok = file && console_load(program, parsed, input, &model, err) &&
                    make(program, parsed, output, file, model, err);
    demi_free(model);
    return ok;
}

const Command command_make_training = {
    .name = "make-training",
    .summary = "add a loss, its gradient, and an optimizer to a model",
    .usage = "IN [-o] OUT [OPTIONS]",
    .about =
        "Adds a training_info, as ONNX defines it, for 'demi train': a loss of an output and of "
        "the input 'labels', its Gradient with respect to all parameters, and an optimizer. "
        "Parameters are floating-point initializers that products, normalizations, recurrent "
        "layers, embedding tables, and sums read, directly or through nodes that only move data "
        "(Transpose, Slice, Concat, ...). Layers that share a tensor only because they began with "
        "the same constant get their own. demi prints what is "
        "trained, and what is not and why. Calls to the model's own functions are inlined first. A "
        "final Softmax becomes part of the loss. BatchNormalization and Dropout run in training "
        "mode. The inference graph is not changed; its opset is raised if it has no training "
        "mode.\n\n'demi show' prints what a training step reads and updates. For mixed-precision "
        "training, convert the result; for float16, also use --scale dynamic.",
    .examples = "demi make-training model.onnx --optimizer adam --rate 0.001 -o train.onnx\n"
                "demi train train.onnx -o trained.onnx --data samples.npz --epochs 10\n"
                "# in float16\n"
                "demi make-training model.onnx --scale dynamic -o scaled.onnx\n"
                "demi convert scaled.onnx -o train.fp16.onnx\n",
    .arguments = arguments,
    .options = options,
    .common = "output loss optimizer rate scale help",
    .run = run,
};
