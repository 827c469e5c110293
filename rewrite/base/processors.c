// SPDX-License-Identifier: Apache-2.0
/* How many processors there are to use, as Linux tells: the affinity mask and the control group. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "processors.h"

#include <sched.h>
#include <stdio.h>

static unsigned quota(void) {
    unsigned long long most = 0, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file) return 0;
    int count = fscanf(file, "%llu %llu", &most, &period); /* "max 100000" where there is none */
    fclose(file);
    if (count != 2 || period == 0) return 0;
    unsigned long long whole = (most + period - 1) / period;
    return whole > 4096 ? 4096 : (unsigned)whole;
}

unsigned processors_usable(void) {
    cpu_set_t set;
    unsigned limit = quota(), count = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        count = (unsigned)CPU_COUNT(&set);
    return limit && limit < count ? limit : count;
}
