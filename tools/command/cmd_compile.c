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
    {"isa", 0, OPTION_ROW_VALUE, "SET", "native none portable avx2 avx512",
     "The instruction set that weights are laid out for, so that they are used where the file is "
     "mapped; default: native, this machine's. Plans run everywhere: elsewhere weights are laid "
     "out "
     "anew when a step first reads them. none: as the model has them, for the smallest plan."},
    {"device", 0, OPTION_ROW_VALUE, "NAME", NULL,
     "What the plan is for: cpu (the default), or cuda: 16-bit values stay so between steps, and "
     "weights are as the model has them. Such plans run on processors, too, but slower."},
    {"tune", 0, OPTION_ROW_ATTACHED, "SECONDS", NULL,
     "Measure on this machine, for 30 seconds at most or so many, which kernels and which of their "
     "ways are the fastest for each step, and keep that in the plan. It holds on machines with the "
     "same instruction set, with as many threads, and for the sizes that were measured; elsewhere "
     "the plan runs as one that is not tuned. Of fast plans. With --device cuda it is measured on "
     "the device, and only steps that the processor runs are tuned: the device's kernels leave "
     "nothing to choose."},
    OPTION_HEADING("What --tune runs on"),
    {"threads", 't', OPTION_ROW_VALUE, "N", NULL,
     "Threads that the plan will run with; default: as many as there are processors to use."},
    OPTION_INPUTS,
    OPTION_DIM,
    OPTION_HEADING("Other options"),
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

/* ---- tuning ---------------------------------------------------------------------------------- */

/* What is only for --tune, and that it is for plans which have a choice. */
static bool check_tune(const Parsed *parsed, Err *err) {
    static const char *const only[] = {"threads", "input", "data", "random", "shape", "dim"};
    const char *numerics = parsed_value(parsed, "numerics");
    if (parsed_flag(parsed, "tune")) {
        if (!numerics || strcmp(numerics, "faithful") != 0) return true;
        return err_set(err, ERR_USAGE, "a faithful plan is computed in one way, it can't be tuned");
    }
    for (size_t i = 0; i < sizeof only / sizeof *only; i++)
        if (parsed_flag(parsed, only[i]))
            return err_set(err, ERR_USAGE, "'--%s' is for '--tune'", only[i]);
    return true;
}

/* Of plans for a device it is only what stays on the processor that has choices. */
static void print_tuned(const DemiTuned *tuned, unsigned threads, const char *device) {
    printf("tuned ");
    if (device) printf("the steps that the processor runs beside %s, ", device);
    printf("for %u thread%s in %.1f s: ", threads, threads == 1 ? "" : "s", tuned->seconds);
    if (tuned->ended_early)
        printf("not enough time, nothing changed\n");
    else if (device && !tuned->kinds)
        printf("none of them has a choice, nothing changed\n");
    else if (!tuned->changed)
        printf("%zu kinds of steps timed, nothing is faster\n", tuned->kinds);
    else
        printf("%zu kinds of steps timed, %zu changed (%zu steps), a run takes %.2f of the time, "
               "%.3g ms for %.3g\n",
               tuned->kinds, tuned->changed, tuned->steps, tuned->after / tuned->before,
               1e3 * tuned->after, 1e3 * tuned->before);
}

/* Inputs that nothing gives are random. */
static bool tune_session(Session *s, Program *program, const DemiTuneOptions *how_long,
                         OutputFile *output, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiTuned tuned = DEMI_TUNED_INIT;
    Words folders;
    if (!session_data_sets(s, program->arena, s->how->inputs.data, &folders, err)) return false;
    const SessionSet set = {.path = folders.count ? folders.items[0] : NULL, .random = true};
    if (!session_find_inputs(s, program->arena, &set, err) || !session_bind(s, err)) return false;
    const DemiStatus status =
        demi_context_tune(s->context, how_long, outputs_write, output, &tuned, &error);
    if (!error_take(err, status, &error)) {
        err_file(err, s->path);
        return false;
    }
    if (!parsed_flag(program->parsed, "quiet") && !output->file->streaming)
        print_tuned(&tuned, s->threads, run_options_device(program->parsed));
    return true;
}

static bool compile_tuned(Program *program, const Parsed *parsed, const char *path,
                          OutputFile *output, Err *err) {
    ConsoleModel model = {program, parsed, path};
    DemiSource source = console_source(&model);
    SessionOptions *how = ARENA_NEW(program->arena, SessionOptions);
    DemiTuneOptions how_long = DEMI_TUNE_OPTIONS_INIT;
    const char *seconds = parsed_value(parsed, "tune");
    if ((*seconds && !parsed_real(parsed, "tune", &how_long.seconds, 0, err)) ||
        !run_options_fill(&model, false, how, err))
        return false;
    how->context.small = false; /* --memory is the plan's */
    how->context.memory_budget = 0;
    Session *s = session_new(program->arena, how);
    bool ok = session_open(s, program->arena, &source, err) &&
              tune_session(s, program, &how_long, output, err);
    session_close(s);
    return ok;
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    const char *in = parsed_argument(parsed, 0), *second = parsed_argument(parsed, 1);
    const char *out = parsed_value(parsed, "output");
    if (!in) return console_missing(parsed, "a model to compile", err);
    if (out && second) return err_set(err, ERR_USAGE, "two outputs: '%s' and '%s'", second, out);
    if (!out) out = second;
    if (!out) return console_missing(parsed, "an output, -o OUT.plan", err);
    if (!check_tune(parsed, err)) return false;
    OutputFile output = {report_open(program, "output", out, err), err};
    if (!output.file) return false;
    const bool tunes = parsed_flag(parsed, "tune");
    bool ok = (tunes ? compile_tuned : compile)(program, parsed, in, &output, err);
    if (!ok || !verify(output.file, err)) return false;
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
    .examples =
        "demi compile model.onnx -o model.plan\n"
        "demi run model.plan --random 1\n"
        "# to judge a mixed model by\n"
        "demi compile model.fp16.onnx -o model.plan --numerics faithful\n"
        "# the fastest that this machine can run it with two threads\n"
        "demi compile model.onnx -o model.plan --tune --threads 2 --shape image=1x3x224x224\n"
        "demi show model.plan\n",
    .arguments = arguments,
    .options = options,
    .common = "output numerics memory isa tune threads data shape dim quiet help",
    .run = run,
};
