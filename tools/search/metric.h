// SPDX-License-Identifier: Apache-2.0
/* How good a model's outputs are beside those of the float model: numbers of which larger is better.
 *
 *     sqnr      the least of the outputs' signal to noise, 10 log10(sum y^2 / sum (y' - y)^2) in dB over
 *               all sets, at most 100: what is further apart than that is no longer told apart
 *     cosine    the least of the outputs' cosines, over all sets as one vector
 *     top1      the share of rows whose largest element is at the same place, over all outputs
 *     accuracy  the share of rows whose largest element is at the place that labels say
 *     error     the negative of the largest difference by the reference's largest magnitude, as
 *               verdicts have it (demi_trials.h)
 *
 * Sums are made in double in the order of sets, outputs and elements, so they do not depend on
 * threads. NaN or infinity where the reference has a number makes any of them NaN. */
#ifndef DEMI_METRIC_H
#define DEMI_METRIC_H

#include "arena.h"
#include "demi_search.h"
#include "err.h"
#include "share.h"
#include "value_sums.h"

#define METRIC_MOST_DECIBELS 100.0

/* NULL beyond the last. */
const char *metric_name(size_t metric);

/* What was seen of a candidate so far. */
typedef struct MetricSums {
    ValueSums *outputs; /* [count] */
    double *squares;    /* [count]: of what each set added to an output's noise */
    size_t count, sets;
    uint64_t rows, right;  /* of DEMI_METRIC_TOP1 and DEMI_METRIC_ACCURACY */
    uint64_t before;       /* of `rows`: where the float model was right */
    uint64_t lost, gained; /* where it was right alone, and wrong alone */
    uint64_t outside;      /* labels that are not the place of any element of their row */
} MetricSums;

/* `labels`, for DEMI_METRIC_ACCURACY: an integer for each row of the first output over all sets, one after
 * the other. */
typedef struct MetricLabels {
    const int64_t *items;
    size_t count;
    const size_t *first; /* of each set's rows; NULL: not known */
} MetricLabels;

void metric_begin(MetricSums *sums, size_t outputs, Arena *arena);
/* Adds what another one has of the sets that follow. */
void metric_join(MetricSums *sums, const MetricSums *next);
/* Adds a set's output. */
void metric_add_output(MetricSums *sums, size_t output, const DemiData *want, const DemiData *have);
/* Adds the rows of the set's first output of floats; `first`: the label of the first of them. */
void metric_add_rows(MetricSums *sums, const DemiData *want, const DemiData *have,
                     const MetricLabels *labels, uint64_t first);
/* One set's, for other processes, and from there into what was begun. */
void metric_pack(ByteBuffer *bytes, const MetricSums *sums);
void metric_unpack(ShareBytes *bytes, MetricSums *sums);

double metric_score(const MetricSums *sums, DemiMetric metric);
/* A score of one output alone; infinite of metrics that have none. */
double metric_of_output(const ValueSums *output, DemiMetric metric);
/* Scores on a scale on which they vary about normally, more being better, and back: of sqnr dB, of cosines
 * the decibels of what they lack to 1, of errors the negative of their logarithm. */
double metric_to_scale(DemiMetric metric, double score);
double metric_from_scale(DemiMetric metric, double number);
/* The score's standard error, as far as it comes from there being few sets: of sqnr from how noise
 * differs among them, by the first-order expansion of its logarithm; of shares of rows sqrt(p (1 - p) / n).
 * NaN where it is not known: of one set, and of largest errors. */
double metric_score_error(const MetricSums *sums, DemiMetric metric);
/* The sum over outputs of noise by signal: what adds up where precisions of many groups are lowered.
 * Infinite where an output is broken. */
double metric_noise(const MetricSums *sums);

#endif
