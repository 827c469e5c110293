// SPDX-License-Identifier: Apache-2.0
/* Sensitivities by a score of the caller's; see search_job.h. Each question is a conversion in which a bundle of
 * groups alone is converted, as AIMET's first phase has it. Losses of score are what adds up over groups: to first
 * order, those of any smooth score do. */
#include <math.h>
#include <string.h>

#include "search_job.h"

typedef struct Alone {
    SearchJob *job;
    const Sensitivity *asked;
    Scoring scoring;
    uint8_t *assignment; /* [groups]: none is converted but the bundle at hand */
} Alone;

/* Of the assignment, which the journal calls by what it is. */
static bool score_alone(Alone *a, double *score, Err *err) {
    SearchJob *job = a->job;
    Score found = SCORE_NONE;
    Arena *within = arena_child(job->arena);
    const char *key =
        job->journal ? arena_printf(within, "alone %s", search_key(job, a->assignment)) : NULL;
    bool ok = key && search_noted(job, key, &found);
    if (!ok)
        ok = search_run(job, &a->scoring, a->assignment, &found, err) &&
             (!key || search_note(job, key, &found, err));
    arena_free(within);
    *score = found.value;
    return ok;
}

/* The bundle's groups that are asked for, to a candidate or back. */
static void set_bundle(Alone *a, size_t at, bool back) {
    const size_t count = a->asked->candidate_count, c = at % count;
    const uint32_t bundle = (uint32_t)(at / count);
    for (uint32_t g = bundle; g < a->asked->model->groups.count; g++)
        if (a->asked->bundle[g] == bundle && a->asked->wanted[g * count + c])
            a->assignment[g] = back ? SEARCH_UNCONVERTED : (uint8_t)c;
}

static size_t count_questions(const Sensitivity *asked, size_t all) {
    size_t count = 0;
    for (size_t i = 0; i < all; i++)
        count += sensitivity_asked(asked, (uint32_t)(i / asked->candidate_count),
                                   i % asked->candidate_count);
    return count;
}

bool search_score_groups(SearchJob *job, const Sensitivity *asked, SearchScoreTake *take,
                         void *user, Err *err) {
    const DemiSearchOptions *o = &job->options;
    const size_t count = asked->candidate_count, all = asked->model->groups.count * count;
    const size_t questions = count_questions(asked, all);
    Alone a = {.job = job, .asked = asked, .assignment = ARENA_ARRAY(job->arena, uint8_t, all + 1)};
    a.scoring = (Scoring){.metric = DEMI_METRIC_SCORE,
                          .trials = &job->model.trials,
                          .score = o->sensitivity_score ? o->sensitivity_score : o->score,
                          .user = o->sensitivity_score ? o->sensitivity_user : o->score_user,
                          .target = NAN};
    double plain, score;
    size_t done = 0;
    memset(a.assignment, SEARCH_UNCONVERTED, all);
    if (!questions) return true;
    if (!score_alone(&a, &plain, err)) return false;
    if (!isfinite(plain))
        return err_set(err, ERR_MODEL, "the unconverted model's score is not a number");
    for (size_t at = 0; at < all; at++) {
        if (!sensitivity_asked(asked, (uint32_t)(at / count), at % count)) continue;
        if (!progress_tell(&job->model.trials.progress, "scoring groups", done++, questions, err))
            return false;
        set_bundle(&a, at, false);
        if (!score_alone(&a, &score, err)) return false;
        set_bundle(&a, at, true);
        take(user, at, score, isfinite(score) ? fmax(plain - score, 0) : INFINITY);
    }
    return true;
}
