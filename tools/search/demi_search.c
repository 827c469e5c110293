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
    return i < search->candidates.count ? search->candidates.items[i] : NULL;
}

size_t demi_search_group_count(const DemiSearch *search) {
    return search->groups.count;
}

const DemiSearchGroup *demi_search_group(const DemiSearch *search, size_t i) {
    return i < search->groups.count ? &search->groups.items[i] : NULL;
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
    static const char *const otherwise[] = {"float", "float16", "a8w8"};
    DemiSearchOptions *o = &job->options;
    const char *const *names = o->candidates ? o->candidates : otherwise;
    const size_t count = o->candidates ? o->candidate_count : 3;
    const Candidate **found = ARENA_ARRAY(job->arena, const Candidate *, count + 1);
    if (count < 2 || count > 8)
        return err_set(err, ERR_USAGE, "a search needs 2 to 8 candidates, not %zu", count);
    for (size_t i = 0; i < count; i++) {
        found[i] = candidate_find(names[i], err);
        if (!found[i]) return false;
        for (size_t k = 0; k < i; k++)
            if (found[k] == found[i])
                return err_set(err, ERR_USAGE, "duplicate candidate '%s'", names[i]);
        VEC_PUSH(job->arena, &job->search->candidates, found[i]->name);
    }
    job->model.candidates = found;
    job->model.candidate_count = count;
    return true;
}

static bool check_options(const SearchJob *job, Err *err) {
    const DemiSearchOptions *o = &job->options;
    if (o->metric == DEMI_METRIC_ACCURACY && !o->labels)
        return err_set(err, ERR_USAGE, "accuracy needs labels");
    if (o->metric == DEMI_METRIC_SCORE && !o->score)
        return err_set(err, ERR_USAGE, "there is no callback for scores");
    if ((unsigned)o->sensitivity > DEMI_SENSITIVITY_GRADIENT)
        return err_set(err, ERR_USAGE, "sensitivity is %d", (int)o->sensitivity);
    if (!isnan(o->target) && !isnan(o->drop))
        return err_set(err, ERR_USAGE, "give a target or a drop, not both");
    if (o->parts > 1 && (!o->combine || o->part >= o->parts))
        return err_set(err, ERR_USAGE, "cannot combine part %zu of %zu", o->part, o->parts);
    return true;
}

/* ---- front ----------------------------------------------------------------------------------- */

static bool prepare(SearchJob *job, MemTrap *trap, Err *err) {
    if (!find_candidates(job, err) || !check_options(job, err) ||
        !search_model_open(&job->model, trap, err) || !search_open_journal(job, err))
        return false;
    if (!search_groups(job)->count)
        return err_set(err, ERR_MODEL, "it has no floating-point values that depend on its inputs");
    if (!search_allow(job, err)) return false;
    return job->options.part ||
           (search_cost(job, err) && search_ask(job, err) && search_corners(job, err));
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
    job->best = solve_cheapest(&job->trace, job->target);
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
    if (prepare(job, &call->trap, err) && measure(job, err) && job->options.part == 0 &&
        search_find(job, err))
        search_tell(job, err);
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
    *search = NULL;
    options_copy(&call, &job.options, sizeof job.options, options);
    options_copy(&call, &job.model.source, sizeof job.model.source, model);
    options_copy(&call, &job.model.convert, sizeof job.model.convert, job.options.convert);
    options_copy(&call, &job.model.how.context, sizeof job.model.how.context, job.options.context);
    options_copy(&call, &job.model.how.inputs, sizeof job.model.how.inputs, job.options.inputs);
    options_copy(&call, &probe_inputs, sizeof probe_inputs, job.options.probe_inputs);
    if (job.options.probe_inputs) job.model.probe_inputs = &probe_inputs;
    job.scoring = (Scoring){.metric = job.options.metric,
                            .labels = {job.options.labels, job.options.label_count},
                            .score = job.options.score,
                            .target = NAN,
                            .user = job.options.score_user};
    job.model.trials.progress =
        (Progress){.tell = job.options.progress, .user = job.options.progress_user};
    DemiStatus status = call_run(&call, search_body, &job, error);
    if (status == DEMI_OK && job.options.part == 0)
        *search = job.search;
    else
        demi_search_free(job.search);
    return status;
}
