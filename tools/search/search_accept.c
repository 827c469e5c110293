// SPDX-License-Identifier: Apache-2.0
/* Acceptance: what was found on some sets of inputs has to hold on others, which the search did not use.
 *
 * An assignment is accepted where the lower end of its score's confidence interval on the held-out sets reaches
 * the target. Who tests until one passes finds one by luck, so that there are few tests, TESTS at most, and
 * intervals are corrected for all of them: each misses with a probability of 1/TESTS of what all together may
 * (Bonferroni's inequality; Dunn, Journal of the American Statistical Association 56 (1961), 52-64). Held-out
 * sets do not select: of their scores, the search is told only how much higher it has to aim. Where none
 * is expected to pass, the last test is of the assignment that is the surest on the search's own sets. See search_job.h. */
#include <math.h>

#include "search_job.h"

enum { TESTS = 3 };

/* ---- what is held out ------------------------------------------------------------------------- */

static bool is_share(const SearchJob *job) {
    return job->options.metric == DEMI_METRIC_TOP1 || job->options.metric == DEMI_METRIC_ACCURACY;
}

static bool score_plain(SearchJob *job, Score *found, Err *err) {
    static const char key[] = "float, held out";
    if (search_noted(job, key, found)) return true;
    return search_run(job, &job->acceptance.scoring, NULL, found, err) &&
           search_note(job, key, found, err);
}

/* Shares of few rows have wide intervals, whatever the model does. */
static bool refuse_few(const SearchJob *job, const Score *plain, Err *err) {
    err_set(err, ERR_MODEL, "too few rows are held out to confirm the target");
    err_expected(err, "an interval whose lower end reaches %g", job->acceptance.target);
    err_actual(err, "%.3g for the original model, from %zu rows", plain->interval.low,
               (size_t)job->model.holdout_rows);
    err_hint(err, "use more sets, or search without acceptance (--holdout 0)");
    return false;
}

/* A drop is one from the float model's score on the same sets. */
static bool find_target(SearchJob *job, Err *err) {
    Acceptance *a = &job->acceptance;
    Score plain = SCORE_NONE;
    const bool drop = !isnan(job->options.drop);
    a->target = job->target;
    if (isnan(job->target) || (!is_share(job) && !(drop && job->options.holdout_score)))
        return true;
    if (!score_plain(job, &plain, err)) return false;
    if (drop) a->target = plain.value - job->options.drop;
    return !is_share(job) || plain.interval.low >= a->target || refuse_few(job, &plain, err);
}

/* No target: the best at a cost is tested, once. */
static size_t tests_of(const SearchJob *job) {
    return isnan(job->options.target) && isnan(job->options.drop) ? 1 : TESTS;
}

const char *search_acceptance_name(const SearchJob *job) {
    const bool paired = is_share(job) && !isnan(job->options.drop);
    if (!job->model.holdout.count && !job->options.holdout_score) return "none";
    return arena_printf(job->arena, "%zu tests%s", tests_of(job), paired ? ", paired" : "");
}

bool search_acceptance(SearchJob *job, Err *err) {
    static const double together = 0.95;
    Acceptance *a = &job->acceptance;
    const DemiSearchOptions *o = &job->options;
    a->point = SOLVE_NONE;
    a->applies = job->model.holdout.count || o->holdout_score;
    if (!a->applies) return true;
    a->most = tests_of(job);
    job->scoring.confidence = 1 - (1 - together) / (double)a->most;
    job->scoring.expected = job->model.samples;
    job->scoring.by_rows = job->model.by_rows;
    job->scoring.paired = !isnan(o->drop);
    job->search->totals.confidence = together;
    a->scoring = job->scoring;
    a->scoring.trials = &job->model.holdout;
    a->scoring.labels = job->model.holdout_labels;
    a->scoring.score = o->holdout_score;
    a->scoring.user = o->holdout_score_user;
    a->scoring.target = NAN;
    a->scoring.expected = 0;
    return find_target(job, err);
}

/* ---- how high to aim -------------------------------------------------------------------------- */

/* The least share whose interval reaches the target, by halving. */
static double aim_of_share(const SearchJob *job) {
    const double rows = (double)job->model.holdout_rows;
    double low = job->target, high = 1;
    for (int i = 0; i < 50; i++) {
        const double middle = (low + high) / 2;
        const Interval found = interval_of_share(middle * rows, rows, job->scoring.confidence);
        *(found.low < job->target ? &low : &high) = middle;
    }
    return high;
}

/* By how much intervals reach below scores, of the points so far, on the metric's scale: the most, as mixtures
 * differ less from sample to sample; of shares that are compared with the float model's the least, as the best
 * ones change the fewest rows. NaN: not known. */
static double find_margin(const SearchJob *job) {
    const DemiMetric metric = job->options.metric;
    double margin = NAN;
    for (size_t i = 0; i < job->scores.count; i++) {
        const Score *score = &job->scores.items[i];
        const double low = score->interval.low;
        if (isnan(score->value) || isnan(low) || low >= score->value) continue;
        const double here = metric_to_scale(metric, score->value) - metric_to_scale(metric, low);
        margin = is_share(job) ? fmin(margin, here) : fmax(margin, here);
    }
    return margin;
}

void search_aim(SearchJob *job) {
    const DemiMetric metric = job->options.metric;
    job->aim = job->target;
    if (!job->acceptance.applies || isnan(job->target)) return;
    if (is_share(job) && isnan(job->options.drop)) {
        job->aim = aim_of_share(job);
        return;
    }
    const double margin = find_margin(job);
    if (isnan(margin)) return;
    job->aim = metric_from_scale(metric, metric_to_scale(metric, job->target) + margin);
}

static double lack_of(const SearchJob *job) {
    const Acceptance *a = &job->acceptance;
    const DemiMetric metric = job->options.metric;
    return metric_to_scale(metric, a->target) - metric_to_scale(metric, a->score.interval.low);
}

double search_low(const SearchJob *job, size_t point) {
    const Score *score = &job->scores.items[point];
    return isnan(score->interval.low) ? score->value : score->interval.low;
}

/* What an interval gains on the sets of the search, it is expected to gain on others. */
bool search_expects(const SearchJob *job, size_t point) {
    const DemiMetric metric = job->options.metric;
    const double gain = metric_to_scale(metric, search_low(job, point)) -
                        metric_to_scale(metric, search_low(job, job->acceptance.point));
    return gain >= lack_of(job);
}

/* By half as much again as the interval lacked, and the second time by more, which is the last. Where it is not known by
 * how much, an output being broken, half of the way to the best score. */
static void raise_aim(SearchJob *job) {
    const Acceptance *a = &job->acceptance;
    const DemiMetric metric = job->options.metric;
    const size_t best = solve_highest(&job->trace, INFINITY);
    const double score = solve_value(&job->trace, a->point);
    const double from = metric_to_scale(metric, fmax(job->aim, score));
    double lack = lack_of(job);
    if (!isfinite(lack))
        lack = (metric_to_scale(metric, solve_value(&job->trace, best)) - from) / 2;
    job->aim = metric_from_scale(metric, from + lack * (0.5 + (double)a->tests));
}

bool search_lower_aim(SearchJob *job) {
    static const double part = 0.75, least = 0.25; /* of what is left, of an interval's half */
    const Acceptance *a = &job->acceptance;
    const DemiMetric metric = job->options.metric;
    const double low = metric_to_scale(metric, a->score.interval.low);
    const double left = low - metric_to_scale(metric, a->target);
    const double half = metric_to_scale(metric, a->score.value) - low;
    const double from = metric_to_scale(metric, solve_value(&job->trace, a->point));
    if (!a->applies || isnan(job->target) || !search_may_accept(job) ||
        job->outcome == DEMI_FOUND_TRIVIAL || !(left > least * half))
        return false;
    job->aim = fmax(job->target, metric_from_scale(metric, from - part * left));
    return true;
}

/* ---- tests ------------------------------------------------------------------------------------ */

bool search_may_accept(const SearchJob *job) {
    return job->acceptance.tests < job->acceptance.most;
}

/* What the sets of the search say is too good, and not only for what was selected by them: where they know of
 * samples that are worse than any that is held out, as a recognizer's that takes another letter, the lower end is
 * what they say with 95 % confidence. */
static void heed_selection(const SearchJob *job, size_t point, Score *score) {
    const Score *mine = &job->scores.items[point];
    const size_t sets = job->model.trials.count;
    if (job->options.metric != DEMI_METRIC_SQNR || !isfinite(mine->error) || sets < 2) return;
    const double low = mine->value - interval_student(0.95, sets - 1) * mine->error;
    score->interval.low = fmin(score->interval.low, low);
}

bool search_accept(SearchJob *job, size_t point, Err *err) {
    Acceptance *a = &job->acceptance;
    const uint8_t *assignment = solve_point(&job->trace, point)->assignment;
    a->point = point;
    a->accepted = !a->applies;
    if (a->accepted) return true;
    VEC_PUSH(job->arena, &job->tested, point);
    const char *key = arena_printf(job->arena, "held out %s", search_key(job, assignment));
    a->noted = search_noted(job, key, &a->score);
    if (!a->noted && (!search_run(job, &a->scoring, assignment, &a->score, err) ||
                      !search_note(job, key, &a->score, err)))
        return false;
    if (a->scoring.metric == DEMI_METRIC_SCORE) a->score.interval.low = a->score.value;
    if (!isnan(a->score.interval.low)) heed_selection(job, point, &a->score);
    a->tests++;
    a->accepted = isnan(job->target) || a->score.interval.low >= a->target;
    if (!a->accepted) raise_aim(job);
    return true;
}
