// SPDX-License-Identifier: Apache-2.0
/* demi diff: what differs between two models, as lines of a patch or as JSON. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "console.h"
#include "demi_trials.h"
#include "report_out.h"
#include "escaped.h"

static const ArgumentRow arguments[] = {
    {"A", "A model: an ONNX file, text (.onnxtxt), or '-'."},
    {"B", "The model to compare it with."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    {"limit", 0, OPTION_ROW_VALUE, "N", NULL,
     "Print at most N differences (default 100; 0: all). The count and the JSON always include "
     "all."},
    {"strict", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Compare everything in the files, including order, doc strings, metadata, and unknown "
     "fields."},
    OPTION_JSON("Also write the differences as JSON. Without FILE (as the last word, or before "
                "another option), JSON goes to standard output and the text to standard error."),
    OPTION_QUIET,
    OPTION_DATA_ROOT,
    OPTION_HARDLINKS,
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

enum { DIFF_KIND_COUNT = DEMI_DIFF_FUNCTION + 1 };

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    const char *files[2];
    DemiModel *models[2];
    ReportPlan plan;
    uint64_t limit, count;
    uint64_t kinds[DIFF_KIND_COUNT][3]; /* by DemiDiffChange */
    JsonWriter *json;                   /* where the second walk writes to */
    Err *err;
    bool ok;
} Job;

static void put(FILE *out, const char *text) {
    enum { MOST = 60 };
    size_t length = strlen(text);
    report_put(out, text, escaped_cut(text, length, MOST));
    if (length > MOST) fputs("...", out);
}

/* "~ node 'n' (Conv), attribute pads: [0,0] -> [1,1]". */
static void print_line(const DemiDifference *diff, const ReportPlan *plan) {
    static const char marks[] = {
        [DEMI_DIFF_REMOVED] = '-', [DEMI_DIFF_ADDED] = '+', [DEMI_DIFF_CHANGED] = '~'};
    static const Paint paints[] = {[DEMI_DIFF_REMOVED] = PAINT_BAD,
                                   [DEMI_DIFF_ADDED] = PAINT_GOOD,
                                   [DEMI_DIFF_CHANGED] = PAINT_NOTE};
    FILE *out = plan->text;
    fprintf(out, "%s%c%s %s", console_paint(plan->color, paints[diff->change]), marks[diff->change],
            console_paint(plan->color, PAINT_PLAIN), demi_diff_kind_name(diff->kind));
    if (diff->name[0]) {
        fputs(" '", out);
        report_put(out, diff->name, strlen(diff->name));
        fputc('\'', out);
    }
    if (diff->op_type[0]) {
        fputs(" (", out);
        report_puts(out, diff->op_type);
        fputc(')', out);
    }
    if (diff->graph[0]) {
        fputs(" in '", out);
        put(out, diff->graph);
        fputc('\'', out);
    }
    if (diff->what[0]) {
        fputs(diff->name[0] ? ", " : " ", out);
        report_puts(out, diff->what);
    }
    if (diff->a[0] || diff->b[0]) {
        fputs(": ", out);
        put(out, diff->a[0] || diff->change != DEMI_DIFF_CHANGED ? diff->a : "none");
        if (diff->change == DEMI_DIFF_CHANGED) fputs(" -> ", out);
        put(out, diff->b[0] || diff->change != DEMI_DIFF_CHANGED ? diff->b : "none");
    }
    fputc('\n', out);
}

static bool take_text(void *data, const DemiDifference *diff) {
    Job *job = data;
    job->kinds[diff->kind][diff->change]++;
    job->count++;
    if (job->plan.text && (!job->limit || job->count <= job->limit)) print_line(diff, &job->plan);
    return true;
}

static bool take_json(void *data, const DemiDifference *diff) {
    static const char *const changes[] = {[DEMI_DIFF_REMOVED] = "removed",
                                          [DEMI_DIFF_ADDED] = "added",
                                          [DEMI_DIFF_CHANGED] = "changed"};
    Job *job = data;
    json_open(job->json, NULL, '{');
    json_text(job->json, "kind", demi_diff_kind_name(diff->kind));
    json_text(job->json, "change", changes[diff->change]);
    json_text(job->json, "name", diff->name);
    if (diff->op_type[0]) json_text(job->json, "op_type", diff->op_type);
    if (diff->graph[0]) json_text(job->json, "graph", diff->graph);
    if (diff->what[0]) json_text(job->json, "what", diff->what);
    if (diff->a[0]) json_text(job->json, "a", diff->a);
    if (diff->b[0]) json_text(job->json, "b", diff->b);
    json_close(job->json, '}');
    return true;
}

static bool compare(Job *job, DemiDiffFn visit) {
    DemiError error = DEMI_ERROR_INIT;
    DemiDiffOptions how = DEMI_DIFF_OPTIONS_INIT;
    how.strict = parsed_flag(job->parsed, "strict");
    DemiStatus status = demi_diff(job->models[0], job->models[1], &how, visit, job, &error);
    return error_take(job->err, status, &error);
}

static void fill_json(JsonWriter *json, void *data) {
    Job *job = data;
    json_open(json, NULL, '{');
    json_text(json, "a", job->files[0]);
    json_text(json, "b", job->files[1]);
    json_boolean(json, "same", job->count == 0);
    json_unsigned(json, "count", job->count);
    json_open(json, "differences", '[');
    job->json = json;
    job->ok = compare(job, take_json);
    json_close(json, ']');
    json_close(json, '}');
}

static void print_summary(const Job *job, FILE *out) {
    static const char *const changes[] = {"removed", "added", "changed"};
    if (job->count == 0) {
        fputs("same\n", out);
        return;
    }
    if (job->limit && job->count > job->limit)
        fprintf(out, "(%" PRIu64 " more; --limit 0 prints all)\n", job->count - job->limit);
    fprintf(out, "%" PRIu64 " difference%s:", job->count, job->count == 1 ? "" : "s");
    bool first = true;
    for (int kind = 0; kind < DIFF_KIND_COUNT; kind++)
        for (int change = 0; change < 3; change++) {
            uint64_t count = job->kinds[kind][change];
            if (!count) continue;
            fprintf(out, "%s %" PRIu64 " %s%s %s", first ? "" : ",", count,
                    demi_diff_kind_name((DemiDiffKind)kind), count == 1 ? "" : "s",
                    changes[change]);
            first = false;
        }
    fputc('\n', out);
}

static bool diff(Job *job, Err *err) {
    job->err = err;
    if (!compare(job, take_text)) return false;
    if (job->plan.text) print_summary(job, job->plan.text);
    job->ok = true;
    if (job->plan.json && !report_json_to(job->program, &job->plan, fill_json, job, err))
        return false;
    if (job->count) job->program->exit_code = 1;
    return job->ok && outputs_commit(job->program, NULL, err);
}

static bool read_limit(Job *job, Err *err) {
    const char *text = parsed_value(job->parsed, "limit");
    job->limit = 100;
    if (!text) return true;
    char *end;
    unsigned long long limit = strtoull(text, &end, 10);
    job->limit = limit;
    if (end != text && !*end && text[0] != '-') return true;
    err_set(err, ERR_USAGE, "option '--limit' needs a number");
    err_actual(err, "'%s'", text);
    return false;
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    Job job = {.program = program, .parsed = parsed};
    for (size_t i = 0; i < 2; i++) {
        job.files[i] = parsed_argument(parsed, i);
        if (!job.files[i]) return console_missing(parsed, "a model to compare", err);
    }
    if (strcmp(job.files[0], "-") == 0 && strcmp(job.files[1], "-") == 0)
        return err_set(err, ERR_USAGE, "only one model can come from standard input");
    if (!read_limit(&job, err) || !report_plan(program, false, &job.plan, err)) return false;
    bool ok = console_load(program, parsed, job.files[0], &job.models[0], err) &&
              console_load(program, parsed, job.files[1], &job.models[1], err) && diff(&job, err);
    demi_free(job.models[0]);
    demi_free(job.models[1]);
    return ok;
}

const Command command_diff = {
    .name = "diff",
    .summary = "list the differences between two models",
    .usage = "A B [OPTIONS]",
    .about =
        "Compares nodes, attributes, types, shapes, weights, inputs, outputs, functions, and "
        "opsets, matched by name. A node without a name is matched by its first output's. Lines "
        "begin with '-' for parts that only A has, '+' for parts that only B has, and '~' for "
        "changes. Order, doc strings, metadata, and the place of weights do not count, unless you "
        "give --strict.\n\nThe exit code is 0 if the models are the same, and 1 if they differ.",
    .examples =
        "demi diff model.onnx model.fp16.onnx\n"
        "demi diff old.onnx new.onnx --quiet || echo changed\n"
        "demi diff old.onnx new.onnx --json | jq '.differences[] | select(.kind==\"weight\")'"
        "\n",
    .arguments = arguments,
    .options = options,
    .run = run,
};
