// SPDX-License-Identifier: Apache-2.0
/* demi search: the cheapest precisions that keep a model as good as it has to be. The library searches
 * (demi_search.h); here are words, files, and an evaluation by a command of the user's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "convert_options.h"
#include "interrupt.h"
#include "outputs.h"
#include "run_options.h"
#include "score_command.h"
#include "search_options.h"
#include "search_out.h"
#include "supported.h"
#include "value_io.h"

static const ArgumentRow arguments[] = {
    {"IN", "The float model: an ONNX file, or text (.onnxtxt)."},
    {"OUT", "The converted model to write; or use -o OUT."},
    {NULL, NULL},
};

typedef struct Files {
    OutFile *model, *plan, *policy, *json, *front, *front_svg, *groups_svg, *page;
    OutFile *entries, *places; /* AIMET's lists */
} Files;

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    ConsoleModel model;
    SessionOptions run;
    DemiConvertOptions convert;
    DemiSearchOptions options;
    RunProgress progress;
    ScoreCommand score, holdout_score, sensitivity_score;
    Files files;
    ReportPlan plan;
    DemiSearch *search;
    SearchTitle title;
    const char *output;
} Job;

/* ---- words ----------------------------------------------------------------------------------- */

static bool number_of(const Parsed *parsed, const char *option, double *number, Err *err) {
    const char *text = parsed_value(parsed, option);
    char *end;
    *number = NAN;
    if (!text) return true;
    *number = strtod(text, &end);
    if (*text && !*end && isfinite(*number)) return true;
    err_set(err, ERR_USAGE, "bad value of option '--%s'", option);
    err_expected(err, "a number");
    err_actual(err, "'%s'", text);
    return false;
}

/* Words, each of which may hold several with commas. */
static void split_candidates(Job *job) {
    const Words *words = parsed_list(job->parsed, "candidates");
    Words all = {0};
    for (size_t i = 0; i < words->count; i++)
        for (const char *at = words->items[i]; *at;) {
            const size_t length = strcspn(at, ",");
            if (length)
                VEC_PUSH(job->program->arena, &all, arena_copy(job->program->arena, at, length));
            at += length + (at[length] == ',');
        }
    job->options.candidates = all.count ? all.items : NULL;
    job->options.candidate_count = all.count;
}

static bool read_labels(Job *job, const char *option, const int64_t **found, size_t *found_count,
                        Err *err) {
    const char *path = parsed_value(job->parsed, option);
    DemiPlanIo io = DEMI_PLAN_IO_INIT;
    DemiData value = DEMI_DATA_INIT;
    if (!path) return true;
    io.dtype = DEMI_INT64;
    io.kind = DEMI_DATA_TENSOR_KIND;
    if (!value_read_file(job->program->arena, path, &io, &value, err)) {
        err_file(err, path);
        return false;
    }
    if (!dtype_is_integer((Dtype)value.dtype)) {
        err_set(err, ERR_USAGE, "labels must be integers");
        err_actual(err, "%s", value_type_text(job->program->arena, &value));
        err_file(err, path);
        return false;
    }
    const uint64_t count = value_count(&value);
    int64_t *labels = ARENA_ARRAY(job->program->arena, int64_t, count + 1);
    for (uint64_t i = 0; i < count; i++) labels[i] = (int64_t)value_item(&value, i);
    *found = labels;
    *found_count = count;
    return true;
}

/* What is no number is a folder. */
static bool read_holdout(Job *job, const char **folder, Err *err) {
    const char *text = parsed_value(job->parsed, "holdout");
    char *end = NULL;
    *folder = NULL;
    if (!text) return true;
    const double share = strtod(text, &end);
    if (end == text || *end) {
        *folder = text;
        return true;
    }
    job->options.holdout = share;
    if (share >= 0 && share < 1) return true; /* not of NaN */
    err_set(err, ERR_USAGE, "bad value of option '--holdout'");
    err_expected(err, "a folder, or a number from 0 to less than 1");
    err_actual(err, "'%s'", text);
    err_hint(err, "./%s is a folder of that name", text);
    return false;
}

static bool read_supported(Job *job, Err *err) {
    enum { MOST = 16 << 20 };
    const char *path = parsed_value(job->parsed, "supported");
    Arena *arena = job->program->arena;
    if (!path) return true;
    Source *source = source_open(arena, path, MOST, err);
    if (!source) return false;
    char *text = arena_alloc(arena, source->size + 1);
    if (!source_read(source, 0, text, source->size, err)) return false;
    text[source->size] = '\0';
    job->options.supported = text;
    if (supported_read(text, arena, err)) return true;
    err_file(err, path);
    return false;
}

static bool fill_search(Job *job, Err *err) {
    static const DemiSearchOptions plain = DEMI_SEARCH_OPTIONS_INIT;
    const Parsed *parsed = job->parsed;
    DemiSearchOptions *o = &job->options;
    uint64_t evaluations, probes;
    *o = plain;
    split_candidates(job);
    o->metric = (DemiMetric)parsed_choice(parsed, "metric");
    o->cost = (DemiSearchCost)parsed_choice(parsed, "cost");
    o->algorithm = (DemiSearchAlgorithm)parsed_choice(parsed, "algorithm");
    o->sensitivity = (DemiSearchSensitivity)parsed_choice(parsed, "sensitivity");
    o->quantize_outputs = parsed_flag(parsed, "quantize-outputs");
    o->reverse = parsed_flag(parsed, "reverse");
    o->fewer_conversions = parsed_flag(parsed, "fewer-conversions");
    o->all_candidates = parsed_flag(parsed, "use-all-candidates");
    o->journal = parsed_value(parsed, "journal");
    job->title.metric = parsed_value(parsed, "metric");
    if (!job->title.metric) job->title.metric = "sqnr"; /* the default */
    if (!parsed_number(parsed, "evaluations", 1, &evaluations, 0, err) ||
        !parsed_number(parsed, "probe-sets", 1, &probes, 0, err) ||
        !parsed_number(parsed, "cache-bytes", 0, &o->cache_bytes, 0, err) ||
        !parsed_real(parsed, "seconds", &o->seconds, 0, err) ||
        !number_of(parsed, "target", &o->target, err) ||
        !number_of(parsed, "drop", &o->drop, err) ||
        !number_of(parsed, "max-cost", &o->most_cost, err) ||
        !number_of(parsed, "bits", &o->bits, err))
        return false;
    if (parsed_flag(parsed, "target") && parsed_flag(parsed, "drop"))
        return err_set(err, ERR_USAGE, "give '--target' or '--drop', not both");
    o->evaluations = (size_t)evaluations;
    o->probes = (size_t)probes;
    return read_labels(job, "labels", &o->labels, &o->label_count, err) &&
           read_labels(job, "holdout-labels", &o->holdout_labels, &o->holdout_label_count, err) &&
           read_supported(job, err);
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool open_one(Job *job, OutFile **file, const char *option, const char *path, Err *err) {
    if (!path) return true;
    *file = report_open(job->program, option, path, err);
    return *file;
}

static const char *within(const Job *job, const char *folder, const char *name) {
    return arena_printf(job->program->arena, "%s/%s", folder, name);
}

static bool open_folder(Job *job, const char *folder, Err *err) {
    static const char option[] = "output-dir";
    Files *f = &job->files;
    if (!outputs_make_folder(job->program, folder, err)) return false;
    if (!job->output) job->output = within(job, folder, "model.onnx");
    if (job->options.algorithm != DEMI_SEARCH_SOLVE &&
        (!open_one(job, &f->entries, option, within(job, folder, "accuracy_list.json"), err) ||
         !open_one(job, &f->places, option, within(job, folder, "pareto_list.json"), err)))
        return false;
    return open_one(job, &f->plan, option, within(job, folder, "model.plan"), err) &&
           open_one(job, &f->policy, option, within(job, folder, "policy.json"), err) &&
           open_one(job, &f->json, option, within(job, folder, "result.json"), err) &&
           open_one(job, &f->front, option, within(job, folder, "pareto.json"), err) &&
           open_one(job, &f->front_svg, option, within(job, folder, "pareto.svg"), err) &&
           open_one(job, &f->groups_svg, option, within(job, folder, "sensitivity.svg"), err) &&
           open_one(job, &f->page, option, within(job, folder, "report.html"), err);
}

/* Before the work, which is long. The processes that only measure write nothing. */
static bool open_files(Job *job, Err *err) {
    const Parsed *parsed = job->parsed;
    const char *output = parsed_value(parsed, "output"), *second = parsed_argument(parsed, 1);
    const char *folder = parsed_value(parsed, "output-dir");
    if (output && second)
        return err_set(err, ERR_USAGE, "two outputs: '%s' and '%s'", second, output);
    job->output = output ? output : second;
    if (job->program->ranks.part) return true;
    if ((folder && !open_folder(job, folder, err)) ||
        (!job->files.policy && !open_one(job, &job->files.policy, "policy-out",
                                         parsed_value(parsed, "policy-out"), err)) ||
        (!job->files.page &&
         !open_one(job, &job->files.page, "report", parsed_value(parsed, "report"), err)))
        return false;
    if (job->output) {
        job->files.model = console_open_model(job->program, job->output, err);
        if (!job->files.model) return false;
    }
    /* One that is there is known as a file that is read. */
    const char *journal = job->options.journal;
    if (journal && access(journal, F_OK) != 0 &&
        !outputs_try(job->program, "journal", journal, err))
        return false;
    return report_plan(job->program, job->output && strcmp(job->output, "-") == 0, &job->plan, err);
}

typedef bool (*Draw)(const SearchTitle *title, DemiWriteFn write, void *user);

static bool draw_to(const Job *job, OutFile *file, Draw draw, Err *err) {
    OutputFile output = {file, err};
    return !file || draw(&job->title, outputs_write, &output);
}

typedef void (*Fill)(const SearchTitle *title, JsonWriter *json);

static bool json_to(const Job *job, OutFile *file, Fill fill, Err *err) {
    OutputFile output = {file, err};
    if (!file) return true;
    JsonWriter *json = ARENA_NEW(job->program->arena, JsonWriter);
    json_start(json, outputs_write, &output);
    fill(&job->title, json);
    return json_finish(json);
}

static void fill_json(JsonWriter *json, void *data) {
    const Job *job = data;
    search_write_json(&job->title, json);
}

static bool write_policy(const Job *job, Err *err) {
    const char *text = demi_search_policy(job->search);
    return !job->files.policy || (outfile_write(job->files.policy, text, strlen(text), err) &&
                                  outfile_write(job->files.policy, "\n", 1, err));
}

/* ---- the result ------------------------------------------------------------------------------ */

static bool load_converted(Job *job, DemiModel **model, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiConvertOptions convert = DEMI_CONVERT_OPTIONS_INIT;
    DemiRunOptions run = DEMI_RUN_OPTIONS_INIT;
    run.rounded = demi_search_rounded(job->search);
    convert.run = &run;
    convert.policy = demi_search_policy(job->search);
    return console_load(job->program, job->parsed, job->model.path, model, err) &&
           error_take(err, demi_convert(*model, &convert, NULL, &error), &error);
}

static bool write_plan(Job *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiModel *model = NULL;
    OutputFile output = {job->files.plan, err};
    if (!job->files.plan) return true;
    bool ok = load_converted(job, &model, err) &&
              error_take(err, demi_compile(model, NULL, outputs_write, &output, &error), &error);
    demi_free(model);
    return ok;
}

static bool write_reports(Job *job, Err *err) {
    const Files *f = &job->files;
    if (job->plan.text) search_print(&job->title, job->plan.color, job->plan.text);
    return json_to(job, f->json, search_write_json, err) &&
           json_to(job, f->front, search_write_front, err) &&
           json_to(job, f->entries, search_write_entries, err) &&
           json_to(job, f->places, search_write_places, err) &&
           draw_to(job, f->front_svg, search_draw_front, err) &&
           draw_to(job, f->groups_svg, search_draw_groups, err) &&
           (!f->page || search_write_page(&job->title, job->program->arena, f->page, err)) &&
           (!job->plan.json || report_json_to(job->program, &job->plan, fill_json, job, err));
}

static int exit_code(DemiSearchOutcome outcome) {
    switch (outcome) {
    case DEMI_FOUND:
    case DEMI_FOUND_TRIVIAL:
    case DEMI_FOUND_CURVE: return 0;
    case DEMI_FOUND_NOTHING:
    case DEMI_FOUND_UNCONFIRMED: return 1;
    case DEMI_FOUND_SO_FAR: return 11;
    }
    return 0;
}

/* What does not reach the target is not left for what does. */
static void drop_result(Job *job) {
    OutFile **const files[] = {&job->files.policy, &job->files.plan, &job->files.model};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (*files[i]) outputs_drop(job->program, *files[i]);
        *files[i] = NULL;
    }
}

static bool write_result(Job *job, Err *err) {
    ModelSave *save = NULL;
    DemiModel *model = NULL;
    job->title.search = job->search;
    job->title.input = job->model.path;
    job->title.output = job->output;
    job->title.cost = isnan(job->options.bits) ? job->options.cost : DEMI_COST_BYTES;
    const DemiSearchOutcome outcome = demi_search_totals(job->search)->outcome;
    if (outcome == DEMI_FOUND_NOTHING || outcome == DEMI_FOUND_UNCONFIRMED) drop_result(job);
    bool ok = write_policy(job, err) && write_plan(job, err) && write_reports(job, err);
    if (ok && job->files.model)
        ok = load_converted(job, &model, err) &&
             console_write_model(job->program, model, job->files.model, &save, err);
    ok = ok && outputs_commit(job->program, save, err);
    demi_free(model);
    job->program->exit_code = exit_code(outcome);
    return ok;
}

/* ---- searching ------------------------------------------------------------------------------- */

static bool tell(void *user, const char *what, size_t done, size_t total) {
    RunProgress *progress = user;
    if (!progress->holds) progress->holds = interrupt_hold();
    if (interrupt_came()) return false;
    console_progress(progress->program, what, done, total);
    return true;
}

/* The same with other sets; NULL where there is no such folder. */
static const DemiInputOptions *inputs_of(const DemiInputOptions *inputs, const char *folder,
                                         DemiInputOptions *other) {
    *other = *inputs;
    other->data = folder;
    other->sets = 0;
    return folder ? other : NULL;
}

static bool search(Job *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiSource source = console_source(&job->model);
    DemiInputOptions inputs = job->run.inputs;
    DemiSearchOptions *o = &job->options;
    uint64_t sets;
    if (!parsed_number(job->parsed, "sets", 1, &sets, 4, err)) return false;
    inputs.sets = inputs.data ? 0 : (size_t)sets;
    inputs.random = inputs.random || !inputs.data;
    o->inputs = &inputs;
    DemiInputOptions probes, calibration, holdout;
    const char *folder;
    if (!read_holdout(job, &folder, err)) return false;
    o->probe_inputs = inputs_of(&inputs, parsed_value(job->parsed, "probe-data"), &probes);
    o->calibration_inputs =
        inputs_of(&inputs, parsed_value(job->parsed, "calibrate"), &calibration);
    o->holdout_inputs = inputs_of(&inputs, folder, &holdout);
    o->context = &job->run.context;
    o->convert = &job->convert;
    o->part = job->program->ranks.part;
    o->parts = job->program->ranks.parts;
    o->combine = ranks_combine;
    o->combine_user = &job->program->ranks;
    o->progress = tell;
    o->progress_user = &job->progress;
    DemiStatus status = demi_search_run(&source, o, &job->search, &error);
    run_progress_end(&job->progress);
    if (status == DEMI_ERR_CANCELLED) {
        err_set(err, ERR_ENV, "interrupted");
        err_hint(err, "%s", error.hint);
    }
    if (error_take(err, status, &error)) return true;
    return false;
}

/* Commands that score what groups do. */
static bool use_sensitivity(Job *job, Err *err) {
    const Parsed *parsed = job->parsed;
    DemiSearchOptions *o = &job->options;
    const char *words = parsed_value(parsed, "eval-sensitivity");
    if (o->sensitivity == DEMI_SENSITIVITY_SCORE && !words && !parsed_value(parsed, "eval"))
        return err_set(err, ERR_USAGE,
                       "'--sensitivity eval' needs '--eval-sensitivity' or '--eval'");
    if (!words) return true;
    if (o->sensitivity != DEMI_SENSITIVITY_SCORE && parsed_value(parsed, "sensitivity"))
        return err_set(err, ERR_USAGE, "give '--eval-sensitivity' or '--sensitivity %s', not both",
                       parsed_value(parsed, "sensitivity"));
    if (parsed_value(parsed, "probe-data") || parsed_value(parsed, "probe-sets"))
        return err_set(err, ERR_USAGE,
                       "'--eval-sensitivity' has data of its own: remove '--probe-%s'",
                       parsed_value(parsed, "probe-data") ? "data" : "sets");
    job->sensitivity_score = (ScoreCommand){job->program->arena, "eval-sensitivity", words};
    o->sensitivity = DEMI_SENSITIVITY_SCORE;
    o->sensitivity_score = score_command_run;
    o->sensitivity_user = &job->sensitivity_score;
    o->sensitivity_name = words;
    return true;
}

/* Commands that score. */
static bool use_commands(Job *job, Err *err) {
    const Parsed *parsed = job->parsed;
    const char *eval = parsed_value(parsed, "eval"), *other = parsed_value(parsed, "eval-holdout");
    if (!use_sensitivity(job, err)) return false;
    if (other && !eval) return err_set(err, ERR_USAGE, "'--eval-holdout' needs '--eval'");
    if (!eval) return true;
    if (parsed_value(parsed, "metric"))
        return err_set(err, ERR_USAGE, "give --eval or --metric, not both");
    if (parsed_value(parsed, "holdout"))
        return err_set(err, ERR_USAGE, "with '--eval', give '--eval-holdout', not '--holdout'");
    job->score = (ScoreCommand){job->program->arena, "eval", eval};
    job->holdout_score = (ScoreCommand){job->program->arena, "eval-holdout", other};
    job->options.score_name =
        other ? arena_printf(job->program->arena, "%s, %s", eval, other) : eval;
    job->options.metric = DEMI_METRIC_SCORE;
    job->options.score = score_command_run;
    job->options.score_user = &job->score;
    if (other) job->options.holdout_score = score_command_run;
    job->options.holdout_score_user = &job->holdout_score;
    job->title.metric = "score";
    return true;
}

static bool prepare(Job *job, Err *err) {
    const Parsed *parsed = job->parsed;
    job->model = (ConsoleModel){job->program, parsed, parsed_argument(parsed, 0)};
    job->progress = (RunProgress){.program = job->program};
    if (!job->model.path) return console_missing(parsed, "a model to search", err);
    if (strcmp(job->model.path, "-") == 0)
        return err_set(err, ERR_USAGE,
                       "the model must be a file, because it is read several times");
    if (!fill_search(job, err) || !run_options_fill(&job->model, true, &job->run, err) ||
        !convert_options_fill(job->program->arena, parsed, &job->convert, err))
        return false;
    if (job->convert.equalize == DEMI_EQUALIZE_DATA && parsed_flag(parsed, "equalize"))
        return err_set(err, ERR_USAGE, "a search cannot '--equalize data': use weights, or never");
    return use_commands(job, err);
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    Job job = {.program = program,
               .parsed = parsed,
               .convert = DEMI_CONVERT_OPTIONS_INIT,
               .title = {.written_score = NAN}};
    const bool ok = prepare(&job, err) && open_files(&job, err) && search(&job, err) &&
                    (!job.search || write_result(&job, err));
    demi_search_free(job.search);
    return ok;
}

const Command command_search = {
    .name = "search",
    .summary = "find the cheapest mix of precisions that keeps a model accurate",
    .usage = "IN [-o OUT] [OPTIONS]",
    .about = "Divides IN into groups (the output of one node, with the weights that read it) and "
             "assigns one of the candidate precisions to each. It first measures the sensitivity "
             "of the outputs to each group. Then it solves for assignments, converts and runs "
             "them, and returns the cheapest one that was seen to reach the target. Only models "
             "that were run are written.\n\nOf 8 or more sets of inputs, a third is held out from "
             "the search. The result must also reach the target on these, with the lower end of a "
             "confidence interval, so that it holds on new data.\n\nWithout --target, --drop, or "
             "--max-cost, it measures the whole curve. The exit code is 0 if the target is "
             "reached. It is 1 if not even the widest candidates reach it, or no result reaches it "
             "on the held-out sets, and then no model is written. It is 11 if the time, the "
             "evaluations, or Ctrl-C ended the search. In that "
             "case, the best result "
             "so far that reaches the target is written.",
    .examples = "# 40 dB, on data of your own; everything that is known of it into a folder\n"
                "demi search model.onnx --data samples --target 40 --output-dir found\n"
                "# the same conversion again, without a search\n"
                "demi convert model.onnx -o model.mixed.onnx --policy found/policy.json\n"
                "# 8-bit integers where accuracy, by a script of yours, drops by half a percent at "
                "most\n"
                "demi search model.onnx -o out.onnx --data samples --eval 'python3 score.py' "
                "--drop 0.005\n"
                "# on two processes, going on where it was ended\n"
                "mpirun -n 2 demi search model.onnx -o out.onnx --data samples --target 40 "
                "--journal search.jsonl\n",
    .arguments = arguments,
    .options = search_options,
    .common = "candidates metric eval target drop data holdout cost output output-dir journal "
              "seconds json quiet help",
    .shares = true,
    .run = run,
};
