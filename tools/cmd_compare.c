// SPDX-License-Identifier: Apache-2.0
/* demi compare: how far a model's outputs and inner values are from another's, or from saved ones,
 * and where the difference begins. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "compare_runs.h"
#include "dtype.h"
#include "node_pattern.h"
#include "report_out.h"
#include "value_io.h"

enum { MOST_KEEP = 16 };

static const ArgumentRow arguments[] = {
    {"A", "The reference: a model, a plan, or a folder of saved outputs."},
    {"B", "What is held against it: another model or plan. Either may be the folder."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    SESSION_OPTIONS,
    {"max-error", 'e', OPTION_ROW_VALUE, "X", NULL,
     "The largest difference of a value that is fine, by the largest magnitude of the reference; "
     "default 0.02 where one of both has 16-bit values, else 1e-4."},
    {"atol", 0, OPTION_ROW_VALUE, "X", NULL,
     "A difference that is fine however small the values are; default 6.2e-5 where one of both has "
     "16-bit values, else 1e-7."},
    {"worst", 0, OPTION_ROW_VALUE, "N", NULL,
     "Inner values to print, the furthest off first; default 10. --json has all."},
    {"save-inputs", 0, OPTION_ROW_VALUE, "DIR", NULL,
     "Write the inputs that were used as input_N.pb, as --data reads them."},
    OPTION_JSON("Write the result as JSON too. Without FILE (as the last word, or before another "
                "option) it goes to standard output and the text to standard error."),
    OPTION_QUIET,
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    Arena *arena;
    const char *reference, *other;
    Session a, b; /* a is not open where the reference is a folder */
    bool folder;
    Limit limit;
    uint64_t worst;
    ReportPlan plan;
    Comparison comparison;
    OutputErrors outputs;
    Words keep; /* patterns of nodes where bad values begin */
} Job;

/* ---- text ------------------------------------------------------------------------------------ */

static void print_header(FILE *out) {
    fprintf(out, "%10s %10s %10s %9s %8s %9s\n", "max error", "mean", "of scale", "ULP", "SQNR dB",
            "cosine");
}

static void print_diff(FILE *out, const ValueDiff *diff) {
    if (diff->mismatch) {
        fprintf(out, "%61s", "not comparable");
        return;
    }
    fprintf(out, "%10.3g %10.3g %10.3g %9.4g %8.1f ", diff->max_abs, diff->mean_abs, diff->error,
            diff->ulp, diff->sqnr);
    if (isnan(diff->cosine))
        fprintf(out, "%9s", "-");
    else
        fprintf(out, "%9.6f", diff->cosine);
}

static void print_name(FILE *out, const char *name) {
    fputs("  ", out);
    report_put(out, name, strlen(name));
}

static int by_error(const void *a, const void *b) {
    const ComparedValue *x = *(const ComparedValue *const *)a,
                        *y = *(const ComparedValue *const *)b;
    double p = x->diff.mismatch ? INFINITY : x->diff.error;
    double q = y->diff.mismatch ? INFINITY : y->diff.error;
    if (p != q) return p > q ? -1 : 1;
    return x < y ? -1 : x > y;
}

static const char *value_name(const Comparison *c, const ComparedValue *value) {
    return c->names.names[value->name]->text;
}

static void print_worst(const Job *job, FILE *out) {
    const Comparison *c = &job->comparison;
    size_t count = c->values.count;
    if (count == 0 || job->worst == 0) return;
    const ComparedValue **sorted = ARENA_ARRAY(job->arena, const ComparedValue *, count);
    for (size_t i = 0; i < count; i++) sorted[i] = &c->values.items[i];
    qsort(sorted, count, sizeof *sorted, by_error);
    fprintf(out, "\ninner values, furthest off first\n");
    print_header(out);
    for (size_t i = 0; i < count && i < job->worst; i++) {
        print_diff(out, &sorted[i]->diff);
        print_name(out, value_name(c, sorted[i]));
        fprintf(out, " %s\n", sorted[i]->type);
    }
}

static size_t beyond_count(const Job *job) {
    size_t count = 0;
    for (size_t i = 0; i < job->comparison.values.count; i++)
        count += limit_beyond(&job->limit, &job->comparison.values.items[i].diff);
    return count;
}

static const ComparedValue *first_bad(const Job *job) {
    for (size_t i = 0; i < job->comparison.values.count; i++)
        if (limit_beyond(&job->limit, &job->comparison.values.items[i].diff))
            return &job->comparison.values.items[i];
    return NULL;
}

static const ComparedStep *maker_of(const Comparison *c, const ComparedValue *value) {
    return &c->steps.items[c->steps.items[value->step].blamed];
}

/* For a shell: in single quotes. */
static const char *quoted(Arena *arena, const char *text) {
    const char *made = "'";
    for (;;) {
        size_t length = strcspn(text, "'");
        made =
            arena_printf(arena, "%s%.*s%s", made, (int)length, text, text[length] ? "'\\''" : "'");
        if (!text[length]) return made;
        text += length + 1;
    }
}

static const char *keep_arguments(const Job *job) {
    const char *text = "";
    for (size_t i = 0; i < job->keep.count && i < MOST_KEEP; i++)
        text = arena_printf(job->arena, "%s%s--keep %s", text, i ? " " : "",
                            quoted(job->arena, job->keep.items[i]));
    return text;
}

static void print_first(const Job *job, FILE *out) {
    const ComparedValue *bad = first_bad(job);
    fprintf(out, "\n%zu inner values compared, %zu beyond %g\n", job->comparison.values.count,
            beyond_count(job), job->limit.error);
    if (!bad) return;
    const ComparedStep *step = maker_of(&job->comparison, bad);
    fprintf(out, "first beyond it: ");
    const char *name = value_name(&job->comparison, bad);
    report_put(out, name, strlen(name));
    fprintf(out, " %s, made by node ", bad->type);
    report_put(out, step->name, strlen(step->name));
    fputs(" (", out);
    report_puts(out, step->op_type);
    fprintf(out, ")\n  %s\n", output_error_text(job->arena, &bad->diff));
    fprintf(out, "%s: ",
            job->keep.count > 1 ? "where it begins, to keep in float" : "to keep it in float");
    const char *keep = keep_arguments(job);
    report_put(out, keep, strlen(keep));
    fputc('\n', out);
    if (job->keep.count > MOST_KEEP)
        fprintf(out, "and %zu nodes more, which --json lists\n", job->keep.count - MOST_KEEP);
}

static void print_report(const Job *job, FILE *out) {
    fputs("reference ", out);
    report_puts(out, job->reference);
    fputs("\ncompared  ", out);
    report_puts(out, job->other);
    fputs("\n\noutputs\n", out);
    print_header(out);
    for (size_t i = 0; i < job->outputs.count; i++) {
        const OutputError *row = &job->outputs.items[i];
        print_diff(out, &row->diff);
        print_name(out, row->output);
        if (limit_beyond(&job->limit, &row->diff))
            fprintf(out, "%s  BEYOND%s", console_paint(job->plan.color, PAINT_BAD),
                    console_paint(job->plan.color, PAINT_PLAIN));
        fputc('\n', out);
    }
    print_worst(job, out);
    print_first(job, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_value(const Job *job, JsonWriter *json, const char *key,
                       const ComparedValue *value) {
    const ComparedStep *step = maker_of(&job->comparison, value);
    json_open(json, key, '{');
    json_text(json, "name", value_name(&job->comparison, value));
    json_text(json, "node", step->name);
    json_text(json, "op_type", step->op_type);
    json_text(json, "dtype", dtype_name((Dtype)value->dtype));
    json_text(json, "reference_dtype", dtype_name((Dtype)value->dtype_reference));
    output_error_json(json, &value->diff, &job->limit);
    json_close(json, '}');
}

static void fill_json(JsonWriter *json, void *data) {
    const Job *job = data;
    const ComparedValue *bad = first_bad(job);
    json_open(json, NULL, '{');
    json_text(json, "reference", job->reference);
    json_text(json, "compared", job->other);
    json_number(json, "max_error", job->limit.error);
    json_number(json, "atol", job->limit.least);
    json_open(json, "outputs", '[');
    for (size_t i = 0; i < job->outputs.count; i++) {
        json_open(json, NULL, '{');
        json_text(json, "name", job->outputs.items[i].output);
        output_error_json(json, &job->outputs.items[i].diff, &job->limit);
        json_close(json, '}');
    }
    json_close(json, ']');
    if (bad) json_value(job, json, "first_bad", bad);
    json_open(json, "keep", '[');
    for (size_t i = 0; i < job->keep.count; i++) json_text(json, NULL, job->keep.items[i]);
    json_close(json, ']');
    json_open(json, "values", '[');
    for (size_t i = 0; i < job->comparison.values.count; i++)
        json_value(job, json, NULL, &job->comparison.values.items[i]);
    json_close(json, ']');
    json_close(json, '}');
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool judge(const Job *job, Err *err) {
    for (size_t i = 0; i < job->outputs.count; i++) {
        const OutputError *row = &job->outputs.items[i];
        if (!limit_beyond(&job->limit, &row->diff)) continue;
        err_set(err, ERR_MODEL, "it is beyond %g: %s", job->limit.error,
                output_error_text(job->arena, &row->diff));
        err_file(err, job->other);
        err_operand(err, "output '%s'", row->output);
        if (job->keep.count) err_hint(err, "%s", keep_arguments(job));
        return false;
    }
    return true;
}

static bool find_inputs(Job *job, Err *err) {
    Words folders;
    Session *first = job->folder ? &job->b : &job->a;
    const char *save = parsed_value(job->parsed, "save-inputs");
    if (!session_data_folders(job->program, parsed_value(job->parsed, "data"), &folders, err))
        return false;
    const char *folder = folders.count ? folders.items[0] : NULL;
    return session_find_inputs(first, job->program, job->parsed, folder, "0", err) &&
           (!save || session_save_inputs(first, job->program, save, err)) &&
           (job->folder || session_take_inputs(&job->b, job->program, &job->a, err));
}

/* What the unconverted model calls the node to blame for what `step` made. Without a name it is
 * called by its first output; where that was left to a Cast, by what this makes. */
static const char *keep_pattern(const Job *job, const ComparedStep *step) {
    const Comparison *c = &job->comparison;
    const ComparedStep *maker = &c->steps.items[step->blamed];
    const char *made = maker->output_count ? c->names.names[maker->outputs[0]]->text : "";
    if (maker == step || strcmp(maker->name, made) != 0)
        return node_pattern_exact(maker->name, job->arena);
    const char *value = c->names.names[step->outputs[0]]->text;
    if (maker->outputs[0] == step->inputs[0]) return node_pattern_exact(value, job->arena);
    return arena_printf(job->arena, "out:%s", value);
}

/* The nodes where bad values begin, each once: a body of a loop runs again and again. */
static void find_keep(Job *job) {
    const Comparison *c = &job->comparison;
    SymTable seen;
    sym_table_init(&seen, job->arena);
    for (size_t i = 0; i < c->steps.count; i++) {
        if (!c->steps.items[i].origin) continue;
        const char *pattern = keep_pattern(job, &c->steps.items[i]);
        if (sym_intern_cstr(&seen, pattern)->number == job->keep.count)
            VEC_PUSH(job->arena, &job->keep, pattern);
    }
}

static bool compare(Job *job, Err *err) {
    Comparison *c = &job->comparison;
    OutputReference reference = {job->reference, job->folder ? NULL : &job->a};
    comparison_init(c, job->arena);
    if (job->folder) c->folder = job->reference;
    if (!find_inputs(job, err)) return false;
    if (!job->folder && !comparison_reference(c, &job->a, err)) return false;
    if (!comparison_run(c, &job->b, err) ||
        !output_errors(job->arena, &reference, &job->b, &job->outputs, err) ||
        !limit_find(job->parsed, c->low, &job->limit, err))
        return false;
    comparison_judge(c, &job->limit);
    find_keep(job);
    if (job->plan.text) print_report(job, job->plan.text);
    if (job->plan.json && !report_json_to(job->program, &job->plan, fill_json, job, err))
        return false;
    return outputs_commit(job->program, NULL, err) && judge(job, err);
}

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool find_files(Job *job, Err *err) {
    job->reference = parsed_argument(job->parsed, 0);
    job->other = parsed_argument(job->parsed, 1);
    if (!job->reference || !job->other)
        return console_missing(job->parsed, "two models, plans or folders to compare", err);
    if (is_folder(job->other)) { /* what was saved is the reference in either place */
        const char *folder = job->other;
        job->other = job->reference;
        job->reference = folder;
    }
    job->folder = is_folder(job->reference);
    if (!is_folder(job->other)) return true;
    return err_set(err, ERR_USAGE, "two folders can't be compared: one must be a model or plan");
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    Job *job = ARENA_NEW(program->arena, Job);
    job->program = program;
    job->parsed = parsed;
    job->arena = program->arena;
    job->a.judges = job->b.judges = true;
    const char *save = parsed_value(parsed, "save-inputs");
    bool ok = find_files(job, err) &&
              limit_find(parsed, false, &job->limit, err) && /* before anything runs, the words */
              session_number(parsed, "worst", 0, &job->worst, 10, err) &&
              report_plan(program, false, &job->plan, err) &&
              (!save || outputs_make_folder(program, save, err)) &&
              (job->folder || session_open(&job->a, program, parsed, job->reference, err)) &&
              session_open(&job->b, program, parsed, job->other, err) && compare(job, err);
    session_close(&job->a);
    session_close(&job->b);
    return ok;
}

const Command command_compare = {
    .name = "compare",
    .summary = "compare what two models compute, value by value",
    .usage = "A B [--data DIR | --random SEED] [OPTIONS]",
    .about =
        "Runs A and B on the same inputs (random ones, as of --random 0, unless others are given) "
        "and prints how far B's outputs are from A's, and every inner value that both have under "
        "the same name: largest and mean difference, the largest by the scale of the reference, "
        "units in the last place of the narrower type, signal to noise, cosine. It names the first "
        "value in order of execution that is beyond --max-error, the node that made it, and "
        "the --keep arguments for 'demi convert' that keep the nodes where the difference begins "
        "in float. The exit code is 1 where an output is beyond it.\n"
        "\n"
        "Models are compiled --numerics faithful, with nothing fused, unless that option says "
        "otherwise: their own rounding is what is compared.\n"
        "\n"
        "Instead of a model there may be a folder of values that were saved, by 'demi run "
        "--output-dir' or by anything that writes output_N.pb or NAME.npy, inner values too; that "
        "is then the reference.",
    .examples = "demi compare model.onnx model.fp16.onnx\n"
                "demi compare model.onnx model.fp16.onnx --data samples --max-error 0.01 --json\n"
                "# against values of another runtime\n"
                "demi compare model.onnx saved_outputs --data samples\n",
    .arguments = arguments,
    .options = options,
    .common = "input data random shape max-error worst threads json quiet help",
    .run = run,
};
