// SPDX-License-Identifier: Apache-2.0
/* value_histogram.h: counts that do not depend on order, parts or threads, and ranges whose error is the
 * least of all that are tried by hand. */
#include <math.h>
#include <string.h>

#include "demi_runtime.h"
#include "unit_test.h"
#include "value_histogram.h"

enum { MOST = 200000 };
static const ValueRange everywhere = {-INFINITY, INFINITY};

static uint32_t state = 1;
static double uniform(void) {
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 24);
}
/* Near normal. */
static double normal(void) {
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += uniform();
    return sum;
}

typedef struct Bench {
    Arena arena;
    ValueCounter counter;
} Bench;

static void begin(Bench *b, unsigned threads) {
    arena_init(&b->arena, &test_trap);
    b->counter = value_counter_new(&b->arena, workers_new(&b->arena, threads));
}

static void add(Bench *b, ValueHistogram *h, float *items, int64_t count) {
    const DemiData tensor = {.kind = DEMI_DATA_TENSOR_KIND,
                             .dtype = DEMI_FLOAT,
                             .rank = 1,
                             .dims = &count,
                             .data = items};
    value_histogram_add(&b->counter, h, &tensor);
}

typedef struct Bins {
    uint64_t counts[VALUE_BINS];
    int exponent;
    int64_t first;
} Bins;

static Bins bins_of(const ValueHistogram *h) {
    Bins bins;
    assert_true(value_histogram_bins(h, bins.counts, &bins.exponent, &bins.first));
    return bins;
}

static void assert_same(const ValueHistogram *a, const ValueHistogram *b) {
    const Bins x = bins_of(a), y = bins_of(b);
    assert_true(a->ends.low == b->ends.low && a->ends.high == b->ends.high);
    assert_int_equal(x.exponent, y.exponent);
    assert_true(x.first == y.first);
    assert_memory_equal(x.counts, y.counts, sizeof x.counts);
}

static void try_order(const int round) {
    static float items[MOST];
    Bench one, two;
    begin(&one, 1);
    begin(&two, 2);
    const int64_t count = 1 + (int64_t)(uniform() * (round % 4 ? 5000 : MOST - 1));
    const double spread = ldexp(1, (int)(uniform() * 60) - 30);
    for (int64_t i = 0; i < count; i++)
        items[i] = (float)((normal() + round % 3) * spread * (i % 97 ? 1 : 50));
    if (round % 5 == 0) items[count / 2] = 0;
    ValueHistogram whole = VALUE_NO_HISTOGRAM, parts = VALUE_NO_HISTOGRAM;
    add(&one, &whole, items, count);
    const int64_t cut = (int64_t)(uniform() * (double)count);
    add(&two, &parts, items + cut, count - cut);
    add(&two, &parts, items, cut);
    assert_same(&whole, &parts);
    uint64_t sum = 0;
    const Bins bins = bins_of(&whole);
    for (int i = 0; i < VALUE_BINS; i++) sum += bins.counts[i];
    assert_int_equal(sum, count);
    arena_free(&one.arena);
    arena_free(&two.arena);
}

TEST(test_order) {
    for (int round = 0; round < 40; round++) try_order(round);
}

/* All of a large tensor are counted, by any number of threads. */
TEST(test_large) {
    static float items[MOST];
    ValueHistogram found[2] = {VALUE_NO_HISTOGRAM, VALUE_NO_HISTOGRAM};
    Bench benches[2];
    uint64_t sum = 0, below = 0;
    for (int i = 0; i < MOST; i++) items[i] = (float)normal();
    items[MOST - 1] = 70;
    for (int i = 0; i < MOST; i++) below += items[i] < 0;
    for (unsigned i = 0; i < 2; i++) {
        begin(&benches[i], i + 1);
        add(&benches[i], &found[i], items, MOST);
    }
    assert_same(&found[0], &found[1]);
    assert_true(found[0].ends.high == 70);
    const Bins bins = bins_of(&found[0]);
    for (int64_t i = 0; i < VALUE_BINS; i++) {
        sum += bins.counts[i];
        below -= bins.first + i < 0 ? bins.counts[i] : 0;
    }
    assert_int_equal(sum, MOST);
    assert_int_equal(below, 0);
    arena_free(&benches[0].arena);
    arena_free(&benches[1].arena);
}

static double error_of(const float *items, int64_t count, ValueRange ends) {
    const double low = fmin(ends.low, 0), high = fmax(ends.high, 0), step = (high - low) / 255;
    const double zero = nearbyint(-low / step);
    double error = 0;
    for (int64_t i = 0; i < count; i++) {
        const double exact = (double)items[i] / step, held = fmin(fmax(exact, -zero), 255 - zero);
        const double off = (nearbyint(held) - exact) * step, cut = (held - exact) * step;
        error += off * off + 9 * cut * cut;
    }
    return error;
}

/* Outliers, one-sided values, and half of all elements being one number. */
static void try_mse(const int round) {
    enum { COUNT = 20000 };
    static float items[COUNT];
    const ValueChoice choice = {DEMI_CALIBRATION_MSE, 99.999, 256, false, 0};
    Bench b;
    begin(&b, 1);
    const double atom = normal();
    for (int64_t i = 0; i < COUNT; i++) {
        double item = normal() * (i % 500 ? 1 : 6 * uniform());
        if (round % 3 == 1) item = fmax(item, 0);
        if (round % 2 && i % 2) item = atom;
        items[i] = (float)item;
    }
    ValueHistogram h = VALUE_NO_HISTOGRAM;
    add(&b, &h, items, COUNT);
    const ValueRange found = value_histogram_choose(&h, &choice, everywhere);
    const double least = error_of(items, COUNT, found);
    for (int i = 0; i < 24; i++)
        for (int k = 0; k < 24; k++) {
            const ValueRange other = {h.ends.low * (1 - i / 32.0), h.ends.high * (1 - k / 32.0)};
            assert_true(least <= 1.08 * error_of(items, COUNT, other));
        }
    arena_free(&b.arena);
}

TEST(test_mse) {
    for (int round = 0; round < 60; round++) try_mse(round);
}

/* Of float8, whose errors grow with its numbers, outliers that integers cut off are kept. */
TEST(test_float8_keeps_outliers) {
    static float items[MOST];
    const ValueChoice floats = {DEMI_CALIBRATION_MSE, 99.999, 256, false, DTYPE_FLOAT8E4M3FN};
    const ValueChoice integers = {DEMI_CALIBRATION_MSE, 99.999, 16, false, 0};
    ValueHistogram h = VALUE_NO_HISTOGRAM;
    Bench b;
    begin(&b, 1);
    for (int i = 0; i < MOST; i++) items[i] = (float)normal();
    items[1] = 40;
    add(&b, &h, items, MOST);
    const ValueRange kept = value_histogram_choose(&h, &floats, everywhere),
                     cut = value_histogram_choose(&h, &integers, everywhere);
    assert_true(kept.low == h.ends.low && kept.high == 40);
    assert_true(cut.high < 20);
    arena_free(&b.arena);
}

/* What lies beyond the limits takes no levels; and what has no range. */
TEST(test_limits) {
    static float items[MOST];
    Bench b;
    begin(&b, 2);
    for (int i = 0; i < MOST; i++) items[i] = (float)(10 * normal());
    for (int method = 0; method <= DEMI_CALIBRATION_MSE; method++) {
        const ValueChoice choice = {(DemiCalibration)method, 99.9, 256, false, 0};
        ValueHistogram h = VALUE_NO_HISTOGRAM;
        assert_true(value_histogram_choose(&h, &choice, everywhere).low > 0); /* none */
        add(&b, &h, items, MOST);
        const ValueRange ends = value_histogram_choose(&h, &choice, (ValueRange){-3, INFINITY});
        assert_true(ends.low >= -3 && ends.low <= 0 && ends.high <= h.ends.high && ends.high > 3);
        items[7] = NAN;
        add(&b, &h, items, MOST);
        items[7] = 1;
        add(&b, &h, items, 10);
        assert_true(isinf(value_histogram_choose(&h, &choice, everywhere).high));
        float same[5000];
        for (int i = 0; i < 5000; i++) same[i] = -2.5f;
        ValueHistogram one = VALUE_NO_HISTOGRAM;
        add(&b, &one, same, 5000);
        const ValueRange at = value_histogram_choose(&one, &choice, everywhere);
        assert_true(at.low == -2.5 && at.high == -2.5);
    }
    arena_free(&b.arena);
}

/* Small tensors one by one, kept as they are until there are too many, are counted as all of them at once
 * are; so are two halves that are joined. What keeps them is about as large as they are. */
static void try_small(const int round) {
    static float items[3 * VALUE_FEW];
    enum { PARTS = 3 };
    Bench b, at_once;
    begin(&b, 1);
    begin(&at_once, 1);
    const int64_t count =
        1 + (int64_t)(uniform() * (double)(round % 2 ? VALUE_FEW : 3 * VALUE_FEW - 1));
    ValueHistogram parts[PARTS] = {VALUE_NO_HISTOGRAM, VALUE_NO_HISTOGRAM, VALUE_NO_HISTOGRAM};
    ValueHistogram whole = VALUE_NO_HISTOGRAM, joined = VALUE_NO_HISTOGRAM;
    for (int64_t i = 0; i < count; i++)
        items[i] = (float)(normal() * ldexp(1, (int)(i * 12 / count)));
    for (int64_t i = 0, n; i < count; i += n) {
        n = 1 + (int64_t)(uniform() * 9);
        if (n > count - i) n = count - i;
        add(&b, &parts[i % PARTS], items + i, n);
    }
    if (count < VALUE_FEW / 8)
        assert_true(b.counter.taken < 8 * (uint64_t)count * sizeof *items + 256);
    for (int i = 0; i < PARTS; i++) value_histogram_join(&b.counter, &joined, &parts[i]);
    for (int64_t i = 0; i < count; i += VALUE_FEW)
        add(&at_once, &whole, items + i, count - i < VALUE_FEW ? count - i : VALUE_FEW);
    assert_same(&whole, &joined);
    arena_free(&b.arena);
    arena_free(&at_once.arena);
}

TEST(test_small) {
    for (int round = 0; round < 60; round++) try_small(round);
}

/* Where a number is not finite nothing is kept, and what was kept is there for others. */
TEST(test_not_finite) {
    static float items[VALUE_FEW];
    Bench b;
    begin(&b, 1);
    ValueHistogram few = VALUE_NO_HISTOGRAM, many = VALUE_NO_HISTOGRAM, other = VALUE_NO_HISTOGRAM;
    for (int i = 0; i < VALUE_FEW; i++) items[i] = (float)normal();
    add(&b, &few, items, 1000);
    add(&b, &many, items, VALUE_FEW);
    const uint64_t taken = b.counter.taken;
    items[0] = INFINITY;
    add(&b, &few, items, 2);
    add(&b, &many, items, VALUE_FEW);
    assert_true(!few.few && !few.counts && !many.few && !many.counts);
    items[0] = 1;
    add(&b, &other, items, VALUE_FEW);
    add(&b, &few, items, 1000);
    assert_true(isinf(few.ends.high) && !few.few && b.counter.taken == taken);
    value_histogram_join(&b.counter, &other, &many);
    assert_true(isinf(other.ends.high) && !other.counts);
    arena_free(&b.arena);
}
