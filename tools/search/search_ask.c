// SPDX-License-Identifier: Apache-2.0
/* Scores of assignments, by conversions that are run, noted in a journal; see search_job.h. */
#include <math.h>
#include <string.h>

#include "clock.h"
#include "search_job.h"

const char *search_key(const SearchJob *job, const uint8_t *assignment) {
    char *key = arena_alloc(job->arena, job->problem.groups + 2);
    for (uint32_t g = 0; g < job->problem.groups; g++)
        key[g] = assignment[g] == SEARCH_UNCONVERTED ? '.' : (char)('0' + assignment[g]);
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

/* One way of running it; *noted stays where the journal has it. */
static bool run_or_find(SearchJob *job, const uint8_t *assignment, DemiNumerics numerics,
                        Score *found, bool *noted, Err *err) {
    const char *key = search_key(job, assignment);
    if (numerics == DEMI_NUMERICS_FAITHFUL) key = arena_printf(job->arena, "faithful %s", key);
    if (search_noted(job, key, found)) return true;
    *noted = false;
    return search_run_once(job, &job->scoring, assignment, numerics, found, err) &&
           search_note(job, key, found, err);
}

/* As evaluation_run; what was found each way is noted, as it depends on the target whether both are asked. */
static bool evaluate(void *user, const uint8_t *assignment, double *score, Err *err) {
    SearchJob *job = user;
    Score found = SCORE_NONE, other = SCORE_NONE;
    bool noted = true;
    bool ok = run_or_find(job, assignment, DEMI_NUMERICS_FAST, &found, &noted, err);
    if (ok && evaluation_asks_other(&job->scoring, &found)) {
        ok = run_or_find(job, assignment, DEMI_NUMERICS_FAITHFUL, &other, &noted, err);
        found = evaluation_join(&found, &other);
    }
    *score = found.value;
    VEC_PUSH(job->arena, &job->scores, found);
    VEC_PUSH(job->arena, &job->score_noted, noted);
    return ok;
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
