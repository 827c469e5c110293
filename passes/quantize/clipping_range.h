// SPDX-License-Identifier: Apache-2.0
/* Which part of a value's range makes a difference to what reads it: below -3, all numbers are one to
 * x HardSigmoid(x), and levels of a quantized value there are lost. */
#ifndef DEMI_CLIPPING_RANGE_H
#define DEMI_CLIPPING_RANGE_H

#include "graph.h"

typedef struct ClippingRange {
    double low, high;
} ClippingRange;

/* What a value reaches; false where that is not known. */
typedef bool (*EndsOf)(const void *user, const Value *value, ClippingRange *ends);

typedef struct UsefulQuestion {
    EndsOf ends_of;
    const void *user;
    double levels; /* of quantized values */
} UsefulQuestion;

/* Makes *ends, in which the value lies and which are finite, smaller where that changes nothing: of
 * functions of the value alone (elementwise operators, one after the other, with constants) results
 * beyond the new ends are what they are there, up to a quarter of a level of the results' own ranges
 * where those are known. Ends stay where anything else reads the value. */
void clipping_range(const UsefulQuestion *question, const Value *value, ClippingRange *ends);

#endif
