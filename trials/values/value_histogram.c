// SPDX-License-Identifier: Apache-2.0
/* See value_histogram.h. */
#include "value_histogram.h"

#include <math.h>
#include <string.h>

/* ---- ends ------------------------------------------------------------------------------------ */

enum { LANES = 16, PARTS = 64, PART_LEAST = 1 << 15 };

typedef struct EndsJob {
    const float *items;
    uint64_t count, part;
    ValueEnds ends[PARTS];
} EndsJob;

/* Comparisons with NaN are false, so that is looked for by itself. */
static ValueEnds ends_of(const float *items, uint64_t count) {
    float low[LANES], high[LANES];
    uint32_t bad[LANES] = {0}, any = 0;
    uint64_t i = 0;
    ValueEnds ends = VALUE_NO_ENDS;
    if (!count) return ends;
    for (int k = 0; k < LANES; k++) low[k] = high[k] = items[0];
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) {
            const float item = items[i + (uint64_t)k];
            uint32_t bits;
            memcpy(&bits, &item, sizeof bits);
            bad[k] |= (bits & UINT32_C(0x7f800000)) == UINT32_C(0x7f800000) ? 1u : 0u;
            low[k] = item < low[k] ? item : low[k];
            high[k] = item > high[k] ? item : high[k];
        }
    for (; i < count; i++) {
        any |= isfinite(items[i]) ? 0u : 1u;
        low[0] = items[i] < low[0] ? items[i] : low[0];
        high[0] = items[i] > high[0] ? items[i] : high[0];
    }
    for (int k = 0; k < LANES; k++) {
        any |= bad[k];
        low[0] = low[k] < low[0] ? low[k] : low[0];
        high[0] = high[k] > high[0] ? high[k] : high[0];
    }
    return any ? (ValueEnds){-INFINITY, INFINITY} : (ValueEnds){(double)low[0], (double)high[0]};
}

static void ends_task(void *data, unsigned task, unsigned lane) {
    EndsJob *job = data;
    const uint64_t first = task * job->part;
    const uint64_t left = job->count - first;
    (void)lane;
    job->ends[task] = ends_of(job->items + first, left < job->part ? left : job->part);
}

static uint64_t elements(const DemiData *tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= (uint64_t)tensor->dims[i];
    return count;
}

ValueEnds value_ends_join(ValueEnds a, ValueEnds b) {
    if (a.low > a.high) return b;
    if (b.low > b.high) return a;
    return (ValueEnds){fmin(a.low, b.low), fmax(a.high, b.high)};
}

ValueEnds value_ends(const DemiData *tensor, Workers *workers) {
    ValueEnds all = VALUE_NO_ENDS;
    EndsJob job = {.items = tensor->data, .count = elements(tensor)};
    job.part = job.count / PARTS + 1;
    if (job.part < PART_LEAST) job.part = PART_LEAST;
    const unsigned parts = (unsigned)((job.count + job.part - 1) / job.part);
    if (parts) workers_run(workers, parts, ends_task, &job);
    for (unsigned i = 0; i < parts; i++) all = value_ends_join(all, job.ends[i]);
    return all;
}

/* ---- counting -------------------------------------------------------------------------------- */

static double bin_width(const ValueHistogram *h) {
    return (h->ends.high - h->ends.low) / VALUE_BINS;
}

void value_histogram_add(ValueHistogram *h, const DemiData *tensor) {
    const float *items = tensor->data;
    const float low = (float)h->ends.low, by = (float)(1 / bin_width(h));
    const uint64_t count = elements(tensor);
    for (uint64_t i = 0; i < count; i++) {
        float place = (items[i] - low) * by;
        place = place > 0 ? place : 0;
        place = place < VALUE_BINS - 1 ? place : VALUE_BINS - 1;
        h->counts[(unsigned)place]++;
    }
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Up to each edge between bins: how many elements, their sum and the sum of their squares, as if
 * all of a bin lay in its middle. */
typedef struct Sums {
    double count[VALUE_BINS + 1], sum[VALUE_BINS + 1], squares[VALUE_BINS + 1];
} Sums;

static double edge_of(const ValueHistogram *h, unsigned edge) {
    return edge == VALUE_BINS ? h->ends.high : h->ends.low + edge * bin_width(h);
}

static void sum_up(const ValueHistogram *h, Sums *s) {
    s->count[0] = s->sum[0] = s->squares[0] = 0;
    for (unsigned i = 0; i < VALUE_BINS; i++) {
        const double count = (double)h->counts[i], middle = h->ends.low + (i + 0.5) * bin_width(h);
        s->count[i + 1] = s->count[i] + count;
        s->sum[i + 1] = s->sum[i] + count * middle;
        s->squares[i + 1] = s->squares[i] + count * middle * middle;
    }
}

static ValueEnds choose_percentile(const ValueHistogram *h, const Sums *s, double percentile) {
    const double all = s->count[VALUE_BINS], cut = all * (1 - percentile / 100) / 2;
    unsigned first = 0, last = VALUE_BINS;
    while (first < VALUE_BINS - 1 && s->count[first + 1] <= cut) first++;
    while (last > first + 1 && all - s->count[last - 1] <= cut) last--;
    return (ValueEnds){edge_of(h, first), edge_of(h, last)};
}

/* The squared error of levels between two edges, and of what lies beyond them. */
static double error_of(const ValueHistogram *h, const Sums *s, const ValueChoice *choice,
                       const unsigned edges[2]) {
    double low = edge_of(h, edges[0]), high = edge_of(h, edges[1]);
    const double from = fmin(low, 0), to = fmax(high, 0);
    const double span = choice->symmetric ? 2 * fmax(-from, to) : to - from;
    const double step = span / (choice->levels - 1);
    const double inside = s->count[edges[1]] - s->count[edges[0]];
    const double below =
        s->squares[edges[0]] - 2 * low * s->sum[edges[0]] + low * low * s->count[edges[0]];
    const double count = s->count[VALUE_BINS] - s->count[edges[1]],
                 sum = s->sum[VALUE_BINS] - s->sum[edges[1]],
                 squares = s->squares[VALUE_BINS] - s->squares[edges[1]];
    const double above = squares - 2 * high * sum + high * high * count;
    return inside * step * step / 12 + fmax(below, 0) + fmax(above, 0);
}

/* Of all pairs of edges of a grid that 0 does not lie outside of. */
static ValueEnds choose_mse(const ValueHistogram *h, const Sums *s, const ValueChoice *choice) {
    enum { STEP = VALUE_BINS / 128 };
    unsigned best[2] = {0, VALUE_BINS};
    double least = error_of(h, s, choice, best);
    for (unsigned first = 0; first < VALUE_BINS; first += STEP)
        for (unsigned last = VALUE_BINS; last > first; last -= STEP) {
            const unsigned edges[2] = {first, last};
            const double low = edge_of(h, first), high = edge_of(h, last);
            if ((low > 0 && first) || (high < 0 && last < VALUE_BINS)) continue;
            const double error = error_of(h, s, choice, edges);
            if (error >= least) continue;
            least = error;
            best[0] = first;
            best[1] = last;
        }
    return (ValueEnds){edge_of(h, best[0]), edge_of(h, best[1])};
}

/* Magnitudes in half as many bins. */
static void fold(const ValueHistogram *h, double most, double counts[VALUE_BINS / 2]) {
    memset(counts, 0, VALUE_BINS / 2 * sizeof *counts);
    for (unsigned i = 0; i < VALUE_BINS; i++) {
        const double middle = h->ends.low + (i + 0.5) * bin_width(h);
        const double place = fabs(middle) / most * (VALUE_BINS / 2);
        counts[place < VALUE_BINS / 2 - 1 ? (unsigned)place : VALUE_BINS / 2 - 1] +=
            (double)h->counts[i];
    }
}

/* How far the distribution of `end` bins is from itself in `levels` levels, where what lies beyond
 * counts for the last bin (Kullback and Leibler). */
static double divergence(const double *counts, unsigned end, unsigned levels, double all) {
    double beyond = all, result = 0, kept = 0;
    for (unsigned i = 0; i < end; i++) beyond -= counts[i];
    for (unsigned level = 0; level < levels; level++) {
        const unsigned first = (unsigned)((uint64_t)level * end / levels),
                       last = (unsigned)((uint64_t)(level + 1) * end / levels);
        double sum = 0, filled = 0;
        for (unsigned i = first; i < last; i++) {
            sum += counts[i];
            filled += counts[i] > 0;
        }
        for (unsigned i = first; i < last; i++) {
            const double p = counts[i] + (i == end - 1 ? beyond : 0);
            const double q = counts[i] > 0 ? sum / filled : 0;
            if (p > 0) result += p * log(p / (q > 0 ? q : 1e-6));
            kept += q;
        }
    }
    return kept > 0 ? (result + all * log(kept / all)) / all : INFINITY;
}

static ValueEnds choose_entropy(const ValueHistogram *h, const Sums *s, const ValueChoice *choice) {
    enum { MOST_LEVELS = 128, STEP = 8 };
    double counts[VALUE_BINS / 2], least = INFINITY;
    const double most = fmax(fabs(h->ends.low), fabs(h->ends.high)), all = s->count[VALUE_BINS];
    const unsigned levels = choice->levels / 2 < MOST_LEVELS ? choice->levels / 2 : MOST_LEVELS;
    unsigned best = VALUE_BINS / 2;
    fold(h, most, counts);
    for (unsigned end = levels; end <= VALUE_BINS / 2; end += STEP) {
        const double found = divergence(counts, end, levels, all);
        if (found > least) continue;
        least = found;
        best = end;
    }
    const double bound = most * best / (VALUE_BINS / 2);
    return (ValueEnds){fmax(h->ends.low, -bound), fmin(h->ends.high, bound)};
}

ValueEnds value_histogram_choose(const ValueHistogram *h, const ValueChoice *choice) {
    Sums sums;
    sum_up(h, &sums);
    if (!(sums.count[VALUE_BINS] > 0)) return h->ends;
    switch (choice->method) {
    case DEMI_CALIBRATION_MINMAX: break;
    case DEMI_CALIBRATION_PERCENTILE: return choose_percentile(h, &sums, choice->percentile);
    case DEMI_CALIBRATION_MSE: return choose_mse(h, &sums, choice);
    case DEMI_CALIBRATION_ENTROPY: return choose_entropy(h, &sums, choice);
    }
    return h->ends;
}
