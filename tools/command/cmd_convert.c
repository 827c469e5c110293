// SPDX-License-Identifier: Apache-2.0
/* demi convert: the main job. Options become demi_convert's (convert_options.c), the report becomes
 * a table, JSON or a page. */
#include <string.h>

#include "commands.h"
#include "console.h"
#include "convert_options.h"
#include "setting_names.h"
#include "report_out.h"
#include "reproducer.h"
#include "text_distance.h"
#include "convert_verify.h"

static const ArgumentRow arguments[] = {
    {"IN", "The model to convert: an ONNX file, text (.onnxtxt), or '-'."},
    {"OUT", "The converted model to write; or use -o OUT. It may be the same as IN."},
    {NULL, NULL},
};

/* Settings are rows of policy.def, each in its section. */
#define SETTING_ROW(kind, name, arg, words, help) {name, 0, OPTION_ROW_##kind, arg, words, help},
static const OptionRow options[] = {
    OPTION_HEADING("Result"),
    {"output", 'o', OPTION_ROW_VALUE, "OUT", NULL,
     "The converted model to write; '-' is standard output."},
    OPTION_PLACE,
#define IN_TYPES SETTING_ROW
#include "policy.def"
#define IN_RESULT SETTING_ROW
#include "policy.def"
    {"dry-run", 'n', OPTION_ROW_FLAG, NULL, NULL, "Print the report without writing a model."},
    OPTION_HEADING("Nodes to keep in float32"),
#define IN_NODES SETTING_ROW
#include "policy.def"
    {"why", 0, OPTION_ROW_LIST, "NODE", NULL,
     "Print the precision of a node and the reason; may be repeated. OUT is then optional."},
    OPTION_HEADING("Calibration and verification"),
    VERIFY_OPTIONS,
#define IN_RUNS SETTING_ROW
#include "policy.def"
    OPTION_HEADING("Policy"),
#define IN_BASE SETTING_ROW
#include "policy.def"
    {"print-policy", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Print the policy that these options amount to, for --policy, and stop. With IN and "
     "--calibrate or --max-error, it includes what they measure."},
#define IN_POLICY SETTING_ROW
#include "policy.def"
    OPTION_HEADING("Reports"),
    {"report", 0, OPTION_ROW_VALUE, "FILE", NULL,
     "Write the report as a single HTML page that opens offline: every node with its type and "
     "reason, operators, weights, casts, results of running the model, and a drawing of the "
     "graph."},
    OPTION_JSON("Also write the report as JSON. Without FILE (as the last word, or before another "
                "option), JSON goes to standard output and the text to standard error."),
    OPTION_QUIET,
    OPTION_HEADING("Reading the model"),
#define IN_READING SETTING_ROW
#include "policy.def"
    OPTION_FREEZE,
    OPTION_DATA_ROOT,
    OPTION_HARDLINKS,
    OPTION_HEADING("Passes"),
    {"before", 0, OPTION_ROW_VALUE, "PIPELINE", NULL,
     "Passes to run before the conversion, in the syntax of 'demi opt --passes'."},
    {"after", 0, OPTION_ROW_VALUE, "PIPELINE", NULL, "Passes to run after the conversion."},
    OPTION_LOAD_PASS,
    {"print-pipeline", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Print the passes that these options amount to, for 'demi opt --passes', and stop."},
    OPTION_CHECKS,
    {"time-passes", 0, OPTION_ROW_FLAG, NULL, NULL, "Print the time that each pass took."},
    OPTION_REPRODUCER,
    OPTION_HEADING("Help"),
    OPTION_HELP,
    {"half", 0, OPTION_ROW_ALIAS, "to", "float16", "trtexec, OpenVINO and others"},
    {"fp16", 0, OPTION_ROW_ALIAS, "to", "float16", "trtexec, OpenVINO and others"},
    {"bf16", 0, OPTION_ROW_ALIAS, "to", "bfloat16", "trtexec"},
    {"low-precision-type", 0, OPTION_ROW_ALIAS, "to", NULL, "Model-Optimizer"},
    {"output-path", 0, OPTION_ROW_ALIAS, "output", NULL, "Model-Optimizer"},
    {"node-block-list", 0, OPTION_ROW_ALIAS_LIST, "keep", NULL,
     "onnxconverter-common, ONNX Runtime"},
    {"op-block-list", 0, OPTION_ROW_ALIAS_LIST, "keep-ops", NULL,
     "onnxconverter-common, ONNX Runtime"},
    {"nodes-to-exclude", 0, OPTION_ROW_ALIAS_LIST, "keep", NULL, "Model-Optimizer"},
    {"op-types-to-exclude", 0, OPTION_ROW_ALIAS_LIST, "keep-ops", NULL, "Model-Optimizer"},
    {"keep-io-types", 0, OPTION_ROW_ALIAS_BOOL, "io", "keep low",
     "onnxconverter-common, ONNX Runtime, Model-Optimizer"},
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

/* Everything a conversion holds while it runs. */
typedef struct Job {
    Program *program;
    const Parsed *parsed;
    const char *input, *output; /* output: NULL where none is written */
    OutFile *file, *page;       /* of OUT and of --report; NULL: none */
    ReportPlan plan;
    DemiRunOptions run;
    DemiConvertOptions options; /* its lists are parsed's */
    DemiPasses *passes;         /* with those of --load-pass; NULL: demi's own */
    DemiModel *model;
    DemiReport *report;
    ReportTitle title;
    Verified verified;
} Job;

static bool fill_options(Job *job, Err *err) {
    job->run = (DemiRunOptions)DEMI_RUN_OPTIONS_INIT;
    job->run.verify_each = parsed_flag(job->parsed, "verify-each");
    job->run.unchecked = parsed_flag(job->parsed, "no-check");
    job->run.runs_here =
        parsed_flag(job->parsed, "verify") || parsed_flag(job->parsed, "calibrate");
    if (!convert_options_fill(job->program->arena, job->parsed, &job->options, err)) return false;
    job->options.freeze_inputs = parsed_flag(job->parsed, "freeze-inputs");
    job->options.fed = parsed_list(job->parsed, "fed")->items;
    job->options.fed_count = parsed_list(job->parsed, "fed")->count;
    job->options.before = parsed_value(job->parsed, "before");
    job->options.after = parsed_value(job->parsed, "after");
    job->options.run = &job->run;
    if (!console_load_passes(job->parsed, &job->passes, err)) return false;
    job->run.passes = job->passes;
    return true;
}

typedef size_t (*OptionsText)(const DemiConvertOptions *options, char *buffer, size_t size,
                              DemiError *error);

/* NULL with *err set where the options are wrong. */
static const char *options_text(const Job *job, OptionsText write, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    size_t size = write(&job->options, NULL, 0, &error) + 1;
    if (!error_take(err, error.status, &error)) return NULL;
    char *text = arena_alloc(job->program->arena, size);
    write(&job->options, text, size, NULL);
    return text;
}

static bool print_options(const Job *job, OptionsText write, Err *err) {
    const char *text = options_text(job, write, err);
    if (!text) return false;
    console_write(job->program, text, strlen(text));
    return console_write(job->program, "\n", 1);
}

/* The files of the command line: IN OUT, or IN -o OUT. */
static bool find_files(Job *job, Err *err) {
    const Parsed *parsed = job->parsed;
    const char *output = parsed_value(parsed, "output"), *second = parsed_argument(parsed, 1);
    bool needless = parsed_flag(parsed, "dry-run") || parsed_flag(parsed, "why");
    job->input = parsed_argument(parsed, 0);
    if (!job->input) return console_missing(parsed, "a model to read", err);
    if (output && second) {
        err_set(err, ERR_USAGE, "two outputs: '%s' and '%s'", second, output);
        return false;
    }
    job->output = output ? output : second;
    if (!job->output && !needless) return console_missing(parsed, "an output, -o OUT", err);
    if (parsed_flag(parsed, "dry-run")) job->output = NULL;
    return true;
}

static const DemiReportNode *find_node(const DemiReport *report, const char *name) {
    for (size_t i = 0; i < demi_report_node_count(report); i++) {
        const DemiReportNode *node = demi_report_node(report, i);
        if (strcmp(node->name, name) == 0) return node;
    }
    return NULL;
}

static bool no_such_node(const Job *job, const char *name, Err *err) {
    err_set(err, ERR_USAGE, "no node is called '%s'", name);
    err_file(err, job->input);
    NearestName nearest = nearest_name_of(name);
    for (size_t i = 0; i < demi_report_node_count(job->report); i++)
        nearest_name_try(&nearest, demi_report_node(job->report, i)->name);
    if (nearest.best)
        err_hint(err, "did you mean '%s'?", nearest.best);
    else
        err_hint(err, "'demi convert %s --dry-run --json' lists the nodes", job->input);
    return false;
}

static void explain_node(const DemiReportNode *node, FILE *out) {
    const char *reason = node->reason[0] ? node->reason : "no pass had to choose a precision";
    const char *dtype = strcmp(node->dtype, "float") == 0 ? "fp32" : node->dtype;
    report_puts(out, node->name);
    fputs(" (", out);
    report_puts(out, node->domain);
    fputs(node->domain[0] ? "." : "", out);
    report_puts(out, node->op_type);
    fprintf(out, "): %s: ", dtype[0] ? dtype : "?");
    report_puts(out, reason);
    fputc('\n', out);
}

static bool explain_nodes(const Job *job, Err *err) {
    const Words *wanted = parsed_list(job->parsed, "why");
    for (size_t i = 0; i < wanted->count; i++) {
        const DemiReportNode *node = find_node(job->report, wanted->items[i]);
        if (!node) return no_such_node(job, wanted->items[i], err);
        explain_node(node, job->plan.results);
    }
    return true;
}

static void fill_json(JsonWriter *json, void *data) {
    const Job *job = data;
    report_write_json(job->report, &job->title, json);
}

/* The table, unless only --why was asked. */
static bool print_reports(Job *job, Err *err) {
    bool only_why =
        parsed_flag(job->parsed, "why") && !job->output && !parsed_flag(job->parsed, "dry-run");
    job->title = (ReportTitle){.input = job->input,
                               .output = job->output,
                               .seconds = console_seconds() - job->program->started,
                               .color = job->plan.color,
                               .model = job->model,
                               .verified = &job->verified};
    if (job->plan.text && !only_why) report_print(job->report, &job->title, job->plan.text);
    if (parsed_flag(job->parsed, "time-passes"))
        report_print_times(job->report, job->plan.text ? job->plan.text : stderr);
    if (job->page &&
        !report_write_html(job->program->arena, job->report, &job->title, job->page, err))
        return false;
    return !job->plan.json || report_json_to(job->program, &job->plan, fill_json, job, err);
}

/* Where nobody does, its list of all nodes need not be made. */
static bool wants_report(const Job *job) {
    const Parsed *parsed = job->parsed;
    return job->plan.text || job->plan.json || parsed_value(parsed, "report") ||
           parsed_list(parsed, "why")->count || parsed_flag(parsed, "time-passes");
}

static bool convert(Job *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    /* For passes of --before and --after that print. */
    job->run.text = job->plan.results == stdout ? console_write : console_write_error;
    job->run.text_user = job->program;
    DemiReport **report = wants_report(job) ? &job->report : NULL;
    DemiStatus status = demi_convert(job->model, &job->options, report, &error);
    if (!error_take(err, status, &error)) {
        err_file(err, job->input);
        Err unused = {.code = ERR_NONE};
        const char *pipeline = options_text(job, demi_convert_pipeline, &unused);
        reproducer_write(job->program, job->parsed, pipeline, err);
        return false;
    }
    ModelSave *save = NULL;
    if (!explain_nodes(job, err)) return false;
    /* What gives NaN for numbers is reported and not written: nobody wants such a file by accident,
     * and who does leaves --verify out. */
    if (verify_broken(&job->verified) && job->file) {
        outputs_drop(job->program, job->file);
        job->file = NULL;
        job->output = NULL;
    }
    return (!job->file || console_write_model(job->program, job->model, job->file, &save, err)) &&
           print_reports(job, err) && outputs_commit(job->program, save, err) &&
           verify_judge(&job->verified, job->input, err);
}

/* Before the work, which may be long. */
static bool open_outputs(Job *job, Err *err) {
    const char *page = parsed_value(job->parsed, "report");
    const char *reproducer = parsed_value(job->parsed, "reproducer");
    bool taken = (job->output && strcmp(job->output, "-") == 0) || (page && !strcmp(page, "-"));
    if (job->output) {
        job->file = console_open_model(job->program, job->output, err);
        if (!job->file) return false;
    }
    if (page) {
        job->page = report_open(job->program, "report", page, err);
        if (!job->page) return false;
    }
    return report_plan(job->program, taken, &job->plan, err) &&
           (!reproducer || outputs_try(job->program, "reproducer", reproducer, err));
}

/* What is measured is part of what is printed: ranges, and nodes that were found to be kept. */
static bool measure_for_print(Job *job, Err *err) {
    const Parsed *parsed = job->parsed;
    const char *input = parsed_argument(parsed, 0);
    const bool prints =
        parsed_flag(parsed, "print-pipeline") || parsed_flag(parsed, "print-policy");
    const bool measures = parsed_flag(parsed, "calibrate") || parsed_flag(parsed, "max-error");
    if (!prints || !measures) return true;
    if (!input) return console_missing(parsed, "a model to measure", err);
    const ConsoleModel model = {job->program, parsed, input};
    job->verified.prints = true;
    return verify_run(&model, &job->options, &job->verified, err);
}

/* What the pipeline alone is not enough for. */
static bool print_pipeline(const Job *job, Err *err) {
    const char *text = options_text(job, demi_convert_pipeline, err);
    if (!text) return false;
    if (strstr(text, "rounding=gptq"))
        fputs("note: rounding=gptq needs calibration data, which 'demi convert --calibrate DIR' "
              "has and 'demi opt' has not\n",
              stderr);
    return print_options(job, demi_convert_pipeline, err);
}

static bool run_job(Job *job, Err *err) {
    const Parsed *parsed = job->parsed;
    const bool measures_only = job->program->ranks.part != 0; /* the first process writes */
    if (!measure_for_print(job, err)) return false;
    if (parsed_flag(parsed, "print-pipeline")) return measures_only || print_pipeline(job, err);
    if (parsed_flag(parsed, "print-policy"))
        return measures_only || print_options(job, demi_convert_policy, err);
    if (!find_files(job, err) || (!measures_only && !open_outputs(job, err))) return false;
    const ConsoleModel model = {job->program, parsed, job->input};
    if (!verify_run(&model, &job->options, &job->verified, err)) return false;
    if (measures_only) return true;
    job->run.rounded = job->verified.rounded;
    return console_load(job->program, parsed, job->input, &job->model, err) && convert(job, err);
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    Job job = {.program = program, .parsed = parsed};
    bool ok = fill_options(&job, err) && run_job(&job, err);
    demi_report_free(job.report);
    demi_verdict_free(job.verified.verdict);
    demi_rounded_free(job.verified.rounded);
    demi_free(job.model);
    demi_passes_free(job.passes);
    return ok;
}

const Command command_convert = {
    .name = "convert",
    .summary = "convert a model to mixed precision, or quantize it",
    .usage = "IN [-o] OUT [OPTIONS]",
    .about =
        "Reads IN, chooses the precision of every operator, inserts the casts that this requires, "
        "converts the weights, and writes a valid ONNX model to OUT. Inputs and outputs keep their "
        "names and types, unless you give --io low.\n\nSome operators are kept in float32: those "
        "that lose accuracy in 16-bit, those without a 16-bit form at the model's opset, and those "
        "with constants out of range. The report counts them by reason, and --why prints the "
        "reason of one node. --to int8 and the like quantize the model instead: pairs of "
        "QuantizeLinear and DequantizeLinear mark what runs in integer arithmetic. OUT appears "
        "completely or not at all; after an error, the old file is intact.",
    .examples =
        "# the main job, then a look at what it would do with bfloat16\n"
        "demi convert model.onnx -o model.fp16.onnx\n"
        "demi convert model.onnx --to bfloat16 --dry-run\n"
        "# keep the classifier head and all Softmax nodes in fp32, and write a report\n"
        "demi convert model.onnx -o out.onnx --keep '/head/*' \\\n"
        "    --keep-ops Softmax --json report.json\n"
        "# quantize values and weights to 8 bits, by what values reach on samples\n"
        "demi convert model.onnx -o model.int8.onnx --to int8 --calibrate samples\n"
        "# the same bytes, by four processes that share the samples\n"
        "mpirun -n 4 demi convert model.onnx -o model.int8.onnx --to int8 --calibrate samples\n"
        "# why is this node not float16?\n"
        "demi convert model.onnx --why /head/MatMul\n",
    .arguments = arguments,
    .options = options,
    .common = "output to io keep keep-ops verify calibrate max-error policy why dry-run report "
              "json quiet help",
    .shares = true,
    .run = run,
};
