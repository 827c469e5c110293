// SPDX-License-Identifier: Apache-2.0
/* Where NaN or infinity comes from that one model's outputs have and another's have not. */
#ifndef DEMI_NONFINITE_H
#define DEMI_NONFINITE_H

#include "session.h"

/* Runs both, whose inputs are bound. False with the error set where a run fails; found->node is
 * NULL where the outputs are as finite as the reference's. */
bool nonfinite_find(Arena *arena, Session *reference, Session *session, DemiBroken *found,
                    Err *err);

/* Copies what was found to another arena. */
void nonfinite_copy(Arena *arena, const DemiBroken *found, DemiBroken *copy);

#endif
