// SPDX-License-Identifier: Apache-2.0
/* Scores; see metric.h. */
#include "metric.h"

#include <float.h>
#include <math.h>

#include "value_io.h"

const char *metric_name(size_t metric) {
    static const char *const names[] = {
        [DEMI_METRIC_SQNR] = "sqnr",   [DEMI_METRIC_COSINE] = "cosine",
        [DEMI_METRIC_TOP1] = "top1",   [DEMI_METRIC_ACCURACY] = "accuracy",
        [DEMI_METRIC_ERROR] = "error", [DEMI_METRIC_SCORE] = "score"};
    return metric < sizeof names / sizeof *names ? names[metric] : NULL;
}

void metric_begin(MetricSums *sums, size_t outputs, Arena *arena) {
    *sums = (MetricSums){.outputs = ARENA_ARRAY(arena, ValueSums, outputs),
                         .squares = ARENA_ARRAY(arena, double, outputs),
                         .count = outputs};
}

void metric_join(MetricSums *sums, const MetricSums *next) {
    for (size_t i = 0; i < sums->count; i++) {
        value_sums_join(&sums->outputs[i], &next->outputs[i]);
        sums->squares[i] += next->squares[i];
    }
    sums->sets += next->sets;
    sums->rows += next->rows;
    sums->right += next->right;
    sums->before += next->before;
    sums->lost += next->lost;
    sums->gained += next->gained;
    sums->outside += next->outside;
}

typedef struct PackedCounts {
    uint64_t sets, rows, right, before, lost, gained, outside;
} PackedCounts;

void metric_pack(ByteBuffer *bytes, const MetricSums *s) {
    const PackedCounts counts = {s->sets, s->rows,   s->right,  s->before,
                                 s->lost, s->gained, s->outside};
    share_pack(bytes, s->outputs, s->count * sizeof *s->outputs);
    share_pack(bytes, s->squares, s->count * sizeof *s->squares);
    share_pack(bytes, &counts, sizeof counts);
}

void metric_unpack(ShareBytes *bytes, MetricSums *s) {
    PackedCounts counts;
    share_unpack(bytes, s->outputs, s->count * sizeof *s->outputs);
    share_unpack(bytes, s->squares, s->count * sizeof *s->squares);
    share_unpack(bytes, &counts, sizeof counts);
    s->sets = (size_t)counts.sets;
    s->rows = counts.rows;
    s->right = counts.right;
    s->before = counts.before;
    s->lost = counts.lost;
    s->gained = counts.gained;
    s->outside = counts.outside;
}

void metric_add_output(MetricSums *sums, size_t output, const DemiData *want,
                       const DemiData *have) {
    const double before = sums->outputs[output].noise;
    value_sums_add(&sums->outputs[output], want, have);
    const double added = sums->outputs[output].noise - before;
    sums->squares[output] += added * added;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int64_t largest_at(const float *row, int64_t count) {
    int64_t at = 0;
    for (int64_t i = 1; i < count; i++)
        if (row[i] > row[at]) at = i;
    return at;
}

static bool any_nan(const float *row, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (isnan(row[i])) return true;
    return false;
}

void metric_add_rows(MetricSums *sums, const DemiData *want, const DemiData *have,
                     const MetricLabels *labels, uint64_t first) {
    if (!value_is_floats(want) || !value_is_floats(have) || !value_same_shape(want, have) ||
        want->rank == 0)
        return;
    const int64_t width = want->dims[want->rank - 1];
    const uint64_t rows = width ? value_count(want) / (uint64_t)width : 0;
    const float *y = want->data, *z = have->data;
    for (uint64_t i = 0; i < rows; i++, y += width, z += width) {
        int64_t place = -1;
        if (!labels)
            place = largest_at(y, width);
        else if (first + i < labels->count)
            place = labels->items[first + i];
        sums->outside += place < 0 || place >= width;
        sums->rows++;
        const bool right = !any_nan(z, width) && largest_at(z, width) == place;
        const bool before = largest_at(y, width) == place;
        sums->right += right;
        sums->before += before;
        sums->lost += before && !right;
        sums->gained += right && !before;
    }
}

/* ---- scores ---------------------------------------------------------------------------------- */

static double sqnr(const ValueSums *o) {
    if (o->noise == 0) return METRIC_MOST_DECIBELS;
    return fmin(10 * log10(o->signal / o->noise), METRIC_MOST_DECIBELS);
}

double metric_of_output(const ValueSums *o, DemiMetric metric) {
    switch (metric) {
    case DEMI_METRIC_SQNR: return sqnr(o);
    case DEMI_METRIC_COSINE:
        return o->noise == 0 ? 1 : o->product / (sqrt(o->signal) * sqrt(o->size));
    case DEMI_METRIC_ERROR: return o->most == 0 ? 0 : -o->most / o->largest;
    case DEMI_METRIC_TOP1:
    case DEMI_METRIC_ACCURACY:
    case DEMI_METRIC_SCORE: break;
    }
    return INFINITY;
}

double metric_score(const MetricSums *sums, DemiMetric metric) {
    double least = INFINITY;
    for (size_t i = 0; i < sums->count; i++) {
        const ValueSums *o = &sums->outputs[i];
        const double score = metric_of_output(o, metric);
        if (o->broken || isnan(score)) return NAN;
        if (o->largest == 0 && o->most == 0) continue; /* nothing, and it stayed so */
        least = fmin(least, score);
    }
    if (metric == DEMI_METRIC_TOP1 || metric == DEMI_METRIC_ACCURACY)
        return sums->rows ? (double)sums->right / (double)sums->rows : NAN;
    if (least == INFINITY)
        return metric == DEMI_METRIC_SQNR ? METRIC_MOST_DECIBELS : metric == DEMI_METRIC_COSINE;
    return least;
}

double metric_to_scale(DemiMetric metric, double score) {
    switch (metric) {
    case DEMI_METRIC_COSINE: return -10 * log10(fmax(1 - score, DBL_EPSILON));
    case DEMI_METRIC_ERROR: return -log(fmax(-score, DBL_MIN));
    case DEMI_METRIC_SQNR:
    case DEMI_METRIC_TOP1:
    case DEMI_METRIC_ACCURACY:
    case DEMI_METRIC_SCORE: break;
    }
    return score;
}

double metric_from_scale(DemiMetric metric, double number) {
    switch (metric) {
    case DEMI_METRIC_SQNR: return fmin(number, METRIC_MOST_DECIBELS);
    case DEMI_METRIC_COSINE: return 1 - pow(10, -number / 10);
    case DEMI_METRIC_ERROR: return -exp(-number);
    case DEMI_METRIC_TOP1:
    case DEMI_METRIC_ACCURACY:
    case DEMI_METRIC_SCORE: break;
    }
    return number;
}

/* d(10 log10 N) = 10 / ln 10 * dN / N; the sum N over K sets varies by K times one's variance. */
static double sqnr_error(const MetricSums *sums, size_t output) {
    const double sets = (double)sums->sets, noise = sums->outputs[output].noise;
    if (sets < 2) return NAN;
    if (noise == 0) return 0;
    const double variance =
        fmax(sums->squares[output] - noise * noise / sets, 0) * sets / (sets - 1);
    return 10 / log(10) * sqrt(variance) / noise;
}

double metric_score_error(const MetricSums *sums, DemiMetric metric) {
    const double score = metric_score(sums, metric);
    if (metric == DEMI_METRIC_TOP1 || metric == DEMI_METRIC_ACCURACY)
        return sums->rows ? sqrt(score * (1 - score) / (double)sums->rows) : NAN;
    for (size_t i = 0; metric == DEMI_METRIC_SQNR && i < sums->count; i++)
        if (metric_of_output(&sums->outputs[i], metric) == score) return sqnr_error(sums, i);
    return NAN;
}

double metric_noise(const MetricSums *sums) {
    double noise = 0;
    for (size_t i = 0; i < sums->count; i++) noise += value_sums_noise(&sums->outputs[i]);
    return noise;
}
