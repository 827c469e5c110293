// SPDX-License-Identifier: Apache-2.0
/* Scoring conversions; see evaluation.h. */
#include "evaluation.h"

#include <math.h>
#include <string.h>

#include "error_fill.h"
#include "model_source.h"

/* ---- by outputs ------------------------------------------------------------------------------ */

typedef struct Visiting {
    const SearchModel *model;
    const Scoring *scoring;
    MetricSums sums;
} Visiting;

static bool visit(void *user, const TrialSet *set, const Session *session, Err *err) {
    Visiting *v = user;
    const Session *reference = v->model->trials.reference;
    bool rows = false;
    v->sums.sets++;
    for (size_t i = 0; i < reference->output_count; i++) {
        const DemiData *want = &set->outputs[i];
        const DemiData *have = session_output(session, reference->outputs[i].name, i);
        if (!have)
            return err_set(err, ERR_MODEL, "the conversion has no output '%s'",
                           reference->outputs[i].name);
        metric_add_output(&v->sums, i, want, have);
        if (rows || want->kind != DEMI_DATA_TENSOR_KIND || want->dtype != DEMI_FLOAT) continue;
        rows = true;
        metric_add_rows(&v->sums, want, have,
                        v->scoring->labels.items ? &v->scoring->labels : NULL);
    }
    return true;
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

static bool score_numerics(SearchModel *m, const Scoring *scoring, const DemiSource *source,
                           DemiNumerics numerics, Score *score, Err *err) {
    Visiting v = {.model = m, .scoring = scoring};
    SessionOptions how = m->how;
    how.compile.keep_values = false; /* nobody watches */
    how.compile.numerics = numerics;
    Arena *within = arena_child(m->arena);
    metric_begin(&v.sums, m->trials.reference->output_count, within);
    const bool ok = trials_visit(&m->trials, source, &how, visit, &v, err) &&
                    check_labels(&scoring->labels, &v.sums, err);
    if (ok)
        *score = (Score){metric_score(&v.sums, scoring->metric),
                         metric_score_error(&v.sums, scoring->metric)};
    arena_free(within);
    return ok;
}

/* Runtimes sum in different orders, and each quantized value that lies between two steps makes another
 * of it: what one of them reaches by luck, others do not. So what is good enough is so in both of demi's
 * ways to run it, and its score is the lower one. */
static bool score_outputs(SearchModel *m, const Scoring *scoring, const DemiSource *source,
                          Score *score, Err *err) {
    Score other;
    if (!score_numerics(m, scoring, source, DEMI_NUMERICS_FAST, score, err)) return false;
    if (isnan(score->value) || score->value < scoring->target) return true;
    if (!score_numerics(m, scoring, source, DEMI_NUMERICS_FAITHFUL, &other, err)) return false;
    if (!(other.value >= score->value)) *score = other;
    return true;
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
        score->error = NAN;
        ok = error_take(err, status, &error);
    }
    arena_free(within);
    return ok;
}

bool evaluation_run(SearchModel *m, const Scoring *scoring, const DemiConvertOptions *options,
                    Score *score, Err *err) {
    Arena *within = arena_child(m->arena);
    const DemiSource source = search_model_source(m, options, within);
    const bool ok = scoring->metric == DEMI_METRIC_SCORE
                        ? score_model(m, scoring, &source, score, err)
                        : score_outputs(m, scoring, &source, score, err);
    arena_free(within);
    if (ok && !isfinite(score->value)) score->value = NAN;
    return ok;
}
