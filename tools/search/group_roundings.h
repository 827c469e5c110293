// SPDX-License-Identifier: Apache-2.0
/* What a candidate makes of a group: how its values and weights are rounded. */
#ifndef DEMI_GROUP_ROUNDINGS_H
#define DEMI_GROUP_ROUNDINGS_H

#include "candidate.h"
#include "group_ranges.h"
#include "measured_model.h"
#include "rounding.h"

typedef struct GroupRounding {
    const Value *value; /* of the group: made, an input, or weights */
    Rounding rounding;
} GroupRounding;

typedef VEC(GroupRounding) GroupRoundings;

/* In `arena`, none of what stays float. `ranges` are of activations; NULL where no candidate is of
 * integers. */
GroupRoundings group_roundings(const MeasuredModel *model, const Group *group,
                               const Candidate *candidate, const GroupRanges *ranges, Arena *arena);

#endif
