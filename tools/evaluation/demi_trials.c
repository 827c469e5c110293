// SPDX-License-Identifier: Apache-2.0
/* The front of trials: handles, and where running out of memory or a cancelled call arrives. What
 * trials do is in trial.c and keep_search.c. */
#include <string.h>

#include "demi_call.h"
#include "demi_front.h"
#include "keep_search.h"
#include "memory_return.h"
#include "model_source.h"
#include "trial_fit.h"
#include "trial.h"
#include "trial_moments.h"

struct DemiTrials {
    Arena arena; /* owns this */
    Trials trials;
};

struct DemiVerdict {
    Arena arena; /* owns this */
    DemiVerdictTotals totals;
    TrialResult result;
    DemiBroken broken; /* node: NULL where nothing is */
    Words kept;
    const char *const *keep; /* [keep_count] */
    size_t keep_count;
};

struct DemiRanges {
    Arena arena; /* owns this */
    Calibrated found;
    const char **texts; /* [found.list.count] */
};

/* ---- opening --------------------------------------------------------------------------------- */

typedef struct NewArgs {
    DemiSource source;
    DemiTrialOptions options;
    SessionOptions how;
    DemiTrials *trials;
} NewArgs;

static void new_body(Call *call, void *data) {
    NewArgs *args = data;
    Arena arena;
    arena_init(&arena, &call->trap);
    DemiTrials *handle = ARENA_NEW(&arena, DemiTrials);
    handle->arena = arena;
    args->trials = handle;
    Trials *t = &handle->trials;
    t->arena = &handle->arena;
    t->how = args->how;
    inputs_copy(t->arena, &t->how.inputs);
    t->source = args->source;
    source_copy(t->arena, &t->source);
    t->progress = (Progress){.tell = args->options.progress, .user = args->options.progress_user};
    t->share = (Share){args->options.part, args->options.parts, args->options.combine,
                       args->options.combine_user};
    trials_open(t, &call->err);
}

DemiStatus demi_trials_new(const DemiSource *model, const DemiTrialOptions *options,
                           DemiTrials **trials, DemiError *error) {
    Call call = {0};
    NewArgs args = {.source = DEMI_SOURCE_INIT,
                    .options = DEMI_TRIAL_OPTIONS_INIT,
                    .how = SESSION_OPTIONS_JUDGED};
    *trials = NULL;
    options_copy(&call, &args.source, sizeof args.source, model);
    options_copy(&call, &args.options, sizeof args.options, options);
    options_copy(&call, &args.how.compile, sizeof args.how.compile, args.options.compile);
    options_copy(&call, &args.how.context, sizeof args.how.context, args.options.context);
    options_copy(&call, &args.how.inputs, sizeof args.how.inputs, args.options.inputs);
    DemiStatus status = call_run(&call, new_body, &args, error);
    if (status == DEMI_OK)
        *trials = args.trials;
    else
        demi_trials_free(args.trials);
    return status;
}

void demi_trials_free(DemiTrials *trials) {
    if (!trials) return;
    Arena arena = trials->arena; /* the handle itself lies in it */
    arena_free(&arena);
    memory_return(); /* what lanes' threads had is of no use to others */
}

size_t demi_trials_set_count(const DemiTrials *trials) {
    return trials->trials.count;
}

const char *demi_trials_uncut_file(const DemiTrials *trials, uint64_t *bytes) {
    const char *found = NULL;
    *bytes = 0;
    for (size_t i = 0; i < trials->trials.count; i++) {
        const SessionSet *set = &trials->trials.sets[i].from;
        if (set->uncut <= *bytes) continue;
        *bytes = set->uncut;
        found = set->path;
    }
    return found;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

typedef struct TrialArgs {
    Trials *trials;
    DemiConvertOptions convert;
    DemiRunOptions run;
    DemiSource model; /* judge's */
    DemiLimit limit;  /* judge's and search's */
    DemiVerdict *verdict;
} TrialArgs;

/* Borrows the trials for this call. */
static Trials *trials_enter(Call *call, Trials *trials) {
    trials_lend(trials, &call->trap);
    trials->calibrating = false;
    return trials;
}

static DemiVerdict *verdict_begin(Call *call, TrialArgs *args) {
    Arena arena;
    arena_init(&arena, &call->trap);
    DemiVerdict *verdict = ARENA_NEW(&arena, DemiVerdict);
    verdict->arena = arena;
    verdict->result.arena = &verdict->arena;
    args->verdict = verdict;
    return verdict;
}

static size_t count_beyond(const Judgment *judgment, const DemiLimit *limit) {
    size_t count = 0;
    for (size_t i = 0; i < judgment->outputs.count; i++)
        count += demi_limit_beyond(limit, &judgment->outputs.items[i].diff);
    for (size_t i = 0; i < judgment->picks.count; i++)
        count += demi_pick_beyond(limit, &judgment->picks.items[i]);
    return count;
}

static bool verdict_end(Trials *trials, DemiVerdict *v, const DemiLimit *limit, Err *err) {
    const Judgment *judgment = &v->result.judgment;
    v->totals.error = judgment->error;
    v->totals.broken = judgment->broken;
    if (limit) {
        v->totals.limit = *limit;
        v->totals.beyond = count_beyond(judgment, limit);
    }
    v->totals.sets = trials->count;
    v->totals.trials = trials->done;
    if (!trials_share_assumed(trials, err)) return false;
    v->totals.assumed = trials_assumed(trials, &v->arena);
    return true;
}

/* Where a conversion breaks outputs: where that begins. */
static bool find_broken(Trials *trials, const DemiConvertOptions *options, DemiVerdict *v,
                        Err *err) {
    return !v->result.judgment.broken ||
           trials_find_broken(trials, options, &v->arena, &v->broken, err);
}

static DemiStatus trial_call(CallBody body, TrialArgs *args, Call *call, DemiVerdict **verdict,
                             DemiError *error) {
    *verdict = NULL;
    DemiStatus status = call_run(call, body, args, error);
    if (status == DEMI_OK)
        *verdict = args->verdict;
    else
        demi_verdict_free(args->verdict);
    return status;
}

/* Copies the conversion's options and those of its run. */
static void take_convert(Call *call, TrialArgs *args, const DemiConvertOptions *convert) {
    args->convert = (DemiConvertOptions)DEMI_CONVERT_OPTIONS_INIT;
    args->run = (DemiRunOptions)DEMI_RUN_OPTIONS_INIT;
    options_copy(call, &args->convert, sizeof args->convert, convert);
    options_copy(call, &args->run, sizeof args->run, args->convert.run);
    args->convert.run = &args->run;
}

static void run_body(Call *call, void *data) {
    TrialArgs *args = data;
    Trials *t = trials_enter(call, args->trials);
    DemiVerdict *v = verdict_begin(call, args);
    if (trials_run(t, &args->convert, &v->result, &call->err) &&
        find_broken(t, &args->convert, v, &call->err))
        verdict_end(t, v, NULL, &call->err);
    call->cancelled = t->progress.cancelled;
}

DemiStatus demi_trials_run(DemiTrials *trials, const DemiConvertOptions *convert,
                           DemiVerdict **verdict, DemiError *error) {
    Call call = {0};
    TrialArgs args = {.trials = &trials->trials};
    take_convert(&call, &args, convert);
    return trial_call(run_body, &args, &call, verdict, error);
}

static void judge_body(Call *call, void *data) {
    TrialArgs *args = data;
    Trials *t = trials_enter(call, args->trials);
    DemiVerdict *v = verdict_begin(call, args);
    if (trials_judge(t, &args->model, &args->limit, &v->result, &call->err))
        verdict_end(t, v, &args->limit, &call->err);
    call->cancelled = t->progress.cancelled;
}

DemiStatus demi_trials_judge(DemiTrials *trials, const DemiSource *model, const DemiLimit *limit,
                             DemiVerdict **verdict, DemiError *error) {
    Call call = {0};
    TrialArgs args = {
        .trials = &trials->trials, .model = DEMI_SOURCE_INIT, .limit = DEMI_LIMIT_INIT};
    options_copy(&call, &args.model, sizeof args.model, model);
    options_copy(&call, &args.limit, sizeof args.limit, limit);
    return trial_call(judge_body, &args, &call, verdict, error);
}

static void search_body(Call *call, void *data) {
    TrialArgs *args = data;
    Trials *t = trials_enter(call, args->trials);
    DemiVerdict *v = verdict_begin(call, args);
    KeptNodes kept = {.result = {.arena = &v->arena}};
    if (keep_search(t, &args->convert, args->limit.error, &kept, &call->err)) {
        v->result = kept.result;
        v->kept = kept.nodes;
        v->keep = texts_copy(&v->arena, args->convert.keep, args->convert.keep_count);
        v->keep_count = args->convert.keep_count;
        v->totals.stopped = kept.stopped;
        if (find_broken(t, &args->convert, v, &call->err))
            verdict_end(t, v, &args->limit, &call->err);
    }
    call->cancelled = t->progress.cancelled;
}

DemiStatus demi_trials_search(DemiTrials *trials, const DemiConvertOptions *convert, double most,
                              DemiVerdict **verdict, DemiError *error) {
    Call call = {0};
    TrialArgs args = {.trials = &trials->trials, .limit = {sizeof(DemiLimit), most, 0}};
    take_convert(&call, &args, convert);
    return trial_call(search_body, &args, &call, verdict, error);
}

void demi_verdict_free(DemiVerdict *verdict) {
    if (!verdict) return;
    Arena arena = verdict->arena; /* the handle itself lies in it */
    arena_free(&arena);
}

const DemiVerdictTotals *demi_verdict_totals(const DemiVerdict *verdict) {
    return &verdict->totals;
}

size_t demi_verdict_output_count(const DemiVerdict *verdict) {
    return verdict->result.judgment.outputs.count;
}

const DemiOutputError *demi_verdict_output(const DemiVerdict *verdict, size_t i) {
    const OutputErrors *rows = &verdict->result.judgment.outputs;
    return i < rows->count ? &rows->items[i] : NULL;
}

size_t demi_verdict_pick_count(const DemiVerdict *verdict) {
    return verdict->result.judgment.picks.count;
}

const DemiPick *demi_verdict_pick(const DemiVerdict *verdict, size_t i) {
    const PickRows *rows = &verdict->result.judgment.picks;
    return i < rows->count ? &rows->items[i] : NULL;
}

const DemiBroken *demi_verdict_broken(const DemiVerdict *verdict) {
    return verdict->broken.node ? &verdict->broken : NULL;
}

size_t demi_verdict_kept_count(const DemiVerdict *verdict) {
    return verdict->kept.count;
}

const char *demi_verdict_kept(const DemiVerdict *verdict, size_t i) {
    return i < verdict->kept.count ? verdict->kept.items[i] : NULL;
}

const char *const *demi_verdict_keep(const DemiVerdict *verdict, size_t *count) {
    *count = verdict->keep_count;
    return verdict->keep;
}

/* ---- calibration ----------------------------------------------------------------------------- */

typedef struct RangeArgs {
    Trials *trials;
    DemiCalibrateOptions options;
    DemiRanges *ranges;
} RangeArgs;

static bool check_calibration(const DemiCalibrateOptions *options, Err *err) {
    if (!(options->percentile > 0 && options->percentile <= 100))
        return err_set(err, ERR_USAGE, "calibration: percentile is %g", options->percentile);
    if (options->levels < 2)
        return err_set(err, ERR_USAGE, "calibration: %u levels", (unsigned)options->levels);
    if (options->type && options->type != DEMI_FLOAT8E4M3FN)
        return err_set(err, ERR_USAGE, "calibration: type is %s", dtype_name((Dtype)options->type));
    if ((unsigned)options->method > DEMI_CALIBRATION_BEST)
        return err_set(err, ERR_USAGE, "calibration: method is %d", (int)options->method);
    if (options->method == DEMI_CALIBRATION_BEST && (!options->ends || !options->convert))
        return err_set(err, ERR_USAGE,
                       "calibration: best is only available for conversions with ranges");
    return true;
}

/* Until trials are lent again. */
static void begin_calibrating(Trials *t) {
    t->calibrating = true;
    t->numbers = t->floats = 0;
}

static void calibrate_body(Call *call, void *data) {
    RangeArgs *args = data;
    Trials *t = trials_enter(call, args->trials);
    Arena arena;
    arena_init(&arena, &call->trap);
    DemiRanges *ranges = ARENA_NEW(&arena, DemiRanges);
    ranges->arena = arena;
    args->ranges = ranges;
    begin_calibrating(t);
    bool ok = check_calibration(&args->options, &call->err) &&
              trials_ranges(t, &args->options, &ranges->arena, &ranges->found, &call->err);
    ranges->texts = ARENA_ARRAY(&ranges->arena, const char *, ranges->found.list.count + 1);
    for (size_t i = 0; ok && i < ranges->found.list.count; i++)
        ranges->texts[i] =
            range_text(&ranges->arena, &ranges->found.list.items[i], args->options.ends);
    call->cancelled = t->progress.cancelled;
}

DemiStatus demi_trials_calibrate(DemiTrials *trials, const DemiCalibrateOptions *options,
                                 DemiRanges **ranges, DemiError *error) {
    Call call = {0};
    RangeArgs args = {.trials = &trials->trials, .options = DEMI_CALIBRATE_OPTIONS_INIT};
    if (options)
        memcpy(&args.options, options,
               options->size < sizeof args.options ? options->size : sizeof args.options);
    *ranges = NULL;
    DemiStatus status = call_run(&call, calibrate_body, &args, error);
    if (status == DEMI_OK)
        *ranges = args.ranges;
    else
        demi_ranges_free(args.ranges);
    return status;
}

void demi_ranges_free(DemiRanges *ranges) {
    if (!ranges) return;
    Arena arena = ranges->arena; /* the handle itself lies in it */
    arena_free(&arena);
}

size_t demi_ranges_count(const DemiRanges *ranges) {
    return ranges->found.list.count;
}

const DemiRange *demi_ranges_item(const DemiRanges *ranges, size_t i) {
    return i < ranges->found.list.count ? &ranges->found.list.items[i] : NULL;
}

DemiCalibration demi_ranges_method(const DemiRanges *ranges) {
    return ranges->found.method;
}

const char *const *demi_ranges_texts(const DemiRanges *ranges) {
    return ranges->texts;
}

const char *const *demi_ranges_scales(const DemiRanges *ranges, size_t *count) {
    *count = ranges->found.scales.count;
    return ranges->found.scales.items;
}

/* ---- rounding -------------------------------------------------------------------------------- */

typedef struct RoundArgs {
    TrialArgs trial;
    DemiRoundedWeights *weights;
} RoundArgs;

/* What was kept last is the first of the list. */
static void list_rounded(DemiRoundedWeights *w) {
    for (const RoundedWeights *at = w->rounding.kept; at; at = at->next) w->count++;
    w->items = ARENA_ARRAY(&w->arena, DemiRoundedItem, w->count + 1);
    size_t i = w->count;
    for (const RoundedWeights *at = w->rounding.kept; at; at = at->next)
        w->items[--i] = (DemiRoundedItem){at->name, at->nearest, at->chosen};
}

static void round_body(Call *call, void *data) {
    RoundArgs *args = data;
    Trials *t = trials_enter(call, args->trial.trials);
    Arena arena;
    arena_init(&arena, &call->trap);
    DemiRoundedWeights *weights = ARENA_NEW(&arena, DemiRoundedWeights);
    weights->arena = arena;
    weights->rounding.arena = &weights->arena;
    args->weights = weights;
    begin_calibrating(t);
    if (trials_round(t, &args->trial.convert, weights, &call->err) &&
        trials_saw_elements(t, &call->err))
        list_rounded(weights);
    call->cancelled = t->progress.cancelled;
}

DemiStatus demi_trials_round(DemiTrials *trials, const DemiConvertOptions *convert,
                             DemiRoundedWeights **weights, DemiError *error) {
    Call call = {0};
    RoundArgs args = {.trial = {.trials = &trials->trials}};
    *weights = NULL;
    take_convert(&call, &args.trial, convert);
    const DemiStatus status = call_run(&call, round_body, &args, error);
    if (status == DEMI_OK)
        *weights = args.weights;
    else
        demi_rounded_free(args.weights);
    return status;
}

void demi_rounded_free(DemiRoundedWeights *weights) {
    if (!weights) return;
    Arena arena = weights->arena; /* the handle itself lies in it */
    arena_free(&arena);
}

size_t demi_rounded_count(const DemiRoundedWeights *weights) {
    return weights->count;
}

const DemiRoundedItem *demi_rounded_item(const DemiRoundedWeights *weights, size_t i) {
    return i < weights->count ? &weights->items[i] : NULL;
}
