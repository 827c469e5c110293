// SPDX-License-Identifier: Apache-2.0
/* What float16 can't hold although no input was seen: a network's own weights say how large its
 * values typically are, from each normalization on. */
#ifndef DEMI_VALUE_MAGNITUDE_H
#define DEMI_VALUE_MAGNITUDE_H

#include "placement.h"

/* Pins what makes or reads a value whose typical magnitude, times MAGNITUDE_PEAK, is beyond the
 * target's largest finite number. ERR_ENV or ERR_MODEL where a constant can't be read. */
bool value_magnitudes_pin(Placement *placement, Err *err);

/* Of a few thousand normally distributed numbers, the largest lies some 4 deviations off. */
enum { MAGNITUDE_PEAK = 4 };

#endif
