// SPDX-License-Identifier: Apache-2.0
/* demi check: is this model valid, is it its reference but for precision, is it what a policy makes
 * of that, and does it compute the same? Prints its facts, or the first fault; then what differs
 * from the reference, a line each. */
#include <string.h>

#include "check_numbers.h"
#include "check_plan.h"
#include "commands.h"
#include "console.h"
#include "convert_options.h"
#include "demi_trials.h"
#include "report_out.h"
#include "run_options.h"

static const ArgumentRow arguments[] = {
    {"FILE", "The model: an ONNX file, text (.onnxtxt), or '-'."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    {"against", 0, OPTION_ROW_VALUE, "REF", NULL,
     "Also compare with the model that it was converted from. Inputs and outputs, nodes, shapes, "
     "and metadata must be the same, apart from casts. Weights must be equal or rounded to nearest "
     "even. float may be float16 or bfloat16 in any type. Opsets may be raised; operators are then "
     "as 'upgrade-opset' writes them."},
    {"full", 0, OPTION_ROW_FLAG, NULL, NULL,
     "For a plan, with --against: compile REF again and compare every byte, including external "
     "weights."},
    {"policy", 0, OPTION_ROW_VALUE, "FILE", NULL,
     "With --against: FILE must be what 'demi convert REF --policy FILE' writes. A file, or "
     "float16, bfloat16, or fast."},
    {"max-error", 'e', OPTION_ROW_VALUE, "X", NULL,
     "With --against: run both models, and fail if an output differs by more, relative to the "
     "largest magnitude of the reference. The default is 0.1 if FILE is quantized, 0.02 if one of "
     "them has 16-bit values, and else 1e-4."},
    {"atol", 0, OPTION_ROW_VALUE, "X", NULL,
     "A difference that is acceptable for values of any magnitude (default 6.2e-5 if one of the "
     "models has 16-bit values, else 1e-7)."},
    RUN_OPTIONS,
    OPTION_JSON("Also write the result as JSON. Without FILE (as the last word, or before another "
                "option), JSON goes to standard output and the text to standard error."),
    OPTION_QUIET,
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

typedef struct Result {
    const char *file;
    const DemiReport *report;   /* NULL where the model could not be read */
    const Err *fault;           /* code ERR_NONE: valid */
    const char *against;        /* or NULL */
    const Words *differences;   /* from it */
    const DemiVerdict *numbers; /* NULL: not asked for */
} Result;

static void write_fault(const Err *fault, JsonWriter *json) {
    const struct {
        const char *key, *value;
    } fields[] = {
        {"graph", fault->graph},     {"node", fault->node}, {"op_type", fault->op_type},
        {"operand", fault->operand}, {"what", fault->what}, {"expected", fault->expected},
        {"actual", fault->actual},   {"hint", fault->hint},
    };
    json_open(json, "fault", '{');
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].value[0]) json_text(json, fields[i].key, fields[i].value);
    json_close(json, '}');
}

static void fill_json(JsonWriter *json, void *data) {
    const Result *result = data;
    json_open(json, NULL, '{');
    json_text(json, "file", result->file);
    json_boolean(json, "valid", result->fault->code == ERR_NONE);
    if (result->fault->code != ERR_NONE) write_fault(result->fault, json);
    if (result->report) report_write_facts(result->report, json);
    if (result->against && result->fault->code == ERR_NONE) {
        json_text(json, "against", result->against);
        json_open(json, "differences", '[');
        for (size_t i = 0; i < result->differences->count; i++)
            json_text(json, NULL, result->differences->items[i]);
        json_close(json, ']');
        if (result->numbers) check_numbers_json(result->numbers, json);
    }
    json_close(json, '}');
}

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    const char *file, *against; /* against may be NULL */
    Words differences;
    DemiVerdict *numbers; /* NULL: not asked for */
} Job;

static bool take_difference(void *data, const char *line) {
    Job *job = data;
    Arena *arena = job->program->arena;
    const char *copy = arena_copy(arena, line, strlen(line));
    VEC_PUSH(arena, &job->differences, copy);
    return true;
}

/* What differs from the reference goes to the job; false where that can't be told. */
static bool compare(Job *job, DemiModel *model, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiAgainstOptions how = DEMI_AGAINST_OPTIONS_INIT;
    DemiConvertOptions policy = DEMI_CONVERT_OPTIONS_INIT;
    ConsoleModel reference = {job->program, job->parsed, job->against};
    DemiSource source = console_source(&reference);
    if (parsed_value(job->parsed, "policy")) how.made_by = &policy;
    if (!convert_options_policy(job->program->arena, job->parsed, &policy, err)) return false;
    DemiStatus status = demi_against(model, &source, &how, take_difference, job, &error);
    if (!error_take(err, status, &error)) return false;
    const CheckPair pair = {{job->program, job->parsed, job->file}, reference};
    return !check_numbers_asked(job->parsed) || check_numbers_run(&pair, &job->numbers, err);
}

/* Loads and checks; what is wrong with the model, or the comparison, goes to *fault. */
static void examine(Job *job, DemiReport **report, Err *fault) {
    DemiModel *model = NULL;
    DemiError error = DEMI_ERROR_INIT;
    if (!console_load(job->program, job->parsed, job->file, &model, fault)) return;
    if (error_take(fault, demi_describe(model, report, &error), &error))
        error_take(fault, demi_check(model, &error), &error);
    if (fault->code != ERR_NONE)
        err_file(fault, job->file);
    else if (job->against)
        compare(job, model, fault);
    demi_free(model);
}

static bool check_options(const Job *job, Err *err) {
    bool numbers = check_numbers_asked(job->parsed);
    bool again = numbers || parsed_value(job->parsed, "policy");
    bool from_input = strcmp(job->file, "-") == 0;
    if (!job->against) {
        if (!numbers && !parsed_value(job->parsed, "policy")) return true;
        err_set(err, ERR_USAGE, "there is nothing to compare with");
        err_hint(err, "--policy, --max-error, and inputs require --against REF");
        return false;
    }
    bool reference_from_input = strcmp(job->against, "-") == 0;
    if (from_input && reference_from_input)
        return err_set(err, ERR_USAGE, "only one model can come from standard input");
    if ((numbers && from_input) || (again && reference_from_input))
        return err_set(err, ERR_USAGE, "cannot read standard input twice: give a file");
    return true;
}

static void print_differences(const Job *job, const char *against, FILE *out) {
    for (size_t i = 0; i < job->differences.count; i++) {
        const char *line = job->differences.items[i];
        report_put(out, line, strlen(line));
        fputc('\n', out);
    }
    if (!job->differences.count)
        fputs("the same as ", out);
    else
        fprintf(out, "%zu difference%s from ", job->differences.count,
                job->differences.count == 1 ? "" : "s");
    report_puts(out, against);
    fputs(job->differences.count ? "\n" : ", apart from precision\n", out);
}

static void print_result(const Job *job, const DemiReport *report, const ReportPlan *plan) {
    FILE *out = plan->text;
    fprintf(out, "%svalid%s\n", console_paint(plan->color, PAINT_GOOD),
            console_paint(plan->color, PAINT_PLAIN));
    report_print_stats(report, job->file, out);
    if (!job->against) return;
    print_differences(job, job->against, out);
    if (job->numbers) check_numbers_print(job->numbers, job->program->arena, out);
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    ReportPlan plan;
    Err fault = {.code = ERR_NONE};
    DemiReport *report = NULL;
    Job job = {.program = program,
               .parsed = parsed,
               .file = parsed_argument(parsed, 0),
               .against = parsed_value(parsed, "against")};
    if (!job.file) return console_missing(parsed, "a model to check", err);
    if (session_is_plan(program->arena, job.file)) {
        if (check_numbers_asked(parsed) || parsed_value(parsed, "policy"))
            return err_set(err, ERR_USAGE, "use 'demi compare' to compare a plan with a model");
        bool ok = check_plan(program, parsed, job.file, err);
        if (!ok) err_file(err, job.file);
        if (ok && !parsed_flag(parsed, "quiet")) {
            report_puts(stdout, job.file);
            puts(": a valid plan");
        }
        return ok;
    }
    if (!check_options(&job, err) || !report_plan(program, false, &plan, err)) return false;
    examine(&job, &report, &fault);
    Result result = {.file = job.file,
                     .report = report,
                     .fault = &fault,
                     .against = job.against,
                     .differences = &job.differences,
                     .numbers = job.numbers};
    bool ok = true;
    if (fault.code == ERR_NONE && plan.text) print_result(&job, report, &plan);
    bool beyond = job.numbers && demi_verdict_totals(job.numbers)->beyond;
    if (job.differences.count || beyond) program->exit_code = 1;
    /* A file that is not there, or can't be read, has no result. */
    if (plan.json && fault.code <= ERR_MODEL)
        ok = report_json_to(program, &plan, fill_json, &result, err);
    if (fault.code <= ERR_MODEL) ok = ok && outputs_commit(program, NULL, err);
    demi_report_free(report);
    demi_verdict_free(job.numbers);
    if (ok && fault.code != ERR_NONE) *err = fault;
    return err->code == ERR_NONE;
}

const Command command_check = {
    .name = "check",
    .summary = "check that a model is valid, or compare it with its original",
    .usage = "FILE [OPTIONS]",
    .about =
        "Checks that FILE is a valid model: its encoding, names, the order of nodes, the sizes of "
        "tensors, and every known operator against its definition at the model's opset (number of "
        "inputs and outputs, attributes, types). It also infers types and shapes from inputs and "
        "constants, and compares them with branches, loops, and declarations. demi refuses "
        "whatever ONNX's full checker with strict shape inference refuses. For a valid model, demi "
        "prints a summary and exits with 0. Otherwise, it prints the first error and exits with "
        "1.\n\nA plan is checked as the runtime checks it before a run, and all its bytes must be "
        "intact, including weights. With --against MODEL, the plan must have been compiled from "
        "that file, according to the hash of the file's bytes. Only --full covers external "
        "data.\n\nWith --against REF, the model must also equal REF apart from precision. Each "
        "difference is a line, and any difference makes the exit code 1. With inputs (--data, "
        "--random, --input) or --max-error, both models run on each set of inputs. An output that "
        "differs by more than --max-error also makes the exit code 1. Use this as a gate in "
        "continuous integration. 'demi compare' shows where the difference begins.",
    .examples = "demi check model.onnx\n"
                "demi check model.onnx --quiet && echo fine\n"
                "demi check model.fp16.onnx --against model.onnx\n"
                "demi check model.fp16.onnx --against model.onnx --data samples --max-error 0.01\n"
                "demi check model.onnx --json\n",
    .arguments = arguments,
    .options = options,
    .common = "against policy max-error data random json quiet help",
    .run = run,
};
