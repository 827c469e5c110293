// SPDX-License-Identifier: Apache-2.0
/* Measured ranges: what a value reached when the fp32 model ran on real data, which constants can't
 * tell. A value that comes too near the target's largest number stays fp32, with all that reads
 * it. */
#ifndef DEMI_VALUE_RANGES_H
#define DEMI_VALUE_RANGES_H

#include "placement.h"

typedef struct ValueRanges {
    PassStrings items;    /* as of range_table.h: what the values so called were measured to
                             reach, of which the magnitude counts */
    int64_t margin;       /* how many times larger unseen data may be; at least 1 */
    bool allow_unmatched; /* a NAME that no value has is not an error */
} ValueRanges;

/* Pins producers and readers of values with MAX * margin beyond the target's largest finite number.
 * ERR_USAGE where an item can't be read, or no value has that name. */
bool value_ranges_pin(Placement *placement, const ValueRanges *ranges, Err *err);

#endif
