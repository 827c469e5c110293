// SPDX-License-Identifier: Apache-2.0
/* Watching a model's own runs for what values reach: the sweep over the sets that calibration makes. */
#ifndef DEMI_RANGE_WATCH_H
#define DEMI_RANGE_WATCH_H

#include "channel_means.h"
#include "sym.h"
#include "trial.h"
#include "value_histogram.h"

typedef struct WatchedRange {
    ValueHistogram values; /* its ends: as magnitudes, of [-most, most] */
    ValueRange limits;     /* for who looks what makes a difference; infinite */
    ChannelMeans means;    /* of the channels that a product reads, where `averaged` */
    bool wanted;           /* by the conversion: where the elements lie counts, too */
    bool rounds;           /* means are of what rounding to `steps` adds */
    RoundSteps steps;
    bool averaged; /* wanted, and read by a product whose bias makes up for rounded weights */
    bool made;     /* by a step, which notes it each time */
    bool input;
    bool noted; /* in the run at hand, where it is an input; a constant once */
} WatchedRange;

/* `options`, the arena, the counter and an empty `names` are set. */
typedef struct WatchedRanges {
    const DemiCalibrateOptions *options;
    Arena *arena;                      /* of all but histograms */
    ValueCounter counter;              /* whose arena has these; the same mostly */
    const struct WatchedRanges *asked; /* whose values' `wanted` and `averaged`
                                           are heeded; NULL: all are wanted, and none averaged */
    SymTable names;
    VEC(WatchedRange) items; /* by name's number, in the order in which values are first met */
} WatchedRanges;

WatchedRanges watched_ranges_new(const DemiCalibrateOptions *options, Arena *arena,
                                 unsigned threads);
WatchedRange *watched_range(WatchedRanges *ranges, const char *name);

/* Runs the sets of this process, for what `asked` asks for; NULL: for everything. What they gave is kept by the
 * trials where `keep`. For all processes' it is watched_ranges_measure (range_share.h). */
bool watched_ranges_measure_mine(WatchedRanges *ranges, Trials *trials, const WatchedRanges *asked,
                                 bool keep, Err *err);

#endif
