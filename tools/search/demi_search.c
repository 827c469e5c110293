// SPDX-License-Identifier: Apache-2.0
/* The front of searches: the handle, what options say, and the order in which things are done. */
#include "demi_search.h"

#include <math.h>
#include <string.h>

#include "clock.h"
#include "demi_call.h"
#include "error_fill.h"
#include "model_source.h"
#include "search_job.h"
#include "search_sets.h"

void demi_search_free(DemiSearch *search) {
    if (!search) return;
    Arena arena = search->arena; /* the handle itself lies in it */
    arena_free(&arena);
}

const DemiSearchTotals *demi_search_totals(const DemiSearch *search) {
    return &search->totals;
}

size_t demi_search_point_count(const DemiSearch *search) {
    return search->points.count;
}

const DemiSearchPoint *demi_search_point(const DemiSearch *search, size_t i) {
    return i < search->points.count ? &search->points.items[i] : NULL;
}

size_t demi_search_candidate_count(const DemiSearch *search) {
    return search->candidates.count;
}

const char *demi_search_candidate(const DemiSearch *search, size_t i) {
    return i < search->candidates.count ? search->candidates.items[i]->name : NULL;
}

const char *demi_search_candidate_type(const DemiSearch *search, size_t i, bool weights) {
    const Candidate *c = i < search->candidates.count ? search->candidates.items[i] : NULL;
    return c ? dtype_name(weights ? c->weights : c->activations) : NULL;
}

size_t demi_search_group_count(const DemiSearch *search) {
    return search->groups.count;
}

const DemiSearchGroup *demi_search_group(const DemiSearch *search, size_t i) {
    return i < search->groups.count ? &search->groups.items[i] : NULL;
}

DemiRoundedWeights *demi_search_rounded(const DemiSearch *search) {
    return search->rounded;
}

const char *demi_search_policy(const DemiSearch *search) {
    return search->policy;
}

size_t demi_search_entry_count(const DemiSearch *search) {
    return search->entries.count;
}

const DemiSearchEntry *demi_search_entry(const DemiSearch *search, size_t i) {
    return i < search->entries.count ? &search->entries.items[i] : NULL;
}

size_t demi_search_place_count(const DemiSearch *search) {
    return search->places.count;
}

const DemiSearchPlace *demi_search_place(const DemiSearch *search, size_t i) {
    return i < search->places.count ? &search->places.items[i] : NULL;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static bool find_candidates(SearchJob *job, Err *err) {
    const DemiSearchOptions *o = &job->options;
    static const char *const of_bits[] = {"w8", "w4"};
    SearchModel *m = &job->model;
    const bool usual = !o->candidates && !isnan(o->bits);
    if (!search_candidates_find(usual ? of_bits : o->candidates, usual ? 2 : o->candidate_count,
                                &m->convert, &m->told, job->arena, err))
        return false;
    m->candidates = m->told.items;
    m->candidate_count = m->told.count;
    job->search->totals.runtime = m->told.quantization.runtime;
    for (size_t i = 0; i < m->candidate_count; i++)
        VEC_PUSH(job->arena, &job->search->candidates, m->candidates[i]);
    return true;
}

static bool check_options(const SearchJob *job, Err *err) {
    const DemiSearchOptions *o = &job->options;
    if (o->metric == DEMI_METRIC_ACCURACY && !o->labels)
        return err_set(err, ERR_USAGE, "accuracy needs labels");
    if (o->metric == DEMI_METRIC_SCORE && !o->score)
        return err_set(err, ERR_USAGE, "there is no callback for scores");
    if ((unsigned)o->sensitivity > DEMI_SENSITIVITY_SCORE)
        return err_set(err, ERR_USAGE, "sensitivity is %d", (int)o->sensitivity);
    if (o->sensitivity == DEMI_SENSITIVITY_SCORE && !o->sensitivity_score && !o->score)
        return err_set(err, ERR_USAGE, "there is no callback for the scores of groups");
    if (o->sensitivity_score && o->sensitivity != DEMI_SENSITIVITY_SCORE)
        return err_set(err, ERR_USAGE, "scores of groups are not asked for by the sensitivity");
    if (!isnan(o->target) && !isnan(o->drop))
        return err_set(err, ERR_USAGE, "give a target or a drop, not both");
    if (!isnan(o->most_cost) && !(o->most_cost > 0)) {
        err_set(err, ERR_USAGE, "the largest cost is %g", o->most_cost);
        err_expected(err, "a share of the widest candidate's cost, more than 0");
        return false;
    }
    if (isnan(o->bits)) return true;
    if (!isnan(o->target) || !isnan(o->drop) || !isnan(o->most_cost))
        return err_set(err, ERR_USAGE,
                       "bits take the place of a target, a drop, or a largest cost");
    if (!(o->bits > 0 && o->bits <= 32)) {
        err_set(err, ERR_USAGE, "bits are %g", o->bits);
        err_expected(err, "a number of bits per weight, more than 0 and up to 32");
        return false;
    }
    return true;
}

static bool holdout_is_given(const DemiSearchOptions *o) {
    return o->holdout_inputs || (!isnan(o->holdout) && o->holdout != 0);
}

static bool check_holdout(const SearchJob *job, Err *err) {
    const DemiSearchOptions *o = &job->options;
    const bool aims = !isnan(o->target) || !isnan(o->drop) || search_is_bounded(o);
    if (!isnan(o->holdout) && !(o->holdout >= 0 && o->holdout < 1)) {
        err_set(err, ERR_USAGE, "bad holdout share");
        err_expected(err, "a number from 0 to less than 1");
        err_actual(err, "%g", o->holdout);
        return false;
    }
    if (o->holdout_inputs && !isnan(o->holdout))
        return err_set(err, ERR_USAGE, "the holdout is either sets or a share, not both");
    if (holdout_is_given(o) && o->metric == DEMI_METRIC_SCORE)
        return err_set(err, ERR_USAGE, "a score of your own takes no holdout sets");
    if (o->holdout_score && o->metric != DEMI_METRIC_SCORE)
        return err_set(err, ERR_USAGE, "a holdout score of your own needs a score of your own");
    if ((holdout_is_given(o) || o->holdout_score) && !aims)
        return err_set(err, ERR_USAGE, "a holdout needs a target, a drop, or a largest cost");
    if (o->metric == DEMI_METRIC_ACCURACY && o->holdout_inputs && !o->holdout_labels)
        return err_set(err, ERR_USAGE, "the holdout sets need labels of their own");
    if (o->holdout_labels && !o->holdout_inputs)
        return err_set(err, ERR_USAGE, "holdout labels need holdout sets");
    return true;
}

/* ---- front ----------------------------------------------------------------------------------- */

/* A score of the caller's knows no sets, and a curve ends with no result that was chosen. */
static void ask_for_sets(SearchJob *job) {
    const DemiSearchOptions *o = &job->options;
    const bool aims = !isnan(o->target) || !isnan(o->drop) || search_is_bounded(o);
    SetOptions *sets = &job->model.sets;
    *sets =
        (SetOptions){.calibration = o->calibration_inputs,
                     .holdout = o->holdout_inputs,
                     .share = o->holdout,
                     .accepts = aims && o->metric != DEMI_METRIC_SCORE,
                     .shares = o->metric == DEMI_METRIC_TOP1 || o->metric == DEMI_METRIC_ACCURACY,
                     .compares = o->metric != DEMI_METRIC_SCORE,
                     .labels = {o->labels, o->label_count, NULL},
                     .holdout_labels = {o->holdout_labels, o->holdout_label_count, NULL}};
    if (sets->accepts && o->holdout != 0) job->model.trials.parts = SEARCH_PARTS;
    job->model.quantize_outputs = o->quantize_outputs;
}

static bool prepare(SearchJob *job, MemTrap *trap, Err *err) {
    if (!find_candidates(job, err) || !check_options(job, err) || !check_holdout(job, err) ||
        !share_check(&job->model.trials.share, err))
        return false;
    ask_for_sets(job);
    if (!search_model_open(&job->model, trap, err) || !search_sets_divide(&job->model, err) ||
        !search_open_journal(job, err))
        return false;
    job->scoring.labels = job->model.labels;
    if (!search_groups(job)->count)
        return err_set(err, ERR_MODEL, "it has no floating-point values that depend on its inputs");
    if (!search_allow(job, trap, err)) return false;
    if (job->options.part) return search_serve(job, err);
    return search_cost(job, err) && search_ask(job, err) && search_acceptance(job, err) &&
           search_corners(job, err) && search_release(job, err);
}

/* Where the caller ends the measuring, what was seen to be good enough before is the result. */
static bool measure(SearchJob *job, Err *err) {
    Progress *progress = &job->model.trials.progress;
    const double begun = clock_seconds();
    if (job->options.seconds > 0 && job->options.parts < 2)
        progress->until = job->model.probes.progress.until = search_deadline(job);
    const bool measured = search_measure(job, err);
    progress->until = 0;
    job->search->totals.groups_seconds = clock_seconds() - begun;
    if (measured) return true;
    if (err->code != ERR_CANCELLED || job->options.parts > 1) return false;
    const bool late = clock_seconds() > search_deadline(job);
    job->best = solve_cheapest(&job->trace, job->aim);
    if (job->best == SOLVE_NONE && !late) return false; /* else it is the widest */
    job->decided = true;
    job->outcome = DEMI_FOUND_SO_FAR;
    progress->cancelled = false;
    *err = (Err){.code = ERR_NONE};
    return true;
}

static void search_body(Call *call, void *data) {
    SearchJob *job = data;
    Err *err = &call->err;
    Arena arena;
    arena_init(&arena, &call->trap);
    job->search = ARENA_NEW(&arena, DemiSearch);
    job->search->arena = arena;
    job->arena = job->model.arena = &job->search->arena;
    job->err = err;
    job->started = clock_seconds();
    inputs_copy(job->arena, &job->model.how.inputs);
    if (prepare(job, &call->trap, err) && measure(job, err)) {
        if (job->options.part)
            search_serve(job, err);
        else if (search_find(job, err) && search_release(job, err))
            search_tell(job, err);
    }
    call->cancelled = job->model.trials.progress.cancelled && err->code != ERR_NONE;
}

DemiStatus demi_search_run(const DemiSource *model, const DemiSearchOptions *options,
                           DemiSearch **search, DemiError *error) {
    Call call = {0};
    SearchJob job = {.options = DEMI_SEARCH_OPTIONS_INIT,
                     .model = {.source = DEMI_SOURCE_INIT,
                               .convert = DEMI_CONVERT_OPTIONS_INIT,
                               .how = SESSION_OPTIONS_JUDGED}};
    DemiInputOptions probe_inputs = DEMI_INPUT_OPTIONS_INIT;
    DemiInputOptions calibration_inputs = DEMI_INPUT_OPTIONS_INIT;
    DemiInputOptions holdout_inputs = DEMI_INPUT_OPTIONS_INIT;
    *search = NULL;
    options_copy(&call, &job.options, sizeof job.options, options);
    options_copy(&call, &job.model.source, sizeof job.model.source, model);
    options_copy(&call, &job.model.convert, sizeof job.model.convert, job.options.convert);
    options_copy(&call, &job.model.how.context, sizeof job.model.how.context, job.options.context);
    options_copy(&call, &job.model.how.inputs, sizeof job.model.how.inputs, job.options.inputs);
    options_copy(&call, &probe_inputs, sizeof probe_inputs, job.options.probe_inputs);
    if (job.options.probe_inputs) job.model.probe_inputs = &probe_inputs;
    DemiSearchOptions *o = &job.options;
    options_copy(&call, &calibration_inputs, sizeof calibration_inputs, o->calibration_inputs);
    if (o->calibration_inputs) o->calibration_inputs = &calibration_inputs;
    options_copy(&call, &holdout_inputs, sizeof holdout_inputs, o->holdout_inputs);
    if (o->holdout_inputs) o->holdout_inputs = &holdout_inputs;
    job.scoring = (Scoring){.metric = job.options.metric,
                            .trials = &job.model.trials,
                            .score = job.options.score,
                            .target = NAN,
                            .user = job.options.score_user};
    if (!isnan(job.options.bits)) job.options.cost = DEMI_COST_BYTES;
    job.model.trials.share = (Share){o->part, o->parts, o->combine, o->combine_user};
    job.model.trials.progress =
        (Progress){.tell = job.options.progress, .user = job.options.progress_user};
    DemiStatus status = call_run(&call, search_body, &job, error);
    if (status == DEMI_OK && job.options.part == 0)
        *search = job.search;
    else
        demi_search_free(job.search);
    return status;
}
