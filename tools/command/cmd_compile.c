// SPDX-License-Identifier: Apache-2.0
/* demi compile: from a model to a plan file, which needs no ONNX code to run. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "demi_runtime.h"
#include "report_out.h"
#include "run_options.h"

static const ArgumentRow arguments[] = {
    {"IN", "The model: an ONNX file, text (.onnxtxt), or '-'."},
    {"OUT", "Where the plan goes; or -o OUT."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    {"output", 'o', OPTION_ROW_VALUE, "OUT.plan", NULL, "Where the plan goes."},
    {"numerics", 0, OPTION_ROW_VALUE, "MODE", "fast faithful",
     "fast (the default): operators are fused, so that 16-bit values between them are not rounded. "
     "faithful: every operator's 16-bit result is rounded once, as if nothing was fused."},
    {"memory", 0, OPTION_ROW_VALUE, "SIZE", NULL,
     "Most memory, as 500M or 2G, that may be taken for constants computed in advance and for what "
     "calls of functions make of the model; default: in proportion to the model. small: 16-bit "
     "values stay so between steps of fast plans, too; or small,2G."},
    {"isa", 0, OPTION_ROW_VALUE, "SET", "native portable avx2 avx512 none",
     "The instruction set that weights are laid out for, so that they are used where the file is "
     "mapped; default: native, this machine's. Plans run everywhere: elsewhere weights are laid "
     "out "
     "anew when a step first reads them. none: as the model has them, for the smallest plan."},
    OPTION_QUIET,
    OPTION_DATA_ROOT,
    OPTION_HARDLINKS,
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

/* What was written is read again, by the runtime, before it replaces anything. */
static bool verify(const OutFile *file, Err *err) {
    char path[64];
    DemiPlan *plan = NULL;
    DemiError error = DEMI_ERROR_INIT;
    if (file->streaming) return true;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file->fd);
    bool ok = error_take(err, demi_plan_load(path, &plan, &error), &error);
    demi_plan_free(plan);
    if (!ok) err_file(err, file->path);
    return ok;
}

static bool compile(Program *program, const Parsed *parsed, const char *path, OutputFile *output,
                    Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiCompileOptions how;
    DemiModel *model = NULL;
    if (!console_load(program, parsed, path, &model, err)) return false;
    bool ok = run_options_compile(parsed, false, &how, err) &&
              error_take(err, demi_compile(model, &how, outputs_write, output, &error), &error);
    if (!ok) err_file(err, path);
    demi_free(model);
    return ok;
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    const char *in = parsed_argument(parsed, 0), *second = parsed_argument(parsed, 1);
    const char *out = parsed_value(parsed, "output");
    if (!in) return console_missing(parsed, "a model to compile", err);
    if (out && second) return err_set(err, ERR_USAGE, "two outputs: '%s' and '%s'", second, out);
    if (!out) out = second;
    if (!out) return console_missing(parsed, "an output, -o OUT.plan", err);
    OutputFile output = {report_open(program, "output", out, err), err};
    if (!output.file) return false;
    bool ok = compile(program, parsed, in, &output, err) && verify(output.file, err);
    if (!ok) return false;
    if (!parsed_flag(parsed, "quiet") && strcmp(out, "-") != 0) {
        report_puts(stdout, out);
        printf(": %.*f MB, compiled in %.2f s\n", output.file->size < 100000 ? 4 : 1,
               (double)output.file->size / 1e6, console_seconds() - program->started);
    }
    return outputs_commit(program, NULL, err);
}

const Command command_compile = {
    .name = "compile",
    .summary = "compile a model to a plan that demi's runtime executes",
    .usage = "IN [-o] OUT.plan [OPTIONS]",
    .about =
        "Reads IN and writes a plan: everything the runtime needs to compute the model, with the "
        "weights laid out to be mapped. 'demi run' and 'demi bench' take it in place of a model, "
        "and so do programs by demi_runtime.h. A plan is a cache of its model: another version of "
        "demi may ask to have it compiled again.\n"
        "\n"
        "OUT appears whole or not at all, and was loaded once before it does.",
    .examples = "demi compile model.onnx -o model.plan\n"
                "demi run model.plan --random 1\n"
                "# to judge a mixed model by\n"
                "demi compile model.fp16.onnx -o model.plan --numerics faithful\n"
                "demi show model.plan\n",
    .arguments = arguments,
    .options = options,
    .run = run,
};
