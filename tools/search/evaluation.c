// SPDX-License-Identifier: Apache-2.0
/* Scoring conversions; see evaluation.h. */
#include "evaluation.h"

#include <math.h>
#include <string.h>

#include "error_fill.h"
#include "model_source.h"
#include "samples.h"

/* ---- by outputs ------------------------------------------------------------------------------ */

typedef struct Visiting {
    const Scoring *scoring;
    MetricSums sums;
    Samples samples; /* where the scoring has a confidence */
} Visiting;

static void add_samples(Visiting *v, const TrialSet *set, const DemiData *const *have) {
    const Session *reference = v->scoring->trials->reference;
    Arena *within = arena_child(v->samples.arena);
    const DemiData **want = ARENA_ARRAY(within, const DemiData *, reference->output_count + 1);
    for (size_t i = 0; i < reference->output_count; i++) want[i] = &set->outputs[i];
    const uint64_t rows = v->scoring->by_rows ? samples_rows(reference, set) : 0;
    samples_add_set(&v->samples, want, have, rows);
    arena_free(within);
}

static bool find_outputs(const Session *reference, const Session *session, const DemiData **have,
                         Err *err) {
    for (size_t i = 0; i < reference->output_count; i++) {
        have[i] = session_output(session, reference->outputs[i].name, i);
        if (!have[i])
            return err_set(err, ERR_MODEL, "the conversion has no output '%s'",
                           reference->outputs[i].name);
    }
    return true;
}

static void add_outputs(const Visiting *v, const TrialSet *set, const DemiData *const *have,
                        MetricSums *sums) {
    const Trials *trials = v->scoring->trials;
    const MetricLabels *labels = v->scoring->labels.items ? &v->scoring->labels : NULL;
    bool rows = false;
    sums->sets = 1;
    for (size_t i = 0; i < sums->count; i++) {
        const DemiData *want = &set->outputs[i];
        metric_add_output(sums, i, want, have[i]);
        if (rows || want->kind != DEMI_DATA_TENSOR_KIND || want->dtype != DEMI_FLOAT) continue;
        rows = true;
        metric_add_rows(sums, want, have[i], labels,
                        labels ? labels->first[set - trials->sets] : 0);
    }
}

/* Sums of each set are made on their own, whichever process has it. */
static bool visit(void *user, const TrialSet *set, const Session *session, ByteBuffer *record,
                  Err *err) {
    Visiting *v = user;
    const Session *reference = v->scoring->trials->reference;
    Arena *within = arena_child(v->samples.arena);
    const DemiData **have = ARENA_ARRAY(within, const DemiData *, reference->output_count + 1);
    MetricSums sums;
    Visiting own = {.scoring = v->scoring};
    if (!find_outputs(reference, session, have, err)) return false; /* the caller frees more */
    metric_begin(&sums, reference->output_count, within);
    add_outputs(v, set, have, &sums);
    samples_begin(&own.samples, reference->output_count, within);
    if (v->scoring->confidence > 0) add_samples(record ? &own : v, set, have);
    if (record) {
        metric_pack(record, &sums);
        samples_pack(record, &own.samples);
    } else {
        metric_join(&v->sums, &sums);
    }
    arena_free(within);
    return true;
}

static bool take(void *user, uint64_t set, ShareBytes *bytes, Err *err) {
    Visiting *v = user;
    Arena *within = arena_child(v->samples.arena);
    MetricSums sums;
    (void)set;
    metric_begin(&sums, v->sums.count, within);
    metric_unpack(bytes, &sums);
    samples_unpack(bytes, &v->samples);
    metric_join(&v->sums, &sums);
    arena_free(within);
    return share_unpacked(bytes, err);
}

/* One label a row of the first output, each the place of one of its elements. */
static bool check_labels(const MetricLabels *labels, const MetricSums *sums, Err *err) {
    if (!labels->items) return true;
    if (labels->count != sums->rows) {
        err_set(err, ERR_USAGE,
                "the number of labels differs from the number of rows of the first output");
        err_expected(err, "%llu", (unsigned long long)sums->rows);
        err_actual(err, "%zu", labels->count);
    } else if (sums->outside) {
        err_set(err, ERR_USAGE, "%llu of %zu labels are not classes of the first output",
                (unsigned long long)sums->outside, labels->count);
    } else {
        return true;
    }
    return false;
}

static Score score_of(const Visiting *v) {
    const Scoring *scoring = v->scoring;
    Score score = {metric_score(&v->sums, scoring->metric),
                   metric_score_error(&v->sums, scoring->metric),
                   {NAN, NAN}};
    const IntervalOptions how = {scoring->metric, scoring->confidence, scoring->expected,
                                 scoring->paired};
    if (scoring->confidence > 0) score.interval = samples_interval(&v->samples, &v->sums, &how);
    return score;
}

static bool score_numerics(SearchModel *m, const Scoring *scoring, const DemiSource *source,
                           DemiNumerics numerics, Score *score, Err *err) {
    Visiting v = {.scoring = scoring};
    const size_t outputs = scoring->trials->reference->output_count;
    SessionOptions how = m->how;
    how.compile.keep_values = false; /* nobody watches */
    how.compile.numerics = numerics;
    Arena *within = arena_child(m->arena);
    metric_begin(&v.sums, outputs, within);
    samples_begin(&v.samples, outputs, within);
    const bool ok = trials_visit(scoring->trials, source, &how, visit, take, &v, err) &&
                    check_labels(&scoring->labels, &v.sums, err);
    if (ok) *score = score_of(&v);
    arena_free(within);
    return ok;
}

/* ---- by the caller --------------------------------------------------------------------------- */

static bool score_model(const SearchModel *m, const Scoring *scoring, const DemiSource *source,
                        Score *score, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    Arena *within = arena_child(m->arena);
    DemiModel **held = model_hold(within);
    bool ok = model_open(source, held, err);
    if (ok) {
        DemiModel *model = *held;
        *held = NULL; /* the callee's */
        DemiStatus status = scoring->score(scoring->user, model, &score->value, &error);
        score->error = score->interval.low = score->interval.high = NAN;
        ok = error_take(err, status, &error);
    }
    arena_free(within);
    return ok;
}

bool evaluation_once(SearchModel *m, const Scoring *scoring, const DemiConvertOptions *options,
                     DemiNumerics numerics, Score *score, Err *err) {
    Arena *within = arena_child(m->arena);
    const DemiSource source = search_model_source(m, options, within);
    const bool ok = scoring->metric == DEMI_METRIC_SCORE
                        ? score_model(m, scoring, &source, score, err)
                        : score_numerics(m, scoring, &source, numerics, score, err);
    arena_free(within);
    if (ok && !isfinite(score->value)) *score = (Score)SCORE_NONE;
    return ok;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Runtimes sum in different orders, and each quantized value that lies between two steps makes another
 * of it: what one of them reaches by luck, others do not. So what is good enough is so in both of demi's
 * ways to run it, and its score is the lower one. */
bool evaluation_asks_other(const Scoring *scoring, const Score *fast) {
    return scoring->metric != DEMI_METRIC_SCORE && !isnan(fast->value) &&
           !(fast->value < scoring->target);
}

Score evaluation_join(const Score *fast, const Score *faithful) {
    if (isnan(faithful->value)) return *faithful;
    Score score = faithful->value >= fast->value ? *fast : *faithful;
    score.interval.low = fmin(fast->interval.low, faithful->interval.low);
    return score;
}

bool evaluation_run(SearchModel *m, const Scoring *scoring, const DemiConvertOptions *options,
                    Score *score, Err *err) {
    Score other;
    if (!evaluation_once(m, scoring, options, DEMI_NUMERICS_FAST, score, err)) return false;
    if (!evaluation_asks_other(scoring, score)) return true;
    if (!evaluation_once(m, scoring, options, DEMI_NUMERICS_FAITHFUL, &other, err)) return false;
    *score = evaluation_join(score, &other);
    return true;
}
