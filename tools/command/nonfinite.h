// SPDX-License-Identifier: Apache-2.0
/* Where NaN or infinity comes from that one model's outputs have and another's have not. */
#ifndef DEMI_NONFINITE_H
#define DEMI_NONFINITE_H

#include "session.h"

typedef struct Nonfinite {
    const char *node, *op_type; /* of the first, in order of execution, that outputs follow from */
    const char *value;          /* what it made */
    int32_t dtype;
    bool nan;       /* else infinite */
    double reached; /* the largest magnitude of that value in the reference; NaN: not known */
    bool cast;      /* it is what a cast made of `value`, which did not fit */
} Nonfinite;

/* Runs both, whose inputs are bound. False with the error set where a run fails; found->node is
 * NULL where the outputs are as finite as the reference's. */
bool nonfinite_find(Arena *arena, Session *reference, Session *session, Nonfinite *found, Err *err);

/* "its output 't' is infinite in float16, where the source reaches 1e+06". */
const char *nonfinite_text(Arena *arena, const Nonfinite *found);

#endif
