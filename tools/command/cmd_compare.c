// SPDX-License-Identifier: Apache-2.0
/* demi compare: how far a model's outputs and inner values are from another's, or from saved ones,
 * and where the difference begins. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "compare_advice.h"
#include "dtype.h"
#include "judge.h"
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
    {"keep-out", 0, OPTION_ROW_VALUE, "FILE", NULL,
     "Write which nodes to keep in float as a policy that 'demi convert --policy' takes."},
    {"no-trial", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Do not convert A anew to see whether the nodes to keep are enough."},
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
    PickRows picks;    /* those that differ */
    Advice advice;     /* where an output is beyond the limit */
    bool beyond;       /* one is */
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

static void print_diff(FILE *out, const ValueDiff *diff) {
    if (diff->mismatch) {
        fprintf(out, "%66s", "not comparable");
        return;
    }
    fprintf(out, "%10.3g %10.3g %10.3g %9.4g %-4s %8.1f ", diff->max_abs, diff->mean_abs,
            diff->error, diff->ulp, short_type(diff->ulp_of), diff->sqnr);
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
    const Words *keep = &job->advice.keep;
    for (size_t i = 0; i < keep->count && i < MOST_KEEP; i++)
        text = arena_printf(job->arena, "%s%s--keep %s", text, i ? " " : "",
                            quoted(job->arena, keep->items[i]));
    return text;
}

static void put(FILE *out, const char *text) {
    report_puts(out, text);
}

static void print_first(const Job *job, FILE *out) {
    const ComparedValue *bad = first_bad(job);
    fprintf(out, "\n%zu inner values compared, %zu beyond %g\n", job->comparison.values.count,
            beyond_count(job), job->limit.error);
    if (!bad) return;
    const ComparedStep *step = maker_of(&job->comparison, bad);
    fprintf(out, "first beyond it: ");
    put(out, value_name(&job->comparison, bad));
    fprintf(out, " %s, made by node ", bad->type);
    put(out, step->name);
    fputs(" (", out);
    put(out, step->op_type);
    fprintf(out, ")\n  %s\n", output_error_text(job->arena, &bad->diff));
}

static void print_picks(const Job *job, FILE *out) {
    if (job->picks.count)
        fputs("\nwhat B picks otherwise; outputs and values are with A's picks\n", out);
    for (size_t i = 0; i < job->picks.count; i++) {
        fputs("  ", out);
        pick_print(&job->picks.items[i], out);
        fputs(pick_beyond(&job->limit, &job->picks.items[i]) ? "  BEYOND\n" : "\n", out);
    }
}

static void print_trial(const Job *job, FILE *out) {
    const Advice *advice = &job->advice;
    switch (advice->state) {
    case ADVICE_NONE: fputs("no node that runs in 16 bits brings it\n", out); return;
    case ADVICE_UNTRIED: fputs("to keep in float: ", out); break;
    case ADVICE_REACHES:
        fprintf(out,
                "to keep in float, with which A converted anew is off by %.3g: ", advice->error);
        break;
    case ADVICE_FAILS:
        fprintf(out,
                "no choice of nodes was found with which A converted anew is within %g: inputs or "
                "outputs in 16 bits, or constants that do not fit, may be the reason; to keep: ",
                job->limit.error);
        break;
    }
    put(out, keep_arguments(job));
    fputc('\n', out);
    if (advice->keep.count > MOST_KEEP)
        fprintf(out,
                "and %zu nodes more, which --keep-out FILE writes as a policy for 'demi convert "
                "--policy FILE'\n",
                advice->keep.count - MOST_KEEP);
}

static void print_advice(const Job *job, FILE *out) {
    const AdviceFirst *first = &job->advice.first;
    if (!job->beyond) return;
    if (first->node) {
        fputs("where it begins: node ", out);
        put(out, first->node);
        fputs(" (", out);
        put(out, first->op_type);
        fputs(") makes ", out);
        put(out, first->value);
        fprintf(out, " %s\n  %s; what it reads is off by %.3g\n", first->type,
                output_error_text(job->arena, &first->diff), first->before);
    }
    print_trial(job, out);
}

static void print_report(const Job *job, FILE *out) {
    fputs("reference ", out);
    report_puts(out, job->reference);
    fputs("\ncompared  ", out);
    report_puts(out, job->other);
    report_puts(out, session_assumed(job->folder ? &job->b : &job->a));
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
    print_picks(job, out);
    print_worst(job, out);
    print_first(job, out);
    print_advice(job, out);
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

static void json_advice(const Job *job, JsonWriter *json) {
    static const char *const states[] = {[ADVICE_NONE] = "none",
                                         [ADVICE_UNTRIED] = "untried",
                                         [ADVICE_REACHES] = "reaches",
                                         [ADVICE_FAILS] = "fails"};
    const Advice *advice = &job->advice;
    json_open(json, "keep", '[');
    for (size_t i = 0; i < advice->keep.count; i++) json_text(json, NULL, advice->keep.items[i]);
    json_close(json, ']');
    if (!job->beyond) return;
    json_text(json, "advice", states[advice->state]);
    if (advice->state == ADVICE_REACHES) json_number(json, "kept_error", advice->error);
    if (!advice->first.node) return;
    json_open(json, "cause", '{');
    json_text(json, "node", advice->first.node);
    json_text(json, "op_type", advice->first.op_type);
    json_text(json, "value", advice->first.value);
    json_number(json, "error_before", advice->first.before);
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
    picks_json(json, &job->picks, &job->limit);
    if (bad) json_value(job, json, "first_bad", bad);
    json_advice(job, json);
    json_open(json, "values", '[');
    for (size_t i = 0; i < job->comparison.values.count; i++)
        json_value(job, json, NULL, &job->comparison.values.items[i]);
    json_close(json, ']');
    json_close(json, '}');
}

/* ---- the command ----------------------------------------------------------------------------- */

static void hint(const Job *job, Err *err) {
    size_t count = job->advice.keep.count;
    if (count > MOST_KEEP)
        err_hint(err,
                 "--keep-out FILE writes the %zu nodes to keep, for 'demi convert --policy FILE'",
                 count);
    else if (count)
        err_hint(err, "%s", keep_arguments(job));
}

static bool judge(const Job *job, Err *err) {
    for (size_t i = 0; i < job->outputs.count; i++) {
        const OutputError *row = &job->outputs.items[i];
        if (!limit_beyond(&job->limit, &row->diff)) continue;
        err_set(err, ERR_MODEL, "it is beyond %g: %s", job->limit.error,
                output_error_text(job->arena, &row->diff));
        err_file(err, job->other);
        err_operand(err, "output '%s'", row->output);
        hint(job, err);
        return false;
    }
    for (size_t i = 0; i < job->picks.count; i++) {
        const PickRow *row = &job->picks.items[i];
        if (!pick_beyond(&job->limit, row)) continue;
        err_set(err, ERR_MODEL,
                "it picks otherwise where there is no tie: %llu of %llu are the same",
                (unsigned long long)row->same, (unsigned long long)row->count);
        err_file(err, job->other);
        snprintf(err->node, sizeof err->node, "%s", row->node);
        snprintf(err->op_type, sizeof err->op_type, "%s", row->op_type);
        hint(job, err);
        return false;
    }
    return true;
}

static bool find_inputs(Job *job, Err *err) {
    Words sets;
    Session *first = job->folder ? &job->b : &job->a;
    const char *save = parsed_value(job->parsed, "save-inputs");
    if (!session_data_sets(first, job->program, parsed_value(job->parsed, "data"), &sets, err))
        return false;
    const char *set = sets.count ? sets.items[0] : NULL;
    return session_find_inputs(first, job->program, job->parsed, set, "0", err) &&
           (!save || session_save_inputs(first, job->program, save, err)) &&
           (job->folder || (session_take_inputs(&job->b, job->program, &job->a, err) &&
                            session_bind(&job->a, err))) &&
           session_bind(&job->b, err);
}

static bool is_beyond(const Job *job, const OutputErrors *rows, const PickRows *picks) {
    bool beyond = false;
    for (size_t i = 0; i < rows->count; i++)
        beyond = beyond || limit_beyond(&job->limit, &rows->items[i].diff);
    for (size_t i = 0; picks && i < picks->count; i++)
        beyond = beyond || pick_beyond(&job->limit, &picks->items[i]);
    return beyond;
}

/* What B gives by its own picks is good enough where it is: what it picks does not matter then. */
static bool compare_plainly(Job *job, const OutputReference *reference, Err *err) {
    OutputErrors rows = {0};
    if (!session_run(&job->b, err) || !output_errors(job->arena, reference, &job->b, &rows, err))
        return false;
    if (is_beyond(job, &rows, NULL)) return true;
    job->outputs = rows;
    job->picks.count = 0;
    job->beyond = false;
    return true;
}

/* Units in the last place are those of the type that an output had before a conversion's last
 * Cast. */
static bool measure_outputs(Job *job, const OutputReference *reference, Err *err) {
    if (!output_errors(job->arena, reference, &job->b, &job->outputs, err)) return false;
    for (size_t i = 0; i < job->outputs.count; i++) {
        OutputError *row = &job->outputs.items[i];
        const ValueDiff *inner = comparison_output(&job->comparison, row->output);
        if (inner && inner->ulp_of != row->diff.ulp_of && inner->count == row->diff.count) {
            row->diff.ulp = inner->ulp;
            row->diff.ulp_of = inner->ulp_of;
        }
    }
    return true;
}

static bool run_both(Job *job, Err *err) {
    Comparison *c = &job->comparison;
    OutputReference reference = {job->reference, job->folder ? NULL : &job->a, NULL};
    comparison_init(c, job->arena, job->b.threads);
    if (job->folder) c->folder = job->reference;
    if (!find_inputs(job, err)) return false;
    if (!job->folder && !comparison_reference(c, &job->a, err)) return false;
    if (!comparison_run(c, &job->b, err) || !measure_outputs(job, &reference, err) ||
        !limit_find(job->parsed, c->low, &job->limit, err))
        return false;
    job->picks = c->picked;
    job->beyond = is_beyond(job, &job->outputs, &job->picks);
    comparison_judge(c, &job->limit);
    return !job->beyond || job->picks.count == 0 || compare_plainly(job, &reference, err);
}

static bool advise(Job *job, Err *err) {
    const AdviceCase ac = {.program = job->program,
                           .parsed = job->parsed,
                           .comparison = &job->comparison,
                           .reference = &job->a,
                           .other = &job->b,
                           .limit = &job->limit,
                           .beyond = job->beyond,
                           .may_try = !job->folder && !job->a.is_plan && !job->b.is_plan &&
                                      !parsed_flag(job->parsed, "no-trial") &&
                                      strcmp(job->reference, "-") != 0};
    if (job->beyond || job->keep_out) compare_advise(&ac, &job->advice);
    return !job->keep_out || compare_write_policy(&ac, &job->advice, job->keep_out, err);
}

static bool compare(Job *job, Err *err) {
    if (!run_both(job, err) || !advise(job, err)) return false;
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
    Job *job = ARENA_NEW(program->arena, Job);
    job->program = program;
    job->parsed = parsed;
    job->arena = program->arena;
    job->a.judges = job->b.judges = true;
    bool ok = find_files(job, err) &&
              limit_find(parsed, false, &job->limit, err) && /* before anything runs, the words */
              session_number(parsed, "worst", 0, &job->worst, 10, err) && open_outputs(job, err) &&
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
        "value in order of execution that is beyond --max-error and the node that made it. Where "
        "an output is beyond it, the exit code is 1, and the nodes that bring the error are told "
        "as --keep arguments for 'demi convert'; with two models, A is converted anew with these "
        "kept, until they are enough.\n"
        "\n"
        "Where B's TopK, NonMaxSuppression, ArgMax or comparisons pick otherwise than A's, the "
        "values behind are compared with A's picks, and the picks by how far they are from a "
        "tie.\n"
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
