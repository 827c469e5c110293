// SPDX-License-Identifier: Apache-2.0
/* demi show: a model for people (--stats, --text) and for programs (--json, --dot), a plan as
 * text. */
#include <string.h>

#include "commands.h"
#include "console.h"
#include "demi_front.h"
#include "report_out.h"
#include "session.h"
#include "show_model.h"
#include "escaped.h"

static const ArgumentRow arguments[] = {
    {"FILE", "The model: an ONNX file, text (.onnxtxt), or '-'; or a plan, shown as text."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    {"stats", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Print inputs, outputs, opsets, operators, and weights by type (default)."},
    {"text", 0, OPTION_ROW_ATTACHED, "full", "full",
     "Print the whole model in ONNX's textual syntax. Large tensors are omitted, unless you give "
     "=full, whose text can be read back."},
    OPTION_JSON("Print the structure of the model as JSON, without the data of weights. Without "
                "FILE (as the last word, or before another option), it goes to standard output."),
    {"names", 0, OPTION_ROW_ATTACHED, "nodes|operators", "nodes operators",
     "Print the names of all nodes, for --keep, or of all operators, one per line. Names that a "
     "terminal cannot show are omitted."},
    {"dot", 0, OPTION_ROW_FLAG, NULL, NULL, "Print a drawing of the graph for Graphviz."},
    {"device", 0, OPTION_ROW_VALUE, "NAME", NULL,
     "For a plan: print where each step would run on that device (cuda), and why. No device is "
     "needed."},
    OPTION_COLOR,
    OPTION_DATA_ROOT,
    OPTION_HARDLINKS,
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    const char *file;
    ReportPlan plan;
    DemiModel *model;
    DemiReport *report;
} Job;

static void fill_json(JsonWriter *json, void *data) {
    const Job *job = data;
    json_open(json, NULL, '{');
    json_text(json, "file", job->file);
    report_write_facts(job->report, json);
    show_write_json(demi_front_model(job->model), json);
    json_close(json, '}');
}

static bool show_text(Job *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    bool full = strcmp(parsed_value(job->parsed, "text"), "full") == 0;
    DemiWriteFn write = job->plan.text == stdout ? console_write : console_write_error;
    return error_take(err, demi_print(job->model, full, write, job->program, &error), &error);
}

static bool is_shown_whole(const char *text) {
    for (size_t left = strlen(text), size; left; text += size, left -= size)
        if (!escaped_plain(text, left, &size)) return false;
    return true;
}

static bool show_names(Job *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    const DemiReport *report;
    bool operators = strcmp(parsed_value(job->parsed, "names"), "operators") == 0;
    if (!error_take(err, demi_describe(job->model, &job->report, &error), &error)) return false;
    report = job->report;
    size_t count = operators ? demi_report_row_count(report, DEMI_REPORT_OPERATORS)
                             : demi_report_node_count(report);
    for (size_t i = 0; i < count; i++) {
        const char *name = operators ? demi_report_row(report, DEMI_REPORT_OPERATORS, i)->name
                                     : demi_report_node(report, i)->name;
        if (name[0] && is_shown_whole(name)) fprintf(job->plan.text, "%s\n", name);
    }
    return outputs_commit(job->program, NULL, err);
}

static bool show(Job *job, Err *err) {
    const Parsed *parsed = job->parsed;
    DemiError error = DEMI_ERROR_INIT;
    if (parsed_flag(parsed, "names")) return show_names(job, err);
    if (parsed_flag(parsed, "text") && !show_text(job, err)) return false;
    if (parsed_flag(parsed, "dot")) show_write_dot(demi_front_model(job->model), job->plan.text);
    bool stats = parsed_flag(parsed, "stats") ||
                 !(parsed_flag(parsed, "text") || parsed_flag(parsed, "dot") || job->plan.json);
    if (!stats && !job->plan.json) return outputs_commit(job->program, NULL, err);
    if (!error_take(err, demi_describe(job->model, &job->report, &error), &error)) return false;
    if (stats) report_print_stats(job->report, job->file, job->plan.text);
    return (!job->plan.json || report_json_to(job->program, &job->plan, fill_json, job, err)) &&
           outputs_commit(job->program, NULL, err);
}

static bool show_file_of_plan(Program *program, const Parsed *parsed, Err *err) {
    const char *file = parsed_argument(parsed, 0);
    if (parsed_flag(parsed, "stats") || parsed_flag(parsed, "json") || parsed_flag(parsed, "dot") ||
        parsed_flag(parsed, "names"))
        err_set(err, ERR_USAGE, "a plan can only be shown as text");
    else if (show_plan(program, file, parsed_value(parsed, "device"), err))
        return true;
    err_file(err, file);
    return false;
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    Job job = {.program = program, .parsed = parsed, .file = parsed_argument(parsed, 0)};
    if (!job.file) return console_missing(parsed, "a model to show", err);
    if (session_is_plan(program->arena, job.file)) return show_file_of_plan(program, parsed, err);
    if (parsed_flag(parsed, "device")) {
        err_set(err, ERR_USAGE, "--device requires a plan");
        err_hint(err, "make one with 'demi compile'");
        return false;
    }
    if (!report_plan(program, false, &job.plan, err)) return false;
    if (!console_load(program, parsed, job.file, &job.model, err)) return false;
    bool ok = show(&job, err);
    if (!ok) err_file(err, job.file);
    demi_report_free(job.report);
    demi_free(job.model);
    return ok;
}

const Command command_show = {
    .name = "show",
    .summary = "show a model: statistics, text, JSON, or a drawing",
    .usage = "FILE [--stats | --text[=full] | --json [F] | --names | --dot]",
    .about = "Shows the contents of a model, of any opset and IR version. A plan, which 'demi "
             "compile' writes, is shown as text: its values, and the steps of each graph.",
    .examples = "demi show model.onnx\n"
                "demi show model.onnx --text | less\n"
                "demi show model.onnx --text=full > model.onnxtxt\n"
                "demi show model.onnx --dot | dot -Tsvg -o model.svg\n"
                "demi show model.onnx --json | jq '.operators'\n"
                "demi show model.plan\n"
                "demi show model.plan --device cuda\n",
    .arguments = arguments,
    .options = options,
    .run = run,
};
