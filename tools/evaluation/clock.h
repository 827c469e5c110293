// SPDX-License-Identifier: Apache-2.0
/* The clock of what takes long. */
#ifndef DEMI_CLOCK_H
#define DEMI_CLOCK_H

/* Seconds of a clock that only runs forward. */
double clock_seconds(void);

#endif
