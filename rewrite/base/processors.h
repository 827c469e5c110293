// SPDX-License-Identifier: Apache-2.0
/* Which processors this process may use, and where its threads run. */
#ifndef DEMI_BASE_PROCESSORS_H
#define DEMI_BASE_PROCESSORS_H

#include <pthread.h>
#include <stdbool.h>

/* Of its affinity mask, and no more than the control group's quota (cgroup 2's cpu.max) rounded up;
 * at least 1. */
unsigned processors_usable(void);

/* The processor that the calling thread is on; -1 where the system does not tell. */
int processors_here(void);

/* Where a thread may run. */
typedef struct ProcessorSet {
    unsigned long words[16]; /* a bit each, of the first 1024 */
} ProcessorSet;

/* Where the thread may run now; false where the system does not tell. */
bool processors_of(pthread_t thread, ProcessorSet *set);
/* Where it may run from now on. */
bool processors_confine(pthread_t thread, const ProcessorSet *set);

/* The set without those (none is < 0); false, and all of it, where nothing is left. */
bool processors_without(ProcessorSet *set, const int *others, unsigned count);

#endif
