// SPDX-License-Identifier: Apache-2.0
/* demi check: is this model valid? Prints its facts, or the first fault. */
#include <string.h>

#include "commands.h"
#include "console.h"
#include "report_out.h"

static const ArgumentRow arguments[] = {
    {"FILE", "The model: an ONNX file, text (.onnxtxt), or '-'."},
    {NULL, NULL},
};

static const OptionRow options[] = {
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
    json_close(json, '}');
}

/* Loads and checks; what is wrong with the model goes to *fault. */
static void examine(Program *program, const Parsed *parsed, DemiReport **report, Err *fault) {
    DemiModel *model = NULL;
    DemiError error = DEMI_ERROR_INIT;
    if (!console_load(program, parsed, parsed_argument(parsed, 0), &model, fault)) return;
    if (console_check(demi_describe(model, report, &error), &error, fault))
        console_check(demi_check(model, &error), &error, fault);
    if (fault->code != ERR_NONE) err_file(fault, parsed_argument(parsed, 0));
    demi_free(model);
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    ReportPlan plan;
    Err fault = {.code = ERR_NONE};
    DemiReport *report = NULL;
    const char *file = parsed_argument(parsed, 0);
    if (!file) return console_missing(parsed, "a model to check", err);
    if (!report_plan(parsed, false, &plan, err)) return false;
    examine(program, parsed, &report, &fault);
    Result result = {.file = file, .report = report, .fault = &fault};
    bool ok = true;
    if (fault.code == ERR_NONE && plan.text) {
        report_print_stats(report, file, plan.text);
        fprintf(plan.text, "valid\n");
    }
    /* A file that is not there, or can't be read, has no result. */
    if (plan.json && fault.code <= ERR_MODEL)
        ok = report_json_to(program, &plan, fill_json, &result, err);
    demi_report_free(report);
    if (ok && fault.code != ERR_NONE) *err = fault;
    return err->code == ERR_NONE;
}

const Command command_check = {
    .name = "check",
    .summary = "check that a model is valid",
    .usage = "FILE [OPTIONS]",
    .about =
        "Checks that FILE is a valid model: its encoding, names, definitions before uses, tensors "
        "as long as their shapes say, and every known operator against its definition at the "
        "model's opset: number of inputs and outputs, attributes, types. A valid model's facts are "
        "printed and the exit code is 0; otherwise the first fault is, and it is 1.",
    .examples = "demi check model.onnx\n"
                "demi check model.onnx --quiet && echo fine\n"
                "demi check model.onnx --json\n",
    .arguments = arguments,
    .options = options,
    .run = run,
};
