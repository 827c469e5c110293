// SPDX-License-Identifier: Apache-2.0
/* The least and largest that groups' values are over all sets of inputs. */
#ifndef DEMI_VALUE_ENDS_H
#define DEMI_VALUE_ENDS_H

#include "groups.h"
#include "trial.h"

typedef struct ValueEnds {
    double low, high; /* low > high where no run gave the value; may be infinite */
} ValueEnds;

/* *ends: [value_count], by value number; in `arena`. */
bool value_ends_measure(const Groups *groups, uint32_t value_count, Trials *trials,
                        ValueEnds **ends, Arena *arena, Err *err);

#endif
