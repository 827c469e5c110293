// SPDX-License-Identifier: Apache-2.0
/* See channel_scales.h. */
#include "channel_scales.h"

#include <math.h>
#include <string.h>

/* What is off by so much more than half an octave is rounded to the next power of two: a channel that was scaled
 * before is off by half an octave at most, and stays. */
static const double HALF = 0.51;

static const double SHARES[] = {0.25, 0.5, 0.75, 1};

/* ---- noise ----------------------------------------------------------------------------------- */

static double value_noise(const ChannelScales *scales, const int *exponents) {
    double low = 0, high = 0, power = 0;
    for (uint64_t c = 0; c < scales->channels; c++) {
        low = fmin(low, ldexp(scales->low[c], -exponents[c]));
        high = fmax(high, ldexp(scales->high[c], -exponents[c]));
        for (size_t i = 0; i < scales->reader_count; i++)
            power += ldexp(scales->readers[i].power[c], 2 * exponents[c]);
    }
    const double step = (high - low) / scales->levels;
    return step * step / 12 * power;
}

/* Of the rows of one group, whose channels are those from `first` on. */
static double rows_noise(const ScaleReader *reader, const float *peaks, const double *rms,
                         const int *exponents, uint64_t channels) {
    const uint64_t rows = reader->rows / reader->groups;
    double steps = 0, squares = 0;
    for (uint64_t row = 0; row < rows; row++) {
        double most = 0;
        for (uint64_t c = 0; c < channels; c++)
            most = fmax(most, ldexp((double)peaks[row * channels + c], exponents[c]));
        steps += 2 * most / 255 * (2 * most / 255);
    }
    for (uint64_t c = 0; c < channels; c++) {
        const double r = ldexp(rms[c], -exponents[c]);
        squares += r * r;
    }
    return steps / 12 * reader->taps * squares;
}

double channel_scales_noise(const ChannelScales *scales, const int *exponents) {
    double noise = value_noise(scales, exponents);
    for (size_t i = 0; i < scales->reader_count; i++) {
        const ScaleReader *reader = &scales->readers[i];
        const uint64_t channels = scales->channels / reader->groups;
        for (uint64_t g = 0; g < reader->groups; g++)
            noise +=
                rows_noise(reader, reader->peaks + g * reader->rows / reader->groups * channels,
                           scales->rms + g * channels, exponents + g * channels, channels);
    }
    return noise;
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* The largest of all weights of each channel. */
static double *find_peaks(const ChannelScales *scales, Arena *scratch) {
    double *most = ARENA_ARRAY(scratch, double, scales->channels + 1);
    for (size_t i = 0; i < scales->reader_count; i++) {
        const ScaleReader *reader = &scales->readers[i];
        const uint64_t channels = scales->channels / reader->groups;
        for (uint64_t row = 0; row < reader->rows; row++) {
            const uint64_t first = row / (reader->rows / reader->groups) * channels;
            for (uint64_t c = 0; c < channels; c++)
                most[first + c] = fmax(most[first + c], (double)reader->peaks[row * channels + c]);
        }
    }
    return most;
}

static double reach_of(const ChannelScales *scales, uint64_t c) {
    return fmax(scales->high[c], -scales->low[c]);
}

/* The channel that stays as it is: that whose numbers times weights are the largest, scaled or not. */
static uint64_t find_anchor(const ChannelScales *scales, const double *peaks) {
    uint64_t anchor = 0;
    for (uint64_t c = 1; c < scales->channels; c++)
        if (reach_of(scales, c) * peaks[c] > reach_of(scales, anchor) * peaks[anchor]) anchor = c;
    return anchor;
}

static int nearest(double exponent) {
    if (!(fabs(exponent) > HALF) || fabs(exponent) > CHANNEL_EXPONENT_MOST) return 0;
    return (int)lrint(exponent);
}

/* What nothing multiplies by is as large as the anchor, at no cost; what is always 0 stays. */
static void propose(const ChannelScales *scales, const double *peaks, uint64_t anchor, double share,
                    int *exponents) {
    const double most = reach_of(scales, anchor), peak = peaks[anchor];
    for (uint64_t c = 0; c < scales->channels; c++) {
        const double reach = reach_of(scales, c);
        exponents[c] = 0;
        if ((scales->frozen && scales->frozen[c]) || !(reach > 0)) continue;
        double exponent = log2(reach / most);
        if (peaks[c] > 0) exponent = share * exponent - (1 - share) * log2(peaks[c] / peak);
        exponents[c] = nearest(exponent);
    }
}

bool channel_scales_choose(const ChannelScales *scales, Arena *scratch, int *exponents) {
    const uint64_t count = scales->channels;
    memset(exponents, 0, count * sizeof *exponents);
    if (count < 2) return false;
    Arena *within = arena_child(scratch);
    const double *peaks = find_peaks(scales, within);
    const uint64_t anchor = find_anchor(scales, peaks);
    int *tried = ARENA_ARRAY(within, int, count);
    double least = channel_scales_noise(scales, exponents) / scales->gain;
    bool found = false;
    for (size_t i = 0; i < sizeof SHARES / sizeof *SHARES; i++) {
        if (!(reach_of(scales, anchor) * peaks[anchor] > 0)) break;
        propose(scales, peaks, anchor, SHARES[i], tried);
        const double noise = channel_scales_noise(scales, tried);
        if (!(noise < least)) continue;
        least = noise;
        found = true;
        memcpy(exponents, tried, count * sizeof *exponents);
    }
    arena_free(within);
    return found;
}
