// SPDX-License-Identifier: Apache-2.0
/* For kernels that one thread runs: loops whose work grows faster than their operands count it, and
 * ask now and then whether the run has ended (kernel_checkpoint). What parts do is asked for them
 * (kernel_parts.h).
 */
#ifndef DEMI_KERNEL_PACE_H
#define DEMI_KERNEL_PACE_H

#include "kernel.h"

/* Starts as {call, 0}. */
typedef struct KernelPace {
    const KernelCall *call;
    uint64_t done;
} KernelPace;

/* `work` more elements or multiply-adds were done: asks every million, a millisecond or so. */
static inline void kernel_pace(KernelPace *pace, uint64_t work) {
    enum { BETWEEN = 1 << 20 };
    if ((pace->done += work) < BETWEEN) return;
    pace->done = 0;
    kernel_checkpoint(pace->call);
}

#endif
