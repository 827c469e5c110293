// SPDX-License-Identifier: Apache-2.0
/* How far two picks are apart, by the scores that they are made of; see picks.h. */
#ifndef DEMI_PICK_MARGIN_H
#define DEMI_PICK_MARGIN_H

#include "op_record.h"
#include "picks.h"

typedef struct PickCase {
    OpPick kind;
    const DemiStep *step;       /* of the model that is judged: its inputs are the scores */
    const DemiData *own, *pick; /* what it picked, and what the reference did */
    const DemiData *from;       /* [PICK_FROM]: what the reference picked from */
    int64_t axis;
    Arena *scratch;
} PickCase;

/* Fills count, same and margin. */
void pick_margin(const PickCase *pc, DemiPick *row);

/* TopK's values for the reference's indices, in scratch; false where an index is beyond. */
bool pick_values(const PickCase *pc, DemiData *values);

#endif
