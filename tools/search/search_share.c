// SPDX-License-Identifier: Apache-2.0
/* A search by several processes: the first one decides what is run, and tells the others, of which each runs its
 * share of the sets; see search_job.h. */
#include "search_job.h"

/* What the first process asks for: words, then a candidate for each group. */
typedef struct Question {
    uint64_t runs; /* 0: nothing more, for now */
    uint64_t converts,
        held;     /* an assignment, else the model as it is; on the sets that are held out */
    uint64_t way; /* BOTH_WAYS, or a DemiNumerics */
    uint64_t expected, paired, by_rows; /* of the scoring */
    double target, confidence;
} Question;

enum { BOTH_WAYS = UINT8_MAX };

static bool asks_others(const SearchJob *job, const Scoring *scoring) {
    return !share_is_alone(&job->model.trials.share) && scoring->metric != DEMI_METRIC_SCORE;
}

/* Bytes from the first process, in all of them. */
static bool tell(const SearchJob *job, ByteBuffer *bytes, Err *err) {
    return share_spread(&job->model.trials.share, 0, bytes, err);
}

static bool run(SearchJob *job, const Scoring *scoring, const uint8_t *assignment, uint64_t way,
                Score *found, Err *err) {
    Arena *within = arena_child(job->arena);
    const DemiConvertOptions options = assignment
                                           ? search_model_options(&job->model, assignment, within)
                                           : search_model_unconverted(&job->model, within);
    const bool ok = way == BOTH_WAYS ? evaluation_run(&job->model, scoring, &options, found, err)
                                     : evaluation_once(&job->model, scoring, &options,
                                                       (DemiNumerics)way, found, err);
    arena_free(within);
    return ok;
}

static bool run_shared(SearchJob *job, const Scoring *scoring, const uint8_t *assignment,
                       uint64_t way, Score *found, Err *err) {
    if (!asks_others(job, scoring)) return run(job, scoring, assignment, way, found, err);
    Arena *within = arena_child(job->arena);
    ByteBuffer bytes = {.arena = within};
    const Question question = {.runs = 1,
                               .converts = assignment != NULL,
                               .way = way,
                               .held = scoring->trials == &job->model.holdout,
                               .expected = scoring->expected,
                               .paired = scoring->paired,
                               .by_rows = scoring->by_rows,
                               .target = scoring->target,
                               .confidence = scoring->confidence};
    share_pack(&bytes, &question, sizeof question);
    if (assignment) share_pack(&bytes, assignment, search_groups(job)->count);
    const bool ok = tell(job, &bytes, err) && run(job, scoring, assignment, way, found, err);
    arena_free(within);
    return ok;
}

bool search_run(SearchJob *job, const Scoring *scoring, const uint8_t *assignment, Score *found,
                Err *err) {
    return run_shared(job, scoring, assignment, BOTH_WAYS, found, err);
}

bool search_run_once(SearchJob *job, const Scoring *scoring, const uint8_t *assignment,
                     DemiNumerics numerics, Score *found, Err *err) {
    return run_shared(job, scoring, assignment, numerics, found, err);
}

bool search_release(SearchJob *job, Err *err) {
    const Question nothing = {0};
    if (share_is_alone(&job->model.trials.share)) return true;
    Arena *within = arena_child(job->arena);
    ByteBuffer bytes = {.arena = within};
    share_pack(&bytes, &nothing, sizeof nothing);
    const bool ok = tell(job, &bytes, err);
    arena_free(within);
    return ok;
}

static Scoring scoring_of(SearchJob *job, const Question *q) {
    Scoring scoring = job->scoring;
    scoring.trials = q->held ? &job->model.holdout : &job->model.trials;
    scoring.labels = q->held ? job->model.holdout_labels : job->model.labels;
    scoring.expected = (size_t)q->expected;
    scoring.paired = q->paired;
    scoring.by_rows = q->by_rows;
    scoring.target = q->target;
    scoring.confidence = q->confidence;
    return scoring;
}

/* One question. */
static bool answer(SearchJob *job, Arena *within, bool *more, Err *err) {
    ByteBuffer bytes = {.arena = within};
    if (!tell(job, &bytes, err)) return false;
    ShareBytes all = {bytes.bytes.items, bytes.bytes.count, false};
    const size_t groups = search_groups(job)->count;
    uint8_t *assignment = ARENA_ARRAY(within, uint8_t, groups + 1);
    Question question;
    Score found;
    share_unpack(&all, &question, sizeof question);
    if (question.converts) share_unpack(&all, assignment, groups);
    *more = question.runs;
    if (!share_unpacked(&all, err) || !*more) return err->code == ERR_NONE;
    const Scoring scoring = scoring_of(job, &question);
    return run(job, &scoring, question.converts ? assignment : NULL, question.way, &found, err);
}

bool search_serve(SearchJob *job, Err *err) {
    bool ok = true;
    for (bool more = true; ok && more;) {
        Arena *within = arena_child(job->arena);
        ok = answer(job, within, &more, err);
        arena_free(within);
    }
    return ok;
}
