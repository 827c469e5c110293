// SPDX-License-Identifier: Apache-2.0
/* Between which ends groups' values are quantized: as `convert --calibrate` finds them by default, by
 * the least squared error over all sets of inputs; and what they are on average, by which biases make up
 * for rounded weights. One run of the sets serves all widths. */
#ifndef DEMI_GROUP_RANGES_H
#define DEMI_GROUP_RANGES_H

#include "measured_model.h"
#include "trial.h"
#include "value_histogram.h"

typedef struct GroupRange {
    ValueRange ends;        /* low > high where no run gave the value; may be infinite */
    const DemiRange *range; /* as it was measured; NULL where no run gave the value */
} GroupRange;

/* By value number. */
typedef struct GroupRanges {
    GroupRange *narrow, *wide; /* [value_count]: for types of 8 and of 16 bits */
} GroupRanges;

/* Of a value that is stored in an integer type. */
static inline GroupRange group_range(const GroupRanges *ranges, uint32_t value, Dtype type) {
    return (dtype_bits(type) > 8 ? ranges->wide : ranges->narrow)[value];
}

/* But for the ranges that are given; in `arena`. */
bool group_ranges_measure(const MeasuredModel *model, Trials *trials, GroupRanges *found,
                          const DemiConvertOptions *given, Arena *arena, Err *err);

#endif
