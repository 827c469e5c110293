// SPDX-License-Identifier: Apache-2.0
/* demi check: is this model valid, and is it its reference but for precision? Prints its facts, or
 * the first fault; then what differs from the reference, a line each. */
#include <string.h>

#include "commands.h"
#include "console.h"
#include "demi_front.h"
#include "model_against.h"
#include "report_out.h"

static const ArgumentRow arguments[] = {
    {"FILE", "The model: an ONNX file, text (.onnxtxt), or '-'."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    {"against", 0, OPTION_ROW_VALUE, "REF", NULL,
     "Also compare with the model it was made from: the same inputs and outputs, nodes, shapes and "
     "metadata, casts apart; weights equal or rounded to nearest even; float as float16 or "
     "bfloat16 "
     "wherever a type is said; opsets may be raised."},
    {"max-error", 0, OPTION_ROW_VALUE, "X", NULL,
     "Not there yet: demi compare REF FILE has the numbers."},
    {"data", 0, OPTION_ROW_VALUE, "DIR", NULL,
     "Not there yet: demi compare REF FILE has the numbers."},
    OPTION_JSON("Write the result as JSON too. Without FILE (as the last word, or before another "
                "option) it goes to standard output and the text to standard error."),
    OPTION_QUIET,
    OPTION_DATA_ROOT,
    OPTION_HARDLINKS,
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

typedef struct Result {
    const char *file;
    const DemiReport *report; /* NULL where the model could not be read */
    const Err *fault;         /* code ERR_NONE: valid */
    const char *against;      /* or NULL */
    const Words *differences; /* from it */
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
    }
    json_close(json, '}');
}

typedef struct Job {
    Program *program;
    Words differences;
} Job;

static void take_difference(void *data, const char *line) {
    Job *job = data;
    Arena *arena = job->program->arena;
    const char *copy = arena_copy(arena, line, strlen(line));
    VEC_PUSH(arena, &job->differences, copy);
}

static bool make_types_exact(DemiModel *model, const char *file, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiStatus status = demi_run_pipeline(model, "infer-dtypes", NULL, NULL, &error);
    if (console_check(status, &error, err)) return true;
    err_file(err, file);
    return false;
}

/* What differs from the reference goes to the job; false where that can't be told. */
static bool compare(Job *job, const Parsed *parsed, DemiModel *model, Err *err) {
    const char *file = parsed_argument(parsed, 0), *against = parsed_value(parsed, "against");
    DemiModel *reference = NULL;
    Arena scratch;
    if (!console_load(job->program, parsed, against, &reference, err)) return false;
    arena_init(&scratch, job->program->arena->trap);
    bool ok = make_types_exact(model, file, err) && make_types_exact(reference, against, err) &&
              model_against(demi_front_model(model), demi_front_model(reference), &scratch,
                            take_difference, job, err);
    arena_free(&scratch);
    demi_free(reference);
    return ok;
}

/* Loads and checks; what is wrong with the model, or the comparison, goes to *fault. */
static void examine(Job *job, const Parsed *parsed, DemiReport **report, Err *fault) {
    DemiModel *model = NULL;
    DemiError error = DEMI_ERROR_INIT;
    if (!console_load(job->program, parsed, parsed_argument(parsed, 0), &model, fault)) return;
    if (console_check(demi_describe(model, report, &error), &error, fault))
        console_check(demi_check(model, &error), &error, fault);
    if (fault->code != ERR_NONE)
        err_file(fault, parsed_argument(parsed, 0));
    else if (parsed_value(parsed, "against"))
        compare(job, parsed, model, fault);
    demi_free(model);
}

static bool check_options(const Parsed *parsed, Err *err) {
    static const char *const later[] = {"max-error", "data"};
    for (size_t i = 0; i < 2; i++) {
        if (!parsed_value(parsed, later[i])) continue;
        err_set(err, ERR_USAGE, "option '--%s' is not there yet", later[i]);
        err_hint(err, "--against REF compares everything but the numbers, demi compare those");
        return false;
    }
    const char *against = parsed_value(parsed, "against"), *file = parsed_argument(parsed, 0);
    if (!against || !file || strcmp(against, "-") != 0 || strcmp(file, "-") != 0) return true;
    return err_set(err, ERR_USAGE, "only one model can come from standard input");
}

static void print_differences(const Job *job, const char *against, FILE *out) {
    for (size_t i = 0; i < job->differences.count; i++) {
        const char *line = job->differences.items[i];
        report_put(out, line, strlen(line));
        fputc('\n', out);
    }
    if (!job->differences.count)
        fprintf(out, "the same as %s, but for precision\n", against);
    else
        fprintf(out, "%zu difference%s from %s\n", job->differences.count,
                job->differences.count == 1 ? "" : "s", against);
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    ReportPlan plan;
    Err fault = {.code = ERR_NONE};
    DemiReport *report = NULL;
    const char *file = parsed_argument(parsed, 0);
    if (!file) return console_missing(parsed, "a model to check", err);
    if (!check_options(parsed, err) || !report_plan(parsed, false, &plan, err)) return false;
    Job job = {.program = program};
    examine(&job, parsed, &report, &fault);
    const char *against = parsed_value(parsed, "against");
    Result result = {.file = file,
                     .report = report,
                     .fault = &fault,
                     .against = against,
                     .differences = &job.differences};
    bool ok = true;
    if (fault.code == ERR_NONE && plan.text) {
        report_print_stats(report, file, plan.text);
        fprintf(plan.text, "valid\n");
        if (against) print_differences(&job, against, plan.text);
    }
    if (job.differences.count) program->exit_code = 1;
    /* A file that is not there, or can't be read, has no result. */
    if (plan.json && fault.code <= ERR_MODEL)
        ok = report_json_to(program, &plan, fill_json, &result, err);
    demi_report_free(report);
    if (ok && fault.code != ERR_NONE) *err = fault;
    return err->code == ERR_NONE;
}

const Command command_check = {
    .name = "check",
    .summary = "check that a model is valid, and against another",
    .usage = "FILE [OPTIONS]",
    .about =
        "Checks that FILE is a valid model: its encoding, names, definitions before uses, tensors "
        "as long as their shapes say, and every known operator against its definition at the "
        "model's opset: number of inputs and outputs, attributes, types. A valid model's facts are "
        "printed and the exit code is 0; otherwise the first fault is, and it is 1.\n"
        "\n"
        "With --against REF the model must also be REF but for precision; each difference is a "
        "line, "
        "and any makes the exit code 1.",
    .examples = "demi check model.onnx\n"
                "demi check model.onnx --quiet && echo fine\n"
                "demi check model.fp16.onnx --against model.onnx\n"
                "demi check model.onnx --json\n",
    .arguments = arguments,
    .options = options,
    .run = run,
};
