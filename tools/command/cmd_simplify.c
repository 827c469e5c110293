// SPDX-License-Identifier: Apache-2.0
/* demi simplify: folds what is constant and removes what does nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "console.h"
#include "report_out.h"
#include "reproducer.h"

static const ArgumentRow arguments[] = {
    {"IN", "The model: an ONNX file, text (.onnxtxt), or '-'."},
    {"OUT",
     "The model to write; or use -o OUT. '-' is standard output. Without it, nothing is written."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    {"output", 'o', OPTION_ROW_VALUE, "OUT", NULL, "The model to write."},
    OPTION_PLACE,
    {"shape", 0, OPTION_ROW_LIST, "NAME=1x3x224x224", NULL,
     "Fix the sizes of an input in the model; may be repeated."},
    {"dim", 0, OPTION_ROW_LIST, "NAME=N", NULL,
     "Fix a dynamic size by its name, everywhere in the model; may be repeated."},
    {"inexact", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Also fold BatchNormalization, scales, and shifts into convolution weights, and constants of "
     "any operator; this may round differently. Without this option, the results are "
     "bit-identical."},
    OPTION_FREEZE,
    {"strip-doc-strings", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Also remove doc strings and metadata of nodes and values, such as the line of Python that "
     "created a node. Those of the model itself are kept."},
    {"print-pipeline", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Print the passes that would run, for 'demi opt --passes', and stop."},
    OPTION_JSON("Write a report as JSON. Without FILE (as the last word, or before another "
                "option), it goes to standard output."),
    OPTION_QUIET,
    OPTION_DATA_ROOT,
    OPTION_HARDLINKS,
    OPTION_CHECKS,
    OPTION_REPRODUCER,
    OPTION_HELP,
    OPTION_FORMER("strip-notes", "strip-doc-strings"),
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    const char *input, *output;
    DemiSimplifyOptions how;
    OutFile *file; /* of OUT; NULL: none */
    ReportPlan plan;
    DemiModel *model;
    DemiReport *report;
    ReportTitle title;
} Job;

static void take_options(Job *job) {
    const Words *shapes = parsed_list(job->parsed, "shape");
    const Words *dims = parsed_list(job->parsed, "dim");
    const Words *fed = parsed_list(job->parsed, "fed");
    job->how = (DemiSimplifyOptions)DEMI_SIMPLIFY_OPTIONS_INIT;
    job->how.inexact = parsed_flag(job->parsed, "inexact");
    job->how.strip_doc_strings = parsed_flag(job->parsed, "strip-doc-strings");
    job->how.shapes = shapes->items;
    job->how.shape_count = shapes->count;
    job->how.dims = dims->items;
    job->how.dim_count = dims->count;
    job->how.freeze_inputs = parsed_flag(job->parsed, "freeze-inputs");
    job->how.fed = fed->items;
    job->how.fed_count = fed->count;
}

/* The pipeline of the options, in the program's arena; NULL with *err set. */
static const char *pipeline_of(const Job *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    size_t length = demi_simplify_pipeline(&job->how, NULL, 0, &error);
    if (!error_take(err, error.status, &error)) return NULL;
    char *text = arena_alloc(job->program->arena, length + 1);
    demi_simplify_pipeline(&job->how, text, length + 1, NULL);
    return text;
}

static void fill_json(JsonWriter *json, void *data) {
    const Job *job = data;
    report_write_json(job->report, &job->title, json);
}

/* Constants that take a bit more than what they replace may add up. */
static void print_growth(const Job *job) {
    const DemiReportTotals *totals = demi_report_totals(job->report);
    if (totals->bytes_after <= totals->bytes_before) return;
    fprintf(job->plan.text ? job->plan.text : stderr,
            "note: its constants take %" PRIu64 " bytes more than before\n",
            totals->bytes_after - totals->bytes_before);
}

static bool print_reports(Job *job, Err *err) {
    job->title = (ReportTitle){.input = job->input,
                               .output = job->output,
                               .seconds = console_seconds() - job->program->started,
                               .color = job->plan.color};
    if (job->plan.text) report_print(job->report, &job->title, job->plan.text);
    print_growth(job);
    return !job->plan.json || report_json_to(job->program, &job->plan, fill_json, job, err);
}

static bool simplify(Job *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiRunOptions run = DEMI_RUN_OPTIONS_INIT;
    run.verify_each = parsed_flag(job->parsed, "verify-each");
    run.unchecked = parsed_flag(job->parsed, "no-check");
    job->how.run = &run;
    DemiStatus status = demi_simplify(job->model, &job->how, &job->report, &error);
    if (!error_take(err, status, &error)) {
        const char *pipeline = pipeline_of(job, &(Err){0});
        if (err->code != ERR_USAGE) err_file(err, job->input);
        if (pipeline) reproducer_write(job->program, job->parsed, pipeline, err);
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

static bool print_pipeline(const Job *job, Err *err) {
    const char *text = pipeline_of(job, err);
    if (text) printf("%s\n", text);
    return text != NULL;
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    const char *second = parsed_argument(parsed, 1);
    Job job = {.program = program,
               .parsed = parsed,
               .input = parsed_argument(parsed, 0),
               .output = parsed_value(parsed, "output")};
    take_options(&job);
    if (parsed_flag(parsed, "print-pipeline")) return print_pipeline(&job, err);
    if (!job.input) return console_missing(parsed, "a model to read", err);
    if (job.output && second)
        return err_set(err, ERR_USAGE, "two outputs: '%s' and '%s'", second, job.output);
    if (!job.output) job.output = second;
    if (!open_outputs(&job, err)) return false;
    if (!console_load(program, parsed, job.input, &job.model, err)) return false;
    bool ok = simplify(&job, err);
    demi_report_free(job.report);
    demi_free(job.model);
    return ok;
}

const Command command_simplify = {
    .name = "simplify",
    .summary = "fold constants and shapes, and remove redundant nodes",
    .usage = "IN [-o] OUT [OPTIONS]",
    .about =
        "Writes the model with fewer nodes. Constant nodes become initializers. What depends only "
        "on constants and known sizes is computed (constant folding). An If whose condition is "
        "constant becomes the branch that it takes. Nodes that return their input, repeat another "
        "node, or are not read are removed (canonicalization, common subexpression elimination, "
        "dead code elimination). Consecutive reshapes, transposes, slices, and casts become "
        "one.\n\nThe results are bit-identical, unless you give --inexact. A constant is not "
        "stored if it takes over 1 KiB more than the constants that it replaces; if the total "
        "still grows, a note says so. Inputs, outputs, metadata, functions, and external data do "
        "not change. Simplifying twice changes nothing more. It is a pipeline, which "
        "--print-pipeline prints; 'demi convert --simplify' runs it before a conversion.",
    .examples = "demi simplify model.onnx -o small.onnx\n# for one input size, so that all shapes "
                "fold\ndemi simplify model.onnx -o small.onnx --shape image=1x3x224x224\n# with "
                "BatchNormalization folded into convolutions\ndemi simplify model.onnx -o "
                "small.onnx --inexact\n",
    .arguments = arguments,
    .options = options,
    .common = "output shape dim inexact json quiet help",
    .run = run,
};
