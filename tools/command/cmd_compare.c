// SPDX-License-Identifier: Apache-2.0
/* demi compare: how far a model's outputs and inner values are from another's, or from saved ones,
 * and where the difference begins. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "dtype.h"
#include "judge_text.h"
#include "report_out.h"
#include "run_options.h"
#include "value_write.h"

enum { MOST_KEEP = 16 };

static const ArgumentRow arguments[] = {
    {"A", "The reference: a model, a plan, or a folder of saved outputs."},
    {"B", "The model or plan to compare with the reference. Either of them may be the folder."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    RUN_OPTIONS,
    {"max-error", 'e', OPTION_ROW_VALUE, "X", NULL,
     "The largest acceptable difference, relative to the largest magnitude of the reference. The "
     "default is 0.1 if only B is quantized, 0.02 if one of them has 16-bit values, and else "
     "1e-4."},
    {"atol", 0, OPTION_ROW_VALUE, "X", NULL,
     "A difference that is acceptable for values of any magnitude (default 6.2e-5 if one of the "
     "models has 16-bit values, else 1e-7)."},
    {"keep-out", 0, OPTION_ROW_VALUE, "FILE", NULL,
     "Write the nodes to keep in float32 as a policy, for 'demi convert --policy'."},
    {"no-trial", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Do not convert A again to verify that the nodes to keep are sufficient."},
    {"worst", 0, OPTION_ROW_VALUE, "N", NULL,
     "Number of intermediate values to print, the worst first (default 10). --json has all."},
    {"save-inputs", 0, OPTION_ROW_VALUE, "DIR", NULL,
     "Write the inputs that were used as input_N.pb, for --data."},
    OPTION_JSON("Also write the result as JSON. Without FILE (as the last word, or before another "
                "option), JSON goes to standard output and the text to standard error."),
    OPTION_QUIET,
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    Arena *arena;
    const char *reference, *other;
    bool folder; /* the reference is one */
    uint64_t worst;
    ReportPlan plan;
    DemiLimit limit; /* as the words say; then that which holds */
    SessionOptions run;
    DemiComparison *comparison;
    OutFile *keep_out; /* NULL: not asked for */
} Job;

/* ---- text ------------------------------------------------------------------------------------ */

static void print_header(FILE *out) {
    fprintf(out, "%10s %10s %10s %9s %-4s %8s %9s\n", "max error", "mean", "of scale", "ULP", "of",
            "SQNR dB", "cosine");
}

/* In four characters. */
static const char *short_type(int32_t dtype) {
    return dtype == DEMI_FLOAT      ? "fp32"
           : dtype == DEMI_FLOAT16  ? "fp16"
           : dtype == DEMI_BFLOAT16 ? "bf16"
           : dtype == DEMI_DOUBLE   ? "fp64"
                                    : "";
}

static void print_diff(FILE *out, const DemiDistance *diff) {
    if (diff->mismatch) {
        fprintf(out, "%66s", "not comparable");
        return;
    }
    fprintf(out, "%10.3g %10.3g %10.3g ", diff->max_abs, diff->mean_abs, diff->error);
    if (short_type(diff->ulp_of)[0])
        fprintf(out, "%9.4g %-4s %8.1f ", diff->ulp, short_type(diff->ulp_of), diff->sqnr);
    else
        fprintf(out, "%9s %-4s %8.1f ", "-", "", diff->sqnr);
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
    const DemiComparedValue *x = *(const DemiComparedValue *const *)a,
                            *y = *(const DemiComparedValue *const *)b;
    double p = x->diff.mismatch ? INFINITY : x->diff.error;
    double q = y->diff.mismatch ? INFINITY : y->diff.error;
    if (p != q) return p > q ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void print_worst(const Job *job, FILE *out) {
    size_t count = demi_comparison_value_count(job->comparison);
    if (count == 0 || job->worst == 0) return;
    const DemiComparedValue **sorted = ARENA_ARRAY(job->arena, const DemiComparedValue *, count);
    for (size_t i = 0; i < count; i++) sorted[i] = demi_comparison_value(job->comparison, i);
    qsort(sorted, count, sizeof *sorted, by_error);
    fprintf(out, "\nintermediate values, the worst first\n");
    print_header(out);
    for (size_t i = 0; i < count && i < job->worst; i++) {
        print_diff(out, &sorted[i]->diff);
        print_name(out, sorted[i]->name);
        fprintf(out, " %s\n", sorted[i]->type);
    }
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
    size_t count;
    const char *const *keep = demi_comparison_keep(job->comparison, &count);
    for (size_t i = 0; i < count && i < MOST_KEEP; i++)
        text = arena_printf(job->arena, "%s%s--keep %s", text, i ? " " : "",
                            quoted(job->arena, keep[i]));
    return text;
}

static void put(FILE *out, const char *text) {
    report_puts(out, text);
}

static void print_first(const Job *job, FILE *out) {
    const DemiComparedValue *bad = demi_comparison_first(job->comparison);
    fprintf(out, "\n%zu intermediate values compared, %zu beyond %g\n",
            demi_comparison_value_count(job->comparison),
            demi_comparison_totals(job->comparison)->values_beyond, job->limit.error);
    if (!bad) return;
    fprintf(out, "first beyond it: ");
    put(out, bad->name);
    fprintf(out, " %s, computed by node ", bad->type);
    put(out, bad->node);
    fputs(" (", out);
    put(out, bad->op_type);
    fprintf(out, ")\n  %s\n", output_error_text(job->arena, &bad->diff));
}

static void print_picks(const Job *job, FILE *out) {
    size_t count = demi_comparison_pick_count(job->comparison);
    if (count) fputs("\nselections that differ in B; outputs and values use A's selections\n", out);
    for (size_t i = 0; i < count; i++) {
        const DemiPick *pick = demi_comparison_pick(job->comparison, i);
        fputs("  ", out);
        pick_print(pick, out);
        fputs(demi_pick_beyond(&job->limit, pick) ? "  BEYOND\n" : "\n", out);
    }
}

static void print_trial(const Job *job, FILE *out) {
    const DemiAdvice *advice = demi_comparison_advice(job->comparison);
    size_t count;
    demi_comparison_keep(job->comparison, &count);
    switch (advice->state) {
    case DEMI_ADVICE_NONE:
        fputs(demi_comparison_totals(job->comparison)->quantized
                  ? "caused by quantized values: calibrate on other inputs, or use --max-error of "
                    "'demi convert', which keeps nodes in float32"
                  : "not caused by any node that runs in 16-bit\n",
              out);
        return;
    case DEMI_ADVICE_UNTRIED: fputs("to keep in float32: ", out); break;
    case DEMI_ADVICE_REACHES:
        fprintf(out,
                "to keep in float32 (A, converted again, is then off by %.3g): ", advice->error);
        break;
    case DEMI_ADVICE_FAILS:
        fprintf(out,
                "no set of nodes to keep in float32 brings A within %g; 16-bit inputs or outputs, "
                "or constants out of range, may be the reason; to keep: ",
                job->limit.error);
        break;
    }
    put(out, keep_arguments(job));
    fputc('\n', out);
    if (count > MOST_KEEP)
        fprintf(out,
                "and %zu more nodes; --keep-out FILE writes all as a policy for 'demi convert "
                "--policy FILE'",
                count - MOST_KEEP);
}

static void print_advice(const Job *job, FILE *out) {
    const DemiAdvice *advice = demi_comparison_advice(job->comparison);
    if (!demi_comparison_totals(job->comparison)->beyond) return;
    if (advice->node) {
        fputs("where it begins: node ", out);
        put(out, advice->node);
        fputs(" (", out);
        put(out, advice->op_type);
        fputs(") makes ", out);
        put(out, advice->value);
        fprintf(out, " %s\n  %s; its inputs are off by %.3g\n", advice->type,
                output_error_text(job->arena, &advice->diff), advice->before);
    }
    print_trial(job, out);
}

static void print_report(const Job *job, FILE *out) {
    const DemiComparisonTotals *totals = demi_comparison_totals(job->comparison);
    const char *assumed = totals->assumed;
    fputs("reference ", out);
    report_puts(out, job->reference);
    fputs("\ncompared  ", out);
    report_puts(out, job->other);
    if (assumed[0]) fputs("; sizes assumed: ", out);
    report_puts(out, assumed);
    if (totals->sets > 1)
        fprintf(out, "\nthe worst of %zu sets of inputs: %zu%s", totals->sets, totals->set + 1,
                totals->set_name[0] ? ", " : "");
    report_puts(out, totals->set_name);
    fputs("\n\noutputs\n", out);
    print_header(out);
    for (size_t i = 0; i < demi_comparison_output_count(job->comparison); i++) {
        const DemiOutputError *row = demi_comparison_output(job->comparison, i);
        print_diff(out, &row->diff);
        print_name(out, row->name);
        if (demi_limit_beyond(&job->limit, &row->diff))
            fprintf(out, "%s  BEYOND%s", console_paint(job->plan.color, PAINT_BAD),
                    console_paint(job->plan.color, PAINT_PLAIN));
        fputc('\n', out);
    }
    print_picks(job, out);
    print_worst(job, out);
    print_first(job, out);
    print_advice(job, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_value(const Job *job, JsonWriter *json, const char *key,
                       const DemiComparedValue *value) {
    json_open(json, key, '{');
    json_text(json, "name", value->name);
    json_text(json, "node", value->node);
    json_text(json, "op_type", value->op_type);
    json_text(json, "dtype", dtype_name((Dtype)value->dtype));
    json_text(json, "reference_dtype", dtype_name((Dtype)value->dtype_reference));
    output_error_json(json, &value->diff, &job->limit);
    json_close(json, '}');
}

static void json_advice(const Job *job, JsonWriter *json) {
    static const char *const states[] = {[DEMI_ADVICE_NONE] = "none",
                                         [DEMI_ADVICE_UNTRIED] = "untried",
                                         [DEMI_ADVICE_REACHES] = "reaches",
                                         [DEMI_ADVICE_FAILS] = "fails"};
    const DemiAdvice *advice = demi_comparison_advice(job->comparison);
    size_t count;
    const char *const *keep = demi_comparison_keep(job->comparison, &count);
    json_open(json, "keep", '[');
    for (size_t i = 0; i < count; i++) json_text(json, NULL, keep[i]);
    json_close(json, ']');
    if (!demi_comparison_totals(job->comparison)->beyond) return;
    json_text(json, "advice", states[advice->state]);
    if (advice->state == DEMI_ADVICE_REACHES) json_number(json, "kept_error", advice->error);
    if (!advice->node) return;
    json_open(json, "cause", '{');
    json_text(json, "node", advice->node);
    json_text(json, "op_type", advice->op_type);
    json_text(json, "value", advice->value);
    json_number(json, "error_before", advice->before);
    json_close(json, '}');
}

static void json_picks(const Job *job, JsonWriter *json) {
    size_t count = demi_comparison_pick_count(job->comparison);
    if (count == 0) return;
    json_open(json, "picks", '[');
    for (size_t i = 0; i < count; i++)
        pick_json(json, demi_comparison_pick(job->comparison, i), &job->limit);
    json_close(json, ']');
}

static void fill_json(JsonWriter *json, void *data) {
    const Job *job = data;
    const DemiComparedValue *bad = demi_comparison_first(job->comparison);
    json_open(json, NULL, '{');
    json_text(json, "reference", job->reference);
    json_text(json, "compared", job->other);
    json_number(json, "max_error", job->limit.error);
    json_number(json, "atol", job->limit.least);
    json_number(json, "sets", (double)demi_comparison_totals(job->comparison)->sets);
    json_number(json, "set", (double)demi_comparison_totals(job->comparison)->set);
    json_open(json, "outputs", '[');
    for (size_t i = 0; i < demi_comparison_output_count(job->comparison); i++) {
        const DemiOutputError *row = demi_comparison_output(job->comparison, i);
        json_open(json, NULL, '{');
        json_text(json, "name", row->name);
        output_error_json(json, &row->diff, &job->limit);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_picks(job, json);
    if (bad) json_value(job, json, "first_bad", bad);
    json_advice(job, json);
    json_open(json, "values", '[');
    for (size_t i = 0; i < demi_comparison_value_count(job->comparison); i++)
        json_value(job, json, NULL, demi_comparison_value(job->comparison, i));
    json_close(json, ']');
    json_close(json, '}');
}

/* ---- the command ----------------------------------------------------------------------------- */

static void hint(const Job *job, Err *err) {
    size_t count;
    demi_comparison_keep(job->comparison, &count);
    if (count > MOST_KEEP)
        err_hint(err,
                 "--keep-out FILE writes the %zu nodes to keep, for 'demi convert --policy FILE'",
                 count);
    else if (count)
        err_hint(err, "%s", keep_arguments(job));
}

static bool judge(const Job *job, Err *err) {
    for (size_t i = 0; i < demi_comparison_output_count(job->comparison); i++) {
        const DemiOutputError *row = demi_comparison_output(job->comparison, i);
        if (!demi_limit_beyond(&job->limit, &row->diff)) continue;
        err_set(err, ERR_MODEL, "it is beyond %g: %s", job->limit.error,
                output_error_text(job->arena, &row->diff));
        err_file(err, job->other);
        err_operand(err, "output '%s'", row->name);
        hint(job, err);
        return false;
    }
    for (size_t i = 0; i < demi_comparison_pick_count(job->comparison); i++) {
        const DemiPick *row = demi_comparison_pick(job->comparison, i);
        if (!demi_pick_beyond(&job->limit, row)) continue;
        err_set(err, ERR_MODEL,
                "it selects differently where there is no tie: %llu of %llu are the same",
                (unsigned long long)row->same, (unsigned long long)row->count);
        err_file(err, job->other);
        snprintf(err->node, sizeof err->node, "%s", row->node);
        snprintf(err->op_type, sizeof err->op_type, "%s", row->op_type);
        hint(job, err);
        return false;
    }
    return true;
}

/* Writes the conversion that is advised as a policy, for convert --policy. */
static bool write_policy(const Job *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    size_t size = demi_comparison_policy(job->comparison, NULL, 0, &error) + 1;
    if (!error_take(err, error.status, &error)) return false;
    char *text = arena_alloc(job->arena, size + 1);
    demi_comparison_policy(job->comparison, text, size, NULL);
    text[size - 1] = '\n';
    return outfile_write(job->keep_out, text, size, err);
}

/* An end by Ctrl-C is none of the command: what was found by then is reported. */
static bool advise(const Job *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    bool may_try = !parsed_flag(job->parsed, "no-trial") && strcmp(job->reference, "-") != 0;
    if (!demi_comparison_totals(job->comparison)->beyond && !job->keep_out) return true;
    DemiStatus status = demi_comparison_advise(job->comparison, may_try, &error);
    if (status == DEMI_ERR_CANCELLED) status = DEMI_OK;
    return error_take(err, status, &error) && (!job->keep_out || write_policy(job, err));
}

static bool save_inputs(const Job *job, Err *err) {
    const char *folder = parsed_value(job->parsed, "save-inputs");
    size_t count = demi_comparison_input_count(job->comparison);
    SavedInput *inputs = ARENA_ARRAY(job->arena, SavedInput, count + 1);
    for (size_t i = 0; i < count; i++)
        inputs[i] = (SavedInput){demi_comparison_input(job->comparison, i),
                                 demi_comparison_input_value(job->comparison, i)};
    return !folder || inputs_save(&(SavedInputs){inputs, count}, job->program, folder, err);
}

static bool run_both(Job *job, RunProgress *progress, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiCompareOptions how = DEMI_COMPARE_OPTIONS_INIT;
    ConsoleModel reference = {job->program, job->parsed, job->reference};
    ConsoleModel other = {job->program, job->parsed, job->other};
    DemiSource a = run_source(&reference), b = run_source(&other);
    if (!run_options_fill(job->folder ? &other : &reference, true, &job->run, err)) return false;
    if (job->folder) a.open = NULL;
    how.inputs = &job->run.inputs;
    how.compile = &job->run.compile;
    how.context = &job->run.context;
    how.limit = &job->limit;
    how.progress = run_progress;
    how.progress_user = progress;
    DemiStatus status = demi_compare(&a, &b, &how, &job->comparison, &error);
    if (!error_take(err, status, &error)) return false;
    job->limit = demi_comparison_totals(job->comparison)->limit;
    bool ok = save_inputs(job, err) && advise(job, err);
    run_progress_end(progress);
    return ok;
}

static bool compare(Job *job, Err *err) {
    RunProgress progress = {.program = job->program};
    if (!run_both(job, &progress, err)) return false;
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

/* Before the work, which may be long. */
static bool open_outputs(Job *job, Err *err) {
    const char *save = parsed_value(job->parsed, "save-inputs");
    const char *keep = parsed_value(job->parsed, "keep-out");
    if (!report_plan(job->program, false, &job->plan, err)) return false;
    if (keep && !(job->keep_out = outputs_open(job->program, "keep-out", keep, err))) return false;
    return !save || outputs_make_folder(job->program, save, err);
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    Job job = {.program = program, .parsed = parsed, .arena = program->arena};
    bool ok = find_files(&job, err) && parsed_limit(parsed, &job.limit, err) &&
              parsed_number(parsed, "worst", 0, &job.worst, 10, err) && open_outputs(&job, err) &&
              compare(&job, err);
    demi_comparison_free(job.comparison);
    return ok;
}

const Command command_compare = {
    .name = "compare",
    .summary = "compare the results of two models, value by value",
    .usage = "A B [--data DIR | --random SEED] [OPTIONS]",
    .about =
        "Runs A and B on the same inputs (random, as with --random 0, unless you give others). It "
        "prints how far B's outputs are from A's, and likewise for every intermediate value that "
        "both have under the same name: largest and mean difference, the largest relative to the "
        "scale of the reference, units in the last place of the narrower type, signal-to-noise "
        "ratio, and cosine similarity. It names the first value in execution order that is beyond "
        "--max-error, and the node that computed it. If an output is beyond it, the exit code is "
        "1, and the nodes that cause the error are printed as --keep arguments for 'demi convert'. "
        "With two models, A is converted again with these nodes kept, until they are "
        "sufficient.\n\nWith several sets of inputs, all of them run, and the set with the worst "
        "outputs is reported.\n\nIn the JSON, numbers that are not finite are null: sqnr of equal "
        "values; all measures of a value with NaN or Inf on only one side, which 'special' counts; "
        "scale, if the reference has no finite element; cosine, if one side is all zeros.\n\nTopK, "
        "NonMaxSuppression, ArgMax, or a comparison in B may select differently than in A. Later "
        "values are then compared under A's selections, and the selections are judged by their "
        "distance from a tie.\n\nBy default, models are compiled with --numerics faithful, without "
        "fusion, to compare their own rounding.\n\nIn place of a model, you can give a folder of "
        "saved values as the reference: from 'demi run --output-dir', or from any program that "
        "writes output_N.pb or NAME.npy, including intermediate values.",
    .examples = "demi compare model.onnx model.fp16.onnx\n"
                "demi compare model.onnx model.fp16.onnx --data samples --max-error 0.01 --json\n"
                "# against values of another runtime\n"
                "demi compare model.onnx saved_outputs --data samples\n",
    .arguments = arguments,
    .options = options,
    .common = "input data random shape max-error worst threads json quiet help",
    .run = run,
};
