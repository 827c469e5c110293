// SPDX-License-Identifier: Apache-2.0
/* See samples.h. */
#include "samples.h"

#include <math.h>

#include "value_io.h"

void samples_begin(Samples *samples, size_t outputs, Arena *arena) {
    *samples = (Samples){.arena = arena, .outputs = outputs};
}

/* ---- rows -----------------------------------------------------------------------------------  */

/* No number of rows yet: `rows` is 0. */
static bool same_rows(const DemiData *value, uint64_t *rows) {
    if (value->kind != DEMI_DATA_TENSOR_KIND || !value->rank) return false;
    if (!*rows) *rows = (uint64_t)value->dims[0];
    return *rows == (uint64_t)value->dims[0];
}

uint64_t samples_rows(const Session *reference, const TrialSet *set) {
    uint64_t rows = 0;
    for (size_t i = 0; i < reference->input_count; i++)
        if (set->given[i] && set->values[i].rank && !same_rows(&set->values[i], &rows)) return 0;
    for (size_t i = 0; i < reference->output_count; i++)
        if (value_is_floats(&set->outputs[i]) && !same_rows(&set->outputs[i], &rows)) return 0;
    return rows > 1 ? rows : 0;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static ValueSums *next_sample(Samples *samples) {
    ValueSums *sums = ARENA_ARRAY(samples->arena, ValueSums, samples->outputs + 1);
    VEC_PUSH(samples->arena, &samples->items, sums);
    return sums;
}

/* Row `i` of so many. */
static DemiData row_of(const DemiData *value, uint64_t i, uint64_t rows, int64_t *dims) {
    const uint64_t size = value_bytes(value) / rows;
    DemiData row = *value;
    for (uint32_t k = 0; k < value->rank; k++) dims[k] = k ? value->dims[k] : 1;
    row.dims = dims;
    row.data = (const char *)value->data + i * size;
    return row;
}

static void add_row(ValueSums *sums, const DemiData *want, const DemiData *have, uint64_t i,
                    uint64_t rows, Arena *scratch) {
    const DemiData mine = row_of(want, i, rows, ARENA_ARRAY(scratch, int64_t, want->rank + 1));
    const DemiData other = row_of(have, i, rows, ARENA_ARRAY(scratch, int64_t, have->rank + 1));
    value_sums_add(sums, &mine, &other);
}

static void add_rows(Samples *samples, const DemiData *const *want, const DemiData *const *have,
                     uint64_t rows) {
    Arena *within = arena_child(samples->arena);
    for (uint64_t i = 0; i < rows; i++) {
        ValueSums *sums = next_sample(samples);
        for (size_t k = 0; k < samples->outputs; k++)
            if (value_is_floats(want[k]) && value_is_floats(have[k]) &&
                value_same_shape(want[k], have[k]) && want[k]->dtype == have[k]->dtype)
                add_row(&sums[k], want[k], have[k], i, rows, within);
            else
                value_sums_add(&sums[k], want[k], have[k]);
    }
    arena_free(within);
}

void samples_add_set(Samples *samples, const DemiData *const *want, const DemiData *const *have,
                     uint64_t rows) {
    if (rows) {
        add_rows(samples, want, have, rows);
        return;
    }
    ValueSums *sums = next_sample(samples);
    for (size_t k = 0; k < samples->outputs; k++) value_sums_add(&sums[k], want[k], have[k]);
}

void samples_pack(ByteBuffer *bytes, const Samples *samples) {
    const uint64_t count = samples->items.count;
    share_pack(bytes, &count, sizeof count);
    for (size_t i = 0; i < samples->items.count; i++)
        share_pack(bytes, samples->items.items[i], samples->outputs * sizeof(ValueSums));
}

void samples_unpack(ShareBytes *bytes, Samples *samples) {
    uint64_t count;
    share_unpack(bytes, &count, sizeof count);
    for (uint64_t i = 0; i < count && !bytes->cut; i++)
        share_unpack(bytes, next_sample(samples), samples->outputs * sizeof(ValueSums));
}

/* ---- sums and means over samples: sqnr and cosine --------------------------------------------- */

/* Interval of one output from its samples. */
typedef struct Question {
    const Samples *samples;
    const ValueSums *all; /* of all samples */
    size_t output;
    const IntervalOptions *how;
} Question;

/* A sample that has nothing to compare says nothing. */
static bool counts(const ValueSums *sample) {
    return sample->signal > 0 || sample->noise > 0;
}

static size_t count_of(const Question *q) {
    size_t count = 0;
    for (size_t i = 0; i < q->samples->items.count; i++)
        count += counts(&q->samples->items.items[i][q->output]);
    return count;
}

/* Above the most decibels that scores have, too: so close, the interval may still reach below. */
static double on_scale(const ValueSums *sums, DemiMetric metric) {
    const double score = metric_of_output(sums, metric);
    if (metric == DEMI_METRIC_SQNR && sums->noise > 0)
        return 10 * log10(sums->signal / sums->noise);
    return metric_to_scale(metric, isnan(score) ? -INFINITY : score);
}

/* What a score of decibels lacks: noise by signal, or 1 - cosine. */
static double lack_of(const ValueSums *sums, DemiMetric metric) {
    return sums->noise > 0 ? pow(10, -on_scale(sums, metric) / 10) : 0;
}

/* By how much one sample moves what is lacking, relative to it: the derivative with respect to its weight. No sample
 * moves noise by signal further than it has part of both, whatever is left without it. */
static double influence(const Question *q, const ValueSums *sample) {
    const ValueSums *all = q->all;
    const double signal = sample->signal / all->signal;
    if (q->how->metric != DEMI_METRIC_COSINE) return sample->noise / all->noise - signal;
    const double cosine = metric_of_output(all, DEMI_METRIC_COSINE);
    const double moved = sample->product / all->product - signal / 2 - sample->size / all->size / 2;
    return -cosine * moved / lack_of(all, DEMI_METRIC_COSINE);
}

/* The standard error of what is lacking, relative to it: the infinitesimal jackknife of Efron and Tibshirani, An
 * Introduction to the Bootstrap (1993), section 21.3; of a ratio it is Cochran's (Sampling Techniques (1977),
 * section 6.4). */
static double relative_error(const Question *q, size_t count) {
    double squares = 0;
    for (size_t i = 0; i < q->samples->items.count; i++) {
        const ValueSums *sample = &q->samples->items.items[i][q->output];
        const double moved = counts(sample) ? influence(q, sample) : 0;
        squares += moved * moved;
    }
    return sqrt(squares * (double)count / (double)(count - 1));
}

/* Logarithms of one number for each sample: their mean and variance. Next to nothing counts as a part of the mean, or
 * as `floor`: logarithms of it would say much of what adds nothing. */
typedef struct Logs {
    double mean, variance;
} Logs;

static Logs logs_of(const Question *q, size_t count, double (*number)(const ValueSums *),
                    double floor) {
    static const double least = 0.003;
    double all = 0, sum = 0, squares = 0;
    for (int pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < q->samples->items.count; i++) {
            const ValueSums *sample = &q->samples->items.items[i][q->output];
            if (!counts(sample)) continue;
            if (pass == 0) {
                all += number(sample) / (double)count;
                continue;
            }
            const double here = log(fmax(number(sample), fmax(least * all, floor)));
            const double off = here - sum / (double)count;
            if (pass == 1)
                sum += here;
            else
                squares += off * off;
        }
    return (Logs){sum / (double)count, squares / (double)(count - 1)};
}

static double noise_of(const ValueSums *sample) {
    return sample->noise;
}

/* How far the ends are from sqnr, in dB, where noise is lognormal: the logarithm of its mean is mean + variance / 2
 * of logarithms, whose standard error is Cox's (Zhou and Gao, Statistics in Medicine 16 (1997), 783-790), here
 * with Student's t. Few samples of a skewed distribution mostly lack the few that make most of the noise; their
 * standard error then knows neither of them nor of how much they vary. */
static Interval lognormal_offsets(const Question *q, size_t count, double samples, double t) {
    const double decibels = 10 / log(10);
    /* what is further below the signal is not told apart in scores, either */
    const double floor = q->all->signal / (double)count * pow(10, -METRIC_MOST_DECIBELS / 10);
    const Logs logs = logs_of(q, count, noise_of, floor);
    const double v = logs.variance;
    const double error = sqrt(v / samples + v * v / (2 * (samples - 1)));
    const double seen = log(fmax(q->all->noise / (double)count, floor));
    const double middle = seen - (logs.mean + v / 2);
    return (Interval){decibels * (middle - t * error), decibels * (middle + t * error)};
}

/* By Student's t: samples are paired with the float model's. Of both estimates the one that is further off, at
 * either end. Cosines lack as many more decibels as there is less noise. */
static Interval of_sums(const Question *q, size_t count) {
    const size_t expected = q->how->expected ? q->how->expected : count;
    const double samples = (double)expected, score = metric_of_output(q->all, q->how->metric);
    if (q->all->noise == 0) return (Interval){score, score};
    const double t = interval_student(q->how->confidence, expected - 1);
    const double middle = on_scale(q->all, q->how->metric);
    const double half = 10 / log(10) * t * relative_error(q, count) * sqrt((double)count / samples);
    const Interval skewed = lognormal_offsets(q, count, samples, t);
    if (!isfinite(half) || !isfinite(middle)) return (Interval){NAN, NAN};
    return (Interval){metric_from_scale(q->how->metric, middle + fmin(-half, skewed.low)),
                      metric_from_scale(q->how->metric, middle + fmax(half, skewed.high))};
}

/* ---- the largest of all: error ---------------------------------------------------------------- */

static double most_of(const ValueSums *sample) {
    return sample->most;
}

/* Student's t at a probability of its distribution. */
static double student_at(double probability, size_t count) {
    const double within = fabs(2 * probability - 1);
    return copysign(interval_student(within, count - 1), probability - 0.5);
}

/* No number of samples bounds the largest error of any. What is said is between which ends the largest of as
 * many new samples lies, where what samples are off by at most is lognormal: a prediction interval for the
 * largest of m normal numbers (Hahn, Journal of the American Statistical Association 65 (1970), 1668-1676). */
static Interval of_largest(const Question *q, size_t count) {
    const double new_samples = (double)(q->how->expected ? q->how->expected : count);
    const double score = metric_of_output(q->all, DEMI_METRIC_ERROR);
    const double beyond = (1 - q->how->confidence) / 2;
    if (q->all->most == 0) return (Interval){score, score};
    const Logs logs = logs_of(q, count, most_of, 0);
    const double spread = sqrt(logs.variance * (1 + 1 / (double)count));
    const double most = student_at(pow(1 - beyond, 1 / new_samples), count);
    const double least = student_at(pow(beyond, 1 / new_samples), count);
    const double high = exp(logs.mean + spread * most) / q->all->largest;
    const double low = exp(logs.mean + spread * least) / q->all->largest;
    if (!isfinite(high)) return (Interval){NAN, NAN};
    return (Interval){fmin(score, -high), fmax(score, -low)};
}

/* ---- all outputs ------------------------------------------------------------------------------ */

static Interval of_output(const Question *q) {
    const size_t count = count_of(q);
    if (count < 2 || (q->how->expected && q->how->expected < 2)) return (Interval){NAN, NAN};
    return q->how->metric == DEMI_METRIC_ERROR ? of_largest(q, count) : of_sums(q, count);
}

/* The lowest of several outputs' scores is the score. It is below the least lower end only where the lowest one
 * itself is, so the lower end needs no correction for their number; the upper end is the lowest output's. */
static Interval of_outputs(Question *q, const MetricSums *sums) {
    Interval found = {INFINITY, NAN};
    double lowest = INFINITY;
    for (size_t i = 0; i < sums->count; i++) {
        q->all = &sums->outputs[i];
        q->output = i;
        if (q->all->largest == 0 && q->all->most == 0) continue; /* it has no floats */
        const Interval one = of_output(q);
        const double score = metric_of_output(q->all, q->how->metric);
        if (isnan(one.low)) return one;
        found.low = fmin(found.low, one.low);
        if (score < lowest) found.high = one.high;
        lowest = fmin(lowest, score);
    }
    if (lowest < INFINITY) return found;
    const double score = metric_score(sums, q->how->metric); /* there is nothing that may be off */
    return (Interval){score, score};
}

/* Of as many rows as so many samples have. */
static Interval of_rows(const Samples *samples, const MetricSums *sums,
                        const IntervalOptions *how) {
    const double rows = (double)sums->rows, of = (double)samples->items.count;
    const double count = how->expected ? rows * (double)how->expected / of : rows;
    const double before = (double)sums->before / rows, scale = count / rows;
    if (how->metric != DEMI_METRIC_ACCURACY || !how->paired)
        return interval_of_share((double)sums->right * scale, count, how->confidence);
    const Interval change = interval_of_change((double)sums->gained * scale,
                                               (double)sums->lost * scale, count, how->confidence);
    return (Interval){before + change.low, before + change.high};
}

Interval samples_interval(const Samples *samples, const MetricSums *sums,
                          const IntervalOptions *options) {
    Question q = {samples, NULL, 0, options};
    if (isnan(metric_score(sums, options->metric)) || options->metric == DEMI_METRIC_SCORE)
        return (Interval){NAN, NAN};
    if (options->metric == DEMI_METRIC_TOP1 || options->metric == DEMI_METRIC_ACCURACY)
        return of_rows(samples, sums, options);
    return of_outputs(&q, sums);
}
