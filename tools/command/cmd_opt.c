// SPDX-License-Identifier: Apache-2.0
/* demi opt: runs any pipeline of passes on a model. */
#include <string.h>

#include "commands.h"
#include "console.h"
#include "help.h"
#include "report_out.h"
#include "reproducer.h"

static const ArgumentRow arguments[] = {
    {"IN", "The model: an ONNX file, text (.onnxtxt), or '-'."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    {"passes", 'p', OPTION_ROW_VALUE, "PIPELINE", NULL,
     "The passes to run, in order: pass,pass{key=value,key=[v,v]}. Values may be \"quoted\"."},
    {"output", 'o', OPTION_ROW_VALUE, "OUT", NULL,
     "The model to write; '-' is standard output. Without it, nothing is written."},
    OPTION_PLACE,
    {"list-passes", 0, OPTION_ROW_FLAG, NULL, NULL,
     "List all passes and their options, including loaded ones, and stop."},
    OPTION_LOAD_PASS,
    OPTION_JSON("Write a report as JSON. Without FILE (as the last word, or before another "
                "option), it goes to standard output."),
    OPTION_QUIET,
    OPTION_DATA_ROOT,
    OPTION_HARDLINKS,
    OPTION_CHECKS,
    {"print-after", 0, OPTION_ROW_VALUE, "PASS", NULL,
     "Print the model as text after each pass of this name, or after 'all'."},
    OPTION_REPRODUCER,
    {"time-passes", 0, OPTION_ROW_FLAG, NULL, NULL, "Print the time that each pass took."},
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    const char *input, *output, *pipeline;
    const DemiPasses *passes; /* with those of --load-pass */
    OutFile *file;            /* of OUT; NULL: none */
    ReportPlan plan;
    DemiModel *model;
    DemiReport *report;
    ReportTitle title;
} Job;

static void list_passes(const DemiPasses *passes, FILE *out) {
    for (size_t i = 0; i < demi_pass_count(passes); i++) {
        fprintf(out, "%s: %s\n", demi_pass_name(passes, i), demi_pass_summary(passes, i));
        DemiPassOption option = DEMI_PASS_OPTION_INIT;
        for (size_t j = 0; demi_pass_option(passes, i, j, &option); j++) {
            fprintf(out, "    %s=%s", option.name, option.takes);
            int length;
            const char *otherwise = help_pass_default(&option, &length);
            if (otherwise) fprintf(out, " (default %.*s)", length, otherwise);
            fprintf(out, ": %s\n", option.help ? option.help : "");
        }
    }
}

static void fill_json(JsonWriter *json, void *data) {
    const Job *job = data;
    report_write_json(job->report, &job->title, json);
}

static bool print_reports(Job *job, Err *err) {
    job->title = (ReportTitle){.input = job->input,
                               .output = job->output,
                               .seconds = console_seconds() - job->program->started};
    if (!parsed_flag(job->parsed, "quiet"))
        report_print_remarks(job->report, job->plan.text ? job->plan.text : stderr);
    if (parsed_flag(job->parsed, "time-passes"))
        report_print_times(job->report, job->plan.text ? job->plan.text : stderr);
    return !job->plan.json || report_json_to(job->program, &job->plan, fill_json, job, err);
}

static bool rewrite(Job *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiRunOptions run = DEMI_RUN_OPTIONS_INIT;
    run.verify_each = parsed_flag(job->parsed, "verify-each");
    run.unchecked = parsed_flag(job->parsed, "no-check");
    /* What a pass prints is not a report: --quiet leaves it, where nothing else goes there. */
    run.text = job->plan.results == stdout ? console_write : console_write_error;
    run.text_user = job->program;
    run.print_after = parsed_value(job->parsed, "print-after");
    run.passes = job->passes;
    DemiStatus status = demi_run_pipeline(job->model, job->pipeline, &run, &job->report, &error);
    if (!error_take(err, status, &error)) {
        if (err->code != ERR_USAGE) err_file(err, job->input);
        reproducer_write(job->program, job->parsed, job->pipeline, err);
        return false;
    }
    ModelSave *save = NULL;
    return (!job->file || console_write_model(job->program, job->model, job->file, &save, err)) &&
           print_reports(job, err) && outputs_commit(job->program, save, err);
}

/* Before the work, which may be long. */
static bool open_outputs(Job *job, Err *err) {
    const char *reproducer = parsed_value(job->parsed, "reproducer");
    bool taken = job->output && strcmp(job->output, "-") == 0;
    if (job->output) {
        job->file = console_open_model(job->program, job->output, err);
        if (!job->file) return false;
    }
    return report_plan(job->program, taken, &job->plan, err) &&
           (!reproducer || outputs_try(job->program, "reproducer", reproducer, err));
}

static bool run_with(Program *program, const Parsed *parsed, const DemiPasses *passes, Err *err) {
    Job job = {.program = program,
               .parsed = parsed,
               .passes = passes,
               .input = parsed_argument(parsed, 0),
               .output = parsed_value(parsed, "output"),
               .pipeline = parsed_value(parsed, "passes")};
    if (!job.input) return console_missing(parsed, "a model to read", err);
    if (!job.pipeline) job.pipeline = reproducer_pipeline(program, job.input);
    if (!job.pipeline) return console_missing(parsed, "--passes PIPELINE", err);
    if (!open_outputs(&job, err)) return false;
    if (!console_load(program, parsed, job.input, &job.model, err)) return false;
    bool ok = rewrite(&job, err);
    demi_report_free(job.report);
    demi_free(job.model);
    return ok;
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    DemiPasses *passes = NULL;
    bool ok = console_load_passes(parsed, &passes, err);
    if (ok && parsed_flag(parsed, "list-passes"))
        list_passes(passes, stdout);
    else if (ok)
        ok = run_with(program, parsed, passes, err);
    demi_passes_free(passes);
    return ok;
}

const Command command_opt = {
    .name = "opt",
    .summary = "run a pipeline of passes on a model",
    .usage = "IN --passes PIPELINE [-o OUT] [OPTIONS]",
    .about = "Runs the passes of PIPELINE in order and writes the model. 'demi convert' is such a "
             "pipeline, which 'demi convert --print-pipeline' prints: start from it and change a "
             "step.\n\nA pass that needs types or shapes must come after a pass that infers them; "
             "demi checks this before it runs anything. Text that a pass prints goes to standard "
             "output, or to standard error with -o -. Without --passes, IN may be a reproducer, "
             "which contains its pipeline.",
    .examples = "demi opt --list-passes\n"
                "demi opt model.onnx -o out.onnx \\\n"
                "    --passes 'infer-dtypes,insert-casts{to=float16},fuse-casts'\n"
                "# chain commands\n"
                "cat model.onnx | demi opt - --passes strip-casts -o - | demi show -\n"
                "# a pass of your own, from a shared object\n"
                "demi opt model.onnx -o out.onnx --load-pass ./my.so --passes my-pass\n",
    .arguments = arguments,
    .options = options,
    .common = "passes output list-passes json quiet help",
    .run = run,
};
