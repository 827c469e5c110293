// SPDX-License-Identifier: Apache-2.0
/* The clock of searches; see clock.h. */
#define _DEFAULT_SOURCE /* clock_gettime */
#include "clock.h"

#include <time.h>

double clock_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
