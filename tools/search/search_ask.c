// SPDX-License-Identifier: Apache-2.0
/* Scores of assignments, by conversions that are run, noted in a journal; see search_job.h. */
#include <math.h>
#include <string.h>

#include "clock.h"
#include "error_fill.h"
#include "hash64.h"
#include "kernel.h"
#include "search_job.h"
#include "value_io.h"

/* ---- the journal ----------------------------------------------------------------------------- */

static const char *hex(const SearchJob *job, uint64_t hash) {
    return arena_printf(job->arena, "%016llx", (unsigned long long)hash);
}

static const char *text_hash(const SearchJob *job, const char *text) {
    return text ? hex(job, hash64_bytes(text, strlen(text), 0)) : "none";
}

static const char *real(const SearchJob *job, double number) {
    return isnan(number) ? "none" : arena_printf(job->arena, "%.17g", number);
}

/* Of what the model runs on: names, types, shapes and elements. */
static uint64_t hash_values(const DemiData *values, size_t count) {
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        const DemiData *value = &values[i];
        const int64_t head[] = {value->kind, value->dtype, value->rank, (int64_t)value->count};
        hash = hash64_bytes(head, sizeof head, hash);
        if (value->kind == DEMI_DATA_SEQUENCE_KIND) hash ^= hash_values(value->items, value->count);
        if (value->kind != DEMI_DATA_TENSOR_KIND || value->dtype == DEMI_STRING) continue;
        hash = hash64_bytes(value->dims, value->rank * sizeof *value->dims, hash);
        hash = hash64_bytes(value->data,
                            value_count(value) * kernel_element_size((Dtype)value->dtype), hash);
    }
    return hash;
}

/* Two of each set: of its inputs and its outputs. */
static bool hash_mine(Trials *trials, uint64_t *hashes, Err *err) {
    for (size_t k = 0; k < trials_mine(trials); k++) {
        const size_t i = trials_place(trials, k);
        const TrialSet *set = &trials->sets[i];
        if (!trials_bind(trials, i, err)) return false;
        hashes[2 * i] = hash_values(set->values, trials->reference->input_count);
        hashes[2 * i + 1] = hash_values(set->outputs, trials->reference->output_count);
        trials_end_set(trials, i);
    }
    return true;
}

/* Weights count by the outputs that they give. */
static bool hash_sets(Trials *trials, uint64_t *hash, Err *err) {
    Arena *within = arena_child(trials->arena);
    uint64_t *hashes = ARENA_ARRAY(within, uint64_t, 2 * trials->count + 1);
    const bool ok = hash_mine(trials, hashes, err) &&
                    share_words(&trials->share, hashes, 2 * trials->count, err);
    *hash = *hash * 31 + trials->count;
    for (size_t i = 0; i < 2 * trials->count; i++) *hash = *hash * 31 + hashes[i];
    arena_free(within);
    return ok;
}

static bool hash_data(SearchJob *job, uint64_t *hash, Err *err) {
    *hash = 0;
    for (uint32_t g = 0; g < search_groups(job)->count; g++) {
        const char *name = search_model_name(&job->model, g);
        *hash = hash64_bytes(name, strlen(name), *hash);
    }
    SearchModel *m = &job->model;
    if (!hash_sets(&m->calibration, hash, err)) return false;
    trials_forget(&m->calibration);
    if (!hash_sets(&m->holdout, hash, err)) return false;
    trials_forget(&m->holdout);
    return hash_sets(&m->trials, hash, err) &&
           (!m->probe_inputs || hash_sets(&m->probes, hash, err));
}

static const char *candidate_names(const SearchJob *job) {
    const char *names = "";
    for (size_t i = 0; i < job->search->candidates.count; i++)
        names = arena_printf(job->arena, "%s%s%s", names, i ? "," : "",
                             job->search->candidates.items[i]);
    return names;
}

static uint64_t hash_labels(const DemiSearchOptions *o) {
    const uint64_t hash = hash64_bytes(o->labels, o->label_count * sizeof *o->labels, 0);
    return hash64_bytes(o->holdout_labels, o->holdout_label_count * sizeof *o->labels, hash);
}

/* What differs where the journal's numbers would. */
bool search_open_journal(SearchJob *job, Err *err) {
    const DemiSearchOptions *o = &job->options;
    DemiError error = DEMI_ERROR_INIT;
    uint64_t data = 0;
    if (!o->journal) return true;
    if (!hash_data(job, &data, err)) return false;
    if (o->part) return true;
    const size_t size = demi_convert_policy(&job->model.convert, NULL, 0, &error);
    if (!error_take(err, error.status, &error)) return false;
    char *policy = arena_alloc(job->arena, size + 1);
    demi_convert_policy(&job->model.convert, policy, size + 1, NULL);
    const JournalField fields[] = {
        {"demi", DEMI_VERSION_STRING},
        {"model and data", hex(job, data)},
        {"candidates", candidate_names(job)},
        {"metric", o->metric == DEMI_METRIC_SCORE ? "score" : metric_name(o->metric)},
        {"labels", hex(job, hash_labels(o))},
        {"outputs", o->quantize_outputs ? "integers" : "float"},
        {"sensitivity", o->sensitivity == DEMI_SENSITIVITY_GRADIENT ? "gradient" : "measured"},
        {"probes", arena_printf(job->arena, "%zu", o->probes)},
        {"policy", text_hash(job, policy)},
        {"calibration", "mse"},
        {"supported", o->all_candidates ? "none" : text_hash(job, o->supported)},
        {"target", real(job, o->target)},
        {"drop", real(job, o->drop)},
        {"max-cost", real(job, o->most_cost)},
        {"cost", arena_printf(job->arena, "%d", (int)o->cost)},
        {"algorithm", arena_printf(job->arena, "%d%s%s", (int)o->algorithm, o->reverse ? "r" : "",
                                   o->fewer_conversions ? "c" : "")}};
    job->journal =
        journal_open(o->journal, fields, sizeof fields / sizeof *fields, job->arena, err);
    return job->journal;
}

/* ---- scores ---------------------------------------------------------------------------------- */

const char *search_key(const SearchJob *job, const uint8_t *assignment) {
    char *key = arena_alloc(job->arena, job->problem.groups + 2);
    for (uint32_t g = 0; g < job->problem.groups; g++) key[g] = (char)('0' + assignment[g]);
    key[job->problem.groups] = '\0';
    return key;
}

/* Machines sum in different orders, so their scores are not the same to the last digits. */
static bool confirm(SearchJob *job, const Scoring *scoring, size_t point, double noted, Err *err) {
    const double apart = 0.02;
    Score found = SCORE_NONE;
    if (!search_run(job, scoring, solve_point(&job->trace, point)->assignment, &found, err))
        return false;
    if (fabs(found.value - noted) <= apart * fmax(1, fabs(noted)) ||
        (isnan(found.value) && isnan(noted)))
        return true;
    err_set(err, ERR_USAGE, "the journal's score of the result is wrong");
    err_file(err, job->options.journal);
    err_expected(err, "a score of %g, by running it now", found.value);
    err_actual(err, "%g", noted);
    err_hint(err, "the journal was changed, or comes from another machine: choose another file");
    return false;
}

bool search_confirm(SearchJob *job, size_t point, Err *err) {
    const Acceptance *a = &job->acceptance;
    if (point < job->score_noted.count && job->score_noted.items[point] &&
        !confirm(job, &job->scoring, point, solve_value(&job->trace, point), err))
        return false;
    return !a->noted || a->point != point || confirm(job, &a->scoring, point, a->score.value, err);
}

enum { NOTED = 4 };

static Score noted_score(const double *numbers) {
    return (Score){numbers[0], numbers[1], {numbers[2], numbers[3]}};
}

/* Of one kind, so that a key is found for what it was noted for. */
bool search_note(SearchJob *job, const char *key, const Score *score, Err *err) {
    const double numbers[NOTED] = {score->value, score->error, score->interval.low,
                                   score->interval.high};
    return !job->journal || journal_add(job->journal, key, numbers, NOTED, err);
}

bool search_noted(const SearchJob *job, const char *key, Score *score) {
    const double *numbers = job->journal ? journal_find(job->journal, key, NOTED) : NULL;
    if (numbers) *score = noted_score(numbers);
    return numbers;
}

static bool evaluate(void *user, const uint8_t *assignment, double *score, Err *err) {
    SearchJob *job = user;
    const char *key = search_key(job, assignment);
    Score found = SCORE_NONE;
    const bool noted = search_noted(job, key, &found);
    const bool ok = noted || search_run(job, &job->scoring, assignment, &found, err);
    *score = found.value;
    VEC_PUSH(job->arena, &job->scores, found);
    VEC_PUSH(job->arena, &job->score_noted, noted);
    return ok && (noted || search_note(job, key, &found, err));
}

static bool stop(void *user) {
    SearchJob *job = user;
    const bool first = !job->trace.points.count; /* there is to be a result */
    if (!first && clock_seconds() > search_deadline(job)) return true;
    return !progress_tell(&job->model.trials.progress, "evaluating", job->trace.points.count,
                          job->trace.oracle.limit, NULL);
}

/* What the float model itself scores; its drop makes the target. */
static bool find_target(SearchJob *job, Err *err) {
    DemiSearchTotals *totals = &job->search->totals;
    const double *noted = job->journal ? journal_find(job->journal, "float", 1) : NULL;
    job->target = job->options.target;
    Score found = SCORE_NONE;
    if (noted) found.value = *noted;
    if (!noted && !search_run(job, &job->scoring, NULL, &found, err)) return false;
    if (isnan(found.value) && !isnan(job->options.drop)) {
        err_set(err, ERR_MODEL, "the unconverted model's score is not a number");
        err_hint(err, "--drop is relative to it; use --target instead");
        return false;
    }
    totals->float_score = found.value;
    if (!isnan(job->options.drop)) job->target = totals->float_score - job->options.drop;
    totals->target = job->scoring.target = job->aim = job->target;
    return noted || !job->journal ||
           journal_add(job->journal, "float", &totals->float_score, 1, err);
}

bool search_ask(SearchJob *job, Err *err) {
    enum { EVALUATIONS = 200 };
    const SolveOracle oracle = {.evaluate = evaluate,
                                .stop = stop,
                                .user = job,
                                .limit = job->options.evaluations ? job->options.evaluations
                                                                  : EVALUATIONS};
    if (!find_target(job, err)) return false;
    solve_trace_init(&job->trace, &job->problem, &oracle, job->arena, err);
    return true;
}
