// SPDX-License-Identifier: Apache-2.0
/* Converts a model by an assignment, runs it on all sets, and scores it. */
#ifndef DEMI_EVALUATION_H
#define DEMI_EVALUATION_H

#include "demi_search.h"
#include "metric.h"
#include "search_model.h"

/* How assignments are scored. */
typedef struct Scoring {
    DemiMetric metric;
    MetricLabels labels; /* of DEMI_METRIC_ACCURACY */
    DemiScoreFn score;   /* of DEMI_METRIC_SCORE */
    void *user;
    double target; /* a score below it may be that of the first run alone; NaN: it never is */
} Scoring;

/* A score, and its standard error by metric_score_error: NaN where that is not known. */
typedef struct Score {
    double value, error;
} Score;

/* score->value is NaN where an output has NaN or infinity that the float model's has not; a run that fails
 * for the model's sake, as where an integer overflows, too. False with the error set for anything
 * else: memory, files, a cancelled search. */
bool evaluation_run(SearchModel *model, const Scoring *scoring, const DemiConvertOptions *options,
                    Score *score, Err *err);

#endif
