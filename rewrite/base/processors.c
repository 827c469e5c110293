// SPDX-License-Identifier: Apache-2.0
/* Processors as Linux tells of them: the affinity mask and the control group. */
#define _GNU_SOURCE /* sched_getaffinity, sched_getcpu, pthread_setaffinity_np */
#include "processors.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

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

int processors_here(void) {
    return sched_getcpu();
}

_Static_assert(sizeof(ProcessorSet) == sizeof(cpu_set_t), "a ProcessorSet is a cpu_set_t");

bool processors_of(pthread_t thread, ProcessorSet *set) {
    cpu_set_t found;
    if (pthread_getaffinity_np(thread, sizeof found, &found) != 0) return false;
    memcpy(set, &found, sizeof found);
    return true;
}

bool processors_confine(pthread_t thread, const ProcessorSet *set) {
    cpu_set_t wanted;
    memcpy(&wanted, set, sizeof wanted);
    return pthread_setaffinity_np(thread, sizeof wanted, &wanted) == 0;
}

bool processors_without(ProcessorSet *set, const int *others, unsigned count) {
    cpu_set_t rest;
    memcpy(&rest, set, sizeof rest);
    for (unsigned i = 0; i < count; i++)
        if (others[i] >= 0 && others[i] < CPU_SETSIZE) CPU_CLR((unsigned)others[i], &rest);
    if (CPU_COUNT(&rest) == 0) return false;
    memcpy(set, &rest, sizeof rest);
    return true;
}
