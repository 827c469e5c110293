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
    {"OUT", "The plan to write; or use -o OUT."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    {"output", 'o', OPTION_ROW_VALUE, "OUT.plan", NULL, "The plan to write."},
    {"numerics", 0, OPTION_ROW_VALUE, "MODE", "fast faithful",
     "fast (default): operators are fused, and 16-bit values between them are not rounded. "
     "faithful: the 16-bit result of every operator is rounded once, as without fusion."},
    {"memory", 0, OPTION_ROW_VALUE, "SIZE", NULL,
     "Memory limit (such as 500M or 2G) for constants computed in advance and for the expansion of "
     "function calls. By default, it is proportional to the model. small: fast plans, too, keep "
     "16-bit values in 16-bit between steps. Or both: small,2G."},
    {"isa", 0, OPTION_ROW_VALUE, "SET", "native none portable avx2 avx512",
     "Instruction set to pack weights for, so that they are used directly from the mapped file "
     "(default native: this machine's). Plans run everywhere; on other machines, weights are "
     "repacked when a step first reads them. none: not packed, for the smallest plan."},
    {"device", 0, OPTION_ROW_VALUE, "NAME", NULL,
     "Device that the plan is for: cpu (default) or cuda. A plan for cuda keeps 16-bit values in "
     "16-bit between steps, and does not pack weights. It also runs on CPUs, but more slowly."},
    {"tune", 0, OPTION_ROW_ATTACHED, "SECONDS", NULL,
     "Autotuning: measure on this machine, for 30 seconds or the given number, which kernel and "
     "variant is the fastest for each step, and store the choice in the plan. It applies on "
     "machines with the same instruction set and number of threads, for the sizes that were "
     "measured. Elsewhere, the plan runs as if it were not tuned. Only fast plans can be tuned. "
     "With --device cuda, demi measures on the device and tunes only the steps that run on the "
     "CPU, because device kernels have no variants."},
    OPTION_HEADING("What --tune runs on"),
    {"threads", 't', OPTION_ROW_VALUE, "N", NULL,
     "Number of threads that the plan will run with (default: all available CPUs)."},
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
        return err_set(err, ERR_USAGE, "a faithful plan has no variants to tune");
    }
    for (size_t i = 0; i < sizeof only / sizeof *only; i++)
        if (parsed_flag(parsed, only[i]))
            return err_set(err, ERR_USAGE, "'--%s' requires '--tune'", only[i]);
    return true;
}

/* Of plans for a device it is only what stays on the processor that has choices. */
static void print_tuned(const DemiTuned *tuned, unsigned threads, const char *device) {
    printf("tuned ");
    if (device) printf("the steps that the CPU runs besides %s, ", device);
    printf("for %u thread%s in %.1f s: ", threads, threads == 1 ? "" : "s", tuned->seconds);
    if (tuned->ended_early)
        printf("not enough time, nothing changed\n");
    else if (device && !tuned->kinds)
        printf("none of them has variants, nothing changed\n");
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
    .summary = "compile a model to an execution plan for demi's runtime",
    .usage = "IN [-o] OUT.plan [OPTIONS]",
    .about = "Reads IN and writes an execution plan: all that the runtime needs to run the model, "
             "with packed weights to be mapped into memory. 'demi run' and 'demi bench' accept it "
             "in place of a model, and so do programs that use demi_runtime.h. A plan is a cache "
             "of its model; another version of demi may require that you compile it again.\n\ndemi "
             "loads the plan once before OUT appears. OUT appears completely or not at all.",
    .examples = "demi compile model.onnx -o model.plan\ndemi run model.plan --random 1\n# to judge "
                "the accuracy of a mixed-precision model\ndemi compile model.fp16.onnx -o "
                "model.plan --numerics faithful\n# the fastest plan for two threads on this "
                "machine\ndemi compile model.onnx -o model.plan --tune --threads 2 --shape "
                "image=1x3x224x224\ndemi show model.plan\n",
    .arguments = arguments,
    .options = options,
    .common = "output numerics memory isa tune threads data shape dim quiet help",
    .run = run,
};
