// SPDX-License-Identifier: Apache-2.0
/* See value_histogram.h. */
#include "value_histogram.h"

#include <math.h>
#include <string.h>

#include "row_clones.h"
#include "small_float.h"

/* ---- ends ------------------------------------------------------------------------------------ */

enum { LANES = 32, PARTS = 64, PART_LEAST = 1 << 15 };

typedef struct EndsJob {
    const float *items;
    uint64_t count, part;
    ValueRange ends[PARTS];
} EndsJob;

/* Of at least one. Comparisons with NaN are false, so that is looked for by itself. */
ROW_CLONES static void float_ends(const float *items, uint64_t count, ValueRange *found) {
    float low[LANES], high[LANES];
    uint32_t bad[LANES] = {0}, any = 0;
    uint64_t i = 0;
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
    *found =
        any ? (ValueRange){-INFINITY, INFINITY} : (ValueRange){(double)low[0], (double)high[0]};
}

static void ends_task(void *data, unsigned task, unsigned lane) {
    EndsJob *job = data;
    const uint64_t first = task * job->part;
    const uint64_t left = job->count - first;
    (void)lane;
    float_ends(job->items + first, left < job->part ? left : job->part, &job->ends[task]);
}

static uint64_t elements(const DemiData *tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= (uint64_t)tensor->dims[i];
    return count;
}

ValueRange value_range_join(ValueRange a, ValueRange b) {
    if (a.low > a.high) return b;
    if (b.low > b.high) return a;
    return (ValueRange){fmin(a.low, b.low), fmax(a.high, b.high)};
}

ValueRange value_range_of(const DemiData *tensor, Workers *workers) {
    ValueRange all = VALUE_NO_RANGE;
    EndsJob job = {.items = tensor->data, .count = elements(tensor)};
    job.part = job.count / PARTS + 1;
    if (job.part < PART_LEAST) job.part = PART_LEAST;
    const unsigned parts = (unsigned)((job.count + job.part - 1) / job.part);
    if (parts) workers_run(workers, parts, ends_task, &job);
    for (unsigned i = 0; i < parts; i++) all = value_range_join(all, job.ends[i]);
    return all;
}

/* ---- counting -------------------------------------------------------------------------------- */

enum {
    TABLES = 4,        /* a part, so that a number that comes again does not wait for itself */
    PARTS_COUNTED = 8, /* at once */
    FLOAT_BITS = 24,
    LEAST_EXPONENT = -126,
};

typedef struct Tables {
    uint16_t counts[TABLES][VALUE_BINS];
} Tables;

ValueCounter value_counter_new(Arena *arena, Workers *workers) {
    return (ValueCounter){.arena = arena, .workers = workers};
}

static int64_t bin_of(double number, int exponent) {
    return (int64_t)floor(ldexp(number, -exponent));
}

/* The least bins that cover both ends, though none finer than a float's last bit. It only grows with
 * the range. */
static int exponent_for(ValueRange ends) {
    const double most = fmax(-ends.low, ends.high);
    int exponent = most > 0 ? ilogb(most) - FLOAT_BITS + 1 : LEAST_EXPONENT;
    if (exponent < LEAST_EXPONENT) exponent = LEAST_EXPONENT;
    while (bin_of(ends.high, exponent) - bin_of(ends.low, exponent) >= VALUE_BINS) exponent++;
    return exponent;
}

static void count_few(const ValueHistogram *h, const float *items, uint64_t count) {
    const double by = ldexp(1, -h->exponent);
    for (uint64_t i = 0; i < count; i++)
        h->counts[(int64_t)floor((double)items[i] * by) - h->first]++;
}

/* Bin i of bins of an exponent, in h's, which are no finer and by so many bits coarser. */
static void count_bin(const ValueHistogram *h, int64_t i, int coarser, uint64_t count) {
    const int64_t width = (int64_t)1 << coarser; /* rounded down, negative ones, too */
    if (count) h->counts[(i >= 0 ? i / width : -((width - 1 - i) / width)) - h->first] += count;
}

/* Bins for the ends, with nothing in them. */
static void clear_bins(ValueHistogram *h, ValueRange ends) {
    h->ends = ends;
    h->exponent = exponent_for(ends);
    h->first = bin_of(ends.low, h->exponent);
    memset(h->counts, 0, VALUE_BINS * sizeof *h->counts);
}

/* Counts move to where bins for `ends` have them. */
static void grow_bins(ValueHistogram *h, ValueRange ends) {
    uint64_t moved[VALUE_BINS];
    const int exponent = h->exponent;
    const int64_t first = h->first;
    if (exponent_for(ends) == exponent && bin_of(ends.low, exponent) == first) {
        h->ends = ends;
        return;
    }
    memcpy(moved, h->counts, sizeof moved);
    clear_bins(h, ends);
    for (int64_t i = 0; i < VALUE_BINS; i++)
        count_bin(h, first + i, h->exponent - exponent, moved[i]);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

enum { LEAST_ROOM = 16 };
_Static_assert(LEAST_ROOM << (VALUE_ROOMS - 1) == VALUE_BINS * sizeof(uint64_t),
               "the last is of counts");

/* The smallest that has so many bytes, of `size`. */
static unsigned room_for(uint64_t bytes, uint64_t *size) {
    unsigned room = 0;
    for (*size = LEAST_ROOM; *size < bytes; *size *= 2) room++;
    return room;
}

/* Not zeroed. */
static void *take_room(ValueCounter *counter, uint64_t bytes) {
    uint64_t size;
    void **list = &counter->rooms[room_for(bytes, &size)], *room = *list;
    if (room) {
        memcpy(list, room, sizeof room);
        return room;
    }
    counter->taken += size;
    return arena_alloc_raw(counter->arena, size);
}

static void give_room(ValueCounter *counter, void *room, uint64_t bytes) {
    uint64_t size;
    void **list = &counter->rooms[room_for(bytes, &size)];
    if (!room) return;
    memcpy(room, list, sizeof room);
    *list = room;
}

static void forget_few(ValueCounter *counter, ValueHistogram *h) {
    give_room(counter, h->few, h->few_count * sizeof *h->few);
    h->few = NULL;
    h->few_count = 0;
}

/* Of a range that is not finite. */
static void forget(ValueCounter *counter, ValueHistogram *h) {
    forget_few(counter, h);
    give_room(counter, h->counts, VALUE_BINS * sizeof *h->counts);
    h->counts = NULL;
}

static void keep(ValueCounter *counter, ValueHistogram *h, const float *items, uint64_t count) {
    const uint64_t had = h->few_count * sizeof *items, more = count * sizeof *items;
    uint64_t size = 0;
    if (h->few) room_for(had, &size);
    if (had + more > size) {
        float *room = take_room(counter, had + more);
        if (had) memcpy(room, h->few, had);
        give_room(counter, h->few, had);
        h->few = room;
    }
    memcpy(h->few + h->few_count, items, more);
    h->few_count += (uint32_t)count;
}

/* Bins for `ends`, with all that there is. */
static void take_bins(ValueCounter *counter, ValueHistogram *h, ValueRange ends) {
    if (h->counts) {
        grow_bins(h, ends);
        return;
    }
    h->counts = take_room(counter, VALUE_BINS * sizeof *h->counts);
    clear_bins(h, ends);
    count_few(h, h->few, h->few_count);
    forget_few(counter, h);
}

/* False where there are no elements of these ends to count, or a range is not finite: then nothing is kept. */
static bool take_ends(ValueCounter *counter, ValueHistogram *h, ValueRange ends) {
    const ValueRange all = value_range_join(h->ends, ends);
    if (isfinite(all.low) && isfinite(all.high)) return ends.low <= ends.high;
    h->ends = all;
    forget(counter, h);
    return false;
}

/* Of a finite range; `ends` are those of all. */
static void add_few(ValueCounter *counter, ValueHistogram *h, ValueRange ends, const float *items,
                    uint64_t count) {
    if (!h->counts && h->few_count + count <= VALUE_FEW) {
        h->ends = ends;
        keep(counter, h, items, count);
        return;
    }
    take_bins(counter, h, ends);
    count_few(h, items, count);
}

void value_histogram_join(ValueCounter *counter, ValueHistogram *h, const ValueHistogram *other) {
    const ValueRange ends = value_range_join(h->ends, other->ends);
    if (!take_ends(counter, h, other->ends)) return;
    if (other->few_count) {
        add_few(counter, h, ends, other->few, other->few_count);
    } else if (other->counts) {
        take_bins(counter, h, ends);
        for (int64_t i = 0; i < VALUE_BINS; i++)
            count_bin(h, other->first + i, h->exponent - other->exponent, other->counts[i]);
    } else {
        h->ends = ends; /* of one that was never counted */
    }
}

/* Bins of PIECE elements at once, which vectors make; counting them is one by one. */
enum { PIECE = 256, MOST_COUNTED = TABLES * 65535 / PIECE * PIECE };

typedef struct CountJob {
    const float *items;
    uint64_t count; /* elements */
    uint64_t part;  /* pieces that are counted by a task */
    float by;
    int32_t first;
    Tables *tables; /* [parts] */
} CountJob;

ROW_CLONES static void find_bins(const float *items, uint64_t n, const CountJob *job,
                                 int32_t *bins) {
    const float by = job->by;
    const int32_t first = job->first;
    ROW_LOOP
    for (uint64_t i = 0; i < n; i++) {
        const float place = items[i] * by;
        const int32_t whole = (int32_t)place; /* towards 0 */
        bins[i] = whole - ((float)whole > place) - first;
    }
}

static void count_task(void *data, unsigned task, unsigned lane) {
    const CountJob *job = data;
    Tables *tables = &job->tables[task];
    int32_t bins[PIECE];
    (void)lane;
    memset(tables, 0, sizeof *tables);
    for (uint64_t piece = task * job->part; piece < (task + UINT64_C(1)) * job->part; piece++) {
        const uint64_t at = piece * PIECE;
        if (at >= job->count) return;
        const uint64_t n = job->count - at < PIECE ? job->count - at : PIECE;
        find_bins(job->items + at, n, job, bins);
        for (uint64_t i = 0; i < n; i++) tables->counts[i % TABLES][bins[i]]++;
    }
}

ROW_CLONES static void add_tables(uint64_t *counts, const Tables *tables) {
    for (unsigned t = 0; t < TABLES; t++) ROW_LOOP
    for (unsigned i = 0; i < VALUE_BINS; i++) counts[i] += tables->counts[t][i];
}

/* At most PARTS_COUNTED * MOST_COUNTED. */
static void count_many(ValueCounter *counter, const ValueHistogram *h, const CountJob *of) {
    CountJob job = *of;
    const uint64_t pieces = (job.count + PIECE - 1) / PIECE;
    job.by = ldexpf(1, -h->exponent);
    job.first = (int32_t)h->first;
    if (!counter->tables) counter->tables = ARENA_ARRAY(counter->arena, Tables, PARTS_COUNTED);
    job.tables = counter->tables;
    job.part = pieces / PARTS_COUNTED + 1;
    if (job.part < PART_LEAST / PIECE) job.part = PART_LEAST / PIECE;
    const unsigned parts = (unsigned)((pieces + job.part - 1) / job.part);
    workers_run(counter->workers, parts, count_task, &job);
    for (unsigned i = 0; i < parts; i++) add_tables(h->counts, &job.tables[i]);
}

void value_histogram_add(ValueCounter *counter, ValueHistogram *h, const DemiData *tensor) {
    const uint64_t count = elements(tensor);
    const float *items = tensor->data;
    const ValueRange found = value_range_of(tensor, counter->workers);
    const ValueRange ends = value_range_join(h->ends, found);
    if (!take_ends(counter, h, found)) return;
    if (count < VALUE_BINS) {
        add_few(counter, h, ends, items, count);
        return;
    }
    take_bins(counter, h, ends);
    const uint64_t most = (uint64_t)PARTS_COUNTED * (MOST_COUNTED - PIECE);
    for (uint64_t done = 0, n; done < count; done += n) {
        n = count - done < most ? count - done : most;
        count_many(counter, h, &(CountJob){.items = items + done, .count = n});
    }
}

bool value_histogram_bins(const ValueHistogram *h, uint64_t *counts, int *exponent,
                          int64_t *first) {
    ValueHistogram made = *h;
    if (!h->counts && !h->few_count) return false;
    if (h->counts) {
        memcpy(counts, h->counts, VALUE_BINS * sizeof *counts);
    } else {
        made.counts = counts;
        clear_bins(&made, h->ends);
        count_few(&made, h->few, h->few_count);
    }
    *exponent = made.exponent;
    *first = made.first;
    return true;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Bins that have elements, as if all of one lay in its middle; those beyond the limits lie there. And
 * up to each of them: how many elements, their sum and the sum of their squares. */
typedef struct Points {
    unsigned count, bins[VALUE_BINS];
    ValueRange ends;
    double at[VALUE_BINS], elements[VALUE_BINS];
    double up_to[VALUE_BINS + 1], sum[VALUE_BINS + 1], squares[VALUE_BINS + 1];
} Points;

static double between(double number, double low, double high) {
    return number < low ? low : number > high ? high : number;
}

/* False where there is nothing to choose from. */
static bool take_points(const ValueHistogram *h, ValueRange limits, Points *p) {
    uint64_t counts[VALUE_BINS];
    int exponent;
    int64_t first;
    p->count = 0;
    p->ends.low = between(h->ends.low, limits.low, limits.high);
    p->ends.high = between(h->ends.high, limits.low, limits.high);
    p->up_to[0] = p->sum[0] = p->squares[0] = 0;
    if (!value_histogram_bins(h, counts, &exponent, &first)) return false;
    for (int64_t i = 0; i < VALUE_BINS; i++) {
        if (!counts[i]) continue;
        const double middle = ldexp((double)(first + i) + 0.5, exponent);
        const unsigned k = p->count++;
        p->bins[k] = (unsigned)i;
        const double at = p->at[k] = between(middle, p->ends.low, p->ends.high);
        const double elements = p->elements[k] = (double)counts[i];
        p->up_to[k + 1] = p->up_to[k] + elements;
        p->sum[k + 1] = p->sum[k] + elements * at;
        p->squares[k + 1] = p->squares[k] + elements * at * at;
    }
    return true;
}

static ValueRange choose_percentile(const Points *p, double percentile) {
    const double all = p->up_to[p->count], cut = all * (1 - percentile / 100) / 2;
    unsigned first = 0, last = p->count - 1;
    while (first < last && p->up_to[first + 1] <= cut) first++;
    while (last > first && all - p->up_to[last] <= cut) last--;
    return (ValueRange){first ? p->at[first] : p->ends.low,
                        last < p->count - 1 ? p->at[last] : p->ends.high};
}

/* ---- the least squared error ----------------------------------------------------------------- */

/* How many times the square of what is cut off counts. Rounding errors differ in their signs, so that sums of
 * many products have little of them; what a range cuts off has one sign, and whatever is computed of it has
 * all of that. */
static const double CUT_COUNTS = 10;

/* What a range becomes: numbers [low, high] times step. */
typedef struct Levels {
    double step, low, high;
} Levels;

static Levels levels_of(const ValueChoice *choice, ValueRange ends) {
    const double half = choice->levels / 2;
    if (choice->symmetric)
        return (Levels){fmax(-ends.low, ends.high) / (half - 1), -half, half - 1};
    const double low = fmin(ends.low, 0), high = fmax(ends.high, 0), most = choice->levels - 1;
    const double step = (high - low) / most, zero = between(nearbyint(-low / step), 0, most);
    return (Levels){step, -zero, most - zero};
}

/* As if what lies between two ends were spread evenly between levels, which finds where to look. */
static double rough_error(const Points *p, const Levels *levels, ValueRange ends,
                          const unsigned inside[2]) {
    const unsigned first = inside[0], last = inside[1];
    const double low = ends.low, high = ends.high;
    const double below = p->squares[first] - 2 * low * p->sum[first] + low * low * p->up_to[first];
    const double count = p->up_to[p->count] - p->up_to[last];
    const double sum = p->sum[p->count] - p->sum[last];
    const double squares = p->squares[p->count] - p->squares[last];
    const double above = squares - 2 * high * sum + high * high * count;
    return (p->up_to[last] - p->up_to[first]) * levels->step * levels->step / 12 +
           CUT_COUNTS * (fmax(below, 0) + fmax(above, 0));
}

/* Points of `times` bins as one, at their mean, with their share of all elements; then 0. */
typedef struct Merged {
    unsigned count;
    float at[VALUE_BINS + LANES], share[VALUE_BINS + LANES];
} Merged;

static void merge(const Points *p, unsigned times, Merged *m) {
    m->count = 0;
    for (unsigned from = 0, to; from < p->count; from = to) {
        to = from + 1;
        while (to < p->count && p->bins[to] / times == p->bins[from] / times) to++;
        const double elements = p->up_to[to] - p->up_to[from];
        m->at[m->count] = (float)((p->sum[to] - p->sum[from]) / elements);
        m->share[m->count++] = (float)(elements / p->up_to[p->count]);
    }
    for (unsigned i = m->count; i < m->count + LANES; i++) m->at[i] = m->share[i] = 0;
}

/* As it is: many elements may be one number (a background, what is cut off), and then all hangs on
 * where that lies between levels. In floats, by lanes: the same bits with any vectors. */
ROW_CLONES static void exact_errors(const Merged *m, const Levels *levels, const unsigned part[2],
                                    float sums[LANES]) {
    const float more = (float)CUT_COUNTS - 1;
    const float magic = 0x1.8p23f; /* rounds what is added to it */
    const float step = (float)levels->step, by = 1 / step;
    const float low = (float)levels->low, high = (float)levels->high;
    for (unsigned i = part[0]; i < part[1]; i += LANES)
        for (unsigned k = 0; k < LANES; k++) {
            const float at = m->at[i + k];
            const float exact = at * by;
            float number = exact;
            number = number < low ? low : number;
            number = number > high ? high : number;
            const float cut = (exact - number) * step;
            number = (number + magic) - magic;
            const float off = number * step - at;
            sums[k] += m->share[i + k] * (off * off + more * (cut * cut));
        }
}

/* As soon as it is `enough`, what it has come to: a part after the other, none of which takes away. */
static double exact_error(const Merged *m, const Levels *levels, double enough) {
    enum { PART = 8 * LANES };
    float sums[LANES] = {0};
    double error = 0;
    for (unsigned first = 0; first < m->count && error < enough; first += PART) {
        const unsigned last = first + PART < m->count ? first + PART : m->count;
        exact_errors(m, levels, (const unsigned[2]){first, last}, sums);
        error = 0;
        for (unsigned k = 0; k < LANES; k++) error += (double)sums[k];
    }
    return error;
}

enum { GRID = 64, FINE = 6 };

/* Ends that lie `i` and `k` of GRID steps inside of all. */
static ValueRange ends_inside(const Points *p, double i, double k) {
    const double step = (p->ends.high - p->ends.low) / GRID;
    return (ValueRange){p->ends.low + i * step, p->ends.high - k * step};
}

/* 0 does not lie outside of what is made smaller. */
static bool is_range(const Points *p, ValueRange ends) {
    if (!(ends.low < ends.high)) return false;
    return (ends.low <= 0 || ends.low <= p->ends.low) &&
           (ends.high >= 0 || ends.high >= p->ends.high);
}

static void find_roughly(const Points *p, const ValueChoice *choice, int best[2]) {
    double least = INFINITY;
    unsigned last_of[GRID + 1], first = 0;
    for (int k = 0; k <= GRID; k++) {
        last_of[k] = k ? last_of[k - 1] : p->count;
        while (last_of[k] && p->at[last_of[k] - 1] > ends_inside(p, 0, k).high) last_of[k]--;
    }
    for (int i = 0; i < GRID; i++) {
        while (first < p->count && p->at[first] < ends_inside(p, i, 0).low) first++;
        for (int k = 0; i + k < GRID; k++) {
            const ValueRange ends = ends_inside(p, i, k);
            if (!is_range(p, ends)) continue;
            const Levels levels = levels_of(choice, ends);
            const double error =
                rough_error(p, &levels, ends, (const unsigned[2]){first, last_of[k]});
            if (error >= least) continue;
            least = error;
            best[0] = i;
            best[1] = k;
        }
    }
}

/* The best so far, by exact errors. */
typedef struct Search {
    const Points *points;
    const ValueChoice *choice;
    Merged *merged;
    double inside[2], least; /* in steps of the grid */
} Search;

static void try_ends(Search *s, double low_inside, double high_inside) {
    const ValueRange ends = ends_inside(s->points, low_inside, high_inside);
    if (low_inside < 0 || high_inside < 0 || !is_range(s->points, ends)) return;
    const Levels levels = levels_of(s->choice, ends);
    const double error = exact_error(s->merged, &levels, s->least);
    if (error >= s->least) return;
    s->least = error;
    s->inside[0] = low_inside;
    s->inside[1] = high_inside;
}

/* All within FINE steps of `by` around the best, of points merged so. */
static void try_around(Search *s, double by, unsigned merged) {
    const double low = s->inside[0], high = s->inside[1];
    merge(s->points, merged, s->merged);
    s->least = INFINITY;
    try_ends(s, low, high);
    if (by == 1) try_ends(s, 0, 0);
    for (int i = -FINE; i <= FINE; i++)
        for (int k = -FINE; k <= FINE; k++) try_ends(s, low + i * by, high + k * by);
}

static ValueRange choose_mse(const Points *p, const ValueChoice *choice) {
    enum { COARSE = 4, CLOSER = 1 }; /* bins, of which a level has about a dozen */
    Merged merged;
    int at[2] = {0, 0};
    find_roughly(p, choice, at);
    /* where bins are no finer than levels */
    if (choice->levels > VALUE_BINS / 4) return ends_inside(p, at[0], at[1]);
    Search s = {p, choice, &merged, {at[0], at[1]}, INFINITY};
    try_around(&s, 1, COARSE);
    try_around(&s, 1.0 / FINE, CLOSER);
    return ends_inside(p, s.inside[0], s.inside[1]);
}

/* ---- the same of floats ---------------------------------------------------------------------- */

/* Whose errors grow with the numbers, so that little is worth cutting off: steps of half an octave, down to what would
 * leave the most numbers normal. */
enum { HALF_OCTAVES = 16 };

static double float_error(const Points *p, const SmallFloat *small, double most, double enough) {
    const double scale = most / (double)small->most;
    double error = 0;
    for (unsigned i = 0; i < p->count && error < enough; i++) {
        const double at = p->at[i], size = fabs(at), cut = fmax(size - most, 0);
        const double off = (double)round_small_size(small, (float)(size / scale)) * scale - size;
        error += p->elements[i] * (off * off + (CUT_COUNTS - 1) * cut * cut);
    }
    return error;
}

static ValueRange choose_float(const Points *p, Dtype type) {
    const SmallFloat small = small_float_of(type);
    const double most = fmax(-p->ends.low, p->ends.high);
    double best = most, least = INFINITY;
    for (int i = 0; i <= HALF_OCTAVES; i++) {
        const double part = most * exp2(-i / 2.0);
        const double error = float_error(p, &small, part, least);
        if (error >= least) continue;
        least = error;
        best = part;
    }
    return (ValueRange){fmax(p->ends.low, -best), fmin(p->ends.high, best)};
}

/* ---- any of them ------------------------------------------------------------------------------- */

ValueRange value_histogram_choose(const ValueHistogram *h, const ValueChoice *choice,
                                  ValueRange limits) {
    Points points;
    if (!take_points(h, limits, &points)) return points.ends;
    const double width = points.ends.high - points.ends.low;
    if (!((float)width > 0)) return points.ends;
    switch (choice->method) {
    case DEMI_CALIBRATION_MINMAX: break;
    case DEMI_CALIBRATION_PERCENTILE: return choose_percentile(&points, choice->percentile);
    case DEMI_CALIBRATION_MSE:
        return choice->type ? choose_float(&points, choice->type) : choose_mse(&points, choice);
    case DEMI_CALIBRATION_BEST: break;
    }
    return points.ends;
}
