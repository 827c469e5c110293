// SPDX-License-Identifier: Apache-2.0
/* How much of a layer's channels is to move to the weights of the layers behind it, so that rounding all of
 * them to integers loses less (cross-layer equalization; Nagel et al., "Data-Free Quantization through Weight
 * Equalization and Bias Correction"). Channel c, of root mean square r[c], is divided by s[c], and the weights
 * that multiply it are multiplied by it. Channels share one scale, and so do the weights of one row:
 *
 *     noise(s) = (k max_c(r[c] / s[c]) / levels)^2 / 12 * sum_c power[c] s[c]^2
 *              + sum_rows (2 max_c(peak[row][c] s[c]) / 255)^2 / 12 * taps sum_c (r[c] / s[c])^2
 *
 * with power[c] the sum of squares of the weights that multiply channel c, and peak[row][c] the largest of a row.
 * The candidates are s[c] = m[c]^a / p[c]^(1-a), with m[c] the largest magnitude of channel c and p[c] that of all
 * its weights, for a = 1/4, 1/2, 3/4, 1, to the nearest power of two: floating-point results stay the same to the
 * last bit.
 *
 * m[c] p[c] does not change by that, so once channels are scaled there is nothing left to scale. */
#ifndef DEMI_CHANNEL_SCALES_H
#define DEMI_CHANNEL_SCALES_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"

/* Exponents beyond are no good: they come of channels that hardly carry anything. */
enum { CHANNEL_EXPONENT_MOST = 20 };

/* The weights of a layer that reads the channels, in `groups` groups of rows and channels. */
typedef struct ScaleReader {
    uint64_t rows, groups;
    double taps;         /* weights of a channel in a row */
    const float *peaks;  /* [rows][channels / groups]: the largest size of these */
    const double *power; /* [channels] */
} ScaleReader;

typedef struct ChannelScales {
    uint64_t channels;
    const double *rms, *low, *high; /* [channels]; low <= 0 <= high */
    const bool *frozen;             /* [channels]: those are to stay as they are; NULL: none */
    const ScaleReader *readers;
    size_t reader_count;
    double levels; /* of the channels' type, less one: 255 for 8 bits */
    double gain;   /* the least ratio of noise before and after */
} ChannelScales;

/* exponents[channels]: s[c] is 2 to that. False, and all are 0, where the noise would not be less by the gain at least.
 * O(candidates * weights). */
bool channel_scales_choose(const ChannelScales *scales, Arena *scratch, int *exponents);

/* noise(2^exponents), for tests. */
double channel_scales_noise(const ChannelScales *scales, const int *exponents);

#endif
