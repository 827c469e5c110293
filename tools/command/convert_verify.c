// SPDX-License-Identifier: Apache-2.0
/* Calibration, then verification; see convert_verify.h. */
#include "convert_verify.h"

#include <math.h>
#include <string.h>

#include "judge_text.h"
#include "convert_target.h"
#include "policy.h"
#include "quantized_format.h"
#include "report_out.h"
#include "run_options.h"

typedef struct Job {
    Program *program;
    ConsoleModel model;
    SessionOptions run;
    RunProgress progress;
} Job;

/* The trials on what an option says: a folder of data, or the word "random". */
static bool open_trials(Job *job, const char *from, size_t sets, DemiTrials **trials, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiTrialOptions options = DEMI_TRIAL_OPTIONS_INIT;
    DemiSource source = console_source(&job->model);
    DemiInputOptions inputs = job->run.inputs;
    inputs.data = strcmp(from, "random") == 0 ? NULL : from;
    inputs.sets = sets;
    options.inputs = &inputs;
    options.compile = &job->run.compile;
    options.context = &job->run.context;
    options.progress = run_progress;
    options.progress_user = &job->progress;
    options.part = job->program->ranks.part;
    options.parts = job->program->ranks.parts;
    options.combine = ranks_combine;
    options.combine_user = &job->program->ranks;
    if (strcmp(job->model.path, "-") == 0)
        return err_set(err, ERR_USAGE,
                       "the model must be a file, because it is read several times");
    return error_take(err, demi_trials_new(&source, &options, trials, &error), &error);
}

/* Converts so, for what is wrong with the options, and runs nothing. */
static bool try_options(Job *job, const DemiConvertOptions *options, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiModel *model = NULL;
    DemiConvertOptions quiet = *options;
    DemiRunOptions run = *options->run;
    run.text = NULL;
    run.progress = NULL;
    quiet.run = &run;
    if (!console_load(job->program, job->model.parsed, job->model.path, &model, err)) return false;
    bool ok = error_take(err, demi_convert(model, &quiet, NULL, &error), &error);
    if (!ok) err_file(err, job->model.path);
    demi_free(model);
    return ok;
}

/* Adds what was measured to the ranges that the user gave. */
static void add_ranges(Arena *arena, DemiConvertOptions *options, const DemiRanges *found) {
    size_t given = options->range_count, count = demi_ranges_count(found);
    const char **ranges = ARENA_ARRAY(arena, const char *, given + count + 1);
    for (size_t i = 0; i < given; i++) ranges[i] = options->ranges[i];
    for (size_t i = 0; i < count; i++) {
        const char *text = demi_ranges_texts(found)[i];
        ranges[given + i] = arena_copy(arena, text, strlen(text));
    }
    options->ranges = ranges;
    options->range_count = given + count;
}

/* Takes the channel scales that were found, if any. */
static void take_scales(Arena *arena, DemiConvertOptions *options, const DemiRanges *found) {
    size_t count;
    const char *const *texts = demi_ranges_scales(found, &count);
    const char **scales = ARENA_ARRAY(arena, const char *, count + 1);
    if (!count) return;
    for (size_t i = 0; i < count; i++) scales[i] = arena_copy(arena, texts[i], strlen(texts[i]));
    options->channel_scales = scales;
    options->channel_scale_count = count;
}

/* By DemiCalibration. */
static const char *const methods[] = {"minmax", "percentile", "mse", "best"};
enum { METHODS = sizeof methods / sizeof *methods };

/* Whether to round weights on the data: if asked for, or by default if the data is not random. */
static bool chooses_gptq(const Job *job, const ConvertPolicy *policy, bool weights_alone) {
    const bool random = strcmp(parsed_value(job->model.parsed, "calibrate"), "random") == 0;
    if (policy->given[SETTING_ROUNDING])
        return policy->values[SETTING_ROUNDING] == DEMI_ROUNDING_GPTQ;
    return weights_alone && !random;
}

static bool calibrates_nothing(const char *to, bool said, Err *err) {
    err_set(err, ERR_USAGE,
            "'--to %s' needs no ranges of activations, so '--calibrate%s' has no effect%s", to,
            said ? "" : " random", said ? " with '--rounding nearest'" : "");
    err_hint(err, said ? "remove one of the two: '--calibrate DIR' alone rounds weights by GPTQ"
                       : "give --calibrate DIR, which rounds weights by GPTQ; on random inputs, "
                         "--rounding gptq does, too");
    return false;
}

/* What is to be measured for the conversion. */
typedef struct Choice {
    DemiCalibrateOptions ranges;
    bool measures, rounds; /* ranges; weights */
} Choice;

static bool choose_calibration(const Job *job, DemiConvertOptions *options, Choice *choice,
                               Err *err) {
    const char *method = parsed_value(job->model.parsed, "calibration");
    ConvertPolicy policy;
    if (!policy_from_options(&policy, options, job->program->arena, err)) return false;
    const int64_t to = policy.values[SETTING_TO], values = policy.values[SETTING_ACTIVATIONS];
    const TargetKind kind = convert_target(to)->kind;
    const bool weights_alone = convert_target_has_weights_alone(convert_target(to));
    const bool rounds = chooses_gptq(job, &policy, weights_alone);
    /* a search's policy has all ranges, and needs the data for its weights alone */
    const bool named = policy.lists[SETTING_VALUES].count || policy.lists[SETTING_WEIGHTS].count;
    *choice = (Choice){.ranges = DEMI_CALIBRATE_OPTIONS_INIT,
                       .measures = !weights_alone && !(named && rounds),
                       .rounds = rounds};
    choice->ranges.ends = kind == TARGET_VALUES;
    choice->ranges.symmetric = policy.values[SETTING_SYMMETRIC];
    const Dtype type = quantized_value_types[values];
    if (dtype_bits(type) == 16) choice->ranges.levels = 1 << 16;
    if (choice->ranges.ends && dtype_is_float(type)) choice->ranges.type = (DemiDtype)type;
    if (choice->ranges.ends) choice->ranges.method = DEMI_CALIBRATION_BEST;
    for (int i = 0; method && i < METHODS; i++)
        if (strcmp(methods[i], method) == 0) choice->ranges.method = (DemiCalibration)i;
    choice->ranges.convert = options;
    choice->ranges.equalizes = true;
    if (choice->rounds) options->rounding = DEMI_ROUNDING_GPTQ;
    if (choice->measures || choice->rounds) return true;
    return calibrates_nothing(policy_settings[SETTING_TO].choices[to].word,
                              policy.given[SETTING_ROUNDING], err);
}

/* The trials' words end with them. */
static void note_uncut(const Job *job, const DemiTrials *trials, Verified *verified) {
    const char *path = demi_trials_uncut_file(trials, &verified->uncut_bytes);
    verified->uncut = path ? arena_copy(job->program->arena, path, strlen(path)) : NULL;
}

/* Names that the user gave must match; what was measured may be gone once the opset is raised. A model is not
 * quantized without ranges. */
static bool measure_ranges(Job *job, DemiTrials *trials, const Choice *choice,
                           DemiConvertOptions *options, Verified *verified, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiRanges *ranges = NULL;
    const bool ends = choice->ranges.ends;
    const bool ok =
        (ends || choice->rounds || try_options(job, options, err)) &&
        error_take(err, demi_trials_calibrate(trials, &choice->ranges, &ranges, &error), &error);
    if (ok) {
        verified->ranges = demi_ranges_count(ranges);
        if (ends) verified->method = methods[demi_ranges_method(ranges)];
        add_ranges(job->program->arena, options, ranges);
        take_scales(job->program->arena, options, ranges);
        if (!ends) options->allow_unmatched = true;
    }
    demi_ranges_free(ranges);
    return ok;
}

static bool round_weights(DemiTrials *trials, const DemiConvertOptions *options, Verified *verified,
                          Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    return error_take(err, demi_trials_round(trials, options, &verified->rounded, &error), &error);
}

static bool calibrate(Job *job, DemiConvertOptions *options, Verified *verified, Err *err) {
    DemiTrials *trials = NULL;
    Choice choice;
    const char *from = parsed_value(job->model.parsed, "calibrate");
    if (!choose_calibration(job, options, &choice, err)) return false;
    choice.rounds &=
        !verified->prints || verified->bounded; /* weights are no part of what is printed */
    if (!choice.measures && !choice.rounds) return true;
    const bool ok =
        open_trials(job, from, verified->sets, &trials, err) &&
        (!choice.rounds || round_weights(trials, options, verified, err)) &&
        (!choice.measures || measure_ranges(job, trials, &choice, options, verified, err));
    run_progress_end(&job->progress);
    if (ok) {
        verified->calibrated = demi_trials_set_count(trials);
        note_uncut(job, trials, verified);
    }
    demi_trials_free(trials);
    return ok;
}

/* With the weights that were rounded. */
static bool measure(Job *job, DemiTrials *trials, const DemiConvertOptions *options,
                    Verified *verified, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiVerdict **verdict = &verified->verdict;
    DemiConvertOptions with = *options;
    DemiRunOptions run = *options->run;
    run.rounded = verified->rounded;
    with.run = &run;
    DemiStatus status = verified->bounded
                            ? demi_trials_search(trials, &with, verified->most, verdict, &error)
                            : demi_trials_run(trials, &with, verdict, &error);
    run_progress_end(&job->progress);
    if (status == DEMI_ERR_CANCELLED) {
        err_set(err, ERR_ENV, "interrupted");
        err_hint(err, "%s", error.hint);
    }
    return error_take(err, status, &error);
}

static bool read_options(const Parsed *parsed, Verified *verified, Err *err) {
    enum { SETS = 4 };
    uint64_t sets;
    verified->bounded = parsed_flag(parsed, "max-error");
    if (!parsed_real(parsed, "max-error", &verified->most, 0, err) ||
        !parsed_number(parsed, "sets", 1, &sets, SETS, err))
        return false;
    verified->sets = sets < 10000 ? (size_t)sets : 10000;
    if (!verified->bounded || parsed_value(parsed, "verify")) return true;
    err_set(err, ERR_USAGE, "'--max-error' needs inputs to measure the error on");
    err_hint(err, "give --verify DIR, or --verify random");
    return false;
}

/* The nodes that were found, for the conversion that is written. */
static void keep_found(const DemiVerdict *verdict, DemiConvertOptions *options) {
    if (!demi_verdict_kept_count(verdict)) return;
    options->keep = demi_verdict_keep(verdict, &options->keep_count);
    options->allow_unmatched = true;
}

bool verify_run(const ConsoleModel *model, DemiConvertOptions *options, Verified *verified,
                Err *err) {
    const Parsed *parsed = model->parsed;
    DemiTrials *trials = NULL;
    Job job = {.program = model->program, .model = *model, .progress = {.program = model->program}};
    const char *from = parsed_value(parsed, "verify");
    bool calibrates = parsed_flag(parsed, "calibrate");
    if (!read_options(parsed, verified, err) || (!from && !calibrates))
        return err->code == ERR_NONE;
    if (!run_options_fill(model, true, &job.run, err) ||
        (calibrates && !calibrate(&job, options, verified, err)))
        return false;
    if (!from) return true;
    verified->random = strcmp(from, "random") == 0;
    bool ok = open_trials(&job, from, verified->sets, &trials, err) &&
              measure(&job, trials, options, verified, err);
    if (ok) note_uncut(&job, trials, verified);
    demi_trials_free(trials);
    if (ok) keep_found(verified->verdict, options);
    return ok;
}

bool verify_broken(const Verified *v) {
    return v->verdict && demi_verdict_totals(v->verdict)->broken;
}

bool verify_judge(const Verified *v, const char *path, Err *err) {
    if (!verify_broken(v)) return true;
    const DemiBroken *b = demi_verdict_broken(v->verdict);
    if (b) {
        err_set(err, ERR_MODEL, "%s; outputs are NaN or infinite where the source's are finite",
                b->text);
        snprintf(err->node, sizeof err->node, "%s", b->node);
        snprintf(err->op_type, sizeof err->op_type, "%s", b->op_type);
    } else {
        err_set(err, ERR_MODEL, "outputs are NaN or infinite where the source's are finite");
    }
    err_file(err, path);
    if (b && b->dtype == DEMI_BFLOAT16)
        err_hint(err, "nothing was written; --calibrate DIR (with realistic inputs) keeps the "
                      "necessary nodes in float32");
    else
        err_hint(err,
                 "nothing was written; --calibrate DIR (with realistic inputs) keeps the necessary "
                 "nodes in float32, or use --to bfloat16, which has the range of float32");
    return false;
}

/* ---- saying it ------------------------------------------------------------------------------- */

static const char *plural(size_t count) {
    return count == 1 ? "" : "s";
}

static void put(FILE *out, const char *text) {
    report_put(out, text, strlen(text));
}

static void print_output(const DemiOutputError *row, FILE *out) {
    fputs("verified ", out);
    put(out, row->name);
    if (row->diff.mismatch) {
        fprintf(out, ": %s\n", row->diff.mismatch);
        return;
    }
    if (row->diff.special) {
        fprintf(out, ": %llu of %llu elements are NaN or infinite in only one of the models\n",
                (unsigned long long)row->diff.special, (unsigned long long)row->diff.count);
        return;
    }
    fprintf(out, ": off by %.3g of the largest magnitude, %.3g on average\n", row->diff.error,
            row->diff.scale > 0 ? row->diff.mean_abs / row->diff.scale : 0);
}

/* All of them have one reason, so only their names are told. */
static void print_kept(const DemiVerdict *verdict, FILE *out) {
    enum { MOST = 24, WIDTH = 78 };
    size_t count = demi_verdict_kept_count(verdict), column = 0;
    size_t shown = count <= MOST ? count : MOST;
    for (size_t i = 0; i < shown; i++) {
        const char *name = demi_verdict_kept(verdict, i);
        size_t length = strlen(name);
        if (column == 0 || column + length > WIDTH) {
            fputs(column ? ",\n         " : "         ", out);
            column = 0;
        } else {
            fputs(", ", out);
        }
        put(out, name);
        column += length + 2;
    }
    if (shown) fputc('\n', out);
    if (shown < count) fprintf(out, "         and %zu more, which --json lists\n", count - shown);
}

static void print_bound(const Verified *v, FILE *out) {
    const DemiVerdictTotals *totals = demi_verdict_totals(v->verdict);
    const char *stopped = totals->stopped ? "; interrupted, fewer may suffice" : "";
    size_t kept = demi_verdict_kept_count(v->verdict);
    if (kept == 0)
        fprintf(out, "         within %g without keeping any node in float32\n", v->most);
    else
        fprintf(out,
                "         %zu node%s kept in float32 for --max-error %g, found in %zu trial%s%s:\n",
                kept, plural(kept), v->most, totals->trials, plural(totals->trials), stopped);
    print_kept(v->verdict, out);
}

static void print_picks(const DemiVerdict *verdict, FILE *out) {
    size_t count = demi_verdict_pick_count(verdict);
    for (size_t i = 0; i < count; i++) {
        fputs("         ", out);
        pick_print(demi_verdict_pick(verdict, i), out);
        fputc('\n', out);
    }
    if (count) fputs("         outputs are compared under the source's selections\n", out);
}

static void print_verified(const Verified *v, FILE *out) {
    const DemiVerdictTotals *totals = demi_verdict_totals(v->verdict);
    for (size_t i = 0; i < demi_verdict_output_count(v->verdict); i++)
        print_output(demi_verdict_output(v->verdict, i), out);
    print_picks(v->verdict, out);
    fprintf(out, "         on %zu set%s of %sinputs", totals->sets, plural(totals->sets),
            v->random ? "random " : "");
    if (totals->assumed[0]) {
        fputs("; sizes assumed: ", out);
        put(out, totals->assumed);
    }
    fputc('\n', out);
    if (v->bounded) print_bound(v, out);
}

/* Memory is then in proportion to the file. */
static void print_uncut(const Verified *v, FILE *out) {
    fputs("note: ", out);
    report_puts(out, v->uncut);
    fprintf(
        out,
        " (%.1f MB of inputs) was run as one batch, so memory grows with the file; it can be split "
        "into samples only if the first axis of every input and output of the model is dynamic",
        (double)v->uncut_bytes / 1e6);
}

/* By how many dB the products' errors on the data are lower than of weights rounded to nearest, on average. */
static double rounding_gain(const DemiRoundedWeights *weights) {
    const size_t count = demi_rounded_count(weights);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const DemiRoundedItem *item = demi_rounded_item(weights, i);
        if (item->chosen > 0) sum += 10 * log10(item->nearest / item->chosen);
    }
    return count ? sum / (double)count : 0;
}

static void print_rounded(const Verified *v, FILE *out) {
    fprintf(out,
            "rounded %zu weight%s by GPTQ on %zu set%s of inputs; the errors of their products on "
            "these are %.1f dB lower on "
            "average\n",
            demi_rounded_count(v->rounded), plural(demi_rounded_count(v->rounded)), v->calibrated,
            plural(v->calibrated), rounding_gain(v->rounded));
}

void verify_print(const Verified *v, FILE *out) {
    if (v->uncut) print_uncut(v, out);
    if (v->rounded) print_rounded(v, out);
    if (v->calibrated && (v->ranges || !v->rounded))
        fprintf(out, "measured the range of %zu values on %zu set%s of inputs%s%s\n", v->ranges,
                v->calibrated, plural(v->calibrated), v->method ? "; calibration " : "",
                v->method ? v->method : "");
    if (v->verdict) print_verified(v, out);
}

/* The largest error of outputs; infinite where one can't be compared. */
static double outputs_error(const DemiVerdict *verdict) {
    double worst = 0;
    for (size_t i = 0; i < demi_verdict_output_count(verdict); i++) {
        const DemiDistance *diff = &demi_verdict_output(verdict, i)->diff;
        const double error = diff->mismatch || diff->special ? INFINITY : diff->error;
        if (!(error <= worst)) worst = error;
    }
    return worst;
}

static double selections_margin(const DemiVerdict *verdict) {
    double worst = 0;
    for (size_t i = 0; i < demi_verdict_pick_count(verdict); i++)
        worst = fmax(worst, demi_verdict_pick(verdict, i)->margin);
    return worst;
}

void verify_advise(const Verified *v, bool casts, FILE *out) {
    if (!v->verdict) {
        if (casts)
            fputs("note: no output was verified: --verify random runs both models, --verify DIR on "
                  "your inputs\n",
                  out);
        return;
    }
    if (verify_broken(v)) return; /* the error says where it begins, and what helps */
    const double error = outputs_error(v->verdict);
    if (isfinite(error))
        fprintf(out, "verified: no output is off by more than %.2g of its largest magnitude",
                error);
    else
        fputs("verified: some outputs cannot be compared", out);
    const double margin = selections_margin(v->verdict);
    if (!isfinite(margin))
        fputs(", and some selections differ without a tie", out);
    else if (demi_verdict_pick_count(v->verdict))
        fprintf(out, ", and selections that differ are within %.2g of a tie", margin);
    fputs("; 'demi compare' shows where it begins\n", out);
}

static void json_broken(const DemiBroken *broken, JsonWriter *json) {
    if (!broken) return;
    json_open(json, "broken", '{');
    json_text(json, "node", broken->node);
    json_text(json, "op_type", broken->op_type);
    json_text(json, "value", broken->value);
    json_boolean(json, "nan", broken->nan);
    json_close(json, '}');
}

static void json_bound(const Verified *v, JsonWriter *json) {
    size_t kept = demi_verdict_kept_count(v->verdict);
    if (!v->bounded) return;
    json_number(json, "max_error", v->most);
    json_unsigned(json, "kept", kept);
    json_boolean(json, "interrupted", demi_verdict_totals(v->verdict)->stopped);
    json_open(json, "kept_nodes", '[');
    for (size_t i = 0; i < kept; i++) json_text(json, NULL, demi_verdict_kept(v->verdict, i));
    json_close(json, ']');
}

void verify_json(const Verified *v, JsonWriter *json) {
    if (v->calibrated) {
        json_open(json, "calibration", '{');
        json_unsigned(json, "sets", v->calibrated);
        json_unsigned(json, "values", v->ranges);
        if (v->method) json_text(json, "method", v->method);
        if (v->rounded) {
            json_text(json, "rounding", "gptq");
            json_unsigned(json, "rounded", demi_rounded_count(v->rounded));
            json_number(json, "rounding_gain_db", rounding_gain(v->rounded));
        }
        json_close(json, '}');
    }
    if (!v->verdict) return;
    const DemiVerdictTotals *totals = demi_verdict_totals(v->verdict);
    json_open(json, "verification", '{');
    json_unsigned(json, "sets", totals->sets);
    json_unsigned(json, "trials", totals->trials);
    if (totals->assumed[0]) json_text(json, "assumed_sizes", totals->assumed);
    json_bound(v, json);
    json_number(json, "error", totals->error);
    json_open(json, "outputs", '[');
    for (size_t i = 0; i < demi_verdict_output_count(v->verdict); i++) {
        const DemiOutputError *row = demi_verdict_output(v->verdict, i);
        json_open(json, NULL, '{');
        json_text(json, "name", row->name);
        output_error_json(json, &row->diff, &totals->limit);
        json_close(json, '}');
    }
    json_close(json, ']');
    picks_json(json, v->verdict, &totals->limit);
    json_broken(demi_verdict_broken(v->verdict), json);
    json_close(json, '}');
}
