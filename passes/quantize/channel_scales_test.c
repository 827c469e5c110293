// SPDX-License-Identifier: Apache-2.0
/* channel_scales.h: beside all exponents of small problems, and that what was scaled stays. */
#include "channel_scales.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

enum { CHANNELS = 4, ROWS = 3, REACH = 3, TRIALS = 200 };

/* A reader of all channels, and one of each channel alone. */
typedef struct Problem {
    double rms[CHANNELS], low[CHANNELS], high[CHANNELS];
    float dense[ROWS * CHANNELS], alone[CHANNELS];
    double powers[2][CHANNELS];
    ScaleReader readers[2];
    ChannelScales scales;
} Problem;

static double octave(double reach) {
    return exp2(reach * (2.0 * rand() / RAND_MAX - 1));
}

static void fill_rest(Problem *p) {
    memset(p->powers, 0, sizeof p->powers);
    for (int c = 0; c < CHANNELS; c++) {
        for (int row = 0; row < ROWS; row++)
            p->powers[0][c] += pow((double)p->dense[row * CHANNELS + c], 2);
        p->powers[1][c] = pow((double)p->alone[c], 2);
        p->low[c] = -2 * p->rms[c];
        p->high[c] = 3 * p->rms[c];
    }
}

static void make(Problem *p, double spread, size_t readers) {
    for (int c = 0; c < CHANNELS; c++) {
        p->rms[c] = octave(spread);
        p->alone[c] = (float)octave(1);
        for (int row = 0; row < ROWS; row++)
            p->dense[row * CHANNELS + c] = (float)(octave(1) / p->rms[c]);
    }
    fill_rest(p);
    p->readers[0] = (ScaleReader){ROWS, 1, 1, p->dense, p->powers[0]};
    p->readers[1] = (ScaleReader){CHANNELS, CHANNELS, 1, p->alone, p->powers[1]};
    p->scales = (ChannelScales){.channels = CHANNELS,
                                .rms = p->rms,
                                .low = p->low,
                                .high = p->high,
                                .readers = p->readers,
                                .reader_count = readers,
                                .levels = 255,
                                .gain = 1.26};
}

static void apply(Problem *p, const int *exponents) {
    for (int c = 0; c < CHANNELS; c++) {
        p->rms[c] = ldexp(p->rms[c], -exponents[c]);
        p->alone[c] = ldexpf(p->alone[c], exponents[c]);
        for (int row = 0; row < ROWS; row++)
            p->dense[row * CHANNELS + c] = ldexpf(p->dense[row * CHANNELS + c], exponents[c]);
    }
    fill_rest(p);
}

/* The least noise of all exponents within a reach of what is chosen; the first channel's does not count. */
static double least_noise(const Problem *p, const int *chosen) {
    int tried[CHANNELS];
    double least = INFINITY;
    const int span = 2 * REACH + 1;
    for (int k = 0; k < span * span * span; k++) {
        tried[0] = chosen[0];
        for (int c = 1, rest = k; c < CHANNELS; c++, rest /= span)
            tried[c] = chosen[c] + rest % span - REACH;
        least = fmin(least, channel_scales_noise(&p->scales, tried));
    }
    return least;
}

/* Within 2 dB of the best, nowhere worse than before, and a second time there is nothing to do. */
TEST(test_beside_all) {
    double ratios = 0;
    int scaled = 0;
    srand(5);
    for (int trial = 0; trial < TRIALS; trial++) {
        Problem p;
        int exponents[CHANNELS];
        static const int none[CHANNELS];
        make(&p, 4, 1 + (size_t)trial % 2);
        const double before = channel_scales_noise(&p.scales, none);
        const bool found = channel_scales_choose(&p.scales, &test_arena, exponents);
        const double noise = channel_scales_noise(&p.scales, exponents);
        assert_true(found ? noise < before / 1.2 : memcmp(exponents, none, sizeof none) == 0);
        scaled += found;
        const double least = least_noise(&p, exponents);
        if (noise > 3 * least) fail_msg("%g, where %g can be reached", noise, least);
        ratios += log10(noise / least);
        apply(&p, exponents);
        assert_true(fabs(channel_scales_noise(&p.scales, none) / noise - 1) < 1e-9);
        assert_false(channel_scales_choose(&p.scales, &test_arena, exponents));
    }
    assert_true(scaled > TRIALS / 2);
    if (10 * ratios / TRIALS > 2)
        fail_msg("%.1f dB above the best on average", 10 * ratios / TRIALS);
}

/* Channels alike, one channel, no weights, and those that are to stay. */
TEST(test_left_alone) {
    Problem p;
    int exponents[CHANNELS];
    make(&p, 0, 1);
    for (int c = 0; c < CHANNELS; c++) p.rms[c] = 1;
    for (int i = 0; i < ROWS * CHANNELS; i++) p.dense[i] = 1;
    fill_rest(&p);
    assert_false(channel_scales_choose(&p.scales, &test_arena, exponents));
    p.rms[1] = 100;
    for (int row = 0; row < ROWS; row++) p.dense[row * CHANNELS + 1] = 0.01F;
    fill_rest(&p);
    assert_true(channel_scales_choose(&p.scales, &test_arena, exponents));
    assert_true(exponents[0] == 0 ? exponents[1] > 0 : exponents[0] < 0);
    static const bool frozen[CHANNELS] = {true, true, true, true};
    p.scales.frozen = frozen;
    assert_false(channel_scales_choose(&p.scales, &test_arena, exponents));
    p.scales.frozen = NULL;
    p.scales.channels = 1;
    p.readers[0].rows = 1;
    assert_false(channel_scales_choose(&p.scales, &test_arena, exponents));
    make(&p, 4, 1);
    memset(p.dense, 0, sizeof p.dense);
    fill_rest(&p);
    assert_false(channel_scales_choose(&p.scales, &test_arena, exponents));
}
