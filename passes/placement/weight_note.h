// SPDX-License-Identifier: Apache-2.0
/* Which weights a conversion leaves in float32, and why: said where they make the file notably
 * larger than half. */
#ifndef DEMI_WEIGHT_NOTE_H
#define DEMI_WEIGHT_NOTE_H

#include "placement.h"

/* Adds a remark (pass.h) where more than 4 % of the bytes of float constants are still float32, so
 * that the weights are more than 0.52 of what they were. It names the largest of them, with the
 * reason of a node that reads each. Ask when constants are stored and nodes have their notes. */
void weight_note(Placement *placement, PassCounts *counts);

#endif
