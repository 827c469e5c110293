// SPDX-License-Identifier: Apache-2.0
/* Reports as JSON, and where they go; see report_out.h. Field names are an interface that scripts
 * rely on: add, never rename. */
#include <string.h>
#include <strings.h>

#include "report_out.h"
#include "convert_verify.h"

static void write_counts(const DemiReport *report, DemiReportList list, const char *key,
                         JsonWriter *json) {
    json_open(json, key, '{');
    for (size_t i = 0; i < demi_report_row_count(report, list); i++) {
        const DemiReportRow *row = demi_report_row(report, list, i);
        json_open(json, row->name, '{');
        json_unsigned(json, "before", row->before);
        json_unsigned(json, "after", row->after);
        json_close(json, '}');
    }
    json_close(json, '}');
}

/* Each with its type, and what it says before that as `before`, where it is something else. */
static void write_typed(const DemiReport *report, DemiReportList list, const char *key,
                        const char *before, JsonWriter *json) {
    json_open(json, key, '[');
    for (size_t i = 0; i < demi_report_row_count(report, list); i++) {
        const DemiReportRow *row = demi_report_row(report, list, i);
        json_open(json, NULL, '{');
        json_text(json, "name", row->name);
        json_text(json, "type", row->text_after);
        if (row->text_before[0] && strcmp(row->text_before, row->text_after) != 0)
            json_text(json, before, row->text_before);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_nodes(const DemiReport *report, JsonWriter *json) {
    json_open(json, "nodes", '[');
    for (size_t i = 0; i < demi_report_node_count(report); i++) {
        const DemiReportNode *node = demi_report_node(report, i);
        json_open(json, NULL, '{');
        json_text(json, "name", node->name);
        json_text(json, "op_type", node->op_type);
        if (node->domain[0]) json_text(json, "domain", node->domain);
        if (node->graph[0]) json_text(json, "graph", node->graph);
        json_text(json, "dtype", node->dtype);
        json_text(json, "reason", node->reason);
        json_text(json, "kind", node->kind);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_tensors(const DemiReport *report, JsonWriter *json) {
    static const char *const fates[] = {[DEMI_TENSOR_STORED] = "stored",
                                        [DEMI_TENSOR_CLAMPED] = "clamped",
                                        [DEMI_TENSOR_KEPT] = "kept"};
    json_open(json, "tensors", '[');
    for (size_t i = 0; i < demi_report_tensor_count(report); i++) {
        const DemiReportTensor *tensor = demi_report_tensor(report, i);
        json_open(json, NULL, '{');
        json_text(json, "name", tensor->name);
        json_text(json, "fate", fates[tensor->fate]);
        json_unsigned(json, "count", tensor->count);
        json_unsigned(json, "overflow", tensor->overflow);
        json_unsigned(json, "underflow", tensor->underflow);
        json_unsigned(json, "subnormal", tensor->subnormal);
        json_number(json, "max_abs", tensor->max_abs);
        json_number(json, "min_abs", tensor->min_abs);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_totals(const DemiReport *report, JsonWriter *json) {
    const DemiReportTotals *totals = demi_report_totals(report);
    json_open(json, "node_count", '{');
    json_unsigned(json, "before", totals->nodes_before);
    json_unsigned(json, "after", totals->nodes_after);
    json_close(json, '}');
    json_open(json, "casts", '{');
    json_unsigned(json, "added", totals->casts_added);
    json_unsigned(json, "removed", totals->casts_removed);
    json_unsigned(json, "fused", totals->casts_fused);
    json_unsigned(json, "remaining", totals->casts_remaining);
    json_close(json, '}');
    json_open(json, "placement", '{');
    json_unsigned(json, "casts", totals->casts_remaining);
    json_unsigned(json, "bytes_converted", totals->run_bytes_converted);
    json_unsigned(json, "bytes_fp32", totals->run_bytes_fp32);
    json_unsigned(json, "bytes_stored", totals->run_bytes_stored);
    json_unsigned(json, "cost", totals->run_cost);
    json_close(json, '}');
    json_open(json, "bytes", '{');
    json_unsigned(json, "before", totals->bytes_before);
    json_unsigned(json, "after", totals->bytes_after);
    json_close(json, '}');
    json_open(json, "values", '{');
    json_unsigned(json, "overflow", totals->overflow);
    json_unsigned(json, "underflow", totals->underflow);
    json_unsigned(json, "subnormal", totals->subnormal);
    write_tensors(report, json);
    json_close(json, '}');
}

static void write_passes(const DemiReport *report, JsonWriter *json) {
    json_open(json, "passes", '[');
    for (size_t i = 0; i < demi_report_row_count(report, DEMI_REPORT_PASSES); i++) {
        const DemiReportRow *row = demi_report_row(report, DEMI_REPORT_PASSES, i);
        json_open(json, NULL, '{');
        json_text(json, "name", row->name);
        json_unsigned(json, "rewrites", row->after);
        json_number(json, "seconds", row->seconds);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_advice(const DemiReport *report, JsonWriter *json) {
    json_open(json, "notes", '[');
    for (size_t i = 0; i < demi_report_row_count(report, DEMI_REPORT_ADVICE); i++)
        json_text(json, NULL, demi_report_row(report, DEMI_REPORT_ADVICE, i)->name);
    json_close(json, ']');
}

void report_write_fields(const DemiReport *report, const ReportTitle *title, JsonWriter *json) {
    json_text(json, "demi", demi_version());
    json_text(json, "input", title->input);
    if (title->output) json_text(json, "output", title->output);
    json_number(json, "seconds", title->seconds);
    write_totals(report, json);
    write_counts(report, DEMI_REPORT_OPERATORS, "operators", json);
    write_counts(report, DEMI_REPORT_WEIGHTS, "weights", json);
    write_typed(report, DEMI_REPORT_INPUTS, "inputs", "type_before", json);
    write_typed(report, DEMI_REPORT_OUTPUTS, "outputs", "type_before", json);
    write_passes(report, json);
    write_advice(report, json);
    write_typed(report, DEMI_REPORT_UNEVEN, "uneven", "", json);
    write_typed(report, DEMI_REPORT_TRAINING, "training", "role", json);
    if (title->verified) verify_json(title->verified, json);
    write_nodes(report, json);
}

void report_write_json(const DemiReport *report, const ReportTitle *title, JsonWriter *json) {
    json_open(json, NULL, '{');
    report_write_fields(report, title, json);
    json_close(json, '}');
}

static void write_after(const DemiReport *report, DemiReportList list, const char *key,
                        JsonWriter *json) {
    json_open(json, key, '{');
    for (size_t i = 0; i < demi_report_row_count(report, list); i++) {
        const DemiReportRow *row = demi_report_row(report, list, i);
        json_unsigned(json, row->name, row->after);
    }
    json_close(json, '}');
}

void report_write_facts(const DemiReport *report, JsonWriter *json) {
    const DemiReportTotals *totals = demi_report_totals(report);
    json_signed(json, "ir_version", totals->ir_after);
    write_after(report, DEMI_REPORT_OPSETS, "opsets", json);
    write_typed(report, DEMI_REPORT_INPUTS, "inputs", "type_before", json);
    write_typed(report, DEMI_REPORT_OUTPUTS, "outputs", "type_before", json);
    json_unsigned(json, "node_count", totals->nodes_after);
    write_after(report, DEMI_REPORT_OPERATORS, "operators", json);
    json_unsigned(json, "weight_bytes", totals->bytes_after);
    write_after(report, DEMI_REPORT_WEIGHTS, "weights", json);
    write_typed(report, DEMI_REPORT_TRAINING, "training", "role", json);
}

/* ---- where it goes --------------------------------------------------------------------------- */

static bool has_option(const Parsed *parsed, const char *name) {
    for (const OptionRow *row = parsed->command->options; row->name; row++)
        if (strcmp(row->name, name) == 0) return true;
    return false;
}

static bool is_model_name(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && (strcasecmp(dot, ".onnx") == 0 || strcasecmp(dot, ".onnxtxt") == 0);
}

/* `--json` takes the next word, so that this is nearly always a slip, and a costly one. */
static bool check_path(const char *option, const char *path, Err *err) {
    if (!is_model_name(path)) return true;
    err_set(err, ERR_USAGE, "option '--%s' would overwrite a model", option);
    err_actual(err, "'%s'", path);
    return false;
}

OutFile *report_open(Program *program, const char *option, const char *path, Err *err) {
    return check_path(option, path, err) ? outputs_open(program, option, path, err) : NULL;
}

bool report_plan(Program *program, bool output_taken, ReportPlan *plan, Err *err) {
    const Parsed *parsed = program->parsed;
    *plan = (ReportPlan){.json = parsed_value(parsed, "json"), .json_error = output_taken};
    bool json_to_output = plan->json && strcmp(plan->json, "-") == 0;
    plan->results = output_taken || json_to_output ? stderr : stdout;
    plan->text = plan->results;
    if (has_option(parsed, "quiet") && parsed_flag(parsed, "quiet")) plan->text = NULL;
    plan->color = plan->text && console_has_color(program, plan->text);
    if (!plan->json || json_to_output) return true;
    plan->file = report_open(program, "json", plan->json, err);
    if (!plan->file && is_model_name(plan->json))
        err_hint(err, "put --json last, or write --json=- for standard output");
    return plan->file != NULL;
}

bool report_json_to(Program *program, const ReportPlan *plan, JsonFill fill, void *data, Err *err) {
    JsonWriter *json = ARENA_NEW(program->arena, JsonWriter);
    OutputFile output = {plan->file, err};
    if (plan->file)
        json_start(json, outputs_write, &output);
    else
        json_start(json, plan->json_error ? console_write_error : console_write, program);
    fill(json, data);
    return json_finish(json) || err_set(err, ERR_ENV, "cannot write the JSON report");
}
