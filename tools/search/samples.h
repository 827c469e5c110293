// SPDX-License-Identifier: Apache-2.0
/* What a conversion does to each sample on its own, beside the float model. From how samples differ follows
 * how far the score on some of them may be from the score on all data: a confidence interval.
 *
 * A sample is a set of inputs, or a row of one along the first axis. Samples have to be independent: an
 * interval is too narrow where they are, say, frames of one film. */
#ifndef DEMI_SAMPLES_H
#define DEMI_SAMPLES_H

#include "arena.h"
#include "interval.h"
#include "metric.h"
#include "trial.h"
#include "vec.h"

typedef struct Samples {
    Arena *arena;
    size_t outputs;
    VEC(ValueSums *) items; /* of each sample its outputs: [outputs] */
} Samples;

/* No samples, of a model with so many outputs. */
void samples_begin(Samples *samples, size_t outputs, Arena *arena);

/* Adds a set's outputs, [outputs]: as `rows` samples where that is not 0, each a part of the first axis of all
 * outputs, else as one. */
void samples_add_set(Samples *samples, const DemiData *const *want, const DemiData *const *have,
                     uint64_t rows);

/* All that there are, for other processes, and from there behind those that there are. */
void samples_pack(ByteBuffer *bytes, const Samples *samples);
void samples_unpack(ShareBytes *bytes, Samples *samples);

/* Rows along the first axis, where a set's inputs and its outputs of floats all have as many, at least 2; else
 * 0. The set's values and outputs are there. */
uint64_t samples_rows(const Session *reference, const TrialSet *set);

/* How intervals are made. */
typedef struct IntervalOptions {
    DemiMetric metric;
    double confidence;
    size_t expected; /* not 0: what is to be expected of so many other samples instead */
    bool
        paired; /* DEMI_METRIC_ACCURACY: that of the float model on these samples is given, and the interval is
                    of the change from it */
} IntervalOptions;

/* The interval of the score that `sums` of these samples have. NaN where fewer than two samples have anything to compare, and of
 * DEMI_METRIC_SCORE. */
Interval samples_interval(const Samples *samples, const MetricSums *sums,
                          const IntervalOptions *options);

#endif
