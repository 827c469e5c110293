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
    {"IN", "The model, as it is for inference: an ONNX file, text (.onnxtxt), or '-'."},
    {"OUT", "Where the model with a training_info goes; or -o OUT. '-' is standard output."},
    {NULL, NULL},
};

/* Choices are in the order of the numbers that they stand for. */
static const OptionRow options[] = {
    {"output", 'o', OPTION_ROW_VALUE, "OUT", NULL, "Where the model with a training_info goes."},
    OPTION_PLACE,
    {"loss", 0, OPTION_ROW_VALUE, "LOSS", "cross-entropy mse",
     "cross-entropy (the default) of classes' numbers, or mse, the mean of squared differences."},
    {"of", 0, OPTION_ROW_VALUE, "NAME", NULL,
     "The model's output that the loss is of, where it has several."},
    {"optimizer", 0, OPTION_ROW_VALUE, "NAME", "sgd momentum adam adagrad",
     "How parameters follow their gradients: sgd (the default), momentum, adam or adagrad."},
    {"rate", 0, OPTION_ROW_VALUE, "R", NULL, "The learning rate; default 0.01."},
    {"momentum", 0, OPTION_ROW_VALUE, "M", NULL, "Of --optimizer momentum; default 0.9."},
    {"decay", 0, OPTION_ROW_VALUE, "D", NULL,
     "How much of a parameter is added to its gradient; default 0."},
    {"freeze", 0, OPTION_ROW_LIST, "NAME", NULL,
     "A parameter that stays as it is. May be repeated."},
    {"scale", 0, OPTION_ROW_VALUE, "S", NULL,
     "Scale the loss, for training in float16: 'dynamic', found while training, or a number."},
    {"spelled", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Write the optimizer in operators that any runtime has, not as ONNX's own."},
    OPTION_QUIET,
    OPTION_DATA_ROOT,
    OPTION_HARDLINKS,
    OPTION_CHECKS,
    OPTION_HELP,
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
    how->spelled = parsed_flag(parsed, "spelled");
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
    if (!output) return console_missing(parsed, "where the model goes: -o OUT", err);
    OutFile *file = console_open_model(program, output, err);
    const bool ok = file && console_load(program, parsed, input, &model, err) &&
                    make(program, parsed, output, file, model, err);
    demi_free(model);
    return ok;
}

const Command command_make_training = {
    .name = "make-training",
    .summary = "give a model a loss, its gradient and an optimizer",
    .usage = "IN [-o] OUT [OPTIONS]",
    .about =
        "Writes the model with a training_info as ONNX defines it, which 'demi train' runs: a loss "
        "of an output and of the input 'labels', its Gradient with respect to all parameters, and "
        "an optimizer. Parameters are initializers of float that products, normalizations, "
        "recurrent layers, tables and sums read, directly or through nodes that only move data "
        "(Transpose, Slice, Concat, ...). One tensor that exporters gave to several layers "
        "because it held the same constant becomes one for each layer. What is trained is "
        "printed, and what is not and why. Calls to the model's own functions are inlined first. "
        "A softmax at the end is taken into the loss; "
        "normalizations and dropouts are in training mode. What the model computes for inference "
        "stays as it was; its opset is raised where that has no mode for training.\n"
        "\n"
        "'demi show' tells what a training reads and updates. For training in 16 bit convert what "
        "this writes; in float16 with --scale dynamic.",
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
