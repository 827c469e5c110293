// SPDX-License-Identifier: Apache-2.0
/* Converts a model by an assignment, runs it on all sets, and scores it. */
#ifndef DEMI_EVALUATION_H
#define DEMI_EVALUATION_H

#include <math.h>

#include "demi_search.h"
#include "interval.h"
#include "metric.h"
#include "search_model.h"

/* How assignments are scored, and on which sets. */
typedef struct Scoring {
    DemiMetric metric;
    Trials *trials;
    MetricLabels labels; /* of DEMI_METRIC_ACCURACY: of these trials' sets */
    DemiScoreFn score;   /* of DEMI_METRIC_SCORE */
    void *user;
    double target;     /* a score below it may be that of the first run alone; NaN: it never is */
    double confidence; /* of intervals; 0: none are found */
    size_t
        expected; /* samples that intervals are of, where these are not those of the sets; else 0 */
    bool paired;  /* intervals of accuracy are of the change from the float model's */
    bool by_rows; /* samples are rows along the first axis, not sets */
} Scoring;

/* A score, its standard error by metric_score_error, and its interval: NaN where that is not known. */
typedef struct Score {
    double value, error;
    Interval interval;
} Score;

#define SCORE_NONE                                                                                 \
    {                                                                                              \
        NAN, NAN, {                                                                                \
            NAN, NAN                                                                               \
        }                                                                                          \
    }

/* One way of running, as all scores are the lower one of both: a caller's score knows the first alone. */
bool evaluation_once(SearchModel *model, const Scoring *scoring, const DemiConvertOptions *options,
                     DemiNumerics numerics, Score *score, Err *err);

/* Whether the other way (DEMI_NUMERICS_FAITHFUL) is to be asked, too, after the first; and the score by both. */
bool evaluation_asks_other(const Scoring *scoring, const Score *fast);
Score evaluation_join(const Score *fast, const Score *faithful);

/* Both. score->value is NaN where an output has NaN or infinity that the float model's has not; a run that fails
 * for the model's sake, as where an integer overflows, too. False with the error set for anything
 * else: memory, files, a cancelled search. */
bool evaluation_run(SearchModel *model, const Scoring *scoring, const DemiConvertOptions *options,
                    Score *score, Err *err);

#endif
